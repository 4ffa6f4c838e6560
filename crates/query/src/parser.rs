//! Parses text to statements: queries and expressions with `sqlparser`, other statements with our
//! own parser on the same tokens.

mod admin;
mod alter;
mod bin;
mod change;
mod commands;
mod constraint;
mod create;
mod cursor;
mod database;
mod definition;
mod depth;
mod diagnostics;
mod dialect;
mod explain;
mod global;
mod hints;
mod index;
mod infile;
mod insert;
mod into;
mod items;
mod kinds;
mod limits;
mod load;
mod locks;
mod named_partitions;
mod numbers;
mod odbc;
mod partition;
mod placement;
mod policy;
mod prepare;
mod roles;
mod rows;
mod sequence;
mod set;
mod show;
mod size;
mod temporary;
mod tending;
mod types;
mod user_options;
mod users;
mod view;
mod workload;

#[cfg(test)]
mod tests;

use freshet_base::{Result, err};
use freshet_schema::Collation;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

pub use admin::CancelLoad;
pub use alter::{AlterAction, Clauses};
pub use bin::BinStatement;
pub use commands::CommandKind;
pub use create::CreateTable;
use cursor::{Cursor, Source, refuse};
pub use database::DatabaseOptions;
pub use diagnostics::{DiagnosticsItem, GetDiagnostics, Signal, SignalItem};
use dialect::MySql;
pub use explain::ExplainFormat;
pub use infile::{FieldTarget, LoadData, OnSameKey};
pub use insert::{Insert, InsertSource, OnDuplicate};
pub use into::{Into, IntoFile};
use items::items;
pub use load::{COLUMNS_MAX, HttpStream, LoadColumn, http_stream, load_columns, load_condition};
pub use policy::PolicyStatement;
pub use prepare::PreparedText;
pub use roles::{RoleChoice, RoleStatement};
pub use sequence::SequenceStatement;
pub use set::{Assignment, Persists, SetTarget};
pub use show::{Filter, Order, OrderColumn, Show, ShowWhat};
pub use size::TextSize;
pub use tending::Tending;
pub use user_options::AboutUser;
pub use users::{Authentication, GrantStatement, GrantTarget, UserClauses, own_account};
pub use view::CreateView;
pub use workload::WorkloadStatement;

use crate::actions;
use crate::assign;
use crate::change::Change;
use crate::changes::Changes;
use crate::hint::{self, Hint};
use crate::limits::MARKS;
use crate::sequence_columns;
use crate::session::SqlMode;
use crate::syntax::Select;
pub use crate::syntax::TableName;

/// Maximum nesting of a statement in `sqlparser`.
const NESTING_MAX: usize = 200;
/// Maximum number of statements in one text.
const STATEMENTS_MAX: usize = 10_000;

