//! INSERT of expressions and of queries: the planner makes the values, the rows then take the
//! same road as those of literals.

use freshet_base::budget::Permit;
use freshet_base::clock::Deadline;
use freshet_base::{Error, Result, bail};
use freshet_ingest::Bulk;
use freshet_ingest::decode::{Fault, RowEncoder};
use freshet_query::evaluation::Warnings;
use freshet_query::parser::{Insert, InsertSource, TableName, hex_of_bits};
use freshet_query::result::{Cells, ResultColumn};
use freshet_query::rewrite::refusing_zero;
use freshet_query::{Parameter, RecordBatch, Rows};
use freshet_schema::{Literal, bytes_of_hex, value};
use sqlparser::ast::{Expr, UnaryOperator, Value};

use super::{Reply, bounded, query};
use crate::insert::{self as road, Target};
use crate::session::Session;
use crate::transaction;

/// Memory is taken in steps of at least this, so that few batches ask for it.
const MEMORY_STEP_BYTES: usize = 64 << 10;

/// Runs an INSERT that the scanner did not take.
///
/// # Errors
/// Names, privileges, values, planning, room.
pub async fn insert(
    session: &mut Session,
    insert: &Insert,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    match &insert.source {
        InsertSource::Values(rows) => values(session, insert, rows, parameters).await,
        InsertSource::Query(select) => {
            let (columns, label) = (insert.columns.as_deref(), insert.label.as_deref());
            // Names are looked at before the query runs.
            let form = target(session, &insert.table, columns)?.table.form;
            let mut select = select.clone();
            if session.settings.refuses_zero_divisors(form) {
                refusing_zero(&mut select);
            }
            let (result, rows) = query::run(session, &select, &[], parameters).await?;
            let target = target(session, &insert.table, columns)?;
            let reply = reply_of(session, &target, label).await?;
            from_rows(session, target, reply, result, rows).await
        }
    }
}

fn target(session: &Session, table: &TableName, columns: Option<&[String]>) -> Result<Target> {
    Target::resolve(session, table.database.as_deref(), &table.table, columns)
}

async fn reply_of(session: &Session, target: &Target, label: Option<&str>) -> Result<road::Reply> {
    Ok(match label {
        Some(label) => road::Reply::Labelled(road::claim(session, target, label).await?),
        None => road::Reply::Alone,
    })
}

/// A value of a row: written as a literal, or one of those that were evaluated.
enum Given<'a> {
    Default,
    Literal(Literal<'a>),
    /// The bytes of a hex or bit literal.
    Bits(Vec<u8>),
    /// A string of bytes.
    Bytes(Vec<u8>),
    Evaluated(usize),
}

async fn values(
    session: &mut Session,
    insert: &Insert,
    rows: &[Vec<Option<Expr>>],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let mut target = target(session, &insert.table, insert.columns.as_deref())?;
    target.begin_statement(session.shared.engine.clock().wall_micros());
    let mut exprs = Vec::new();
    let given = rows.iter().map(|row| row.iter().map(|value| given(value, &mut exprs)).collect());
    let given = given.collect::<Vec<Vec<_>>>();
    if session.settings.refuses_zero_divisors(target.table.form) {
        exprs.iter_mut().for_each(refusing_zero);
    }
    let plain = exprs.is_empty() && insert.label.is_none();
    let cells = match exprs.is_empty() {
        true => Vec::new(),
        false => {
            let (cells, warnings) = query::evaluate_apart(session, exprs, parameters).await?;
            note_evaluated(session, &target, warnings)?;
            cells
        }
    };
    let (rows, warnings) = {
        let out = session.buffer.begin();
        let mut encoder = RowEncoder::new(&target.plan, &target.rules, out);
        for row in &given {
            encode_given(&mut encoder, row, &cells)
                .map_err(|fault| fault.error(&target.plan, encoder.row_number()))?;
        }
        (encoder.rows(), encoder.into_warnings())
    };
    road::settle(session, &target, rows as u64, warnings)?;
    let reply = match plain {
        true => road::Reply::Grouped,
        false => reply_of(session, &target, insert.label.as_deref()).await?,
    };
    let affected = road::load(session, &target, rows, reply).await?;
    Ok(Reply::Done { affected })
}

/// Keeps what evaluating had to say; a strict mode stores nothing that was made with a warning.
///
/// # Errors
/// The first warning, where the mode is strict.
fn note_evaluated(session: &mut Session, target: &Target, warnings: Warnings) -> Result<()> {
    match warnings.first.first() {
        Some((code, message)) if target.rules.strict() => Err(Error::new(*code, message.clone())),
        _ => {
            session.diagnostics.evaluated(warnings);
            Ok(())
        }
    }
}

