//! UPDATE and DELETE of the row with a key that the statement names: on the thread of the
//! connection, without a syntax tree and without a plan (keys.md K3, K22).
//!
//! The key is locked, its row is read at the end of the log, and the values that the statement
//! writes out, or integers moved by such, go into it. What does not fit goes the ordinary road
//! (`statement::change`), errors of names and rights included.

use std::collections::BTreeSet;
use std::sync::Arc;

use freshet_base::{ErrorCode, Lsn, Result};
use freshet_ingest::decode::{Fault, RowEncoder, Warnings};
use freshet_ingest::{
    ChangedRow, LoadBuffer, LoadTarget, OnExisting, OneRow, WaitLimit, Written, change_row,
};
use freshet_meta::Privilege;
use freshet_query::Parameter;
use freshet_query::change::ChangeKind;
use freshet_query::parser::CommandKind;
use freshet_schema::key::KeyCodec;
use freshet_schema::row::RowCells;
use freshet_schema::value::{Encoding, put_i64, put_text};
use freshet_schema::{ColumnType, KeyModel, Literal};
use freshet_storage::resolver::KeyedRows;

use super::assigned::{AssignedColumns, NewValues, touched_beside};
use super::cells::put;
use super::change::was_altered;
use super::changed::affected;
use crate::as_of::AsOf;
use crate::digests::Asked;
use crate::insert::{key_rules, told};
use crate::point::{
    ChangeText, Explained, NewValue, Operand, Values, can_be_compared, cell, hides_tables, int_of,
    key_of, named,
};
use crate::reply::bounded;
use crate::session::Session;
use crate::settings::StatementDeadline;

/// Shapes that a connection keeps.
const SHAPES_MAX: usize = 8;

/// How statements of the last shapes of a connection are carried out, most recently used first.
#[derive(Default)]
pub struct KeyedChanges {
    kept: Vec<Kept>,
}

struct Kept {
    database: Option<Box<str>>,
    shape: Vec<u8>,
    /// How many values the shape has.
    values: usize,
    plan: Box<Plan>,
}

/// How statements of a shape are carried out, as long as catalog and settings stay.
struct Plan {
    as_of: AsOf,
    kind: ChangeKind,
    into: LoadTarget,
    /// For each key column its type, and the index of its value.
    keys: Vec<(ColumnType, usize)>,
    codec: KeyCodec,
    /// Nothing in a DELETE.
    columns: Option<AssignedColumns>,
    /// What each of the columns gets.
    values: Vec<Given>,
}

/// What a column gets.
enum Given {
    /// The value with this index.
    Operand(usize),
    /// The integer of this column, moved by the value with this index.
    Moved { column: usize, by: usize, is_less: bool },
    /// The time of the statement, if anything changes.
    Now,
}

/// Runs a text or prepared statement of which names without a database are of `database`; `None`
/// if it has to go the ordinary road.
///
/// # Errors
/// Values that a column does not take, keys that others hold. Nothing was changed then.
pub async fn change(
    session: &mut Session,
    cache: &mut KeyedChanges,
    database: Option<&str>,
    (sql, parameters): (&[u8], &[Parameter]),
) -> Option<Result<u64>> {
    let first = sql.trim_ascii_start().first()?.to_ascii_lowercase();
    let is_free = !session.is_restricted() && !hides_tables(session);
    if !matches!(first, b'u' | b'd') || !is_free {
        return None;
    }
    if !parameters.is_empty()
        && let Some((plan, operands)) = cache.prepared(session, database, sql)
    {
        return carry_out(session, plan, (&operands, parameters), &Asked::of(sql, sql)).await;
    }
    let text = ChangeText::parse(sql)?;
    let plan = cache.plan(session, database, &text)?;
    carry_out(session, plan, (&text.operands, parameters), &Asked::of(sql, &text.shape)).await
}

