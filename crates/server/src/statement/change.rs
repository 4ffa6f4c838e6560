//! UPDATE and DELETE (keys.md K3): the planner finds the keys of the rows, these are locked and
//! read at the end of the log, new values are computed over what they are now, and all is written
//! as one load.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use freshet_base::{Lsn, Result, bail};
use freshet_ingest::decode::{Fault, InsertPlan, RowEncoder};
use freshet_ingest::{Engine, LoadBuffer, LoadTarget, OnExisting, OwnRows, WaitLimit, Written};
use freshet_meta::Privilege;
use freshet_query::Parameter;
use freshet_query::change::{Change, ChangeKind};
use freshet_query::result::Cells;
use freshet_query::syntax::Select;
use freshet_query::through::Through;
use freshet_schema::row::RowCells;
use freshet_schema::{ColumnType, DELETE_SIGN, KeyModel, TableSchema, encode};
use freshet_storage::resolver::KeyedRows;

use super::assigned::{Assigned, NewValues, given, ignore, note, rules};
use super::cells::put_cell;
use super::cells::row_numbers;
use super::changed::{Tries, check_safe, reads, report};
use super::{act, query, shield, unkeyed};
use crate::given::GivenRows;
use crate::insert::key_rules;
use crate::reply::{Reply, bounded, check_running};
use crate::session::Session;
use crate::through;

/// Runs UPDATE or DELETE.
///
/// # Errors
/// Names, privileges, expressions, values; keys that others hold; 1062.
pub async fn change(
    session: &mut Session,
    change: &Change,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let with_files = act::changing(session, change, &parameters).await?;
    let change = with_files.as_ref().map_or(change, |(change, _)| change);
    let mut tries = Tries::begin(session);
    loop {
        let through = through::changed(session, change)?;
        let change = through.as_ref().unwrap_or(change);
        let target = resolve(session, change)?;
        check_safe(session, change, &target)?;
        match once(session, change, &target, &parameters, tries.is_first()).await {
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) => {}
            Err(error) if !was_altered(session, change.view.as_deref(), &target) => {
                return Err(error);
            }
            // It is planned again, with the columns that the table has now.
            Err(_) => {}
        }
        tries.again(session, &target).await?;
    }
}

/// Runs UPDATE or DELETE; `None` if others wrote the rows meanwhile, or altered their table.
/// Whoever does so again locks the rows, and gets its turn.
async fn once(
    session: &mut Session,
    change: &Change,
    target: &LoadTarget,
    parameters: &[Parameter],
    is_first: bool,
) -> Result<Option<Reply>> {
    let (engine, settings) = (Arc::clone(&session.shared.engine), &session.settings);
    let own = session.transactions.writable(&engine, settings)?.cloned();
    // Deleted rows are kept by a sequence column, and so are not cut off.
    let is_cut = is_whole_delete(change) && target.schema().sequence.is_none();
    let is_seen = change.view.is_none() && !session.hides_rows_of(target.table());
    let is_whole = is_cut && is_seen;
    if is_whole && own.is_none() {
        return delete_all(session, target).await.map(Some);
    }
    if !target.table().key_model.is_keyed() {
        return unkeyed::change(session, change, (target, own), parameters).await;
    }
    let keyed = Keyed::new(session, &engine, change, (target, own))?;
    let Some(found) = keyed.find(session, parameters, is_first).await? else { return Ok(None) };
    let looked = keyed.decide(session, found, parameters).await?;
    let (matched, changed) = (looked.matched, looked.changed());
    Ok(match looked.write(session).await? {
        Written::Done(loaded) => {
            Some(report(session, &change.kind, (target, &loaded), matched, changed))
        }
        Written::Overtaken => None,
    })
}

/// Whether the columns of a table, or the view that it is changed through, are others than a
/// statement of no transaction has planned with.
pub fn was_altered(session: &Session, view: Option<&Through>, target: &LoadTarget) -> bool {
    if session.transactions.open().is_some() {
        return false;
    }
    let catalog = session.shared.engine.catalog();
    let has_other_view = view.is_some_and(|through| {
        let mut views = through.views.iter();
        !views.all(|(database, view)| catalog.view(database, &view.name) == Some(view))
    });
    let now = catalog.table_by_id(target.id());
    has_other_view || now.is_some_and(|now| now.schema().version != target.schema().version)
}