#[allow(clippy::large_enum_variant)] // only one exists at a time, while its statement runs
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// SELECT, VALUES, TABLE, WITH, and set operations of them.
    Query(Select),
    SelectInto {
        query: Select,
        into: Into,
    },
    Explain {
        statement: Box<Statement>,
        /// ANALYZE: executes the statement and displays the metrics of each operator.
        analyze: bool,
        /// The length of the statement's text.
        text_bytes: usize,
        format: ExplainFormat,
    },
    /// DESCRIBE of a table or of one of its columns.
    Describe(TableName, Option<String>),
    Insert(Box<Insert>),
    LoadData(Box<LoadData>),
    /// UPDATE and DELETE.
    Change(Box<Change>),
    /// UPDATE and DELETE of joined tables.
    ChangeSeveral(Box<Changes>),
    CreateDatabase {
        name: String,
        if_not_exists: bool,
        options: DatabaseOptions,
    },
    /// ALTER DATABASE of this one, or of the current one.
    AlterDatabase(Option<String>, Collation),
    DropDatabase {
        name: String,
        if_exists: bool,
        /// For good, and not into the recycle bin.
        force: bool,
    },
    CreateTable(Box<CreateTable>),
    DropTable {
        tables: Vec<TableName>,
        if_exists: bool,
        /// TEMPORARY: no others.
        temporary: bool,
        /// FORCE: not into the recycle bin.
        force: bool,
    },
    CreateView(Box<CreateView>),
    DropViews {
        views: Vec<TableName>,
        if_exists: bool,
    },
    /// CREATE, ALTER, DROP and RENAME SEQUENCE, and CONVERT ALL SEQUENCES.
    Sequence(Box<SequenceStatement>),
    /// TRUNCATE of tables, all at once.
    Truncate {
        tables: Vec<TableName>,
        if_exists: bool,
    },
    AlterTable(TableName, AlterAction),
    /// RENAME TABLE: old and new names.
    RenameTables(Vec<(TableName, TableName)>),
    Use(String),
    Set(Vec<Assignment>),
    Begin {
        /// WITH LABEL.
        label: Option<String>,
        read_only: bool,
    },
    Commit {
        /// AND CHAIN: another transaction begins at once.
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    /// ROLLBACK TO a savepoint.
    RollbackTo(String),
    ReleaseSavepoint(String),
    Show(Box<Show>),
    Kill {
        /// KILL QUERY: the connection remains open.
        query_only: bool,
        /// The connection's id.
        id: u64,
    },
    CreateUser {
        clauses: Box<UserClauses>,
        if_not_exists: bool,
    },
    AlterUser {
        clauses: Box<UserClauses>,
        if_exists: bool,
    },
    DropUser {
        users: Vec<freshet_meta::Account>,
        if_exists: bool,
    },
    /// RENAME USER: old and new accounts.
    RenameUsers(Vec<(freshet_meta::Account, freshet_meta::Account)>),
    Grant(GrantStatement),
    Revoke(GrantStatement),
    Role(Box<RoleStatement>),
    /// Workload groups, and SET PROPERTY.
    Workload(Box<WorkloadStatement>),
    /// PREPARE of a statement by name.
    Prepare {
        name: String,
        from: PreparedText,
    },
    /// EXECUTE of a statement that PREPARE has named.
    Execute {
        name: String,
        /// User variables, in lower case.
        using: Vec<String>,
    },
    /// DEALLOCATE PREPARE.
    Deallocate(String),
    /// CANCEL LOAD.
    CancelLoad(CancelLoad),
    /// CLEAN LABEL: labels of finished loads are forgotten, this one or all.
    CleanLabels {
        label: Option<String>,
        database: String,
    },
    Bin(BinStatement),
    /// CREATE and DROP ROW POLICY.
    Policy(Box<PolicyStatement>),
    /// CANCEL ALTER TABLE COLUMN FROM a table.
    CancelAlter(TableName),
    /// ADMIN SET FRONTEND CONFIG.
    SetConfig(Vec<(String, String)>),
    /// ALTER INSTANCE RELOAD TLS.
    ReloadTls,
    /// FLUSH TABLES of these tables, or of all if empty.
    FlushTables(Vec<TableName>),
    /// CHECK, ANALYZE, OPTIMIZE, REPAIR and CHECKSUM TABLE.
    Tend(Tending, Vec<TableName>),
    Signal(Signal),
    GetDiagnostics(GetDiagnostics),
    Do(Select),
    /// A SELECT that assigns user variables.
    Assigning(Select),
    /// A SELECT without FROM that calls functions with side effects, such as SLEEP or GET_LOCK.
    SideEffects(Select),
    /// LOCK TABLES, which locks nothing.
    LockTables(Vec<TableName>),
    /// A statement that is accepted without effect, by its first word: FLUSH, RESET; and UNLOCK
    /// TABLES, which may commit.
    Nothing(String),
}

/// A statement and its text.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    pub statement: Statement,
    /// The text of this statement alone.
    pub text: String,
    /// The number of `?`.
    pub parameters: usize,
    /// The positions of those that are numbers of rows: in LIMIT and OFFSET.
    pub limits: Vec<usize>,
    /// The text of each item in the outermost select list, from which columns are named.
    pub items: Vec<String>,
    /// The hint in front of it or behind its first keyword.
    pub hint: Option<Hint>,
}

