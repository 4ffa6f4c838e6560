//! Point reads: `SELECT .. WHERE key = value`, or a short range of integers, on the thread of the
//! connection, without a plan and without a snapshot (keys.md K22).
//!
//! A text that the planner has planned is kept by its shape, with the columns of its result, so the
//! answer has the same ones. What does not fit goes the ordinary road, errors included.

mod answer;
mod change_text;
mod kept;
mod plain;
mod scanner;
mod text;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use freshet_base::TableId;
use freshet_meta::{Object, Privilege};
use freshet_query::parser::CommandKind;
use freshet_query::result::ResultColumn;
use freshet_query::{Parameter, parameters};
use freshet_schema::key::{KEY_BYTES_MAX, KeyCodec};
use freshet_schema::{ColumnType, Layout, Table, TableSchema};
use freshet_storage::delta::Freshness;
use freshet_storage::point;
use freshet_wire::PacketWriter;
use parking_lot::RwLock;

use crate::as_of::AsOf;
use crate::digests::{Asked, Outcome};
use crate::mysql::results::{self, Encoding};
use crate::session::Session;
use answer::Answer;
pub use change_text::{ChangeText, NewValue};
pub use kept::{AllowedPoints, KeptPoint};
pub use scanner::{Operand, Values};
use text::PointText;

/// Shapes that are kept; when there are more, all are forgotten.
const SHAPES_MAX: usize = 4096;
/// The most keys of a read: longer lists go the ordinary road, on other threads.
const KEYS_MAX: usize = 256;
/// Longer answers go the ordinary road, which accounts for their memory.
const ROWS_BYTES_MAX: usize = 64 << 10;
/// Integers up to this size are exact as doubles, and so as text that is compared with numbers.
const EXACT_MAX: i128 = (1 << 53) - 1;

/// The shapes of point reads, for all sessions.
#[derive(Default)]
pub struct PointPlans {
    by_shape: RwLock<HashMap<Vec<u8>, Arc<PointPlan>>>,
}

/// How texts of one shape are answered.
struct PointPlan {
    database: String,
    table: Arc<Table>,
    codec: KeyCodec,
    /// For each key column its type and its values.
    keys: Vec<(ColumnType, Values)>,
    /// The columns of the result.
    columns: Vec<ResultColumn>,
    answer: Answer,
}

impl PointPlan {
    /// The plan for a text whose result has these columns; `None` if it is no point read.
    fn of(session: &Session, text: &PointText<'_>, columns: &[ResultColumn]) -> Option<Self> {
        if hides_tables(session) {
            return None;
        }
        let database = session.database_of(text.database.map(named).unwrap_or(None)).ok()?;
        let catalog = session.shared.engine.catalog();
        let table = Arc::clone(catalog.table(database, named(text.table)?)?);
        let has_key = table.stores_rows() && !table.has_row_ids();
        if !has_key || session.hides_rows_of(&table) {
            return None;
        }
        let schema = table.schema();
        let key_of = |&at: &usize| {
            let column = &schema.columns[at];
            let is_it = |name: &[u8]| name.eq_ignore_ascii_case(column.name.as_bytes());
            let compared = text.compared.iter().find(|compared| is_it(compared.column))?;
            let is_range = matches!(compared.values, Values::Between(_));
            let fits = can_be_compared(column.ty) && (!is_range || column.ty.is_integer());
            fits.then_some((column.ty, compared.values))
        };
        let keys = schema.sort_key.iter().map(key_of).collect::<Option<Vec<_>>>()?;
        if keys.len() != text.compared.len() {
            return None;
        }
        let answer = Answer::of(text, (database, &table), columns)?;
        let codec = KeyCodec::of_sort_key(schema);
        let (database, columns) = (database.to_owned(), columns.to_vec());
        Some(Self { database, table, codec, keys, columns, answer })
    }

    /// Whether it is for this table as it is now.
    fn is_of(&self, table: &Table) -> bool {
        let (own, now) = (self.table.schema(), table.schema());
        self.table.id == table.id && own.version == now.version
    }

    /// Whether it is for the table as it is now, and the session may read all of its rows.
    fn may_be_read(&self, session: &Session) -> bool {
        let catalog = session.shared.engine.catalog();
        let Some(table) = catalog.table(&self.database, &self.table.name) else { return false };
        let object = Object::Table(&self.database, &self.table.name);
        self.is_of(table)
            && session.authorize(Privilege::Select, object).is_ok()
            && !session.hides_rows_of(table)
    }

