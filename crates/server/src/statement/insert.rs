//! INSERT of expressions and queries: the planner computes the values, which are then encoded and
//! loaded like literals.

mod earlier;
mod selected;

use std::sync::Arc;

use freshet_base::{Result, bail, err};
use freshet_ingest::decode::{Encoded, Fault, RowEncoder, Warnings};
use freshet_ingest::{OnExisting, UsedIds, WaitLimit};
use freshet_query::carried::{self, Carrying};
use freshet_query::change::{Assignments, by_place};
use freshet_query::parser::{Insert, InsertSource, OnDuplicate};
use freshet_query::result::{Cells, ResultColumn};
use freshet_query::snapshot::temporary_names;
use freshet_query::syntax::{Constant, Scalar, Select};
use freshet_query::{Parameter, RecordBatch};
use freshet_schema::{KeyModel, Literal};

pub use selected::Selected;

use super::assigned::{default_of, note};
use super::carried::Carried;
use super::cells::{line_of, line_of_cells, put, put_cell, text_of};
use super::duplicate::insert_or_update;
use super::{act, values};
use crate::accounts::SessionMemory;
use crate::as_of::AsOf;
use crate::insert::{
    Grouping, Target, encoded, key_rules, load, note_alone, note_if_failed, nothing, report,
    resolve, warn,
};
use crate::reply::Reply;
use crate::session::Session;

/// Runs an INSERT that the fast path does not handle.
///
/// # Errors
/// Names, privileges, values, planning, memory.
pub async fn insert(
    session: &mut Session,
    insert: &Insert,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let done = run(session, insert, parameters).await;
    note_if_failed(session, insert, &done);
    done
}

async fn run(session: &mut Session, insert: &Insert, parameters: Vec<Parameter>) -> Result<Reply> {
    match &insert.source {
        InsertSource::Values(rows) => {
            let filled = act::filled(session, rows, &parameters).await?;
            let target = target(session, insert)?;
            let rows = filled.as_ref().map_or(rows, |filled| &filled.rows);
            values(session, insert, target, (rows, parameters)).await
        }
        InsertSource::Query(select) => {
            let label = insert.label.as_deref();
            // Resolve names before the query runs.
            let first = target(session, insert)?;
            let carrying = carrying(insert, &first, select)?;
            let select = carrying.as_ref().map_or(select, |carrying| &carrying.query);
            let losses = session.settings.losses(first.into.table().form);
            let rows = Selected::run(session, select, parameters.clone(), losses).await?;
            let target = target(session, insert)?;
            if let Some(set) = updates(insert, &target)? {
                let count = carrying.as_ref().map_or(0, |carrying| carrying.count);
                let (sources, carried) = collect(session, target, (rows, count)).await?;
                let set = carrying.as_ref().map_or(set, |carrying| &carrying.set);
                let set = (set, carried.as_ref());
                return insert_or_update(session, &sources, &insert.table, set, parameters).await;
            }
            if target.partial.is_some() {
                let (sources, _) = collect(session, target, (rows, 0)).await?;
                let grouping = grouping(session, &sources, label).await?;
                return Ok(Reply::Done { affected: load(session, &sources, grouping).await? });
            }
            let grouping = grouping(session, &target, label).await?;
            from_rows(session, target, grouping, rows).await
        }
    }
}

/// Where the rows of a statement go.
///
/// # Errors
/// Unknown names, missing privileges, columns without a value.
pub fn target(session: &Session, insert: &Insert) -> Result<Target> {
    let Insert { table, partitions, columns, on_duplicate, .. } = insert;
    let (database, columns) = (table.database.as_deref(), columns.as_deref());
    let on_existing = on_existing(on_duplicate, insert.ignores);
    let mut target = resolve(session, database, &table.table, columns, on_existing)?;
    // What is read and what is written is of one table, whatever comes between.
    target.into = target.into.entered()?;
    if !partitions.is_empty() {
        if target.through.is_some() {
            bail!(PartitionClause, "PARTITION () clause on non partitioned table");
        }
        let Some(temporary) = temporary_names(partitions) else {
            target.only(partitions)?;
            return Ok(target);
        };
        let engine = &session.shared.engine;
        let as_of = AsOf::now(session);
        let into = engine.temporary_target(target.into.table(), temporary)?;
        let settings = &session.settings;
        target = Target::new(&session.shared, settings, as_of, into, columns, on_existing)?;
        target.only(temporary)?;
    }
    Ok(target)
}