/// The target, which the session may change.
///
/// # Errors
/// Names and privileges; 1412 at the end of a change of columns.
pub fn resolve(session: &Session, change: &Change) -> Result<LoadTarget> {
    if let Some(view) = &change.view {
        return through::resolve(session, change, view);
    }
    let database = session.database_of(change.target.database.as_deref())?;
    let table = change.target.table.as_str();
    match &change.kind {
        ChangeKind::Update { set } => {
            let columns = set.iter().map(|(column, _)| column.as_str());
            session.check_columns(Privilege::Update, (database, table), columns)?;
            // A row with this sign deletes its key.
            if set.iter().any(|(column, _)| column.eq_ignore_ascii_case(DELETE_SIGN)) {
                session.authorize_use(Privilege::Delete, database, table)?;
            }
        }
        ChangeKind::Lock { is_shared: true, .. } => {
            session.authorize_use(Privilege::Select, database, table)?;
        }
        ChangeKind::Lock { .. } => authorize_lock(session, database, table)?,
        ChangeKind::Delete => session.authorize_use(Privilege::Delete, database, table)?,
    }
    // What is read and what is written is of one table, whatever comes between.
    let target = session.target(database, &change.target.table)?;
    match change.temporary() {
        None => target.entered(),
        Some(names) => session.shared.engine.temporary_target(target.table(), &names)?.entered(),
    }
}

/// FOR UPDATE takes one of the rights to change rows, or LOCK TABLES.
fn authorize_lock(session: &Session, database: &str, table: &str) -> Result<()> {
    let may = |right| session.authorize_use(right, database, table).is_ok();
    match [Privilege::Delete, Privilege::LockTables].into_iter().any(may) {
        true => Ok(()),
        false => session.authorize_use(Privilege::Update, database, table),
    }
}

fn is_whole_delete(change: &Change) -> bool {
    change.kind == ChangeKind::Delete && change.is_whole()
}

/// DELETE of all rows outside of a transaction: the table is emptied at one point of the log.
async fn delete_all(session: &mut Session, target: &LoadTarget) -> Result<Reply> {
    let (engine, id) = (Arc::clone(&session.shared.engine), target.id());
    session.wait_durable().await;
    let rows = query::live_rows(session, id).await?;
    if rows > 0 {
        shield(session, async move { engine.ddl().delete_all(id).await }).await?;
    }
    Ok(Reply::Done { affected: rows })
}

/// The rows that a statement would change if it ran now.
pub struct Candidates {
    pub keys: KeyedRows,
    /// They are those of all that is in the log up to here.
    pub as_of: Lsn,
}

/// The rows that the statement would change if it ran now; `None` if their table is just being
/// altered, or was renamed.
///
/// # Errors
/// Those of planning and executing.
pub async fn candidates(
    session: &mut Session,
    change: &Change,
    target: &LoadTarget,
    parameters: &[Parameter],
) -> Result<Option<Candidates>> {
    let schema = target.schema();
    let key = schema.sort_key.iter().map(|&at| schema.columns[at].clone()).collect::<Vec<_>>();
    let names = key.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    let names = names.iter().map(String::as_str).collect::<Vec<_>>();
    let sort_key = (0..key.len()).collect();
    let alone = Arc::new(TableSchema::new(schema.version, key, sort_key));
    let rules = rules(session, target, change.ignores);
    let plan = InsertPlan::partial::<&str>(&alone, None, 0, &rules)?;
    let reads = reads(session, change, target)?;
    let present = alone.columns.iter().find(|column| !column.nullable);
    let select = change.candidates(&names, present.map(|column| column.name.as_str()));
    let of = (target, change, reads);
    let found = query::find(session, &select, parameters.to_vec(), of).await?;
    let Some((columns, mut rows, as_of)) = found else { return Ok(None) };
    let mut memory = crate::accounts::SessionMemory::new(&session.usage);
    let (mut bytes, mut count, mut text) = (Vec::new(), 0, Vec::new());
    let is_plain = change.view.is_none() && alone.columns.iter().all(|key| is_read_plain(key.ty));
    while let Some(batch) = bounded(session, rows.next()).await? {
        check_running(session)?;
        count += batch.num_rows();
        // As they are stored.
        if is_plain && is_of(&batch, &alone) {
            encode(&batch, &alone, &mut bytes);
            memory.resize(2 * bytes.len() as u64)?;
            continue;
        }
        let cells = Cells::of(&batch, &columns)?;
        let mut encoder = RowEncoder::new(&plan, &rules, &mut bytes);
        for row in 0..batch.num_rows() {
            encoder.begin_row();
            let mut encode = || {
                cells.iter().try_for_each(|cell| put_cell(&mut encoder, cell, row, &mut text))?;
                encoder.end_row()
            };
            encode().map_err(|fault: Box<Fault>| fault.error(&plan, row as u64 + 1))?;
        }
        memory.resize(2 * bytes.len() as u64)?;
    }
    note(session, &rules, rows.warnings())?;
    let Ok(count) = u32::try_from(count) else {
        bail!(OutOfRoom, "the statement changes more than {} rows; add a LIMIT", u32::MAX);
    };
    let keys = KeyedRows::of_encoded(&bytes, (count, 0), target.table(), &alone);
    Ok(Some(Candidates { keys, as_of }))
}

