//! Sends blocks as INSERTs, to servers that have no Stream Load.
//!
//! A block is one transaction. It begins by putting the block's label into a table beside those
//! that are loaded: a label that is there belongs to a block that was committed.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::LoadArgs;
use crate::connection::{Connection, SqlError};
use crate::exit::{Failure, Result};
use crate::fields::Fields;
use crate::format::Format;
use crate::http::{Answer, Loaded, Rejected};
use crate::job::Job;
use crate::json_lines::{each_record, shown};
use crate::schema::{ColumnInfo, quoted, text_literal};
use crate::split::Block;

/// The table of labels, in each database that is loaded into.
const LABELS: &str = "_freshet_load_labels";
/// The size from which on an INSERT takes no further row.
const STATEMENT_BYTES: usize = 1 << 20;
const DUPLICATE_KEY: u16 = 1062;
/// What another attempt may find better: no connection, no room, lock waits, deadlocks, a server
/// that starts or ends, one that is read-only for a while.
const MAY_PASS: [u16; 9] = [1040, 1041, 1053, 1203, 1205, 1213, 1290, 3100, 3101];
/// Values that do not fit, and keys that are there already.
const BAD_ROW: [u16; 11] =
    [1048, DUPLICATE_KEY, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 3140, 4025];

pub struct SqlLoader<'a> {
    args: &'a LoadArgs,
    connection: Option<Connection>,
}

/// A record as a row of INSERT, or why it cannot be one.
struct Row {
    line: u64,
    record: String,
    values: std::result::Result<String, String>,
}

impl<'a> SqlLoader<'a> {
    pub fn new(args: &'a LoadArgs) -> Self {
        Self { args, connection: None }
    }

