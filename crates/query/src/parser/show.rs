use freshet_base::{Result, err};
use freshet_meta::Account;

use super::cursor::{Cursor, refuse};
use super::users::account;
use super::{partition, policy};
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
    /// COLUMNS or FIELDS.
    Columns {
        full: bool,
        table: TableName,
    },
    /// INDEX, INDEXES or KEYS.
    Index(TableName),
    /// GLOBAL INDEX, of one table or of all in the current database.
    GlobalIndexes(Option<TableName>),
    /// CREATE TABLE; of a view as CREATE VIEW.
    CreateTable(TableName),
    CreateView(TableName),
    CreateSequence(TableName),
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
    /// ROW POLICY, of all or of an account or role.
    RowPolicies(Option<Account>),
    /// PROPERTY; `None` for the session's own account.
    Property(Option<Account>),
    Partitions(TableName),
    /// TEMPORARY PARTITIONS.
    TemporaryPartitions(TableName),
    /// DYNAMIC PARTITION TABLES.
    DynamicPartitions {
        /// FROM.
        database: Option<String>,
    },
    /// TABLETS, of these partitions or, without names, of all.
    Tablets {
        table: TableName,
        partitions: Vec<String>,
    },
    /// TABLET: where the tablet with this id belongs.
    Tablet(u64),
    /// REPLICA STATUS of a table.
    ReplicaStatus {
        table: TableName,
        partitions: Vec<String>,
    },
    /// REPLICA DISTRIBUTION of a table.
    ReplicaDistribution {
        table: TableName,
        partitions: Vec<String>,
    },
    /// TRASH, of all nodes or ON one.
    Trash {
        on: Option<String>,
    },
    Transaction {
        /// FROM.
        database: Option<String>,
    },
    LastInsert,
    AlterTableColumn {
        /// FROM.
        database: Option<String>,
    },
    Load {
        /// FROM.
        database: Option<String>,
    },
    StreamLoad {
        /// FROM.
        database: Option<String>,
    },
    LoadWarnings {
        /// FROM.
        database: Option<String>,
        /// ON: the URL of an error log.
        url: Option<String>,
    },
    /// DATA, of one table or of all in the current database.
    Data(Option<TableName>),
    /// ENGINE .. STATUS.
    Engine(String),
    /// PROC and a path.
    Proc(String),
    /// ADMIN SHOW FRONTEND CONFIG.
    Config,
    /// A list of what a database has none of: OPEN TABLES, TRIGGERS, EVENTS, VIEWS.
    Within {
        what: &'static str,
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
    /// ORDER BY.
    pub order: Vec<Order>,
    /// LIMIT: the number of rows, and the number of rows skipped before them.
    pub limit: Option<(u64, u64)>,
}

/// An item of ORDER BY.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    pub by: OrderColumn,
    pub descending: bool,
}

/// A column of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderColumn {
    Name(String),
    /// From 1.
    Position(u64),
}

/// Lists without arguments.
const PLAIN: [&str; 27] = [
    "OPEN TABLES",
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
    "CATALOG RECYCLE BIN",
    "VIEWS",
    "FUNCTIONS",
    "CATALOGS",
    "WORKLOAD GROUPS",
];

/// Lists with arguments, of what there is none.
const NOTHING: [&str; 5] =
    ["BINLOG EVENTS", "RELAYLOG EVENTS", "PROFILE", "REPLICAS", "SLAVE HOSTS"];

/// Parses the part after SHOW.
pub fn show(cursor: &mut Cursor<'_>) -> Result<Show> {
    let what = what(cursor)?;
    shown(cursor, what)
}

/// Parses what restricts and orders the rows of `what`.
pub fn shown(cursor: &mut Cursor<'_>, what: ShowWhat) -> Result<Show> {
    let what = match what {
        ShowWhat::Plain(what @ ("OPEN TABLES" | "TRIGGERS" | "EVENTS" | "VIEWS")) => {
            ShowWhat::Within { what, database: from(cursor)? }
        }
        other => other,
    };
    let filter = filter(cursor)?;
    let order = match cursor.words("ORDER BY") {
        true => cursor.list(order)?,
        false => Vec::new(),
    };
    let limit = limit(cursor)?;
    Ok(Show { what, filter, order, limit })
}