fn given<'a>(value: &'a Option<Expr>, exprs: &mut Vec<Expr>) -> Given<'a> {
    let Some(expr) = value else { return Given::Default };
    if let Some(literal) = literal(expr) {
        return Given::Literal(literal);
    }
    match bytes_of(expr) {
        Some(bytes) => bytes,
        None => {
            exprs.push(expr.clone());
            Given::Evaluated(exprs.len() - 1)
        }
    }
}

/// A literal of bytes, with or without an introducer before it.
fn bytes_of<'a>(expr: &Expr) -> Option<Given<'a>> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::HexStringLiteral(digits) => bytes_of_hex(digits).map(Given::Bits),
            Value::SingleQuotedByteStringLiteral(bits) => {
                bytes_of_hex(&hex_of_bits(bits)?).map(Given::Bits)
            }
            _ => None,
        },
        Expr::Prefixed { prefix, value } if prefix.value.starts_with('_') => match literal(value) {
            Some(Literal::Text(text)) => Some(Given::Bytes(text.to_vec())),
            Some(_) => None,
            None => match bytes_of(value)? {
                Given::Bits(bytes) => Some(Given::Bytes(bytes)),
                _ => None,
            },
        },
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<Literal<'_>> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Null => Some(Literal::Null),
            Value::Boolean(on) => Some(Literal::Int((*on).into())),
            Value::Number(digits, _) => Some(Literal::Number(digits.as_bytes())),
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                Some(Literal::Text(text.as_bytes()))
            }
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => literal(expr),
        _ => None,
    }
}