    /// Creates the table of labels.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn prepare(connection: &mut Connection, database: &str) -> Result<()> {
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {}.{} (label VARCHAR(128) NOT NULL PRIMARY KEY)",
            quoted(database),
            quoted(LABELS)
        );
        connection
            .execute(sql)
            .map(drop)
            .map_err(|error| Failure::failed(format!("{database}.{LABELS}: {error}")))
    }

    /// Sends a block.
    pub fn send(&mut self, job: &Job, block: &Block, label: &str) -> Answer {
        let opened = match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.open(),
        };
        let sent = opened.and_then(|mut connection| {
            let answer = self.transaction(&mut connection, job, block, label)?;
            self.connection = Some(connection);
            Ok(answer)
        });
        match sent {
            Ok(answer) => answer,
            Err(SqlError::Refused { errno, message }) if !MAY_PASS.contains(&errno) => {
                Answer::Refused(format!("error {errno}: {message}"))
            }
            // The connection was dropped, and its transaction with it.
            Err(error) => Answer::Again(error.to_string()),
        }
    }

    fn open(&self) -> std::result::Result<Connection, SqlError> {
        let mut connection = Connection::open(&self.args.server)?;
        let strict = if self.args.lax { "" } else { "STRICT_ALL_TABLES," };
        connection.execute(format!("SET sql_mode = '{strict}NO_AUTO_VALUE_ON_ZERO'"))?;
        let zone = text_literal(&self.args.time_zone);
        connection.execute(format!("SET time_zone = {zone}"))?;
        Ok(connection)
    }

    fn transaction(
        &self,
        connection: &mut Connection,
        job: &Job,
        block: &Block,
        label: &str,
    ) -> std::result::Result<Answer, SqlError> {
        connection.execute("BEGIN")?;
        let labels = format!("{}.{}", quoted(&job.table.database), quoted(LABELS));
        let label = format!("INSERT INTO {labels} VALUES ({})", text_literal(label));
        match connection.execute(label) {
            Ok(_) => {}
            Err(SqlError::Refused { errno: DUPLICATE_KEY, .. }) => {
                connection.execute("ROLLBACK")?;
                return Ok(Answer::LoadedBefore);
            }
            Err(error) => return Err(error),
        }
        let names: Vec<_> = job.stored_columns().map(|column| quoted(&column.name)).collect();
        let insert = format!("INSERT INTO {} ({}) VALUES ", job.table.quoted(), names.join(", "));
        let (mut loaded, mut bad) = (0, Vec::new());
        for batch in batches(rows_of(job, block)) {
            loaded += self.insert(connection, &insert, batch, &mut bad)?;
        }
        let rejected = rejected(job, &bad);
        let allowed = match self.args.max_filter_ratio {
            Some(ratio) => bad.len() as f64 <= ratio * (bad.len() as u64 + loaded) as f64,
            None => bad.is_empty() || self.args.max_errors > 0,
        };
        if !allowed {
            connection.execute("ROLLBACK")?;
            return Ok(Answer::BadRows(rejected));
        }
        connection.execute("COMMIT")?;
        Ok(Answer::Loaded(Loaded { rows: loaded, rejected }))
    }

    /// Inserts rows; those that are bad go to `bad`. Returns how many are good.
    fn insert(
        &self,
        connection: &mut Connection,
        insert: &str,
        batch: Vec<Row>,
        bad: &mut Vec<(u64, String, String)>,
    ) -> std::result::Result<u64, SqlError> {
        let mut sql = insert.to_owned();
        let mut good = Vec::with_capacity(batch.len());
        for row in batch {
            match row.values {
                Ok(values) => {
                    sql.push_str(if good.is_empty() { "" } else { ", " });
                    sql.push_str(&values);
                    good.push((row.line, row.record, values));
                }
                Err(reason) => bad.push((row.line, row.record, reason)),
            }
        }
        if good.is_empty() {
            return Ok(0);
        }
        match connection.execute(&sql) {
            Ok(_) => return Ok(good.len() as u64),
            Err(SqlError::Refused { errno, .. }) if BAD_ROW.contains(&errno) => {}
            Err(error) => return Err(error),
        }
        // The statement has done nothing. One by one, the good rows go in and the bad ones show.
        let mut loaded = 0;
        for (line, record, values) in good {
            match connection.execute(format!("{insert}{values}")) {
                Ok(_) => loaded += 1,
                Err(SqlError::Refused { errno, message }) if BAD_ROW.contains(&errno) => {
                    bad.push((line, record, format!("error {errno}: {message}")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(loaded)
    }
}

/// What says which rows are bad, as a log of lines.
fn rejected(job: &Job, bad: &[(u64, String, String)]) -> Rejected {
    let name = job.input.name();
    let line = |(line, record, reason): &(u64, String, String)| {
        format!("{name}:{line}: {reason}: {record}\n")
    };
    let log = bad.iter().map(line).collect();
    Rejected { count: bad.len() as u64, log, is_located: true }
}

/// Rows by statement.
fn batches(rows: Vec<Row>) -> Vec<Vec<Row>> {
    let mut batches = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for row in rows {
        bytes += row.values.as_ref().map_or(0, String::len);
        batch.push(row);
        if bytes >= STATEMENT_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
    }
    batches.push(batch);
    batches
}

fn rows_of(job: &Job, block: &Block) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut fields = Fields::default();
    let is_one_text = matches!(job.input.format, Format::Tsv { .. }) && job.columns.len() == 1;
    each_record(&job.input.format, block, |record, line| {
        let values = match &job.input.format {
            Format::Parquet => unreachable!("Parquet goes by Stream Load"),
            Format::Json if record.trim_ascii().is_empty() => return,
            Format::Json => object_values(job, record),
            format => match fields.read(format, record) {
                Err(_) => Err("a field is not closed before the end of the input".to_owned()),
                Ok(()) if fields.is_blank() && !is_one_text => return,
                Ok(()) => field_values(job, &fields),
            },
        };
        rows.push(Row { line, record: shown(record), values });
    });
    rows
}

fn field_values(job: &Job, fields: &Fields) -> std::result::Result<String, String> {
    if fields.len() != job.columns.len() {
        return Err(format!("it has {} fields instead of {}", fields.len(), job.columns.len()));
    }
    let mut values = String::from("(");
    for (field, (name, position)) in fields.iter().zip(&job.columns) {
        let Some(column) = position.map(|at| &job.table.columns[at]) else { continue };
        if values.len() > 1 {
            values.push_str(", ");
        }
        match field.map(std::str::from_utf8) {
            None => values.push_str("NULL"),
            Some(Err(_)) => return Err(format!("'{name}' is not UTF-8")),
            Some(Ok(text)) => put_value(text, column, &mut values),
        }
    }
    values.push(')');
    Ok(values)
}

fn object_values(job: &Job, record: &[u8]) -> std::result::Result<String, String> {
    let object: HashMap<String, &RawValue> =
        serde_json::from_slice(record).map_err(|error| error.to_string())?;
    let given = |name: &str| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    let mut values = String::from("(");
    for (name, position) in &job.columns {
        let Some(column) = position.map(|at| &job.table.columns[at]) else { continue };
        if values.len() > 1 {
            values.push_str(", ");
        }
        let Some((_, raw)) = given(name) else {
            values.push_str("DEFAULT");
            continue;
        };
        match serde_json::from_str(raw.get()).unwrap_or(Value::Null) {
            Value::Null => values.push_str("NULL"),
            Value::Bool(value) => values.push(if value { '1' } else { '0' }),
            Value::String(text) if !column.is_json() => {
                put_value(&text, column, &mut values);
            }
            _ => put_value(raw.get(), column, &mut values),
        }
    }
    values.push(')');
    Ok(values)
}

/// A value in SQL: the bytes of `0x..` in a binary column, the number of bits, a text elsewhere.
fn put_value(text: &str, column: &ColumnInfo, out: &mut String) {
    if column.is_bits && !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) {
        out.push_str(text);
        return;
    }
    let digits = text.strip_prefix("0x").filter(|digits| {
        column.is_binary
            && digits.len().is_multiple_of(2)
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    if let Some(digits) = digits {
        out.push_str("X'");
        out.push_str(digits);
        out.push('\'');
        return;
    }
    out.push('\'');
    for character in text.chars() {
        match character {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            other => out.push(other),
        }
    }
    out.push('\'');
}