    /// The keys to read, in their order; `None` if a value is not surely one of its column's type.
    fn keys(&self, operands: &[Operand<'_>], parameters: &[Parameter]) -> Option<Vec<Vec<u8>>> {
        if let [(ty, Values::Of(from, to))] = self.keys.as_slice()
            && *to == from + 1
        {
            let cell = cell(*ty, operands[*from], parameters)?;
            return Some(vec![key_of(&self.codec, std::iter::once(cell.as_slice()))?]);
        }
        let values = self.keys.iter().map(|&(ty, at)| cells(ty, at, operands, parameters));
        let values = values.collect::<Option<Vec<_>>>()?;
        if values.iter().all(|cells| cells.len() == 1) {
            let key = key_of(&self.codec, values.iter().map(|cells| cells[0].as_slice()))?;
            return Some(vec![key]);
        }
        let mut rows = vec![Vec::<Vec<u8>>::new()];
        for cells in &values {
            if rows.len() * cells.len() > KEYS_MAX {
                return None;
            }
            let longer = rows.iter().flat_map(|row| {
                cells.iter().map(|cell| {
                    let mut row = row.clone();
                    row.push(cell.clone());
                    row
                })
            });
            rows = longer.collect();
        }
        let keys = rows.iter().map(|row| key_of(&self.codec, row.iter().map(Vec::as_slice)));
        let mut keys = keys.collect::<Option<Vec<_>>>()?;
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }
}

/// The key of a row whose key columns have these cells; `None` if it is longer than keys are.
pub fn key_of<'a>(
    codec: &KeyCodec,
    cells: impl Iterator<Item = &'a [u8]> + Clone,
) -> Option<Vec<u8>> {
    if cells.clone().map(<[u8]>::len).sum::<usize>() > KEY_BYTES_MAX {
        return None;
    }
    let mut key = Vec::with_capacity(16);
    codec.put_cells(cells.map(Some), &mut key);
    Some(key)
}

/// Whether a name may be that of a temporary table, which plans of all sessions do not know.
pub fn hides_tables(session: &Session) -> bool {
    !session.temporary.names().is_empty()
}

pub fn named(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok()
}

/// Whether values of the type are equal exactly where their keys are.
pub fn can_be_compared(ty: ColumnType) -> bool {
    let is_number = ty.is_integer()
        && !matches!(ty, ColumnType::Boolean | ColumnType::LargeInt | ColumnType::Year);
    is_number || matches!(ty, ColumnType::VarChar { .. } | ColumnType::Char { .. })
}

