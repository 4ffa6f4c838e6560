//! UPDATE and DELETE of tables without a unique key (RFC 0022): the planner finds whole rows, and a
//! record removes rows with the same values and adds what they become.

use std::collections::BTreeSet;
use std::sync::Arc;

use freshet_base::{Result, bail, err};
use freshet_ingest::{Affected, Copies, LoadTarget, OwnRows, RowChange, WaitLimit};
use freshet_query::change::{Change, ChangeKind};
use freshet_query::shown::stored;
use freshet_query::syntax::Select;
use freshet_query::{Parameter, RecordBatch};
use freshet_schema::key::{KeyCodec, Keys};
use freshet_schema::row::RowCells;
use freshet_schema::{KeyModel, TableSchema, encode};

use super::assigned::{Assigned, given, note, rules};
use super::changed::{reads, refused, report};
use super::query;
use crate::accounts::SessionMemory;
use crate::given::GivenRows;
use crate::reply::{Reply, bounded, check_running};
use crate::session::Session;

/// Rows that are changed without a look whether the statement was ended.
const CHANGED_AT_ONCE: usize = 4096;

/// Runs UPDATE or DELETE, in a transaction or by itself; `None` if others wrote the rows meanwhile.
///
/// # Errors
/// Names, expressions, values; what an AGGREGATE KEY does not allow.
pub async fn change(
    session: &mut Session,
    change: &Change,
    (target, own): (&LoadTarget, Option<OwnRows>),
    parameters: &[Parameter],
) -> Result<Option<Reply>> {
    if target.table().key_model == KeyModel::Aggregate {
        check_aggregate(change, target)?;
        if own.is_some() {
            return Err(refused(change, target));
        }
    }
    let unkeyed = Unkeyed::new(session, change, (target, own))?;
    let Some(found) = unkeyed.find(session, parameters).await? else { return Ok(None) };
    let looked = unkeyed.decide(session, found, parameters).await?;
    let matched = looked.matched;
    Ok(match unkeyed.write(session, &looked).await? {
        Affected::Rows(rows, loaded) => {
            Some(report(session, &change.kind, (target, &loaded), matched.max(rows), rows))
        }
        Affected::Overtaken => None,
    })
}

/// A change of a table whose rows are known by their values.
pub struct Unkeyed<'a> {
    change: &'a Change,
    target: &'a LoadTarget,
    own: Option<OwnRows>,
    /// The values of an UPDATE, and the query of them.
    plan: Option<(Assigned, Select)>,
}

/// Rows that were found.
pub struct FoundRows {
    rows: Vec<Vec<u8>>,
    memory: SessionMemory,
}

/// Rows and what they become.
pub struct LookedRows {
    changes: Vec<RowChange>,
    pub matched: u64,
    _memory: SessionMemory,
}

impl LookedRows {
    /// Leaves out the rows that `other` removes.
    pub fn forget(&mut self, other: &Self) {
        let gone = other.changes.iter().map(|change| &change.old).collect::<BTreeSet<_>>();
        self.changes.retain(|change| !gone.contains(&change.old));
    }
}