/// Carries a statement out whose text has these operands.
async fn carry_out(
    session: &mut Session,
    plan: &mut Plan,
    (operands, parameters): (&[Operand<'_>], &[Parameter]),
    asked: &Asked<'_>,
) -> Option<Result<u64>> {
    let key = plan.key(operands, parameters)?;
    let values = operands.iter().map(|operand| Value::of(*operand, parameters));
    let values = values.collect::<Option<Vec<_>>>()?;
    if let Some(columns) = &mut plan.columns {
        columns.begin_statement(session.now_micros());
    }
    session.diagnostics.clear();
    session.info.clear();
    let clock = session.shared.engine.clock();
    let began = clock.now();
    session.statement_deadline = StatementDeadline::of_insert(&session.settings, &**clock);
    match plan.run(session, key, &values).await {
        // The end of a change of columns lets nobody in, or has made the plan stale.
        Err(error) if error.code() == ErrorCode::TableChanged => None,
        Err(_) if was_altered(session, None, &plan.into) => None,
        done => {
            let done = done.transpose()?;
            let metrics = session.shared.metrics();
            metrics.statements.with_label_values(&["change"]).inc();
            metrics.point_changes.inc();
            session.shared.counters.command(match plan.kind {
                ChangeKind::Delete => CommandKind::Delete,
                ChangeKind::Update { .. } | ChangeKind::Lock { .. } => CommandKind::Update,
            });
            session.count_done(asked, began, done.is_ok());
            Some(done)
        }
    }
}

/// The change of the row with a key that a text is, for EXPLAIN.
pub fn explained(session: &Session, sql: &str, parameters: &[Parameter]) -> Option<Explained> {
    if session.is_restricted() || hides_tables(session) {
        return None;
    }
    let text = ChangeText::parse(sql.as_bytes())?;
    let plan = Plan::of(session, session.database.as_deref(), &text)?;
    plan.key(&text.operands, parameters)?;
    Some(Explained::of(plan.into.table(), plan.into.schema()))
}

impl KeyedChanges {
    /// The plan of a text that is its own shape, which need not be read: all its values are
    /// parameters, in their order.
    fn prepared(
        &mut self,
        session: &Session,
        database: Option<&str>,
        sql: &[u8],
    ) -> Option<(&mut Plan, Vec<Operand<'static>>)> {
        let is_it = |kept: &Kept| kept.shape == sql && kept.database.as_deref() == database;
        let at = self.kept.iter().position(is_it)?;
        self.kept[..=at].rotate_right(1);
        let Kept { values, plan, .. } = &mut self.kept[0];
        plan.is_current(session)
            .then(|| (&mut **plan, (0..*values).map(Operand::Parameter).collect()))
    }

    fn plan(
        &mut self,
        session: &Session,
        database: Option<&str>,
        text: &ChangeText<'_>,
    ) -> Option<&mut Plan> {
        let is_it = |kept: &Kept| kept.shape == text.shape && kept.database.as_deref() == database;
        match self.kept.iter().position(is_it) {
            Some(at) => self.kept[..=at].rotate_right(1),
            None => {
                let plan = Box::new(Plan::of(session, database, text)?);
                self.kept.truncate(SHAPES_MAX - 1);
                let (database, shape) = (database.map(Box::from), text.shape.clone());
                let values = text.operands.len();
                self.kept.insert(0, Kept { database, shape, values, plan });
            }
        }
        let kept = self.kept.first_mut().expect("it was just put there");
        if !kept.plan.is_current(session) {
            *kept.plan = Plan::of(session, database, text)?;
        }
        Some(&mut kept.plan)
    }
}

impl Plan {
    fn is_current(&self, session: &Session) -> bool {
        self.as_of.is_now(session)
    }

    /// The plan for a text; `None` if the ordinary road has to carry it out, or to refuse it.
    fn of(session: &Session, database: Option<&str>, text: &ChangeText<'_>) -> Option<Self> {
        let as_of = AsOf::now(session);
        let database = text.database.map(named).unwrap_or(database)?;
        let name = named(text.table)?;
        let into = session.target(database, name).ok()?;
        let (table, schema) = (into.table(), into.schema());
        let has_key = table.key_model == KeyModel::Primary && !table.has_row_ids();
        if !has_key || session.hides_rows_of(table) {
            return None;
        }
        let position = |name: &[u8]| schema.position(named(name)?);
        let key_of = |&at: &usize| {
            let mut compared = text.compared.iter();
            let compared = compared.find(|compared| position(compared.column) == Some(at))?;
            let ty = schema.columns[at].ty;
            match compared.values {
                Values::Of(from, to) if to == from + 1 && can_be_compared(ty) => Some((ty, from)),
                Values::Of(..) | Values::Between(_) => None,
            }
        };
        let keys = schema.sort_key.iter().map(key_of).collect::<Option<Vec<_>>>()?;
        if keys.len() != text.compared.len() {
            return None;
        }
        let mut given = given(text, &into)?;
        let place = (database, name);
        let key = schema.sort_key.iter().copied();
        let read = key.chain(given.iter().filter_map(|(_, value)| value.reads()));
        let names = |at: usize| schema.columns[at].name.as_str();
        session.check_columns(Privilege::Select, place, read.map(names)).ok()?;
        let (kind, columns) = if text.is_delete() {
            session.authorize_use(Privilege::Delete, database, name).ok()?;
            (ChangeKind::Delete, None)
        } else {
            let set = given.iter().map(|(at, _)| names(*at));
            session.check_columns(Privilege::Update, place, set).ok()?;
            let touched = touched_beside(schema, |at| given.iter().any(|(of, _)| *of == at));
            given.extend(touched.iter().map(|&at| (at, Given::Now)));
            given.sort_by_key(|(at, _)| *at);
            let columns = given.iter().map(|(at, _)| *at).collect();
            let columns = AssignedColumns::new(session, &into, (columns, touched), false).ok()?;
            (ChangeKind::Update { set: Vec::new() }, Some(columns))
        };
        let codec = KeyCodec::of_sort_key(schema);
        let values = given.into_iter().map(|(_, value)| value).collect();
        Some(Self { as_of, kind, into, keys, codec, columns, values })
    }

    /// The key; `None` if a value is not surely one of its column's type.
    fn key(&self, operands: &[Operand<'_>], parameters: &[Parameter]) -> Option<Vec<u8>> {
        let cells = self.keys.iter().map(|&(ty, at)| cell(ty, operands[at], parameters));
        let cells = cells.collect::<Option<Vec<_>>>()?;
        key_of(&self.codec, cells.iter().map(Vec::as_slice))
    }

    /// Changes the row with a key; `None` if the ordinary road has to wait for it, to compute its
    /// values, or to look again behind a TRUNCATE or DROP PARTITION.
    async fn run(
        &self,
        session: &mut Session,
        key: Vec<u8>,
        values: &[Value<'_>],
    ) -> Result<Option<u64>> {
        let (engine, settings) = (Arc::clone(&session.shared.engine), &session.settings);
        let own = session.transactions.writable(&engine, settings)?.cloned();
        let patience = WaitLimit::For(settings.insert_timeout.time());
        let rules = key_rules(session, OnExisting::Replace);
        let keys = KeyedRows::of_keys(std::iter::once(key.as_slice()));
        if own.is_none()
            && let Some(affected) = self.run_alone(session, (&keys, values), patience).await?
        {
            return Ok(Some(affected));
        }
        let mut changing = engine.change(&self.into, own, rules, patience);
        // Who waits for others is shown, can be killed, and leaves with its client.
        if changing.lock_free(&keys, 1)?.is_empty() {
            return Ok(None);
        }
        let old = bounded(session, changing.lock(&keys)).await?.swap_remove(0);
        let (mut gone, mut new) = (BTreeSet::new(), LoadBuffer::default());
        let (matched, mut warnings) = (u64::from(old.is_some()), None);
        if let Some(old) = old {
            let out = new.begin();
            let differs = match &self.columns {
                None => true,
                Some(columns) => {
                    let Some(mut values) = self.new_values(columns, &old, values)? else {
                        return Ok(None);
                    };
                    let differs = columns.apply(&old, (&mut values, 0), out)?;
                    warnings = Some(values.warnings);
                    differs
                }
            };
            match (differs, &self.columns) {
                (true, columns) => {
                    gone.insert(key);
                    new.count(usize::from(columns.is_some()))?;
                }
                (false, _) => new.rest(),
            }
        }
        let changed = gone.len() as u64;
        let Written::Done(loaded) = bounded(session, changing.write(&gone, &new)).await? else {
            return Ok(None);
        };
        Ok(Some(self.affected(session, loaded.lsn, (matched, changed), warnings)))
    }

    /// As [`Self::run`], of a statement that is of no transaction, under the latch of the table;
    /// `None`, too, if others hold the key.
    async fn run_alone(
        &self,
        session: &mut Session,
        (keys, values): (&KeyedRows, &[Value<'_>]),
        patience: WaitLimit,
    ) -> Result<Option<u64>> {
        let engine = Arc::clone(&session.shared.engine);
        let mut warnings = None;
        let decide = |old: Option<&[u8]>, out: &mut Vec<u8>| -> Result<OneRow> {
            let Some(old) = old else { return Ok(OneRow::Kept) };
            let Some(columns) = &self.columns else { return Ok(OneRow::Removed) };
            let Some(mut values) = self.new_values(columns, old, values)? else {
                return Ok(OneRow::Unfit);
            };
            let differs = columns.apply(old, (&mut values, 0), out)?;
            warnings = Some(values.warnings);
            Ok(if differs { OneRow::Written } else { OneRow::Kept })
        };
        let changing = change_row(&engine, &self.into, (keys, None), patience, decide);
        let Some(changed) = bounded(session, changing).await? else { return Ok(None) };
        let ChangedRow { loaded, existed, became } = changed;
        let counts = (u64::from(existed), u64::from(became != OneRow::Kept));
        Ok(Some(self.affected(session, loaded.lsn, counts, warnings.filter(|_| existed))))
    }

    /// What the client is told.
    fn affected(
        &self,
        session: &mut Session,
        lsn: Lsn,
        (matched, changed): (u64, u64),
        warnings: Option<Warnings>,
    ) -> u64 {
        if let Some(warnings) = warnings {
            told(session, warnings);
        }
        let affected = affected(session, &self.kind, lsn, matched, changed);
        session.row_count = i64::try_from(affected).unwrap_or(i64::MAX);
        affected
    }

    /// The values of the row; `None` if they cannot be computed here.
    fn new_values(
        &self,
        columns: &AssignedColumns,
        old: &[u8],
        values: &[Value<'_>],
    ) -> Result<Option<NewValues>> {
        let given = self.values.iter().map(|given| match *given {
            Given::Operand(at) => Some(Some(values[at])),
            Given::Moved { column, by, is_less } => {
                self.moved(old, column, (values[by], is_less)).map(Some)
            }
            Given::Now => Some(None),
        });
        let Some(given) = given.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut new = NewValues::of(1);
        columns.encode(&mut new, 0, |encoder| {
            given.iter().try_for_each(|value| match value {
                Some(value) => value.put(encoder),
                None => encoder.put_default(),
            })
        })?;
        Ok(Some(new))
    }

    /// The integer of a column of the row, moved; `None` where the result has another type, or
    /// where that is refused.
    fn moved<'v>(
        &self,
        old: &[u8],
        column: usize,
        (by, is_less): (Value<'_>, bool),
    ) -> Option<Value<'v>> {
        let schema = self.into.schema();
        let (ty, cells) = (schema.columns[column].ty, RowCells::new(schema));
        let Some(cell) = cells.encoded(old, column) else { return Some(Value::Null) };
        let Value::Int(by) = by else { return None };
        let from = int_of(ty, cell)?;
        let to = if is_less { from - i128::from(by) } else { from + i128::from(by) };
        let to = i64::try_from(to).ok()?;
        (to >= 0 || !ty.is_unsigned()).then_some(Value::Int(to))
    }
}

impl Given {
    /// The column that is read for it.
    fn reads(&self) -> Option<usize> {
        match self {
            Self::Moved { column, .. } => Some(*column),
            Self::Operand(_) | Self::Now => None,
        }
    }
}

/// What columns of the target get, by the number of the column; `None` where a key changes, or
/// where it matters in which order they are assigned.
fn given(text: &ChangeText<'_>, into: &LoadTarget) -> Option<Vec<(usize, Given)>> {
    let schema = into.schema();
    let mut all = Vec::<(usize, Given)>::with_capacity(text.set.len());
    for (name, value) in &text.set {
        let at = schema.position(named(name)?)?;
        let is_odd = schema.sort_key.contains(&at) || schema.columns[at].generated.is_some();
        let is_assigned = |at| all.iter().any(|(of, _)| *of == at);
        if is_odd || is_assigned(at) {
            return None;
        }
        let value = match *value {
            NewValue::Operand(at) => Given::Operand(at),
            NewValue::Moved { column, by, is_less } => {
                let column = schema.position(named(column)?)?;
                let ty = schema.columns[column].ty;
                if is_assigned(column) || !ty.is_integer() || !can_be_compared(ty) {
                    return None;
                }
                Given::Moved { column, by, is_less }
            }
        };
        all.push((at, value));
    }
    Some(all)
}

/// A value that a statement gives.
#[derive(Clone, Copy)]
enum Value<'a> {
    Null,
    Int(i64),
    Double(f64),
    Text(&'a [u8]),
}

impl<'a> Value<'a> {
    /// That of an operand; `None` where the planner says what it means.
    fn of(operand: Operand<'a>, parameters: &'a [Parameter]) -> Option<Self> {
        match operand {
            Operand::Int(value) => i64::try_from(value).ok().map(Self::Int),
            Operand::Text(text) => Some(Self::Text(text)),
            Operand::Parameter(at) => match parameters.get(at)? {
                Parameter::Null => Some(Self::Null),
                Parameter::Int(value) => Some(Self::Int(*value)),
                Parameter::UInt(value) => i64::try_from(*value).ok().map(Self::Int),
                Parameter::Double(value) => Some(Self::Double(*value)),
                // With digits behind the point its text, which columns of text get, is another.
                Parameter::Decimal(value, 0) => i64::try_from(*value).ok().map(Self::Int),
                Parameter::Decimal(..) => None,
                Parameter::Bytes(bytes) => str::from_utf8(bytes).ok().map(|_| Self::Text(bytes)),
                Parameter::Date(_) | Parameter::DateTime(_) | Parameter::Time(_) => None,
            },
        }
    }

    /// Writes it as the planner's value of this kind is written.
    fn put(self, encoder: &mut RowEncoder<'_>) -> std::result::Result<(), Box<Fault>> {
        match self {
            Self::Null => encoder.put_null(),
            Self::Int(value) => encoder.put(Literal::Int(value.into()), |column, rules, out| {
                put_i64(column, value, rules, out)
            }),
            Self::Double(value) => put(encoder, Literal::Float(value)),
            Self::Text(text) => encoder.put(Literal::Text(text), |column, rules, out| {
                put_text(column, text, Encoding::Utf8, rules, out)
            }),
        }
    }
}