fn encode_given(
    encoder: &mut RowEncoder<'_>,
    row: &[Given<'_>],
    cells: &[Cells],
) -> Result<(), Box<Fault>> {
    encoder.begin_row();
    for given in row {
        match given {
            Given::Default => encoder.put_default()?,
            Given::Literal(literal) => put(encoder, *literal)?,
            Given::Bits(bytes) => put(encoder, Literal::Binary(bytes))?,
            Given::Bytes(bytes) => put(encoder, Literal::Text(bytes))?,
            Given::Evaluated(at) => put_cell(encoder, &cells[*at], 0, &mut Vec::new())?,
        }
    }
    encoder.end_row()
}

fn put(encoder: &mut RowEncoder<'_>, literal: Literal<'_>) -> Result<(), Box<Fault>> {
    encoder.put(literal, |column, rules, out| value::put(column, literal, rules, out))
}

fn put_cell(
    encoder: &mut RowEncoder<'_>,
    cells: &Cells,
    row: usize,
    text: &mut Vec<u8>,
) -> Result<(), Box<Fault>> {
    if cells.is_null(row) {
        return encoder.put_null();
    }
    match cells {
        Cells::Bool(values) => put(encoder, Literal::Int(values.value(row).into())),
        Cells::Int(values) => put(encoder, Literal::Int(values.value(row).into())),
        Cells::UInt(values) => put(encoder, Literal::Int(values.value(row).into())),
        Cells::Float(values) => put(encoder, Literal::Float(values.value(row).into())),
        Cells::Double(values, _) => put(encoder, Literal::Float(values.value(row))),
        Cells::Text(values) => put(encoder, Literal::Text(values.value(row).as_bytes())),
        Cells::Bytes(values) => put(encoder, Literal::Binary(values.value(row))),
        Cells::Decimal(..) | Cells::Large(..) => {
            text.clear();
            cells.exact(row, text);
            put(encoder, Literal::Number(text))
        }
        Cells::Null | Cells::Date(_) | Cells::DateTime(..) | Cells::Time(..) => {
            text.clear();
            cells.text(row, text);
            let text = &*text;
            encoder.put(Literal::Text(text), |column, rules, out| match column.ty.is_numeric() {
                true => value::put(column, Literal::Number(&digits_of(text)), rules, out),
                false => value::put(column, Literal::Text(text), rules, out),
            })
        }
    }
}

/// The number that a date or a time is: its digits, with its sign and its fraction.
fn digits_of(time: &[u8]) -> Vec<u8> {
    let (sign, rest) = time.split_at(usize::from(time.starts_with(b"-")));
    let digits = rest.iter().filter(|byte| byte.is_ascii_digit() || **byte == b'.');
    sign.iter().chain(digits).copied().collect()
}

/// Loads the rows of a query: as one record when they are few, through files when many.
///
/// # Errors
/// Values, planning, room; nothing was loaded then.
pub async fn from_rows(
    session: &mut Session,
    mut target: Target,
    reply: road::Reply,
    result: Vec<ResultColumn>,
    mut rows: Rows,
) -> Result<Reply> {
    target.begin_statement(session.shared.engine.clock().wall_micros());
    if result.len() != target.plan.width() {
        bail!(ColumnCount, "Column count doesn't match value count at row 1");
    }
    let mut gathered = Gathered::default();
    session.buffer.begin();
    let mut encoded = Vec::new();
    while let Some(batch) = bounded(session, rows.next()).await? {
        let (taken, warnings) =
            encode_batch(&target, &batch, &result, gathered.seen, &mut encoded)?;
        gathered.seen += batch.num_rows() as u64;
        gathered.taken += taken as u64;
        gathered.buffered += taken;
        gathered.warnings.append(warnings);
        gathered.hold(session, encoded.len()).await?;
        if reply.joins_transaction(session) {
            transaction::check_room(session, encoded.len())?;
        } else if !session.shared.engine.takes_record_of(encoded.len()) {
            gathered.spill(session, &target, &mut encoded).await?;
        }
    }
    note_evaluated(session, &target, rows.warnings())?;
    road::settle_query(session, &target, gathered.taken, std::mem::take(&mut gathered.warnings))?;
    if gathered.bulk.is_some() {
        if !matches!(reply, road::Reply::First) {
            transaction::check_writable(session)?;
        }
        gathered.spill(session, &target, &mut encoded).await?;
        let bulk = gathered.bulk.take().expect("just looked at");
        let affected = road::load_files(session, bulk, reply, gathered.taken, &target);
        return Ok(Reply::Done { affected: affected.await? });
    }
    session.buffer.begin().extend_from_slice(&encoded);
    // The load takes memory of its own for them.
    drop((encoded, gathered.held.take()));
    let affected = road::load(session, &target, gathered.buffered, reply).await?;
    Ok(Reply::Done { affected })
}

/// Rows of a query so far.
#[derive(Default)]
struct Gathered {
    /// All that came.
    seen: u64,
    /// Those that are not left out.
    taken: u64,
    /// Those that are only in memory.
    buffered: usize,
    bulk: Option<Bulk>,
    /// The memory of the encoded rows.
    held: Option<Permit>,
    warnings: freshet_ingest::decode::Warnings,
}

impl Gathered {
    /// Counts encoded rows as memory of writes.
    async fn hold(&mut self, session: &Session, bytes: usize) -> Result<()> {
        let held = self.held.as_ref().map_or(0, Permit::bytes);
        let missing = (bytes as u64).saturating_sub(held);
        if missing == 0 {
            return Ok(());
        }
        let engine = &session.shared.engine;
        let patience = Deadline::after(&**engine.clock(), engine.config().load_patience);
        let step = missing.max(MEMORY_STEP_BYTES as u64);
        let more = engine.admission().memory_until(step, patience).await?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Hands encoded rows over to files.
    async fn spill(
        &mut self,
        session: &Session,
        target: &Target,
        encoded: &mut Vec<u8>,
    ) -> Result<()> {
        let engine = &session.shared.engine;
        let mut bulk = match self.bulk.take() {
            Some(bulk) => bulk,
            None => engine.bulk(&target.state, target.plan.schema())?,
        };
        let count = u32::try_from(std::mem::take(&mut self.buffered)).unwrap_or(u32::MAX);
        if count > 0 {
            self.hold(session, encoded.len()).await?;
            let permit = self.held.take().expect("rows have bytes, and their memory is held");
            let bytes = std::mem::take(encoded);
            bulk.push(engine, bytes, count, permit).await?;
        }
        self.bulk = Some(bulk);
        Ok(())
    }
}

/// Encodes the rows of a batch; how many were taken.
fn encode_batch(
    target: &Target,
    batch: &RecordBatch,
    result: &[ResultColumn],
    rows_before: u64,
    out: &mut Vec<u8>,
) -> Result<(usize, freshet_ingest::decode::Warnings)> {
    let cells = Cells::of(batch, result)?;
    let mut text = Vec::new();
    let mut encoder =
        RowEncoder::new(&target.plan, &target.rules, out).counting_from(rows_before + 1);
    for row in 0..batch.num_rows() {
        encoder.begin_row();
        let mut encode = || {
            cells.iter().try_for_each(|cells| put_cell(&mut encoder, cells, row, &mut text))?;
            encoder.end_row()
        };
        encode()
            .map_err(|fault: Box<Fault>| fault.error(&target.plan, rows_before + row as u64 + 1))?;
    }
    Ok((encoder.rows(), encoder.into_warnings()))
}