/// Parses the statements of a text.
///
/// # Errors
/// 1064 with the position of a syntax error, 1065 if there is no statement, 1235 for unsupported
/// features.
pub fn parse(sql: &str, mode: SqlMode) -> Result<Vec<Parsed>> {
    let dialect = MySql { mode };
    let sql = size::hints_as_comments(sql, mode);
    let sql = size::compacted(&sql, mode);
    let sql = &*hints::opened(&sql, mode);
    let source = Source::new(sql);
    let tokens = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|error| source.syntax(error.location))?;
    let mut statements = Vec::new();
    for piece in tokens.split(|token| token.token == Token::SemiColon) {
        let Some((first, last)) = bounds(piece) else { continue };
        if statements.len() == STATEMENTS_MAX {
            return Err(err!(Syntax, "more than {STATEMENTS_MAX} statements in one text"));
        }
        check_names(piece, &source)?;
        check_reserved(piece, &source)?;
        depth::check(piece)?;
        let taken = into::taken(piece, &dialect, &source)?;
        let (read, into) = match &taken {
            Some((rest, into)) => (&rest[..], Some(into)),
            None => (piece, None),
        };
        let selected = rows::tables_selected(read);
        let read = selected.as_deref().unwrap_or(read);
        let opened = odbc::joins_opened(read);
        let read = opened.as_deref().unwrap_or(read);
        let marked = temporary::marked(read);
        let read = marked.as_deref().unwrap_or(read);
        let listed = named_partitions::listed(read);
        let read = listed.as_deref().unwrap_or(read);
        let locking = locks::for_share(read);
        let read = locking.as_deref().unwrap_or(read);
        let each = locks::of_each(read);
        let tokens = limits::numbered(each.as_deref().unwrap_or(read));
        let parameters = piece.iter().filter(|t| matches!(t.token, Token::Placeholder(_))).count();
        let limits = limits::limits(&tokens);
        let parser = Parser::new(&dialect)
            .with_recursion_limit(NESTING_MAX)
            .with_tokens_with_locations(tokens);
        let mut cursor = Cursor::new(parser, &source);
        let mut statement = statement(&mut cursor)?;
        cursor.expect_end()?;
        if let Some(into) = into {
            let Statement::Query(query) = statement else { return Err(refuse("INTO here")) };
            statement = Statement::SelectInto { query, into: into.clone() };
        }
        statements.push(Parsed {
            statement,
            text: source.between(first, last).to_owned(),
            parameters,
            limits,
            items: items(read, &source),
            hint: hint::find(source.from(piece).as_bytes()).map(hint::read),
        });
    }
    if statements.is_empty() {
        return Err(err!(EmptyQuery, "Query was empty"));
    }
    Ok(statements)
}

/// The start and end of a statement; `None` if there are no tokens.
fn bounds(tokens: &[TokenWithSpan]) -> Option<(Location, Location)> {
    let mut said =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    let first = said.next()?;
    let last = said.next_back().unwrap_or(first);
    Some((first.span.start, last.span.end))
}

/// Rejects names with the signs by which statements mark names of their own. Columns and rows that
/// these stand for are seen by statements that the server makes, and by nobody else.
fn check_names(tokens: &[TokenWithSpan], source: &Source<'_>) -> Result<()> {
    let is_marked = |token: &&TokenWithSpan| match &token.token {
        Token::Word(word) => word.value.contains(MARKS),
        _ => false,
    };
    match tokens.iter().find(is_marked).or_else(|| nameless_partition(tokens)) {
        Some(token) => Err(source.syntax(token.span.start)),
        None => Ok(()),
    }
}

/// A partition without a name, in a list of partitions: it would stand for rows that the server
/// gives in place of those of the table.
fn nameless_partition(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let mut said = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let (mut before, mut is_list) = (&Token::EOF, false);
    said.find(|token| {
        let is_word = |token: &Token| {
            matches!(token, Token::Word(word) if word.quote_style.is_none()
                && word.value.eq_ignore_ascii_case("PARTITION"))
        };
        match &token.token {
            Token::LParen if is_word(before) => is_list = true,
            Token::RParen => is_list = false,
            _ => {}
        }
        let begins = matches!(before, Token::LParen | Token::Comma);
        before = &token.token;
        is_list && begins && is_empty_name(&token.token)
    })
}

fn is_empty_name(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.value.is_empty(),
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => text.is_empty(),
        _ => false,
    }
}

