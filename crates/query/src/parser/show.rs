use freshet_base::Result;
use freshet_meta::Account;

use super::cursor::{Cursor, refuse};
use super::users::account;
use crate::session::Scope;
use crate::syntax::{Scalar, TableName};

/// Restricts the rows of SHOW.
#[allow(clippy::large_enum_variant)] // only one exists at a time, while its statement runs
#[derive(Clone, PartialEq, Debug)]
pub enum Filter {
    Like(String),
    /// WHERE, on the columns of the result.
    Where(Scalar),
}

#[derive(Clone, PartialEq, Debug)]
pub enum ShowWhat {
    /// DATABASES or SCHEMAS.
    Databases,
    Tables {
        full: bool,
        /// FROM.
        database: Option<String>,
    },
    TableStatus {
        /// FROM.
        database: Option<String>,
    },
    OpenTables,
    /// COLUMNS or FIELDS.
    Columns {
        full: bool,
        table: TableName,
    },
    /// INDEX, INDEXES or KEYS.
    Index(TableName),
    /// CREATE TABLE; of a view as CREATE VIEW.
    CreateTable(TableName),
    CreateView(TableName),
    CreateDatabase(String),
    Variables(Scope),
    Status(Scope),
    /// WARNINGS or ERRORS.
    Warnings {
        /// ERRORS.
        errors_only: bool,
        /// COUNT(*).
        count: bool,
    },
    Processlist {
        full: bool,
    },
    /// GRANTS; `None` for the session's own account.
    Grants {
        account: Option<Account>,
        /// The roles whose grants are shown too.
        using: Vec<Account>,
    },
    /// CREATE USER; `None` for the session's own account.
    CreateUser(Option<Account>),
    Partitions(TableName),
    Tablets(TableName),
    Transaction {
        /// FROM.
        database: Option<String>,
    },
    LastInsert,
    AlterTableColumn {
        /// FROM.
        database: Option<String>,
    },
    /// A list without arguments, from `information_schema` or the server: ENGINES, CHARSET,
    /// BACKENDS, ...
    Plain(&'static str),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Show {
    pub what: ShowWhat,
    pub filter: Option<Filter>,
    /// LIMIT: the number of rows, and the number of rows skipped before them.
    pub limit: Option<(u64, u64)>,
}

/// Lists without arguments.
const PLAIN: [&str; 29] = [
    "SEQUENCES",
    "ENGINES",
    "STORAGE ENGINES",
    "PLUGINS",
    "COLLATION",
    "CHARACTER SET",
    "CHARSET",
    "PRIVILEGES",
    "PROCEDURE STATUS",
    "FUNCTION STATUS",
    "TRIGGERS",
    "EVENTS",
    "MASTER STATUS",
    "BINARY LOG STATUS",
    "BINARY LOGS",
    "MASTER LOGS",
    "SLAVE STATUS",
    "REPLICA STATUS",
    "PROFILES",
    "BACKENDS",
    "FRONTENDS",
    "LOAD WARNINGS",
    "LOAD",
    "STREAM LOAD",
    "CATALOG RECYCLE BIN",
    "VIEWS",
    "FUNCTIONS",
    "CATALOGS",
    "DATA",
];

/// Parses the part after SHOW.
pub fn show(cursor: &mut Cursor<'_>) -> Result<Show> {
    let what = what(cursor)?;
    if let ShowWhat::Plain("TRIGGERS" | "EVENTS" | "LOAD" | "STREAM LOAD" | "VIEWS") = what {
        from(cursor)?;
    }
    let filter = filter(cursor)?;
    if cursor.words("ORDER BY") {
        cursor.list(|cursor| {
            cursor.expr()?;
            Ok(cursor.words("ASC") || cursor.words("DESC"))
        })?;
    }
    let limit = limit(cursor)?;
    Ok(Show { what, filter, limit })
}

fn what(cursor: &mut Cursor<'_>) -> Result<ShowWhat> {
    if cursor.words("COUNT") {
        use sqlparser::tokenizer::Token;
        cursor.expect(&Token::LParen)?;
        cursor.expect(&Token::Mul)?;
        cursor.expect(&Token::RParen)?;
        let errors_only = cursor.words("ERRORS");
        if !errors_only {
            cursor.expect_words("WARNINGS")?;
        }
        return Ok(ShowWhat::Warnings { errors_only, count: true });
    }
    if let Some(plain) = cursor.one_of(&PLAIN) {
        return Ok(ShowWhat::Plain(plain));
    }
    cursor.words("EXTENDED");
    let full = cursor.words("FULL");
    let scope = match cursor.one_of(&["GLOBAL", "SESSION", "LOCAL"]) {
        Some("GLOBAL") => Scope::Global,
        Some(_) => Scope::Session,
        None => Scope::Any,
    };
    if cursor.words("TABLES") {
        return Ok(ShowWhat::Tables { full, database: from(cursor)? });
    }
    if cursor.words("COLUMNS") || cursor.words("FIELDS") {
        return Ok(ShowWhat::Columns { full, table: from_table(cursor)? });
    }
    if cursor.words("PROCESSLIST") {
        return Ok(ShowWhat::Processlist { full });
    }
    if cursor.words("VARIABLES") {
        return Ok(ShowWhat::Variables(scope));
    }
    if cursor.words("STATUS") {
        return Ok(ShowWhat::Status(scope));
    }
    of_something(cursor)
}

fn of_something(cursor: &mut Cursor<'_>) -> Result<ShowWhat> {
    const KINDS: [&str; 19] = [
        "DATABASES",
        "SCHEMAS",
        "TABLE STATUS",
        "OPEN TABLES",
        "INDEX",
        "INDEXES",
        "KEYS",
        "CREATE TABLE",
        "CREATE VIEW",
        "CREATE DATABASE",
        "CREATE SCHEMA",
        "CREATE USER",
        "WARNINGS",
        "ERRORS",
        "GRANTS",
        "PARTITIONS",
        "TABLETS",
        "TRANSACTION",
        "LAST INSERT",
    ];
    if cursor.words("ALTER TABLE COLUMN") {
        return Ok(ShowWhat::AlterTableColumn { database: from(cursor)? });
    }
    let Some(kind) = cursor.one_of(&KINDS) else { return Err(unknown(cursor)) };
    Ok(match kind {
        "DATABASES" | "SCHEMAS" => ShowWhat::Databases,
        "TABLE STATUS" => ShowWhat::TableStatus { database: from(cursor)? },
        "OPEN TABLES" => {
            from(cursor)?;
            ShowWhat::OpenTables
        }
        "INDEX" | "INDEXES" | "KEYS" => ShowWhat::Index(from_table(cursor)?),
        "CREATE TABLE" => ShowWhat::CreateTable(cursor.table()?),
        "CREATE VIEW" => ShowWhat::CreateView(cursor.table()?),
        "CREATE DATABASE" | "CREATE SCHEMA" => {
            cursor.words("IF NOT EXISTS");
            ShowWhat::CreateDatabase(cursor.name()?)
        }
        "WARNINGS" => ShowWhat::Warnings { errors_only: false, count: false },
        "ERRORS" => ShowWhat::Warnings { errors_only: true, count: false },
        "GRANTS" => {
            let named = cursor.words("FOR");
            let of = if named { other_account(cursor)? } else { None };
            let using = cursor.words("USING").then(|| cursor.list(account)).transpose()?;
            ShowWhat::Grants { account: of, using: using.unwrap_or_default() }
        }
        "CREATE USER" => ShowWhat::CreateUser(other_account(cursor)?),
        "PARTITIONS" => ShowWhat::Partitions(from_table(cursor)?),
        "TABLETS" => ShowWhat::Tablets(from_table(cursor)?),
        "TRANSACTION" => ShowWhat::Transaction { database: from(cursor)? },
        _ => ShowWhat::LastInsert,
    })
}

/// Parses an account; `None` for CURRENT_USER.
fn other_account(cursor: &mut Cursor<'_>) -> Result<Option<Account>> {
    if !cursor.words("CURRENT_USER") {
        return account(cursor).map(Some);
    }
    if cursor.token(&sqlparser::tokenizer::Token::LParen) {
        cursor.expect(&sqlparser::tokenizer::Token::RParen)?;
    }
    Ok(None)
}

fn unknown(cursor: &mut Cursor<'_>) -> freshet_base::Error {
    let known = [
        "BINLOG",
        "CREATE",
        "ENGINE",
        "PROFILE",
        "RELAYLOG",
        "REPLICAS",
        "ROLES",
        "SNAPSHOT",
        "REPOSITORIES",
        "RESOURCES",
        "ROUTINE",
        "BACKUP",
        "RESTORE",
        "EXPORT",
        "PROC",
        "VIEW",
    ];
    match cursor.one_of(&known) {
        Some(what) => refuse(&format!("SHOW {what}")),
        None => cursor.error(),
    }
}

/// Parses `FROM db` or `IN db`.
fn from(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    (cursor.words("FROM") || cursor.words("IN")).then(|| cursor.name()).transpose()
}

/// Parses `FROM t`, `FROM db.t` or `FROM t FROM db`.
fn from_table(cursor: &mut Cursor<'_>) -> Result<TableName> {
    if !(cursor.words("FROM") || cursor.words("IN")) {
        return Err(cursor.error());
    }
    let mut table = cursor.table()?;
    if let Some(database) = from(cursor)? {
        table.database = Some(database);
    }
    Ok(table)
}

fn filter(cursor: &mut Cursor<'_>) -> Result<Option<Filter>> {
    if cursor.words("LIKE") {
        return Ok(Some(Filter::Like(cursor.text()?)));
    }
    if cursor.words("WHERE") {
        return Ok(Some(Filter::Where(cursor.expr()?)));
    }
    Ok(None)
}

fn limit(cursor: &mut Cursor<'_>) -> Result<Option<(u64, u64)>> {
    if !cursor.words("LIMIT") {
        return Ok(None);
    }
    let first = cursor.number()?;
    if cursor.token(&sqlparser::tokenizer::Token::Comma) {
        return Ok(Some((cursor.number()?, first)));
    }
    let offset = if cursor.words("OFFSET") { cursor.number()? } else { 0 };
    Ok(Some((first, offset)))
}
