//! CREATE, ALTER and DROP, by what they are about.

use freshet_base::{Error, Result};
use freshet_meta::DefaultRoles;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::roles::RoleStatement;
use super::{
    Statement, create, database, index, policy, role_statement, roles, sequence,
    sequence_statement, users, view, workload, workload_statement,
};

/// Parses the part after CREATE.
pub fn create(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if cursor.one_of(&["DATABASE", "SCHEMA"]).is_some() {
        return database::create(cursor);
    }
    if cursor.one_of(&["TABLE", "EXTERNAL TABLE", "PARTITION TABLE"]).is_some() {
        let create = create::create_table(cursor, false)?;
        return Ok(Statement::CreateTable(Box::new(create)));
    }
    if cursor.words("TEMPORARY TABLE") {
        let create = create::create_table(cursor, true)?;
        return Ok(Statement::CreateTable(Box::new(create)));
    }
    if cursor.words("USER") {
        let if_not_exists = cursor.words("IF NOT EXISTS");
        let clauses = users::user_clauses(cursor, false)?;
        let is_odd = matches!(clauses.roles, Some(DefaultRoles::None | DefaultRoles::All));
        if is_odd || clauses.users.iter().any(|(_, how)| how.replaces.is_some()) {
            return Err(cursor.error());
        }
        return Ok(Statement::CreateUser { clauses: Box::new(clauses), if_not_exists });
    }
    if cursor.words("ROLE") {
        return roles::create(cursor).map(role_statement);
    }
    if cursor.words("ROW POLICY") {
        return policy::create(cursor).map(|policy| Statement::Policy(Box::new(policy)));
    }
    if cursor.words("WORKLOAD GROUP") {
        return workload::create(cursor).map(workload_statement);
    }
    if let Some(create) = sequence::create(cursor)? {
        return Ok(sequence_statement(create));
    }
    if let Some((table, index)) = index::create_index(cursor)? {
        return Ok(Statement::AlterTable(table, index));
    }
    if let Some(view) = view::create_view(cursor)? {
        return Ok(Statement::CreateView(Box::new(view)));
    }
    let known = [
        "PROCEDURE",
        "FUNCTION",
        "TRIGGER",
        "EVENT",
        "MATERIALIZED VIEW",
        "CATALOG",
        "RESOURCE",
        "ROUTINE",
        "SERVER",
        "TABLESPACE",
        "UNDO TABLESPACE",
        "LOGFILE GROUP",
        "SPATIAL REFERENCE SYSTEM",
    ];
    definer(cursor)?;
    match cursor.one_of(&known) {
        Some(what) => Err(refuse(&format!("CREATE {what}"))),
        None => Err(cursor.error()),
    }
}

/// Parses the part after DROP.
pub fn drop(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if cursor.one_of(&["DATABASE", "SCHEMA"]).is_some() {
        return database::drop(cursor);
    }
    if cursor.words("PREPARE") {
        return cursor.name().map(Statement::Deallocate);
    }
    let temporary = cursor.words("TEMPORARY");
    if cursor.words("TABLE") || cursor.words("TABLES") {
        let if_exists = cursor.words("IF EXISTS");
        let tables = cursor.list(Cursor::table)?;
        let force = cursor.one_of(&["FORCE", "RESTRICT", "CASCADE"]) == Some("FORCE");
        return Ok(Statement::DropTable { tables, if_exists, temporary, force });
    }
    if cursor.words("USER") {
        let if_exists = cursor.words("IF EXISTS");
        let users = cursor.list(users::account)?;
        return Ok(Statement::DropUser { users, if_exists });
    }
    if cursor.words("ROLE") {
        return roles::drop(cursor).map(role_statement);
    }
    if cursor.words("ROW POLICY") {
        return policy::drop(cursor).map(|policy| Statement::Policy(Box::new(policy)));
    }
    if cursor.words("SEQUENCE") {
        return sequence::drop(cursor).map(sequence_statement);
    }
    if cursor.words("WORKLOAD GROUP") {
        return workload::drop(cursor).map(workload_statement);
    }
    if cursor.words("VIEW") {
        let (views, if_exists) = view::drop_views(cursor)?;
        return Ok(Statement::DropViews { views, if_exists });
    }
    if cursor.words("INDEX") {
        let (table, index) = index::drop_index(cursor)?;
        return Ok(Statement::AlterTable(table, index));
    }
    match cursor.one_of(&["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT"]) {
        // Dumps drop what they create; there is none.
        Some(_) if cursor.words("IF EXISTS") => {
            cursor.table()?;
            Ok(Statement::Nothing("DROP of a stored program".to_owned()))
        }
        Some(what) => Err(refuse(&format!("DROP {what}"))),
        None => Err(of_server(cursor, "DROP")),
    }
}

