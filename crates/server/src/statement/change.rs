//! UPDATE and DELETE (keys.md K3): the planner finds the keys of the rows, these are locked and
//! read at the end of the log, new values are computed over what they are now, and all is written
//! as one load.

use std::collections::BTreeSet;
use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_ingest::decode::{Fault, InsertPlan, RowEncoder};
use freshet_ingest::{LoadBuffer, LoadTarget, OnExisting, OwnRows, WaitLimit, Written};
use freshet_meta::Privilege;
use freshet_query::Parameter;
use freshet_query::change::{Change, ChangeKind};
use freshet_query::result::Cells;
use freshet_query::syntax::Select;
use freshet_schema::{KeyModel, TableSchema};
use freshet_storage::resolver::KeyedRows;

use super::assigned::{Assigned, given, note, rules};
use super::cells::put_cell;
use super::cells::row_numbers;
use super::changed::{Tries, check_safe, reads, refused, report};
use super::{query, shield, unkeyed};
use crate::insert::key_rules;
use crate::reader::GivenRows;
use crate::reply::{Reply, bounded, check_running};
use crate::session::Session;

/// Runs UPDATE or DELETE.
///
/// # Errors
/// Names, privileges, expressions, values; keys that others hold; 1062.
pub async fn change(
    session: &mut Session,
    change: &Change,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let mut tries = Tries::begin(session);
    loop {
        let target = resolve(session, change)?;
        check_safe(session, change, &target)?;
        match once(session, change, &target, &parameters).await {
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) => {}
            Err(error) if !was_altered(session, &target) => return Err(error),
            // It is planned again, with the columns that the table has now.
            Err(_) => {}
        }
        tries.again(session, &target).await?;
    }
}

/// Runs UPDATE or DELETE; `None` if others wrote the rows meanwhile, or altered their table.
async fn once(
    session: &mut Session,
    change: &Change,
    target: &LoadTarget,
    parameters: &[Parameter],
) -> Result<Option<Reply>> {
    let (engine, settings) = (Arc::clone(&session.shared.engine), &session.settings);
    let own = session.transactions.writable(&engine, settings)?.cloned();
    if is_whole_delete(change) && own.is_none() {
        return delete_all(session, target).await.map(Some);
    }
    if !target.table().key_model.is_keyed() {
        return unkeyed::change(session, change, (target, own), parameters).await;
    }
    let is_unlocked = target.table().key_model == KeyModel::Unique && own.is_none();
    if target.table().key_model != KeyModel::Primary && !is_unlocked {
        return Err(refused(change, target));
    }
    let plan = match &change.kind {
        ChangeKind::Delete | ChangeKind::Lock(_) => None,
        ChangeKind::Update { set } => Some(Assigned::new(session, target, set, change.ignores)?),
    };
    let exprs = plan.as_ref().map_or_else(Vec::new, Assigned::exprs);
    if is_unlocked && plan.as_ref().is_some_and(Assigned::sets_key) {
        bail!(
            NotSupported,
            "UPDATE of a column of the UNIQUE KEY of table '{}' is not supported: DELETE the row \
             and INSERT another one",
            target.table().name
        );
    }
    let computed = change.computed(&exprs)?;
    let Some(keys) = candidates(session, change, target, parameters).await? else {
        return Ok(None);
    };
    let found = Found { target, own, keys, plan: plan.as_ref(), computed: &computed };
    found.change(session, change, parameters.to_vec()).await
}

/// Whether the columns of a table are others than a statement of no transaction has planned with.
fn was_altered(session: &Session, target: &LoadTarget) -> bool {
    let catalog = session.shared.engine.catalog();
    let now = catalog.table_by_id(target.id());
    session.transactions.open().is_none()
        && now.is_some_and(|now| now.schema().version != target.schema().version)
}