/// Whether a query reads values of a type as they are stored, if they are held alike.
fn is_read_plain(ty: ColumnType) -> bool {
    ty.is_collated()
        || matches!(
            ty,
            ColumnType::TinyInt { .. }
                | ColumnType::SmallInt { .. }
                | ColumnType::MediumInt { .. }
                | ColumnType::Int { .. }
                | ColumnType::BigInt { .. }
                | ColumnType::Date
                | ColumnType::DateTime { .. }
        )
}

/// Whether a batch holds its columns as the rows of a table with these do.
fn is_of(batch: &RecordBatch, schema: &TableSchema) -> bool {
    let columns = schema.columns.iter().zip(batch.columns());
    batch.num_columns() == schema.columns.len()
        && columns.into_iter().all(|(column, values)| {
            let has_nulls = values.null_count() > 0;
            values.data_type() == &column.ty.arrow() && (column.nullable || !has_nulls)
        })
}

/// A change of a table whose rows are known by key.
pub struct Keyed<'a> {
    engine: &'a Engine,
    change: &'a Change,
    target: &'a LoadTarget,
    own: Option<OwnRows>,
    /// The values of an UPDATE.
    plan: Option<Assigned>,
    /// The query of the rows that are still to be changed, with their values.
    computed: Select,
}

/// Rows that were found, and are locked where a transaction or a PRIMARY KEY does so; unless they
/// are the same, and their record is refused where somebody writes before it.
pub struct Found<'a> {
    changing: freshet_ingest::Change<'a>,
    keys: KeyedRows,
    current: Current,
}

/// What rows are when they are locked.
enum Current {
    /// What they were when they were found, which is not read once more.
    Same,
    /// The row that each key has.
    Read(Vec<Option<Vec<u8>>>),
}

impl Found<'_> {
    /// A snapshot has what the rows were read from if it reaches this LSN.
    pub fn looked_to(&self) -> Lsn {
        self.changing.looked_to()
    }
}

/// Rows and what becomes of them.
pub struct Looked<'a> {
    changing: freshet_ingest::Change<'a>,
    gone: Gone,
    /// What they become.
    new: LoadBuffer,
    pub matched: u64,
}

/// The keys of the rows that change.
enum Gone {
    Read(BTreeSet<Vec<u8>>),
    /// All that were found, which are as they were, and are removed.
    Same(KeyedRows),
}