/// Parses the part after REVOKE: of everything, of roles, or of privileges.
pub fn revoke(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if users::revokes_everything(cursor) {
        return users::revoking_everything(cursor).map(Statement::Revoke);
    }
    if roles::follow(cursor) {
        return roles::revoke(cursor).map(role_statement);
    }
    // What is not granted is revoked without an error anyhow.
    cursor.words("IF EXISTS");
    users::granting(cursor, "FROM").map(Statement::Revoke)
}

/// Parses the part after ALTER.
pub fn alter(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if cursor.words("TABLE") {
        let (table, action) = super::alter::alter_table(cursor)?;
        return Ok(Statement::AlterTable(table, action));
    }
    if cursor.words("USER") {
        let if_exists = cursor.words("IF EXISTS");
        let mut clauses = users::user_clauses(cursor, true)?;
        if let Some(roles) = clauses.roles.take() {
            if !clauses.are_names() || clauses.have_own() {
                return Err(cursor.error());
            }
            let accounts = clauses.users.into_iter().map(|(account, _)| account).collect();
            return Ok(role_statement(RoleStatement::SetDefault { roles, accounts }));
        }
        return Ok(Statement::AlterUser { clauses: Box::new(clauses), if_exists });
    }
    if cursor.one_of(&["DATABASE", "SCHEMA"]).is_some() {
        return database::alter(cursor);
    }
    if let Some(view) = view::alter_view(cursor)? {
        return Ok(Statement::CreateView(Box::new(view)));
    }
    if cursor.words("SEQUENCE") {
        return sequence::alter(cursor).map(sequence_statement);
    }
    if cursor.words("WORKLOAD GROUP") {
        return workload::alter(cursor).map(workload_statement);
    }
    if cursor.words("INSTANCE RELOAD TLS") {
        if cursor.words("FOR CHANNEL") && cursor.name()? != "mysql_main" {
            return Err(refuse("ALTER INSTANCE RELOAD TLS of that channel"));
        }
        // Where the files are unfit the keys stay what they were.
        cursor.words("NO ROLLBACK ON ERROR");
        return Ok(Statement::ReloadTls);
    }
    match cursor.one_of(&["EVENT", "PROCEDURE", "FUNCTION", "SYSTEM", "INSTANCE"]) {
        Some(what) => Err(refuse(&format!("ALTER {what}"))),
        None => Err(of_server(cursor, "ALTER")),
    }
}

/// The error for things of a server that are not here, and for what is no statement.
fn of_server(cursor: &mut Cursor<'_>, verb: &str) -> Error {
    let known = [
        "RESOURCE",
        "SERVER",
        "TABLESPACE",
        "UNDO TABLESPACE",
        "LOGFILE GROUP",
        "SPATIAL REFERENCE SYSTEM",
    ];
    match cursor.one_of(&known) {
        Some(what) => refuse(&format!("{verb} {what}")),
        None => cursor.error(),
    }
}

/// Skips DEFINER of what may have one.
fn definer(cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.words("DEFINER") {
        cursor.expect(&Token::Eq)?;
        let current = cursor.words("CURRENT_USER");
        if current && cursor.token(&Token::LParen) {
            cursor.expect(&Token::RParen)?;
        }
        if !current {
            users::account(cursor)?;
        }
    }
    cursor.words("AGGREGATE");
    Ok(())
}