/// The target, which the session may change.
///
/// # Errors
/// Names and privileges.
pub fn resolve(session: &Session, change: &Change) -> Result<LoadTarget> {
    let database = session.database_of(change.target.database.as_deref())?;
    let table = change.target.table.as_str();
    match &change.kind {
        ChangeKind::Update { set } => {
            let columns = set.iter().map(|(column, _)| column.as_str());
            session.check_columns(Privilege::Update, (database, table), columns)?;
        }
        ChangeKind::Lock(_) => session.authorize_use(Privilege::Update, database, table)?,
        ChangeKind::Delete => session.authorize_use(Privilege::Delete, database, table)?,
    }
    session.target(database, &change.target.table)
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

/// The keys of the rows that the statement would change if it ran now; `None` if their table is
/// just being altered.
///
/// # Errors
/// Those of planning and executing.
pub async fn candidates(
    session: &mut Session,
    change: &Change,
    target: &LoadTarget,
    parameters: &[Parameter],
) -> Result<Option<KeyedRows>> {
    let schema = target.schema();
    let key = schema.sort_key.iter().map(|&at| schema.columns[at].clone()).collect::<Vec<_>>();
    let names = key.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    let names = names.iter().map(String::as_str).collect::<Vec<_>>();
    let sort_key = (0..key.len()).collect();
    let alone = Arc::new(TableSchema::new(schema.version, key, sort_key));
    let rules = rules(session, target, change.ignores);
    let plan = InsertPlan::partial::<&str>(&alone, None, 0, &rules)?;
    let (select, reads) = (change.candidates(&names), reads(session, change, target)?);
    let found = query::find(session, &select, parameters.to_vec(), (target, reads)).await?;
    let Some((columns, mut rows)) = found else { return Ok(None) };
    let mut memory = crate::accounts::SessionMemory::new(&session.usage);
    let (mut bytes, mut count, mut text) = (Vec::new(), 0, Vec::new());
    while let Some(batch) = bounded(session, rows.next()).await? {
        check_running(session)?;
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
        count += batch.num_rows();
        memory.resize(2 * bytes.len() as u64)?;
    }
    note(session, &rules, rows.warnings())?;
    let Ok(count) = u32::try_from(count) else {
        bail!(OutOfRoom, "the statement changes more than {} rows; add a LIMIT", u32::MAX);
    };
    Ok(Some(KeyedRows::of_encoded(&bytes, (count, 0), target.table(), &alone)))
}

/// A change whose rows are known by key.
struct Found<'a> {
    target: &'a LoadTarget,
    own: Option<OwnRows>,
    keys: KeyedRows,
    /// The values of an UPDATE.
    plan: Option<&'a Assigned>,
    /// The query of the rows that are still to be changed, with their values.
    computed: &'a Select,
}

impl Found<'_> {
    /// Changes the rows; `None` if others wrote them meanwhile.
    async fn change(
        self,
        session: &mut Session,
        change: &Change,
        parameters: Vec<Parameter>,
    ) -> Result<Option<Reply>> {
        let engine = Arc::clone(&session.shared.engine);
        let patience = WaitLimit::For(session.settings.insert_timeout.time());
        let key_rules = key_rules(&session.settings, OnExisting::Replace);
        let mut changing = engine.change(self.target, self.own.clone(), key_rules, patience);
        let current = bounded(session, changing.lock(&self.keys)).await?;
        let mut current = current.into_iter().zip(0..).filter_map(|(row, at)| Some((at, row?)));
        let (keys, rows): (Vec<u32>, Vec<Vec<u8>>) = current.by_ref().unzip();
        let old = rows.iter().map(Vec::as_slice).collect::<Vec<_>>();
        let (mut gone, mut new) = (BTreeSet::new(), LoadBuffer::default());
        let out = new.begin();
        let (mut matched, mut written) = (0, 0);
        if !old.is_empty() {
            let is_own = !reads(session, change, self.target)?;
            let given = GivenRows { is_own, ..given(self.target, &old, None)? };
            let given = (given, old.len());
            let changed = self.decide(session, change, given, parameters).await?;
            for (at, values) in changed {
                matched += 1;
                let differs = match (self.plan, values) {
                    (Some(plan), Some(values)) => {
                        let before = out.len();
                        let differs = plan.apply(old[at], &values, out)?;
                        if !differs {
                            out.truncate(before);
                        }
                        written += usize::from(differs);
                        differs
                    }
                    _ => true,
                };
                if differs {
                    gone.insert(self.keys.key(keys[at]).to_vec());
                }
            }
        }
        new.count(written)?;
        let changed = gone.len() as u64;
        match bounded(session, changing.write(&gone, &new)).await? {
            Written::Done(loaded) => {
                Ok(Some(report(session, &change.kind, &loaded, matched, changed)))
            }
            Written::Overtaken => Ok(None),
        }
    }

    /// The rows that are still to be changed, by number, with their values.
    async fn decide(
        &self,
        session: &mut Session,
        change: &Change,
        given: (GivenRows, usize),
        parameters: Vec<Parameter>,
    ) -> Result<Vec<(usize, Option<Vec<u8>>)>> {
        let count = given.1;
        if let Some(plan) = self.plan {
            let new = plan.compute(session, self.computed, given, parameters).await?;
            let rows = (0..count).filter_map(|at| Some((at, Some(new.of(at)?.to_vec()))));
            let rows = rows.collect();
            crate::insert::told(session, new.warnings);
            return Ok(rows);
        }
        let rules = rules(session, self.target, change.ignores);
        let losses = session.settings.losses(self.target.table().form);
        let over = query::over(session, self.computed, given.0, parameters, losses).await?;
        note(session, &rules, over.warnings)?;
        let mut rows = BTreeSet::new();
        for batch in &over.batches {
            rows.extend(row_numbers(&Cells::of(batch, &over.columns)?)?);
        }
        Ok(rows.into_iter().map(|at| (at, None)).collect())
    }
}
