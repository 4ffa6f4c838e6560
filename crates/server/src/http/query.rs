//! `POST /api/query/{cluster}/{database}`: one statement, answered as JSON in the form of Doris.
//!
//! Each request is a session of its own, which ends with its answer: a transaction that it leaves
//! open is rolled back.

mod rows;

use std::sync::Arc;

use freshet_base::{Result, bail, err};
use freshet_meta::Account;
use freshet_query::evaluation::Memory;
use freshet_wire::{Capabilities, Collation};
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use serde_json::{Value, json};

use self::rows::Rows;
use super::Http;
use super::answer::{Answer, json_reply, refusal};
use super::auth::authenticate;
use super::client::Client;
use crate::process::Registration;
use crate::reply::{Reply, bounded};
use crate::session::{self, Session};
use crate::statement::alone;

/// The largest body. Rows of larger statements belong into a stream load.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Answers a statement.
pub(super) async fn post(
    http: &Http,
    client: &Client,
    database: &str,
    request: Request<Incoming>,
) -> Answer {
    let answered = answered(http, client, database, request).await;
    answered.unwrap_or_else(|error| refusal(&error))
}

async fn answered(
    http: &Http,
    client: &Client,
    database: &str,
    request: Request<Incoming>,
) -> Result<Answer> {
    let account = authenticate(http, client, request.headers()).await?;
    client.assign_slot(http, &account)?;
    let mut memory = http.query.memory();
    let stmt = asked(client, request.into_body(), &mut memory).await?;
    let shared = &http.sessions;
    let began = http.clock().now();
    let running = Running(shared.processes.register(client.address.to_string(), began));
    let session = open(http, client, &running, account, database)?;
    // On the threads of statements: those of loads only do short work.
    let ran = shared.statements.spawn(run(session, stmt, memory)).await;
    let (mut data, _memory) = ran.unwrap_or_else(|panic| {
        tracing::error!(%panic, "a statement ended by a bug of the server");
        Err(err!(Internal, "Internal error; the server's log says more of it"))
    })?;
    let took = http.clock().now().saturating_sub(began);
    data.extend_from_slice(format!(",\"time\":{}}},\"count\":0}}", took.as_millis()).as_bytes());
    Ok(json_reply(String::from_utf8(data).expect("JSON is UTF-8")))
}

/// Ends a statement whose client has gone.
struct Running(Registration);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.process.kill(true);
    }
}

/// Reads the body: the statement in it.
///
/// # Errors
/// 1153 for a larger one, 1064 for one that is not `{"stmt": ".."}`.
async fn asked(client: &Client, mut body: Incoming, memory: &mut Memory) -> Result<String> {
    let mut bytes = Vec::new();
    loop {
        client.activity.waits_for_client(true);
        let frame = body.frame().await;
        client.activity.waits_for_client(false);
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| err!(Syntax, "the body did not arrive: {error}"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > BODY_BYTES_MAX {
            bail!(
                PacketTooLarge,
                "a statement over HTTP has up to {BODY_BYTES_MAX} bytes; send rows by \
                 _stream_load, or longer statements by the MySQL protocol"
            );
        }
        memory.grow(data.len())?;
        bytes.extend_from_slice(&data);
    }
    let json = serde_json::from_slice::<Value>(&bytes).ok();
    let stmt = json.as_ref().and_then(|json| json.get("stmt")).and_then(Value::as_str);
    let stmt = stmt.map(str::to_owned);
    stmt.ok_or_else(|| err!(Syntax, "the body must be {{\"stmt\": \"a statement\"}} in JSON"))
}

/// The session of a request.
fn open(
    http: &Http,
    client: &Client,
    running: &Running,
    account: Account,
    database: &str,
) -> Result<Box<Session>> {
    let user = account.name.clone();
    let process = Arc::clone(&running.0.process);
    process.describe(|details| {
        details.account = Some(account.clone());
        details.user.clone_from(&user);
    });
    let client = session::Client {
        account,
        roles: Arc::default(),
        user,
        peer: client.address.ip(),
        capabilities: Capabilities::SERVER,
        collation: Collation::UTF8MB4_0900_AI_CI,
        tls: None,
    };
    let mut session = Box::new(Session::new(Arc::clone(&http.sessions), process, client));
    session.use_database(database)?;
    Ok(session)
}

/// Runs the statement; returns its answer without the end, and the memory of it.
async fn run(
    mut session: Box<Session>,
    sql: String,
    mut memory: Memory,
) -> Result<(Vec<u8>, Memory)> {
    let (reply, begun) = alone::run(&mut session, sql).await?;
    let mut rows = Rows::new(&mut memory);
    let written = write(&mut session, reply, &mut rows).await;
    begun.count(&mut session, written.is_ok());
    written?;
    let text = rows.into_text();
    // What was committed must be durable before it is acknowledged.
    session.wait_durable().await;
    Ok((text, memory))
}

/// Writes the answer of a statement. Like one over the MySQL protocol, it leaves in the session how
/// many rows it has changed or sent.
async fn write(session: &mut Session, reply: Reply, rows: &mut Rows<'_>) -> Result<()> {
    let mut sent = 0;
    match reply {
        Reply::Done { affected } => {
            session.row_count = i64::try_from(affected).unwrap_or(i64::MAX);
            let (info, warnings) = (session.info.text(), session.diagnostics.count);
            let status = json!({ "affected_rows": affected, "info": info, "warnings": warnings });
            rows.end_without(&status);
            return Ok(());
        }
        Reply::Table(columns, batch) => {
            sent += batch.num_rows() as u64;
            rows.put(&columns, &batch)?;
            rows.end(&columns);
        }
        Reply::Stream(columns, mut stream, mut watched) => {
            while let Some(batch) = bounded(session, stream.next()).await? {
                let batch = match &mut watched {
                    Some(watched) => watched.pass(batch, &columns)?,
                    None => batch,
                };
                sent += batch.num_rows() as u64;
                rows.put(&columns, &batch)?;
            }
            if let Some(watched) = watched {
                watched.finish(session)?;
            }
            rows.end(&columns);
        }
    }
    (session.found_rows, session.row_count) = (sent, -1);
    Ok(())
}
