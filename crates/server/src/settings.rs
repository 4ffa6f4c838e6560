//! Session variables decoded into typed settings.

use std::fmt;
use std::time::Duration;

use freshet_base::clock::{Clock, Deadline};
use freshet_ingest::decode::IdRules;
use freshet_ingest::decode::values::Dialect;
use freshet_ingest::{OnNewKey, Steps};
use freshet_query::evaluation::{Losses, OnLoss};
use freshet_query::parser::Statement;
use freshet_query::session::{BesideDates, SqlMode, Value};
use freshet_schema::{GroupCommitMode, OnBad, Rules, Table, TableForm, ZeroDates, Zone};
use freshet_storage::delta::Freshness;

use crate::variables::{self, Values};

/// A time limit and the variable that sets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimit {
    variable: &'static str,
    value: u64,
    /// The unit of the value: milliseconds, else seconds.
    in_millis: bool,
}

impl TimeLimit {
    pub const fn time(self) -> Duration {
        if self.in_millis {
            Duration::from_millis(self.value)
        } else {
            Duration::from_secs(self.value)
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.in_millis { "ms" } else { "s" };
        write!(f, "{} is {} {unit}", self.variable, self.value)
    }
}

/// Whether and how an INSERT of literals is read in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchPolicy {
    /// `batch_insert_policy` is SPLIT.
    pub split: bool,
    /// The length of a statement from which it is split, in KiB.
    pub from_kib: u64,
    /// The rows of a piece.
    pub rows: usize,
}

impl BatchPolicy {
    /// The rows of a piece of a statement of this length; `None`: it is read in one go.
    pub fn piece(self, text_bytes: usize) -> Option<usize> {
        (self.split && text_bytes as u64 >= self.from_kib << 10).then_some(self.rows)
    }
}

/// Which conditions of a statement are kept; further ones are only counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keeps {
    /// `max_error_count`.
    pub count_max: usize,
    /// `sql_notes`: without it there are no notes.
    pub notes: bool,
}

/// What `partial_update_new_key_behavior` says.
fn on_new_key(behavior: &str) -> OnNewKey {
    match behavior {
        "ERROR" => OnNewKey::Refuse,
        _ => OnNewKey::Append,
    }
}

/// Session variables decoded once per SET instead of once per statement.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Incremented with every change, which invalidates plans and targets made before.
    pub version: u64,
    /// Whether each statement is a transaction of its own.
    pub autocommit: bool,
    /// Whether an INSERT is read in pieces.
    pub batch: BatchPolicy,
    /// Which loads share a commit group.
    pub group_commit: GroupCommitMode,
    /// Whether the session has set it; else the property of a table counts before `off_mode`.
    pub sets_group_commit: bool,
    /// Whether labelled INSERTs of literals may share one.
    pub group_labels: bool,
    /// Whether a SELECT reads acknowledged rows or only rows of committed groups.
    pub freshness: Freshness,
    /// Whether a transaction keeps one snapshot.
    pub repeatable_read: bool,
    /// Whether transactions are read-only.
    pub read_only: bool,
    /// SQL modes that affect the scanner.
    pub dialect: Dialect,
    /// SQL modes that affect the parser.
    pub mode: SqlMode,
    /// What an INSERT into a table in MySQL syntax does about what its expressions lose.
    losses_mysql: Losses,
    /// Which losses of its expressions a query warns of.
    pub losses_queries: Losses,
    /// How values are converted for OLAP tables.
    pub rules_olap: Rules,
    /// How values are converted for tables in MySQL syntax.
    pub rules_mysql: Rules,
    /// How ids are generated.
    pub id_rules: IdRules,
    /// The fraction of an INSERT's rows that may be filtered out of OLAP tables; `None`: none.
    pub filter_ratio: Option<f64>,
    /// INSERT into a unique-key table sets only the columns that it names: refused there.
    pub partial_update: bool,
    /// What becomes of its rows whose key is new.
    pub on_new_key: OnNewKey,
    /// `show_hidden_columns`.
    pub hidden_columns: bool,
    pub query_timeout: TimeLimit,
    pub insert_timeout: TimeLimit,
    /// Whether UPDATE and DELETE have to name a key in their WHERE.
    pub safe_updates: bool,
    /// How long a statement waits for rows that another transaction holds.
    pub lock_wait: Duration,
    /// The largest packet.
    pub packet_bytes_max: usize,
    /// How long a client may take to accept a piece of a result.
    pub write_timeout: Duration,
    /// The timeout for the rest of a packet.
    pub read_timeout: Duration,
    /// The idle timeout of the session.
    pub wait_timeout: Duration,
    /// The idle timeout of an open transaction.
    pub idle_transaction_timeout: Duration,
    /// The maximum number of rows of a SELECT without LIMIT.
    pub select_limit: u64,
    /// Whether OK packets report a new current database.
    pub tracks_schema: bool,
    /// Which conditions of a statement are kept.
    pub keeps: Keeps,
    /// Whether prepared inserts are logged.
    pub audits_prepared: bool,
}