/// Rejects FROM or JOIN directly followed by the next clause: `sqlparser` would take the keyword
/// for a table name.
fn check_reserved(tokens: &[TokenWithSpan], source: &Source<'_>) -> Result<()> {
    const ENDS: [&str; 8] = ["WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "ON", "JOIN"];
    let said = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_uppercase(),
        _ => String::new(),
    };
    // CONVERT ALL SEQUENCES FROM GROUP is of no table.
    if said.clone().next().is_some_and(|first| word(first) == "CONVERT") {
        return Ok(());
    }
    let mut before = String::new();
    for token in said {
        let word = word(token);
        if matches!(before.as_str(), "FROM" | "JOIN") && ENDS.contains(&word.as_str()) {
            return Err(source.syntax(token.span.start));
        }
        before = word;
    }
    Ok(())
}

fn statement(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if matches!(cursor.peek().token, Token::LParen) {
        return cursor.query().map(|query| match sequence_columns::takes_values(&query) {
            true => Statement::SideEffects(query),
            false => Statement::Query(query),
        });
    }
    let word = cursor.peek_word(0).ok_or_else(|| cursor.error())?;
    match word.as_str() {
        "WITH" => return change::behind_with(cursor).unwrap_or_else(|| query(cursor)),
        "SELECT" | "TABLE" => return query(cursor),
        "VALUES" => return query(cursor),
        "MERGE" | "CALL" | "HANDLER" | "XA" | "EXPORT" | "BACKUP" | "RESTORE" | "INSTALL"
        | "UNINSTALL" | "SHUTDOWN" | "RESTART" | "CLONE" | "IMPORT" | "CHANGE" | "STOP"
        | "RESIGNAL" | "BINLOG" | "CACHE" => return Err(refuse(&word)),
        _ => {}
    }
    cursor.parser.advance_token();
    match word.as_str() {
        "EXPLAIN" | "DESC" | "DESCRIBE" => explain::explain(cursor),
        "INSERT" => insert::insert(cursor).map(|insert| Statement::Insert(Box::new(insert))),
        "REPLACE" => insert::replace(cursor).map(|insert| Statement::Insert(Box::new(insert))),
        "LOAD" => infile::load(cursor).map(|load| Statement::LoadData(Box::new(load))),
        "UPDATE" => change::update(cursor, None),
        "DELETE" => change::delete(cursor, None),
        "CREATE" => definition::create(cursor),
        "DROP" if cursor.words("CATALOG RECYCLE BIN") => bin::drop(cursor).map(Statement::Bin),
        "DROP" => definition::drop(cursor),
        "TRUNCATE" => partition::truncate(cursor),
        "ALTER" => definition::alter(cursor),
        "RENAME" if cursor.words("SEQUENCE") => sequence::rename(cursor).map(sequence_statement),
        "RENAME" if cursor.words("USER") => users::rename(cursor).map(Statement::RenameUsers),
        "RENAME" => alter::rename_tables(cursor).map(Statement::RenameTables),
        "CONVERT" => sequence::convert(cursor).map(sequence_statement),
        "USE" => cursor.database().map(Statement::Use),
        "SET" if cursor.words("ROLE") => roles::set(cursor).map(role_statement),
        "SET" if cursor.words("DEFAULT ROLE") => roles::set_default(cursor).map(role_statement),
        "SET" if workload::set_property_follows(cursor) => {
            workload::set_property(cursor).map(workload_statement)
        }
        "SET" => set::set(cursor).map(Statement::Set),
        "UNSET" => set::unset(cursor).map(Statement::Set),
        "ADMIN" => admin::admin(cursor),
        "CANCEL" => admin::cancel(cursor),
        "CLEAN" => admin::clean(cursor),
        "RECOVER" => bin::recover(cursor).map(Statement::Bin),
        "SHOW" => show::show(cursor).map(|show| Statement::Show(Box::new(show))),
        "GRANT" if roles::follow(cursor) => roles::grant(cursor).map(role_statement),
        "GRANT" => users::granting(cursor, "TO").map(Statement::Grant),
        "REVOKE" => definition::revoke(cursor),
        "PREPARE" => {
            let (name, from) = prepare::prepare(cursor)?;
            Ok(Statement::Prepare { name, from })
        }
        "EXECUTE" => {
            let (name, using) = prepare::execute(cursor)?;
            Ok(Statement::Execute { name, using })
        }
        "DEALLOCATE" => {
            cursor.expect_words("PREPARE")?;
            cursor.name().map(Statement::Deallocate)
        }
        "KILL" => {
            let query_only = cursor.words("QUERY");
            cursor.words("CONNECTION");
            Ok(Statement::Kill { query_only, id: cursor.number()? })
        }
        _ => control(cursor, &word),
    }
}