fn order(cursor: &mut Cursor<'_>) -> Result<Order> {
    let by = match cursor.number_opt() {
        Some(position) => OrderColumn::Position(position),
        None => OrderColumn::Name(cursor.name()?),
    };
    let descending = cursor.words("DESC");
    if !descending {
        cursor.words("ASC");
    }
    Ok(Order { by, descending })
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
    if let Some(replicas) = replicas(cursor)? {
        return Ok(replicas);
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
    if full && let Some(plain) = cursor.one_of(&["TRIGGERS", "EVENTS"]) {
        return Ok(ShowWhat::Plain(plain));
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
    if scope == Scope::Global && cursor.one_of(&["INDEX", "INDEXES"]).is_some() {
        let is_of_one = ["FROM", "IN"].map(Some).contains(&cursor.peek_word(0).as_deref());
        let table = is_of_one.then(|| from_table(cursor)).transpose()?;
        return Ok(ShowWhat::GlobalIndexes(table));
    }
    of_something(cursor)
}

fn of_something(cursor: &mut Cursor<'_>) -> Result<ShowWhat> {
    const KINDS: [&str; 21] = [
        "PROPERTY",
        "DATABASES",
        "SCHEMAS",
        "TABLE STATUS",
        "INDEX",
        "INDEXES",
        "KEYS",
        "CREATE TABLE",
        "CREATE VIEW",
        "CREATE SEQUENCE",
        "CREATE DATABASE",
        "CREATE SCHEMA",
        "CREATE USER",
        "WARNINGS",
        "ERRORS",
        "GRANTS",
        "PARTITIONS",
        "TEMPORARY PARTITIONS",
        "TABLETS",
        "TRANSACTION",
        "LAST INSERT",
    ];
    if cursor.words("ROW POLICY") {
        return policy::holder(cursor).map(ShowWhat::RowPolicies);
    }
    if cursor.words("ENGINE") {
        return of_engine(cursor);
    }
    if let Some(logs) = cursor.one_of(&NOTHING) {
        // What is said of one of them says nothing of none.
        cursor.skip();
        return Ok(ShowWhat::Plain(logs));
    }
    let listed = of_loads(cursor)?.map_or_else(|| of_nodes(cursor), |loads| Ok(Some(loads)))?;
    if let Some(listed) = listed {
        return Ok(listed);
    }
    let Some(kind) = cursor.one_of(&KINDS) else { return Err(unknown(cursor)) };
    Ok(match kind {
        "PROPERTY" => ShowWhat::Property(named_account(cursor)?),
        "DATABASES" | "SCHEMAS" => ShowWhat::Databases,
        "TABLE STATUS" => ShowWhat::TableStatus { database: from(cursor)? },
        "INDEX" | "INDEXES" | "KEYS" => ShowWhat::Index(from_table(cursor)?),
        "CREATE TABLE" => ShowWhat::CreateTable(cursor.table()?),
        "CREATE VIEW" => ShowWhat::CreateView(cursor.table()?),
        "CREATE SEQUENCE" => ShowWhat::CreateSequence(cursor.table()?),
        "CREATE DATABASE" | "CREATE SCHEMA" => {
            cursor.words("IF NOT EXISTS");
            ShowWhat::CreateDatabase(cursor.name()?)
        }
        "WARNINGS" => ShowWhat::Warnings { errors_only: false, count: false },
        "ERRORS" => ShowWhat::Warnings { errors_only: true, count: false },
        "GRANTS" => {
            let of = named_account(cursor)?;
            let using = cursor.words("USING").then(|| cursor.list(account)).transpose()?;
            ShowWhat::Grants { account: of, using: using.unwrap_or_default() }
        }
        "CREATE USER" => ShowWhat::CreateUser(other_account(cursor)?),
        "PARTITIONS" => ShowWhat::Partitions(from_table(cursor)?),
        "TEMPORARY PARTITIONS" => ShowWhat::TemporaryPartitions(from_table(cursor)?),
        "TABLETS" => {
            let (table, partitions) = of_partitions(cursor)?;
            ShowWhat::Tablets { table, partitions }
        }
        "TRANSACTION" => ShowWhat::Transaction { database: from(cursor)? },
        _ => ShowWhat::LastInsert,
    })
}

fn of_engine(cursor: &mut Cursor<'_>) -> Result<ShowWhat> {
    let engine = cursor.name_or_text()?;
    cursor.one_of(&["STATUS", "LOGS", "MUTEX"]).ok_or_else(|| cursor.error())?;
    Ok(ShowWhat::Engine(engine))
}

/// The account behind FOR; `None` is the own one.
fn named_account(cursor: &mut Cursor<'_>) -> Result<Option<Account>> {
    if cursor.words("FOR") { other_account(cursor) } else { Ok(None) }
}

/// What Doris shows of loads, jobs and nodes.
fn of_loads(cursor: &mut Cursor<'_>) -> Result<Option<ShowWhat>> {
    const KINDS: [&str; 8] = [
        "FRONTEND CONFIG",
        "ALTER TABLE COLUMN",
        "DYNAMIC PARTITION TABLES",
        "LOAD WARNINGS",
        "STREAM LOAD",
        "LOAD",
        "DATA",
        "PROC",
    ];
    let Some(kind) = cursor.one_of(&KINDS) else { return Ok(None) };
    Ok(Some(match kind {
        "FRONTEND CONFIG" => ShowWhat::Config,
        "ALTER TABLE COLUMN" => ShowWhat::AlterTableColumn { database: from(cursor)? },
        "DYNAMIC PARTITION TABLES" => ShowWhat::DynamicPartitions { database: from(cursor)? },
        "LOAD WARNINGS" => {
            let database = from(cursor)?;
            let url = cursor.words("ON").then(|| cursor.text()).transpose()?;
            ShowWhat::LoadWarnings { database, url }
        }
        "STREAM LOAD" => ShowWhat::StreamLoad { database: from(cursor)? },
        "LOAD" => ShowWhat::Load { database: from(cursor)? },
        "DATA" => {
            let named = cursor.words("FROM") || cursor.words("IN");
            ShowWhat::Data(named.then(|| cursor.table()).transpose()?)
        }
        _ => ShowWhat::Proc(cursor.text()?),
    }))
}

/// What Doris shows of tablets and nodes, and of jobs of which there are none here.
fn of_nodes(cursor: &mut Cursor<'_>) -> Result<Option<ShowWhat>> {
    const JOBS: [&str; 3] = ["ALTER TABLE ROLLUP", "ALTER TABLE MATERIALIZED VIEW", "BUILD INDEX"];
    if let Some(what) = cursor.one_of(&JOBS) {
        return Ok(Some(ShowWhat::Within { what, database: from(cursor)? }));
    }
    if cursor.words("TABLET") {
        return cursor.number().map(|id| Some(ShowWhat::Tablet(id)));
    }
    if cursor.words("TRASH") {
        let on = cursor.words("ON").then(|| cursor.text()).transpose()?;
        return Ok(Some(ShowWhat::Trash { on }));
    }
    Ok(None)
}

/// Parses REPLICA STATUS or DISTRIBUTION of a table; without one it is that of MySQL.
pub fn replicas(cursor: &mut Cursor<'_>) -> Result<Option<ShowWhat>> {
    if !["FROM", "IN"].map(Some).contains(&cursor.peek_word(2).as_deref()) {
        return Ok(None);
    }
    let kind = cursor.one_of(&["REPLICA STATUS", "REPLICA DISTRIBUTION"]);
    let Some(kind) = kind else { return Ok(None) };
    let (table, partitions) = of_partitions(cursor)?;
    Ok(Some(match kind {
        "REPLICA STATUS" => ShowWhat::ReplicaStatus { table, partitions },
        _ => ShowWhat::ReplicaDistribution { table, partitions },
    }))
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

/// What is refused by name.
const REFUSED: [&str; 46] = [
    "ALL GRANTS",
    "ALTER TABLE",
    "ANALYZE",
    "BACKEND CONFIG",
    "BACKUP",
    "BINLOG",
    "BROKER",
    "BUILTIN FUNCTIONS",
    "CACHE HOTSPOT",
    "CLUSTER",
    "CLUSTERS",
    "COLUMN STATS",
    "CONSTRAINTS",
    "CREATE",
    "DATABASE ID",
    "DELETE",
    "ENCRYPTKEYS",
    "EXPORT",
    "FILE",
    "FUNCTION CODE",
    "GLOBAL FUNCTIONS",
    "JOBS",
    "PARSE_TREE",
    "PARTITION ID",
    "POLICY",
    "PROCEDURE CODE",
    "QUERY",
    "QUEUED ANALYZE",
    "RELAYLOG",
    "REPLICA",
    "REPOSITORIES",
    "RESOURCES",
    "RESTORE",
    "ROLES",
    "ROUTINE",
    "SNAPSHOT",
    "SQL_BLOCK_RULE",
    "STATS",
    "STORAGE POLICY",
    "SYNC JOB",
    "TABLE CREATION",
    "TABLE ID",
    "TABLE STATS",
    "TYPECAST",
    "VIEW",
    "WARM UP",
];

fn unknown(cursor: &mut Cursor<'_>) -> freshet_base::Error {
    if cursor.words("CREATE TRIGGER") {
        return err!(NoSuchTrigger, "Trigger does not exist");
    }
    if cursor.words("CREATE EVENT") {
        let named = cursor.table();
        return named.map_or_else(
            |error| error,
            |name| err!(NoSuchEvent, "Unknown event '{}'", name.table),
        );
    }
    if let Some(kind) = cursor.one_of(&["CREATE PROCEDURE", "CREATE FUNCTION"]) {
        let kind = kind.trim_start_matches("CREATE ");
        return match cursor.table() {
            Ok(name) => err!(UnknownFunction, "{kind} {} does not exist", name.table),
            Err(error) => error,
        };
    }
    match cursor.one_of(&REFUSED) {
        Some(what) => refuse(&format!("SHOW {what}")),
        None => cursor.error(),
    }
}

/// Parses `FROM db` or `IN db`, with or without the catalog of Doris.
fn from(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    (cursor.words("FROM") || cursor.words("IN")).then(|| cursor.database()).transpose()
}

/// Parses FROM a table, and PARTITION where some are named.
fn of_partitions(cursor: &mut Cursor<'_>) -> Result<(TableName, Vec<String>)> {
    let table = from_table(cursor)?;
    let partitions = match cursor.one_of(&["PARTITIONS", "PARTITION"]) {
        Some(_) => partition::names(cursor)?,
        None => Vec::new(),
    };
    Ok((table, partitions))
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