impl Looked<'_> {
    pub fn changed(&self) -> u64 {
        match &self.gone {
            Gone::Read(keys) => keys.len() as u64,
            Gone::Same(keys) => u64::from(keys.len()),
        }
    }

    /// Leaves out the rows that `other` removes.
    pub fn forget(&mut self, other: &Looked<'_>) {
        let (Gone::Read(own), Gone::Read(other)) = (&mut self.gone, &other.gone) else {
            unreachable!("a statement of several tables reads its rows once more");
        };
        own.retain(|key| !other.contains(key));
    }

    /// Changes the rows.
    ///
    /// # Errors
    /// 1062, and those of locking and appending. Nothing was changed then.
    pub async fn write(self, session: &mut Session) -> Result<Written> {
        let Self { changing, gone, new, .. } = self;
        match gone {
            Gone::Read(keys) => bounded(session, changing.write(&keys, &new)).await,
            Gone::Same(keys) => bounded(session, changing.remove(keys)).await,
        }
    }
}

impl<'a> Keyed<'a> {
    /// # Errors
    /// 1054 and 1093; 1235 for a column of a UNIQUE KEY that is set.
    pub fn new(
        session: &Session,
        engine: &'a Engine,
        change: &'a Change,
        (target, own): (&'a LoadTarget, Option<OwnRows>),
    ) -> Result<Self> {
        let (plan, computed) = Assigned::of(session, target, change)?;
        let table = target.table();
        let sets_key = plan.as_ref().is_some_and(|plan| plan.columns().sets_key());
        if sets_key && table.key_model == KeyModel::Unique {
            bail!(
                NotSupported,
                "UPDATE of a column of the UNIQUE KEY of table '{}' is not supported: DELETE the \
                 row and INSERT another one",
                table.name
            );
        }
        Ok(Self { engine, change, target, own, plan, computed })
    }

    /// Whether a key that was found is that of the row that was found: two instants of a day on
    /// which clocks are set back read alike.
    fn is_found_by_key(&self) -> bool {
        let schema = self.target.schema();
        let mut key = schema.sort_key.iter().map(|&at| schema.columns[at].ty);
        schema.sequence.is_none() && !key.any(|ty| matches!(ty, ColumnType::Timestamp { .. }))
    }

    /// Finds the rows and locks them, but for those of a DELETE outside of transactions that
    /// `may_rely` on nobody writing to the table; `None` if their table is just being altered.
    ///
    /// # Errors
    /// Expressions; keys that others hold.
    pub async fn find(
        &self,
        session: &mut Session,
        parameters: &[Parameter],
        may_rely: bool,
    ) -> Result<Option<Found<'a>>> {
        let patience = WaitLimit::For(session.settings.insert_timeout.time());
        let key_rules = key_rules(session, OnExisting::Replace);
        let own = self.own.clone();
        let changing = self.engine.change(self.target, own, key_rules, patience);
        let mut changing = changing.locking();
        bounded(session, changing.begin()).await?;
        let found = candidates(session, self.change, self.target, parameters).await?;
        let Some(Candidates { keys, as_of }) = found else { return Ok(None) };
        // Who reads more of the table than its keys needs the right to, whoever else writes.
        let is_removed = may_rely
            && self.change.kind == ChangeKind::Delete
            && self.is_found_by_key()
            && !reads(session, self.change, self.target)?;
        let keys = if is_removed { keys.distinct() } else { keys };
        let is_same = is_removed && bounded(session, changing.is_unchanged(&keys, as_of)).await?;
        let current = match is_same {
            true => Current::Same,
            false => Current::Read(bounded(session, changing.lock(&keys)).await?),
        };
        Ok(Some(Found { changing, keys, current }))
    }