fn on_existing(on_duplicate: &OnDuplicate, ignores: bool) -> OnExisting {
    match on_duplicate {
        OnDuplicate::Update(_) if ignores => OnExisting::Skip,
        OnDuplicate::Refuse | OnDuplicate::Update(_) => OnExisting::Refuse,
        OnDuplicate::Skip => OnExisting::Skip,
        OnDuplicate::Replace => OnExisting::Replace,
    }
}

/// What ON DUPLICATE KEY UPDATE sets, for a table whose keys are unique; without such a key no row
/// has a duplicate.
///
/// # Errors
/// Where it is not supported.
fn updates<'a>(insert: &'a Insert, target: &Target) -> Result<Option<&'a Assignments>> {
    let OnDuplicate::Update(set) = &insert.on_duplicate else { return Ok(None) };
    let table = target.into.table();
    match table.key_model {
        KeyModel::Duplicate | KeyModel::Primary => {}
        KeyModel::Unique | KeyModel::Aggregate => bail!(
            NotSupported,
            "ON DUPLICATE KEY UPDATE is not supported for table '{}', where rows of one key become \
             one by its UNIQUE KEY or AGGREGATE KEY: insert whole rows",
            table.name
        ),
    }
    if let Some(key) = table.unenforced_key() {
        bail!(
            NotSupported,
            "ON DUPLICATE KEY UPDATE is not supported for table '{}', whose key '{}' is not \
             enforced: use INSERT",
            table.name,
            key.name
        );
    }
    if table.key_model == KeyModel::Duplicate {
        return Ok(None);
    }
    if insert.label.is_some() {
        bail!(NotSupported, "INSERT WITH LABEL cannot have ON DUPLICATE KEY UPDATE");
    }
    Ok(Some(set))
}

/// What ON DUPLICATE KEY UPDATE sets, where it names columns of the new row by their place.
fn placed(insert: &Insert, target: &Target) -> Result<Option<Assignments>> {
    let (OnDuplicate::Update(set), Some(count)) = (&insert.on_duplicate, insert.named_by_place)
    else {
        return Ok(None);
    };
    let names = match &target.through {
        Some(view) => view.names().collect::<Vec<_>>(),
        None => target.plan.names().collect(),
    };
    by_place(set, count, &names).map(Some)
}

async fn grouping(session: &Session, target: &Target, label: Option<&str>) -> Result<Grouping> {
    match label {
        Some(label) => Grouping::labelled_alone(session, target, label).await,
        None => Ok(Grouping::Alone),
    }
}

/// A value of a row: a literal, or the index of an evaluated expression.
enum RowValue<'a> {
    Default,
    Literal(Literal<'a>),
    /// The bytes of a hex or bit literal.
    Bits(Vec<u8>),
    /// A binary string.
    Bytes(Vec<u8>),
    Evaluated(usize),
}

/// Loads rows of expressions.
///
/// # Errors
/// Values, planning, memory; nothing was loaded then.
pub async fn values(
    session: &mut Session,
    insert: &Insert,
    mut target: Target,
    (rows, parameters): (&[Vec<Option<Scalar>>], Vec<Parameter>),
) -> Result<Reply> {
    target.begin_statement(session);
    let resolved = earlier::resolved(session, insert, &target, rows, &parameters).await?;
    let rows = resolved.as_deref().unwrap_or(rows);
    let mut exprs = Vec::new();
    let values =
        rows.iter().map(|row| row.iter().map(|value| row_value(value, &mut exprs)).collect());
    let values = values.collect::<Vec<Vec<_>>>();
    let placed = placed(insert, &target)?;
    let set = updates(insert, &target)?.map(|set| placed.as_ref().unwrap_or(set));
    let plain = exprs.is_empty();
    let cells = match exprs.is_empty() {
        true => Vec::new(),
        false => {
            let losses = session.settings.losses(target.into.table().form);
            let target_of = (&target.into, target.through.as_deref());
            let defaults =
                |expr: Scalar| expr.with_defaults(|name| default_of(session, target_of, name));
            let exprs = exprs.into_iter().map(defaults).collect::<Result<_>>()?;
            let (cells, warnings) =
                values::evaluate_apart(session, exprs, parameters.clone(), losses).await?;
            note(session, &target.rules, warnings)?;
            cells
        }
    };
    let done = {
        let out = session.buffer.begin();
        let mut encoder = RowEncoder::new(&target.plan, &target.rules, out);
        for row in &values {
            encode_row(&mut encoder, row, &cells)
                .map_err(|fault| fault.error(&target.plan, encoder.row_number()))?;
            encoder.source(|| line_of(row.iter().map(|value| value.text(&cells))));
        }
        encoder.finish()?
    };
    encoded(session, &target, done)?;
    if let Some(set) = set {
        return insert_or_update(session, &target, &insert.table, (set, None), parameters).await;
    }
    let grouping = match (plain, insert.label.as_deref()) {
        _ if insert.overwrites => Grouping::OfNewTable,
        (true, None) => Grouping::Shared,
        (true, Some(label)) => Grouping::labelled(session, &target, label).await?,
        (false, label) => grouping(session, &target, label).await?,
    };
    let affected = load(session, &target, grouping).await?;
    Ok(Reply::Done { affected })
}

