//! CREATE, ALTER and DROP DATABASE.

use std::sync::Arc;

use freshet_base::Result;
use freshet_meta::{Object, Privilege};
use freshet_query::parser::DatabaseOptions;
use freshet_schema::Collation;

use super::shield;
use crate::reply::Reply;
use crate::session::Session;

/// A database that names no collation has that of the session's `collation_server` for good.
pub async fn create(
    session: &mut Session,
    name: &str,
    if_not_exists: bool,
    options: DatabaseOptions,
) -> Result<Reply> {
    session.authorize(Privilege::Create, Object::Database(name))?;
    let (engine, new) = (Arc::clone(&session.shared.engine), name.to_owned());
    let DatabaseOptions { mode, collation } = options;
    let collation = Some(collation.unwrap_or_else(|| session.server_collation()));
    let created =
        async move { engine.ddl().create_database(&new, mode, collation, if_not_exists).await };
    if shield(session, created).await?.existed {
        let note = format!("Can't create database '{name}'; database exists");
        session.diagnostics.push("Note", 1007, note);
    }
    Ok(Reply::Done { affected: 1 })
}

/// Tables that exist stay as they are.
pub async fn alter(
    session: &mut Session,
    name: Option<&str>,
    collation: Collation,
) -> Result<Reply> {
    let name = session.database_of(name)?.to_owned();
    session.authorize(Privilege::Alter, Object::Database(&name))?;
    let engine = Arc::clone(&session.shared.engine);
    let changed = async move { engine.ddl().collate_database(&name, collation).await };
    shield(session, changed).await?;
    session.show_collation();
    Ok(Reply::Done { affected: 1 })
}

pub async fn drop(
    session: &mut Session,
    name: &str,
    if_exists: bool,
    force: bool,
) -> Result<Reply> {
    session.authorize(Privilege::Drop, Object::Database(name))?;
    let (engine, dropped) = (Arc::clone(&session.shared.engine), name.to_owned());
    let dropped = async move {
        match force {
            true => engine.ddl().drop_database(&dropped, if_exists).await,
            false => engine.ddl().bin_database(&dropped, if_exists).await,
        }
    };
    if !shield(session, dropped).await? {
        let note = format!("Can't drop database '{name}'; database doesn't exist");
        session.diagnostics.push("Note", 1008, note);
    }
    if session.database.as_deref() == Some(name) {
        session.database = None;
        session.show_collation();
    }
    Ok(Reply::done())
}
