//! The second phase of a load, `PUT /api/{database}/_stream_load_2pc`: commits or aborts a load
//! that was prepared by `two_phase_commit: true`.

use std::sync::Arc;

use freshet_base::{Error, Result, TxnId, bail, err};
use freshet_ingest::{PreparedEnd, PreparedId};
use freshet_meta::{Object, Privilege, authorize, may_see_table, require_visible};
use futures::channel::oneshot;
use hyper::HeaderMap;
use serde_json::json;

use super::load_status;
use crate::http::Http;
use crate::http::answer::{self, Answer, json_reply};
use crate::http::auth::authenticate;
use crate::http::client::Client;

pub(in crate::http) async fn put(
    http: &Http,
    client: &Client,
    database: &str,
    headers: &HeaderMap,
) -> Answer {
    match end(http, client, database, headers).await {
        Ok(message) => reply("Success", &message),
        Err(error) => {
            let errno = error.code().errno().to_string();
            http.engine.metrics().errors.with_label_values(&[&errno]).inc();
            let status = load_status(error.code());
            // Older connectors compare the whole message.
            let message = format!("errCode = 2, detailMessage = {}", error.message());
            answer::refused(reply("Fail", &message), status, error.retry())
        }
    }
}

fn reply(status: &str, message: &str) -> Answer {
    json_reply(format!(
        "{{\n    \"status\": {},\n    \"msg\": {}\n}}\n",
        json!(status),
        json!(message)
    ))
}

async fn end(http: &Http, client: &Client, database: &str, headers: &HeaderMap) -> Result<String> {
    let account = authenticate(http, client, headers).await?;
    client.assign_slot(http, &account)?;
    let catalog = http.engine.catalog();
    let actor = http.actor(&account);
    require_visible(&catalog, actor, database)?;
    let db = catalog.require_database(database)?.id;
    let (end, done) = operation(headers)?;
    let found = http.engine.prepared(db, id_of(headers)?)?;
    match catalog.table_by_id(found.table) {
        Some(table) => {
            // It may have moved to another database since, whose rights count. Who may not see the
            // table is not told its name.
            let home = catalog.database_name(table);
            if !may_see_table(&catalog, actor, home, &table.name) {
                return Err(not_found(found.txn));
            }
            let object = Object::Table(home, &table.name);
            authorize(&catalog, actor, Privilege::Insert, object)?;
        }
        // Of a table that was dropped the load can be aborted only.
        None => authorize(&catalog, actor, Privilege::Insert, Object::Database(database))?,
    }
    let (sender, receiver) = oneshot::channel();
    let engine = Arc::clone(&http.engine);
    // It runs to its end, also when the client hangs up.
    let ending = async move {
        let _ = sender.send(engine.end_prepared(found.txn, end).await);
    };
    http.engine.pool().spawn("prepared", Box::pin(ending));
    let ended = receiver.await.unwrap_or_else(|_| Err(err!(ShuttingDown, "Server shutdown")));
    ended?;
    Ok(format!("transaction [{}] {done} successfully.", found.txn))
}

fn not_found(txn: TxnId) -> Error {
    err!(WrongArguments, "transaction [{txn}] not found")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let text = headers.get(name)?.to_str().ok()?.trim();
    Some(text).filter(|text| !text.is_empty())
}

fn id_of(headers: &HeaderMap) -> Result<PreparedId<'_>> {
    match (text(headers, "txn_id"), text(headers, "label")) {
        (Some(digits), _) => match digits.parse() {
            Ok(number) => Ok(PreparedId::Txn(TxnId(number))),
            Err(_) => bail!(WrongArguments, "the header 'txn_id' is no number: {digits}"),
        },
        (None, Some(label)) => Ok(PreparedId::Label(label)),
        (None, None) => bail!(WrongArguments, "No transaction id or label selected."),
    }
}

fn operation(headers: &HeaderMap) -> Result<(PreparedEnd, &'static str)> {
    match text(headers, "txn_operation") {
        Some(text) if text.eq_ignore_ascii_case("commit") => Ok((PreparedEnd::Commit, "commit")),
        Some(text) if text.eq_ignore_ascii_case("abort") => Ok((PreparedEnd::Abort, "abort")),
        Some(text) => bail!(
            WrongArguments,
            "transaction operation should be 'commit' or 'abort', not '{text}'"
        ),
        None => bail!(WrongArguments, "No transaction operation('commit' or 'abort') selected."),
    }
}
