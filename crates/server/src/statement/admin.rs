//! Statements about the server and its loads: KILL, CANCEL LOAD, ADMIN SET FRONTEND CONFIG, ALTER
//! INSTANCE RELOAD TLS; LOCK TABLES, which only commits; and what does nothing here: FLUSH, ...

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_ingest::{PreparedEnd, clean_labels as clean_labels_of};
use freshet_meta::{LabelState, Object, Privilege, is_reserved_database, require_visible};
use freshet_query::parser::{CancelLoad, Statement, TableName};

use super::{commit_first, shield};
use crate::reply::Reply;
use crate::session::Session;
use crate::show;

/// Runs such a statement.
///
/// # Errors
/// Missing privileges, unknown names.
pub async fn run(session: &mut Session, statement: &Statement) -> Result<Reply> {
    match statement {
        Statement::Kill { query_only, id } => kill(session, *id, !query_only)?,
        Statement::CancelLoad(cancel) => cancel_loads(session, cancel).await?,
        Statement::CleanLabels { label, database } => {
            clean_labels(session, label.clone(), database).await?;
        }
        Statement::SetConfig(pairs) => set_config(session, pairs)?,
        Statement::ReloadTls => reload_tls(session).await?,
        Statement::Nothing(word) if word == "UNLOCK TABLES" => unlock_tables(session).await?,
        Statement::Nothing(word) => nothing(session, word)?,
        _ => bail!(NotSupported, "This statement is not supported here"),
    }
    Ok(Reply::done())
}

/// Locks nothing; who may not lock the tables is refused as in MySQL, and so is what is none.
///
/// # Errors
/// 1044, 1142, and 1146 for a table that is not there.
pub fn lock_tables(session: &Session, tables: &[TableName]) -> Result<()> {
    let catalog = session.shared.engine.catalog();
    for TableName { database, table } in tables {
        let database = session.database_of(database.as_deref())?;
        if session.temporary.find(database, table).is_some() {
            continue;
        }
        session.authorize(Privilege::LockTables, Object::Database(database))?;
        session.authorize(Privilege::Select, Object::Table(database, table))?;
        if !is_reserved_database(database) && catalog.view(database, table).is_none() {
            catalog.require_table(database, table)?;
        }
    }
    Ok(())
}

/// UNLOCK TABLES commits behind LOCK TABLES, unless BEGIN has released the tables.
async fn unlock_tables(session: &mut Session) -> Result<()> {
    if std::mem::take(&mut session.transactions.locks_tables) {
        commit_first(session).await?;
    }
    Ok(())
}

/// What is accepted without effect takes the rights of MySQL all the same.
fn nothing(session: &Session, word: &str) -> Result<()> {
    match word {
        "FLUSH" | "RESET" => session.authorize(Privilege::Reload, Object::Server),
        "PURGE" => session.authorize(Privilege::Super, Object::Server),
        _ => Ok(()),
    }
}

async fn reload_tls(session: &Session) -> Result<()> {
    session.authorize(Privilege::Super, Object::Server)?;
    let Some(tls) = &session.shared.tls else {
        bail!(NoSecureTransport, "TLS is switched off; start the server with tls = true");
    };
    tls.reload().await
}

/// KILL.
///
/// # Errors
/// 1094 and 1095.
pub fn kill(session: &Session, id: u64, whole: bool) -> Result<()> {
    let process = session.shared.processes.require(id)?;
    let own = process.details().account.as_ref() == Some(&session.client.account);
    if !own && session.authorize(Privilege::Super, Object::Server).is_err() {
        bail!(KillDenied, "You are not owner of thread {id}");
    }
    process.kill(whole);
    Ok(())
}

/// CLEAN LABEL: forgets labels of finished loads.
async fn clean_labels(session: &Session, label: Option<String>, database: &str) -> Result<()> {
    let engine = Arc::clone(&session.shared.engine);
    let catalog = engine.catalog();
    require_visible(&catalog, session.client.actor(), database)?;
    let db = catalog.require_database(database)?.id;
    session.authorize(Privilege::Insert, Object::Database(database))?;
    shield(session, async move { clean_labels_of(&engine, db, label).await }).await
}

/// CANCEL LOAD: aborts loads that wait for their commit.
async fn cancel_loads(session: &Session, cancel: &CancelLoad) -> Result<()> {
    let CancelLoad { database, label, is_pattern } = cancel;
    let database = session.database_of(database.as_deref())?;
    let catalog = session.shared.engine.catalog();
    require_visible(&catalog, session.client.actor(), database)?;
    let db = catalog.require_database(database)?.id;
    session.authorize(Privilege::Insert, Object::Database(database))?;
    let is_meant = |known: &str| match is_pattern {
        true => show::like(label, known),
        false => known == label,
    };
    let mut running = session.shared.engine.running_labels(db);
    running.retain(|used| is_meant(&used.label));
    if let Some(used) = running.iter().find(|used| used.state == LabelState::Running) {
        bail!(
            NotSupported,
            "the load with label {} is still sending its rows; end its connection (KILL), then \
             nothing of it is loaded",
            used.label
        );
    }
    let prepared = running.iter().filter_map(|used| used.txn).collect::<Vec<_>>();
    if prepared.is_empty() {
        let finished = session.shared.engine.finished_labels(db);
        let state = match finished.iter().any(|record| is_meant(&record.label)) {
            true => ": it is FINISHED, and what is committed stays",
            false => "",
        };
        bail!(WrongArguments, "There is no uncompleted job which label is {label}{state}");
    }
    for txn in prepared {
        let engine = Arc::clone(&session.shared.engine);
        shield(session, async move { engine.end_prepared(txn, PreparedEnd::Abort).await }).await?;
    }
    Ok(())
}

/// ADMIN SET FRONTEND CONFIG.
///
/// # Errors
/// 1227 without SUPER; for unknown names, and for those that only a start changes.
fn set_config(session: &mut Session, pairs: &[(String, String)]) -> Result<()> {
    session.authorize(Privilege::Super, Object::Server)?;
    for (name, value) in pairs {
        let Some(known) = show::config::find(&session.shared, name) else {
            bail!(Unknown, "Config '{name}' does not exist");
        };
        if known.value == *value {
            continue;
        }
        let Some(setting) = known.setting else {
            let message = format!("Config '{name}' has no effect here and stays {}", known.value);
            session.diagnostics.push("Warning", 1105, message);
            continue;
        };
        bail!(
            Unknown,
            "Config '{name}' is not mutable: it is the setting {setting}, which a start of the \
             server reads"
        );
    }
    Ok(())
}