impl<'a> Unkeyed<'a> {
    /// # Errors
    /// 1054 and 1093.
    pub fn new(
        session: &Session,
        change: &'a Change,
        (target, own): (&'a LoadTarget, Option<OwnRows>),
    ) -> Result<Self> {
        let (plan, computed) = Assigned::of(session, target, change)?;
        Ok(Self { change, target, own, plan: plan.map(|plan| (plan, computed)) })
    }

    /// Finds the rows; `None` if their table is just being altered.
    ///
    /// # Errors
    /// Expressions.
    pub async fn find(
        &self,
        session: &mut Session,
        parameters: &[Parameter],
    ) -> Result<Option<FoundRows>> {
        let found = candidates(session, self.change, self.target, parameters).await?;
        Ok(found.map(|(rows, memory)| FoundRows { rows, memory }))
    }

    /// Computes what the rows become.
    ///
    /// # Errors
    /// Expressions and values.
    pub async fn decide(
        &self,
        session: &mut Session,
        found: FoundRows,
        parameters: &[Parameter],
    ) -> Result<LookedRows> {
        let FoundRows { rows, memory } = found;
        let (changes, matched) = match &self.plan {
            None => {
                let removed = rows.into_iter().map(|old| RowChange { old, new: None });
                (removed.collect(), 0)
            }
            Some((plan, computed)) => {
                let is_own = !reads(session, self.change, self.target)?;
                let found = (self.change, self.target, is_own);
                updates(session, found, (plan, computed), rows, parameters).await?
            }
        };
        Ok(LookedRows { changes, matched, _memory: memory })
    }

    /// Changes the rows, unless others have done so meanwhile.
    ///
    /// # Errors
    /// Those of admission and appending. Nothing was changed then.
    pub async fn write(&self, session: &mut Session, looked: &LookedRows) -> Result<Affected> {
        let copies = if self.change.is_joined() { Copies::All } else { Copies::One };
        let engine = Arc::clone(&session.shared.engine);
        let patience = WaitLimit::For(session.settings.insert_timeout.time());
        check_running(session)?;
        let (own, changes) = (self.own.as_ref(), &looked.changes);
        let changed = engine.change_rows(self.target, own, changes, copies, patience);
        bounded(session, changed).await
    }
}

/// What rows with an AGGREGATE KEY, which are stored in parts, allow: DELETE of whole keys.
fn check_aggregate(change: &Change, target: &LoadTarget) -> Result<()> {
    let (name, schema) = (&target.table().name, target.schema());
    if change.kind != ChangeKind::Delete {
        bail!(
            NotSupported,
            "UPDATE is not supported for table '{name}', which has an AGGREGATE KEY: load rows \
             that change its values by their functions"
        );
    }
    if change.is_joined() || change.is_limited() {
        bail!(
            NotSupported,
            "DELETE with LIMIT or of joined tables is not supported for table '{name}', which has \
             an AGGREGATE KEY"
        );
    }
    let of_key = |column: &String| {
        let key = schema.sort_key.iter().map(|&at| &schema.columns[at].name);
        key.clone().any(|name| name.eq_ignore_ascii_case(column))
    };
    let Some(columns) = change.condition_columns() else {
        bail!(
            NotSupported,
            "DELETE with a subquery is not supported for table '{name}', which has an AGGREGATE KEY"
        );
    };
    match columns.iter().find(|column| schema.position(column).is_some() && !of_key(column)) {
        None => Ok(()),
        Some(column) => Err(err!(
            NotSupported,
            "DELETE from table '{name}', which has an AGGREGATE KEY, may name columns of the key \
             alone in its WHERE, and not '{column}'"
        )),
    }
}

/// The rows that the statement would change if it ran now, encoded with the columns of the table;
/// of a table with an AGGREGATE KEY rows with their key alone. Where tables are joined, each once.
/// `None` if the table is just being altered.
async fn candidates(
    session: &mut Session,
    change: &Change,
    target: &LoadTarget,
    parameters: &[Parameter],
) -> Result<Option<(Vec<Vec<u8>>, SessionMemory)>> {
    let schema = target.schema();
    let is_combined = schema.is_combined();
    let read = match is_combined {
        false => Arc::clone(schema),
        true => {
            let key = schema.sort_key.iter().map(|&at| schema.columns[at].clone());
            let count = schema.sort_key.len();
            Arc::new(TableSchema::new(schema.version, key.collect(), (0..count).collect()))
        }
    };
    let names = read.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
    let present = read.columns.iter().find(|column| !column.nullable);
    let select = change.candidates(&names, present.map(|column| column.name.as_str()));
    let reads = reads(session, change, target)?;
    let of = (target, change, reads);
    let found = query::find(session, &select, parameters.to_vec(), of).await?;
    let Some((_, mut found, _)) = found else { return Ok(None) };
    let mut memory = SessionMemory::new(&session.usage);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(batch) = bounded(session, found.next()).await? {
        check_running(session)?;
        let before = rows.len();
        let batch = of_types(&batch, &read)?;
        match is_combined {
            false => put_rows(&batch, &read, &mut rows),
            true => put_keys(&batch, &read, schema, &mut rows)?,
        }
        bytes += rows[before..].iter().map(|row| row.len() as u64 + 64).sum::<u64>();
        memory.resize(2 * bytes)?;
    }
    note(session, &rules(session, target, change.ignores), found.warnings())?;
    if change.is_joined() {
        let mut known = BTreeSet::new();
        rows.retain(|row| known.insert(row.clone()));
    }
    Ok(Some((rows, memory)))
}

/// The columns of a query in the types in which the table has them.
fn of_types(batch: &RecordBatch, schema: &TableSchema) -> Result<RecordBatch> {
    let fields = schema.arrow().fields().iter().zip(batch.columns());
    let columns = fields.map(|(field, column)| stored(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), columns);
    batch.map_err(|error| err!(Internal, "rows of a table do not have its columns: {error}"))
}

fn put_rows(batch: &RecordBatch, schema: &TableSchema, rows: &mut Vec<Vec<u8>>) {
    let mut encoded = Vec::new();
    encode(batch, schema, &mut encoded);
    let (cells, mut rest) = (RowCells::new(schema), encoded.as_slice());
    for _ in 0..batch.num_rows() {
        let (row, behind) = rest.split_at(cells.row_bytes(rest));
        rows.push(row.to_vec());
        rest = behind;
    }
}

fn put_keys(
    batch: &RecordBatch,
    alone: &TableSchema,
    schema: &TableSchema,
    rows: &mut Vec<Vec<u8>>,
) -> Result<()> {
    let (keys, codec) = (Keys::of_batch(batch, alone), KeyCodec::of_sort_key(schema));
    for at in 0..keys.len() {
        let mut row = Vec::new();
        let put = codec.put_row(schema, keys.key(at), &mut row);
        put.map_err(|what| err!(Internal, "the key of a stored row is {what}"))?;
        rows.push(row);
    }
    Ok(())
}

/// What an UPDATE makes of rows, without those that stay as they are, and how many it is of.
async fn updates(
    session: &mut Session,
    (change, target, is_own): (&Change, &LoadTarget, bool),
    (plan, computed): (&Assigned, &Select),
    rows: Vec<Vec<u8>>,
    parameters: &[Parameter],
) -> Result<(Vec<RowChange>, u64)> {
    if rows.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let old = rows.iter().map(Vec::as_slice).collect::<Vec<_>>();
    let table = target.named();
    let view = change.view.clone();
    let given = GivenRows { table, is_own, is_marked: true, view, ..given(target, &old, None)? };
    let given = (given, old.len());
    check_running(session)?;
    let mut new = plan.compute(session, computed, given, parameters.to_vec()).await?;
    let (mut changes, mut matched) = (Vec::new(), 0);
    for (at, old) in rows.into_iter().enumerate() {
        if at % CHANGED_AT_ONCE == 0 {
            check_running(session)?;
        }
        matched += u64::from(new.has(at));
        let mut row = Vec::new();
        if plan.apply(session, &old, (&mut new, at), change.ignores, &mut row)? {
            changes.push(RowChange { old, new: Some(row) });
        }
    }
    crate::insert::told(session, new.warnings);
    Ok((changes, matched))
}