fn sequence_statement(statement: SequenceStatement) -> Statement {
    Statement::Sequence(Box::new(statement))
}

fn role_statement(statement: RoleStatement) -> Statement {
    Statement::Role(Box::new(statement))
}

fn workload_statement(statement: WorkloadStatement) -> Statement {
    Statement::Workload(Box::new(statement))
}

fn acts(query: &Select) -> bool {
    actions::has_side_effects(query) || sequence_columns::takes_values(query)
}

fn query(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.query().map(|query| match acts(&query) {
        true => Statement::SideEffects(query),
        false if assign::assigns(&query) => Statement::Assigning(query),
        false => Statement::Query(query),
    })
}

/// Transaction statements, and statements without effect.
fn control(cursor: &mut Cursor<'_>, word: &str) -> Result<Statement> {
    match word {
        "BEGIN" => {
            cursor.words("WORK");
            let labelled = cursor.words("WITH LABEL") && !cursor.at_end();
            let label = labelled.then(|| cursor.name_or_text()).transpose()?;
            Ok(Statement::Begin { label, read_only: false })
        }
        "START" => {
            if let Some(what) = cursor.one_of(&["SLAVE", "REPLICA", "GROUP_REPLICATION"]) {
                return Err(refuse(&format!("START {what}")));
            }
            cursor.expect_words("TRANSACTION")?;
            let mut read_only = false;
            if !cursor.at_end() {
                cursor.list(|cursor| {
                    read_only |= cursor.words("READ ONLY");
                    let _ = cursor.words("READ WRITE") || cursor.words("WITH CONSISTENT SNAPSHOT");
                    Ok(())
                })?;
            }
            Ok(Statement::Begin { label: None, read_only })
        }
        "SAVEPOINT" => cursor.name().map(Statement::Savepoint),
        "RELEASE" => {
            cursor.expect_words("SAVEPOINT")?;
            cursor.name().map(Statement::ReleaseSavepoint)
        }
        "COMMIT" | "ROLLBACK" => {
            cursor.words("WORK");
            if word == "ROLLBACK" && cursor.words("TO") {
                cursor.words("SAVEPOINT");
                return cursor.name().map(Statement::RollbackTo);
            }
            let chain = cursor.one_of(&["AND CHAIN", "AND NO CHAIN"]) == Some("AND CHAIN");
            if !cursor.words("NO RELEASE") && cursor.words("RELEASE") {
                return Err(refuse(&format!("{word} .. RELEASE")));
            }
            Ok(match word {
                "COMMIT" => Statement::Commit { chain },
                _ => Statement::Rollback { chain },
            })
        }
        "FLUSH" => admin::flush(cursor),
        "DO" => cursor.list(Cursor::expr).map(|exprs| Statement::Do(Select::of(exprs))),
        "ANALYZE" | "OPTIMIZE" | "CHECK" | "REPAIR" | "CHECKSUM" => tending::tend(cursor, word),
        "SIGNAL" => diagnostics::signal(cursor).map(Statement::Signal),
        "GET" => diagnostics::get(cursor).map(Statement::GetDiagnostics),
        "HELP" => {
            cursor.text()?;
            show::shown(cursor, ShowWhat::Plain("HELP")).map(|one| Statement::Show(Box::new(one)))
        }
        "RESET" if cursor.words("PERSIST") => set::reset_persist(cursor).map(Statement::Set),
        "LOCK" => admin::lock(cursor),
        "BUILD" => admin::build(cursor),
        "UNLOCK" if cursor.one_of(&["TABLES", "TABLE"]).is_some() => {
            admin::nothing(cursor, "UNLOCK TABLES")
        }
        "RESET" | "PURGE" | "UNLOCK" | "SWITCH" | "SYNC" | "REFRESH" => {
            admin::nothing(cursor, word)
        }
        _ => {
            cursor.parser.prev_token();
            Err(cursor.error())
        }
    }
}