/// The cells of a key column that has one of these values.
fn cells(
    ty: ColumnType,
    values: Values,
    operands: &[Operand<'_>],
    parameters: &[Parameter],
) -> Option<Vec<Vec<u8>>> {
    match values {
        Values::Of(from, to) => {
            operands[from..to].iter().map(|operand| cell(ty, *operand, parameters)).collect()
        }
        Values::Between(at) => {
            let bound = |at: usize| int_of(ty, &cell(ty, operands[at], parameters)?);
            let (first, last) = (bound(at)?, bound(at + 1)?);
            if last - first >= KEYS_MAX as i128 {
                return None;
            }
            (first..=last).map(|value| of_int(ty, value)).collect()
        }
    }
}

/// The integer in a cell of this type; `None` if it has none.
pub fn int_of(ty: ColumnType, cell: &[u8]) -> Option<i128> {
    let Layout::Fixed(bytes) = ty.layout() else { return None };
    let is_negative = !ty.is_unsigned() && cell.last().is_some_and(|last| last & 0x80 != 0);
    let mut wide = [if is_negative { 0xff } else { 0 }; 16];
    wide.get_mut(..bytes)?.copy_from_slice(cell.get(..bytes)?);
    Some(i128::from_le_bytes(wide))
}

/// The cell of a key column that is equal to a value; `None` where the planner has to compare.
pub fn cell(ty: ColumnType, operand: Operand<'_>, parameters: &[Parameter]) -> Option<Vec<u8>> {
    match operand {
        Operand::Int(value) => of_int(ty, value),
        Operand::Text(text) => of_text(ty, text),
        Operand::Parameter(at) => match parameters.get(at)? {
            Parameter::Int(value) => of_int(ty, i128::from(*value)),
            Parameter::UInt(value) => of_int(ty, i128::from(*value)),
            Parameter::Double(value) => {
                let is_whole = value.fract() == 0.0 && value.abs() <= EXACT_MAX as f64;
                is_whole.then(|| of_int(ty, *value as i128)).flatten()
            }
            Parameter::Decimal(value, scale) => {
                of_int(ty, parameters::whole_decimal(*value, *scale)?)
            }
            Parameter::Bytes(bytes) => of_text(ty, bytes),
            _ => None,
        },
    }
}

fn of_int(ty: ColumnType, value: i128) -> Option<Vec<u8>> {
    let Layout::Fixed(bytes) = ty.layout() else { return None };
    let bits = if matches!(ty, ColumnType::MediumInt { .. }) { 24 } else { bytes * 8 };
    let range = match ty.is_unsigned() {
        true => 0..1i128 << bits,
        false => -(1i128 << (bits - 1))..1i128 << (bits - 1),
    };
    range.contains(&value).then(|| value.to_le_bytes()[..bytes].to_vec())
}

/// Text is compared as its key says, and with a number as a number.
fn of_text(ty: ColumnType, text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    if ty.is_text() {
        return Some(text.as_bytes().to_vec());
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse::<i128>().ok().filter(|value| is_plain && value.abs() <= EXACT_MAX)?;
    of_int(ty, value)
}

/// The key of a shape among those of all databases.
fn shape_key(database: Option<&str>, text: &PointText<'_>) -> Option<Vec<u8>> {
    let database = match text.database {
        Some(_) => "",
        None => database?,
    };
    Some([database.as_bytes(), &[0], &text.shape].concat())
}

/// Keeps how a text is answered that the planner has planned, if it is a point read.
pub fn learn(session: &Session, sql: &str, columns: &[ResultColumn]) {
    let Some(text) = PointText::parse(sql.as_bytes()) else { return };
    let Some(key) = shape_key(session.database.as_deref(), &text) else { return };
    let plans = &session.shared.points.by_shape;
    let known = plans.read().get(&key).cloned();
    let Some(plan) = PointPlan::of(session, &text, columns) else { return };
    if known.is_some_and(|known| known.is_of(&plan.table)) {
        return;
    }
    let mut plans = plans.write();
    if plans.len() >= SHAPES_MAX {
        plans.clear();
    }
    plans.insert(key, Arc::new(plan));
}

/// What EXPLAIN tells of a text whose result has these columns, if it is a point read.
pub fn explained(session: &Session, sql: &str, columns: &[ResultColumn]) -> Option<Explained> {
    let text = PointText::parse(sql.as_bytes())?;
    let plan = PointPlan::of(session, &text, columns)?;
    Some(Explained::of(&plan.table, plan.table.schema()))
}

/// A statement of the row with a key, for EXPLAIN.
pub struct Explained {
    pub table: String,
    /// The columns of the key.
    pub key: String,
}

impl Explained {
    pub(crate) fn of(table: &Table, schema: &TableSchema) -> Self {
        let key = schema.sort_key.iter().map(|&at| schema.columns[at].name.as_str());
        Self { table: table.name.clone(), key: key.collect::<Vec<_>>().join(", ") }
    }
}

/// Answers a text if it is a point read; false if it has to go the ordinary road.
pub async fn answer_text(
    session: &mut Session,
    allowed: &mut AllowedPoints,
    sql: &[u8],
    writer: &mut PacketWriter,
) -> bool {
    let is_select = sql.trim_ascii_start().first().is_some_and(|byte| matches!(byte, b's' | b'S'));
    if !is_select {
        return false;
    }
    let database = session.database.as_deref();
    let Some((text, plan, _)) = known(session, allowed, database, sql) else { return false };
    let asked = Asked::of(sql, &text.shape);
    answer(session, &asked, (&text.operands, &plan), &[], Encoding::Text, writer).await
}

/// Answers the execution of a statement that was prepared in `database`, as [`answer_text`]; how is
/// kept with the statement.
pub async fn answer_prepared(
    session: &mut Session,
    (database, sql): (Option<&str>, &str),
    (kept, allowed): (&mut Option<Box<KeptPoint>>, &mut AllowedPoints),
    parameters: &[Parameter],
    writer: &mut PacketWriter,
) -> bool {
    let asked = Asked::of(sql.as_bytes(), sql.as_bytes());
    let point = match kept {
        Some(point) if point.is_current(session) => point,
        _ => {
            *kept = None;
            let known = known(session, allowed, database, sql.as_bytes());
            let Some((text, plan, as_of)) = known else { return false };
            match KeptPoint::of(&text.operands, &plan, as_of) {
                Some(point) => kept.insert(Box::new(point)),
                None => {
                    let parts = (text.operands.as_slice(), &*plan);
                    let done = answer(session, &asked, parts, parameters, Encoding::Binary, writer);
                    return done.await;
                }
            }
        }
    };
    answer(session, &asked, point.parts(), parameters, Encoding::Binary, writer).await
}

/// The plan of a text in `database` which the session may read, if there is one, and the state in
/// which it may.
fn known<'a, 'p>(
    session: &Session,
    allowed: &'p mut AllowedPoints,
    database: Option<&str>,
    sql: &'a [u8],
) -> Option<(PointText<'a>, Arc<PointPlan>, &'p AsOf)> {
    if hides_tables(session) {
        return None;
    }
    let text = PointText::parse(sql)?;
    let key = shape_key(database, &text)?;
    let plan = session.shared.points.by_shape.read().get(&key).cloned()?;
    let as_of = allowed.allow(session, &plan)?;
    Some((text, plan, as_of))
}

async fn answer(
    session: &mut Session,
    asked: &Asked<'_>,
    (operands, plan): (&[Operand<'_>], &PointPlan),
    parameters: &[Parameter],
    encoding: Encoding,
    writer: &mut PacketWriter,
) -> bool {
    let Some(keys) = plan.keys(operands, parameters) else { return false };
    let began = session.shared.engine.clock().now();
    let Some(rows) = read(session, plan, &keys).await else { return false };
    let count = match plan.answer.plain() {
        Some(plain) => {
            results::begin(writer, &plan.columns, session);
            rows.iter().for_each(|row| plain.put(writer, encoding, row));
            rows.len()
        }
        None => {
            let (schema, zone) = (plan.table.schema(), session.settings.zone());
            let Some(batch) = plan.answer.batch(schema, rows, zone) else { return false };
            let batch = batch.expect("columns of tables can be shown");
            results::begin(writer, &plan.columns, session);
            results::rows(writer, &batch, &plan.columns, encoding).expect("they have their types");
            batch.num_rows()
        }
    };
    session.diagnostics.clear();
    session.info.clear();
    (session.found_rows, session.row_count) = (count as u64, -1);
    results::end(writer, session, false);
    let metrics = session.shared.metrics();
    metrics.queries.inc();
    metrics.point_reads.inc();
    session.shared.counters.command(CommandKind::Select);
    let ended = session.shared.engine.clock().now();
    metrics.query_seconds.observe(ended.saturating_sub(began).as_secs_f64());
    session.count_digest(asked, (began, ended), Outcome::Sent(count as u64));
    true
}

/// The rows with these keys; `None` where the ordinary road has to look, or to refuse.
async fn read(session: &mut Session, plan: &PointPlan, keys: &[Vec<u8>]) -> Option<Vec<Bytes>> {
    let settings = &session.settings;
    let is_latest = settings.freshness == Freshness::Committed;
    if !is_latest || settings.select_limit < keys.len() as u64 {
        return None;
    }
    if !session.transactions.reads_anew(settings) {
        return None;
    }
    let engine = Arc::clone(&session.shared.engine);
    let id: TableId = plan.table.id;
    let keys = keys.iter().map(Vec::as_slice).collect::<Vec<_>>();
    // What this session has written is seen before it is durable; the reply waits for both.
    let from = engine.horizon().get().max(session.acked);
    let store = (engine.views(), &**engine.pool());
    let found = point::read(store, id, plan.table.schema(), &keys, from).await.ok()??;
    if found.rows.iter().map(Bytes::len).sum::<usize>() > ROWS_BYTES_MAX {
        return None;
    }
    session.acked = session.acked.max(found.at);
    Some(found.rows)
}