impl RowValue<'_> {
    /// As it is shown with a row that is left out.
    fn text(&self, cells: &[Cells]) -> Option<Vec<u8>> {
        match self {
            Self::Default => Some(b"DEFAULT".to_vec()),
            Self::Literal(Literal::Null) => None,
            Self::Literal(Literal::Int(number)) => Some(number.to_string().into_bytes()),
            Self::Literal(Literal::Number(text) | Literal::Text(text)) => Some(text.to_vec()),
            Self::Literal(_) => Some(Vec::new()),
            Self::Bits(bytes) | Self::Bytes(bytes) => Some(bytes.clone()),
            Self::Evaluated(at) => text_of(&cells[*at], 0),
        }
    }
}

fn row_value<'a>(value: &'a Option<Scalar>, exprs: &mut Vec<Scalar>) -> RowValue<'a> {
    let Some(expr) = value else { return RowValue::Default };
    match expr.constant() {
        Some(Constant::Null) => RowValue::Literal(Literal::Null),
        Some(Constant::Bool(on)) => RowValue::Literal(Literal::Int(on.into())),
        Some(Constant::Number(digits)) => RowValue::Literal(Literal::Number(digits.as_bytes())),
        Some(Constant::Text(text)) => RowValue::Literal(Literal::Text(text.as_bytes())),
        Some(Constant::Bits(bytes)) => RowValue::Bits(bytes),
        Some(Constant::Bytes(bytes)) => RowValue::Bytes(bytes),
        None => {
            exprs.push(expr.clone());
            RowValue::Evaluated(exprs.len() - 1)
        }
    }
}