impl Settings {
    pub fn of(values: &Values, version: u64) -> Self {
        let get =
            |name: &str| variables::find(name).expect("a variable of the registry").of(values);
        let number = |name: &str| match get(name) {
            Value::Int(number) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let text = |name: &str| match get(name) {
            Value::Text(text) => text.as_str(),
            _ => "",
        };
        let on = |name: &str| number(name) != 0;
        let has = |mode: &str| text("sql_mode").split(',').any(|one| one == mode);
        let mode = sql_mode(has);
        let SqlMode { ansi_quotes, no_backslash_escapes, .. } = mode;
        let zone = variables::zone_of(text("time_zone"));
        let rules = |strict, lax| conversion(strict, lax, zone, has("NO_ZERO_DATE"));
        let strict = has("STRICT_TRANS_TABLES") || has("STRICT_ALL_TABLES");
        let seconds = |name: &str| Duration::from_secs(number(name));
        let limit =
            |variable, in_millis| TimeLimit { variable, value: number(variable), in_millis };
        let losses = |values| Losses {
            values,
            divisions: match has("ERROR_FOR_DIVISION_BY_ZERO") {
                true => values,
                false => OnLoss::Ignore,
            },
        };
        let ratio = ratio_of(get("insert_max_filter_ratio"));
        Self {
            version,
            autocommit: on("autocommit"),
            batch: batch_policy(text("batch_insert_policy") == "SPLIT", number),
            group_commit: GroupCommitMode::parse(text("group_commit")).unwrap_or_default(),
            sets_group_commit: false,
            group_labels: on("group_commit_labels"),
            freshness: freshness(text("read_freshness")),
            repeatable_read: keeps_snapshot(text("transaction_isolation")),
            read_only: on("transaction_read_only"),
            dialect: Dialect { no_backslash_escapes, ansi_quotes },
            mode,
            losses_mysql: losses(if strict { OnLoss::Refuse } else { OnLoss::Warn }),
            losses_queries: losses(OnLoss::Warn),
            rules_olap: rules(on("enable_insert_strict"), OnBad::Null),
            rules_mysql: rules(strict, OnBad::Clamp),
            id_rules: id_rules(number, has("NO_AUTO_VALUE_ON_ZERO")),
            filter_ratio: (!on("enable_insert_strict")).then_some(ratio),
            partial_update: on("enable_unique_key_partial_update"),
            on_new_key: on_new_key(text("partial_update_new_key_behavior")),
            hidden_columns: on("show_hidden_columns"),
            insert_timeout: limit("insert_timeout", false),
            safe_updates: on("sql_safe_updates"),
            lock_wait: seconds("innodb_lock_wait_timeout"),
            packet_bytes_max: usize::try_from(number("max_allowed_packet")).unwrap_or(usize::MAX),
            query_timeout: match limit("max_execution_time", true) {
                TimeLimit { value: 0, .. } => limit("query_timeout", false),
                millis => millis,
            },
            read_timeout: seconds("net_read_timeout"),
            write_timeout: seconds("net_write_timeout"),
            wait_timeout: seconds("wait_timeout"),
            idle_transaction_timeout: seconds("idle_transaction_timeout"),
            select_limit: number("sql_select_limit"),
            tracks_schema: on("session_track_schema"),
            keeps: keeps(number),
            audits_prepared: on("enable_prepared_stmt_audit_log"),
        }
    }

    /// Shortens `query_timeout` and `insert_timeout` to these seconds; 0 is no limit.
    pub fn shorten(&mut self, [query_max, insert_max]: [u32; 2]) {
        let limits = [
            (&mut self.query_timeout, "query_timeout of the account", query_max),
            (&mut self.insert_timeout, "insert_timeout of the account", insert_max),
        ];
        for (limit, variable, max) in limits.into_iter().filter(|(.., max)| *max > 0) {
            let of_account = TimeLimit { variable, value: max.into(), in_millis: false };
            if of_account.time() < limit.time() {
                *limit = of_account;
            }
        }
    }

    /// Which loads into a table share a commit group.
    pub fn group_mode(&self, table: &Table) -> GroupCommitMode {
        match (self.sets_group_commit, self.group_commit) {
            (false, GroupCommitMode::Off) => table.properties.group_commit_mode,
            (_, mode) => mode,
        }
    }

    /// How values are converted for a table of this form.
    pub fn rules(&self, form: TableForm) -> &Rules {
        match form {
            TableForm::Olap => &self.rules_olap,
            TableForm::MySql => &self.rules_mysql,
        }
    }

    /// What an INSERT into a table of this form does about what its expressions lose.
    pub fn losses(&self, form: TableForm) -> Losses {
        match form {
            TableForm::Olap => Losses::default(),
            TableForm::MySql => self.losses_mysql,
        }
    }

    /// The fraction of an INSERT's rows that may be filtered out of a table of this form.
    pub fn filter_ratio(&self, form: TableForm) -> Option<f64> {
        self.filter_ratio.filter(|_| form == TableForm::Olap)
    }

    pub fn zone(&self) -> Zone {
        self.rules_mysql.zone
    }
}

fn sql_mode(has: impl Fn(&str) -> bool) -> SqlMode {
    SqlMode {
        pipes_as_concat: has("PIPES_AS_CONCAT"),
        ansi_quotes: has("ANSI_QUOTES"),
        no_backslash_escapes: has("NO_BACKSLASH_ESCAPES"),
        loose_group_by: !has("ONLY_FULL_GROUP_BY"),
        beside_dates: BesideDates::Dates {
            zero_parts: !has("NO_ZERO_IN_DATE"),
            invalid: has("ALLOW_INVALID_DATES"),
        },
    }
}

fn ratio_of(value: &Value) -> f64 {
    match value {
        Value::Double(ratio) => *ratio,
        Value::Int(ratio) => *ratio as f64,
        _ => 0.0,
    }
}

fn keeps(number: impl Fn(&str) -> u64) -> Keeps {
    let count_max = usize::try_from(number("max_error_count")).unwrap_or(0);
    Keeps { count_max, notes: number("sql_notes") != 0 }
}

fn freshness(name: &str) -> Freshness {
    match name {
        "published" => Freshness::Published,
        _ => Freshness::Committed,
    }
}

fn batch_policy(split: bool, number: impl Fn(&str) -> u64) -> BatchPolicy {
    let rows = usize::try_from(number("batch_insert_chunk_size")).unwrap_or(usize::MAX);
    BatchPolicy { split, from_kib: number("max_batch_insert_sql_length"), rows }
}

fn conversion(strict: bool, lax: OnBad, zone: Zone, no_zero_date: bool) -> Rules {
    let on_bad = if strict { OnBad::Refuse } else { lax };
    let zero_dates = if no_zero_date { ZeroDates::Bad } else { ZeroDates::Taken };
    Rules { on_bad, zone, zero_dates }
}

fn id_rules(number: impl Fn(&str) -> u64, zero_is_value: bool) -> IdRules {
    let (increment, offset) = ("auto_increment_increment", "auto_increment_offset");
    IdRules { steps: Steps::new(number(increment), number(offset)), zero_is_value }
}

/// Whether transactions of this isolation level read one snapshot.
pub fn keeps_snapshot(isolation: &str) -> bool {
    matches!(isolation, "REPEATABLE-READ" | "SERIALIZABLE")
}

/// The deadline of a statement and the limit it follows from.
#[derive(Clone, Copy, Debug)]
pub struct StatementDeadline {
    pub limit: TimeLimit,
    pub deadline: Deadline,
}

impl StatementDeadline {
    /// For a statement that begins now.
    pub fn of(statement: &Statement, settings: &Settings, clock: &dyn Clock) -> Self {
        let limit = match statement {
            Statement::Insert(_)
            | Statement::LoadData(_)
            | Statement::Change(_)
            | Statement::ChangeSeveral(_)
            | Statement::CreateTable(_) => settings.insert_timeout,
            _ => settings.query_timeout,
        };
        Self { limit, deadline: Deadline::after(clock, limit.time()) }
    }

    /// For a statement that writes and begins now.
    pub fn of_insert(settings: &Settings, clock: &dyn Clock) -> Self {
        let limit = settings.insert_timeout;
        Self { limit, deadline: Deadline::after(clock, limit.time()) }
    }

    /// For a query that begins now.
    pub fn of_query(settings: &Settings, clock: &dyn Clock) -> Self {
        let limit = settings.query_timeout;
        Self { limit, deadline: Deadline::after(clock, limit.time()) }
    }
}