    /// Computes what becomes of the rows that are still to be changed.
    ///
    /// # Errors
    /// Expressions and values.
    pub async fn decide(
        &self,
        session: &mut Session,
        found: Found<'a>,
        parameters: &[Parameter],
    ) -> Result<Looked<'a>> {
        let Found { mut changing, keys, current } = found;
        let current = match current {
            Current::Read(current) => current,
            Current::Same => {
                let new = LoadBuffer::default();
                let matched = u64::from(keys.len());
                return Ok(Looked { changing, gone: Gone::Same(keys), new, matched });
            }
        };
        let mut current = current.into_iter().zip(0..).filter_map(|(row, at)| Some((at, row?)));
        let (places, rows): (Vec<u32>, Vec<Vec<u8>>) = current.by_ref().unzip();
        let old = rows.iter().map(Vec::as_slice).collect::<Vec<_>>();
        let (mut gone, mut new) = (Vec::new(), LoadBuffer::default());
        let (schema, out) = (self.target.schema(), new.begin());
        let (mut matched, mut written, mut before) = (0, 0, Vec::new());
        let (changing_rows, mut values) = self.computed(session, &old, parameters).await?;
        for at in changing_rows {
            matched += 1;
            let differs = match (&self.plan, &mut values) {
                (Some(plan), Some(values)) => {
                    let ignores = self.change.ignores;
                    let differs = plan.apply(session, old[at], (values, at), ignores, out)?;
                    written += usize::from(differs);
                    differs
                }
                _ if schema.sequence.is_some() => {
                    schema.put_deleted(old[at], out);
                    written += 1;
                    true
                }
                _ => true,
            };
            if differs {
                gone.push(keys.key(places[at]).to_vec());
                before.push(old[at]);
            }
        }
        if let Some(values) = values {
            crate::insert::told(session, values.warnings);
        }
        new.count(written)?;
        if self.change.ignores && self.plan.is_some() {
            (gone, new) = self.without_taken(session, &mut changing, (gone, before), new).await?;
        }
        // Of many, one by one would take longer.
        let gone = Gone::Read(BTreeSet::from_iter(gone));
        Ok(Looked { changing, gone, new, matched })
    }

    /// Leaves out the rows that would get a key which another row has by then: these stay as they
    /// are by IGNORE, with a warning each. They come in the order of the statement, or of their
    /// keys.
    async fn without_taken(
        &self,
        session: &mut Session,
        changing: &mut freshet_ingest::Change<'a>,
        (keys, before): (Vec<Vec<u8>>, Vec<&[u8]>),
        new: LoadBuffer,
    ) -> Result<(Vec<Vec<u8>>, LoadBuffer)> {
        let mut order = (0..keys.len()).collect::<Vec<_>>();
        if !self.change.is_ordered() {
            order.sort_by_key(|at| &keys[*at]);
        }
        let cells = RowCells::new(self.target.schema());
        let rows = cells.rows(new.row_bytes()).collect::<Vec<_>>();
        let becomes = order.iter().map(|&at| (before[at], rows[at])).collect::<Vec<_>>();
        let taken = bounded(session, changing.taken(&becomes)).await?;
        if taken.is_empty() {
            return Ok((keys, new));
        }
        taken.values().for_each(|error| ignore(session, error));
        let kept = order.iter().enumerate().filter(|(number, _)| !taken.contains_key(number));
        let (mut kept_keys, mut kept_rows) = (Vec::new(), LoadBuffer::default());
        let out = kept_rows.begin();
        for (_, &at) in kept {
            kept_keys.push(keys[at].clone());
            out.extend_from_slice(rows[at]);
        }
        kept_rows.count(kept_keys.len())?;
        Ok((kept_keys, kept_rows))
    }

    /// The rows that are still to be changed, by number, and their values.
    async fn computed(
        &self,
        session: &mut Session,
        old: &[&[u8]],
        parameters: &[Parameter],
    ) -> Result<(Vec<usize>, Option<NewValues>)> {
        if old.is_empty() {
            return Ok((Vec::new(), None));
        }
        let is_own = !reads(session, self.change, self.target)?;
        let table = self.target.named();
        let view = self.change.view.clone();
        let rows = given(self.target, old, None)?;
        let given = GivenRows { table, is_own, is_marked: true, view, ..rows };
        let parameters = parameters.to_vec();
        if let Some(plan) = &self.plan {
            let given = (given, old.len());
            let new = plan.compute(session, &self.computed, given, parameters).await?;
            return Ok(((0..old.len()).filter(|&at| new.has(at)).collect(), Some(new)));
        }
        let rules = rules(session, self.target, self.change.ignores);
        let losses = session.settings.losses(self.target.table().form);
        let over = query::over(session, &self.computed, given, parameters, losses).await?;
        note(session, &rules, over.warnings)?;
        let mut rows = BTreeSet::new();
        for batch in &over.batches {
            rows.extend(row_numbers(&Cells::of(batch, &over.columns)?)?);
        }
        Ok((rows.into_iter().collect(), None))
    }
}