fn encode_row(
    encoder: &mut RowEncoder<'_>,
    row: &[RowValue<'_>],
    cells: &[Cells],
) -> Result<(), Box<Fault>> {
    encoder.begin_row();
    for value in row {
        match value {
            RowValue::Default => encoder.put_default()?,
            RowValue::Literal(literal) => put(encoder, *literal)?,
            RowValue::Bits(bytes) => put(encoder, Literal::Binary(bytes))?,
            RowValue::Bytes(bytes) => put(encoder, Literal::Text(bytes))?,
            RowValue::Evaluated(at) => put_cell(encoder, &cells[*at], 0, &mut Vec::new())?,
        }
    }
    encoder.end_row()
}

/// Loads the rows of a query: a few as one log record, many through files.
///
/// # Errors
/// Values, planning, memory; nothing was loaded then.
pub async fn from_rows(
    session: &mut Session,
    mut target: Target,
    grouping: Grouping,
    mut rows: Selected,
) -> Result<Reply> {
    target.begin_statement(session);
    target.plan.check_generated()?;
    if rows.columns.len() != target.plan.width() {
        bail!(ColumnCount, "Column count doesn't match value count at row 1");
    }
    let engine = Arc::clone(&session.shared.engine);
    let own = match grouping {
        Grouping::OfNewTable => None,
        _ => session.transactions.writable(&engine, &session.settings)?.cloned(),
    };
    let patience = WaitLimit::For(session.settings.insert_timeout.time());
    let why_alone = grouping.why_alone(own.is_some(), &target);
    note_alone(session, &target, why_alone);
    let destination = grouping.destination(own.as_ref(), &session.settings, &target)?;
    let load = engine.load(&target.into, destination, patience);
    let mut load = load.with_keys(key_rules(session, target.on_existing));
    let (mut seen, mut taken, mut warnings) = (0, 0, Warnings::default());
    session.buffer.begin();
    while let Some(batch) = rows.next(session).await? {
        let out = session.buffer.resume();
        let done = encode_batch(&target, &batch, &rows.columns, seen, out)?;
        session.buffer.count(done.rows)?;
        session.buffer.use_ids(done.ids);
        session.buffer.mark(&done.deletes);
        seen += batch.num_rows() as u64;
        taken += done.rows as u64;
        warnings.append(done.warnings);
        load.reserve_for(&mut session.buffer).await?;
    }
    note(session, &target.rules, rows.warnings())?;
    warn(session, &target, taken, warnings)?;
    let affected = match taken {
        0 => nothing(session),
        _ => {
            let ids = UsedIds::join(load.ids(), session.buffer.ids());
            let loaded = load.commit(&mut session.buffer).await?;
            report(session, &target, loaded, (taken, ids)).await
        }
    };
    Ok(Reply::Done { affected })
}

/// What a query carries for ON DUPLICATE KEY UPDATE beside the rows of its INSERT.
fn carrying(insert: &Insert, target: &Target, query: &Select) -> Result<Option<Carrying>> {
    let Some(set) = updates(insert, target)? else { return Ok(None) };
    let is_column = |name: &str| match &target.through {
        Some(view) => view.names().any(|known| known.eq_ignore_ascii_case(name)),
        None => target.into.schema().position(name).is_some(),
    };
    carried::carrying(query, (&insert.table.table, is_column), set)
}

/// Encodes all rows of a query into the session's buffer, but for the last columns, of which so
/// many are carried.
async fn collect(
    session: &mut Session,
    mut target: Target,
    (mut rows, carried): (Selected, usize),
) -> Result<(Target, Option<Carried>)> {
    target.begin_statement(session);
    target.plan.check_generated()?;
    let columns = std::mem::take(&mut rows.columns);
    let (result, beside) = columns.split_at(columns.len() - carried);
    if result.len() != target.plan.width() {
        bail!(ColumnCount, "Column count doesn't match value count at row 1");
    }
    let mut kept = Vec::new();
    let mut memory = SessionMemory::new(&session.usage);
    let limit = session.shared.engine.config().wal_load_bytes_max;
    let (mut seen, mut taken, mut warnings) = (0, 0, Warnings::default());
    session.buffer.begin();
    while let Some(batch) = rows.next(session).await? {
        let (own, more) = divided(&batch, result.len())?;
        let out = session.buffer.resume();
        let done = encode_batch(&target, &own, result, seen, out)?;
        session.buffer.count(done.rows)?;
        if carried > 0 {
            if done.rows != batch.num_rows() {
                bail!(
                    NotSupported,
                    "ON DUPLICATE KEY UPDATE of columns of a SELECT, some of whose rows IGNORE \
                     leaves out, is not supported: use VALUES(column)"
                );
            }
            memory.resize(memory.bytes() + more.get_array_memory_size() as u64)?;
            kept.push(more);
        }
        session.buffer.use_ids(done.ids);
        session.buffer.mark(&done.deletes);
        seen += batch.num_rows() as u64;
        taken += done.rows as u64;
        warnings.append(done.warnings);
        if session.buffer.payload_bytes() as u64 > limit.bytes() {
            bail!(
                OutOfRoom,
                "an INSERT that looks at stored rows (ON DUPLICATE KEY UPDATE, or of some columns) \
                 takes at most {limit} of rows at once; select fewer"
            );
        }
    }
    note(session, &target.rules, rows.warnings())?;
    warn(session, &target, taken, warnings)?;
    let carried = (carried > 0).then(|| Carried::of(beside, &kept, memory)).transpose()?;
    Ok((target, carried))
}

/// The first columns of a batch, of which there are so many, and the others.
fn divided(batch: &RecordBatch, first: usize) -> Result<(RecordBatch, RecordBatch)> {
    let of = |places: std::ops::Range<usize>| {
        let part = batch.project(&places.collect::<Vec<_>>());
        part.map_err(|error| err!(Internal, "a result lacks a column: {error}"))
    };
    Ok((of(0..first)?, of(first..batch.num_columns())?))
}

/// Encodes the rows of a batch.
fn encode_batch(
    target: &Target,
    batch: &RecordBatch,
    result: &[ResultColumn],
    rows_before: u64,
    out: &mut Vec<u8>,
) -> Result<Encoded> {
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
        encoder.source(|| line_of_cells(&cells, row));
    }
    encoder.finish()
}
