//! INSERT .. ON DUPLICATE KEY UPDATE: the keys of all rows are locked, and the rows read that have
//! them; a row whose keys are free is inserted, another one is computed from the stored row and the
//! new one. Rows of one statement see what those before them did.

use std::collections::BTreeSet;
use std::sync::Arc;

use freshet_base::{ErrorCode, Result};
use freshet_ingest::{
    self as ingest, Change, LoadBuffer, Meeting, OnExisting, OneRow, WaitLimit, Written, change_row,
};
use freshet_meta::Privilege;
use freshet_query::Parameter;
use freshet_query::change::{Assignments, over_rows, over_rows_through};
use freshet_query::parser::TableName;
use freshet_schema::KeyModel;
use freshet_schema::row::RowCells;
use freshet_storage::resolver::KeyedRows;
use freshet_wire::Capabilities;

use super::assigned::{Assigned, NewValues, given, given_through};
use super::carried::Carried;
use super::changed::Tries;
use crate::insert::{Target, key_rules, nothing, told};
use crate::reply::{Reply, bounded, check_running};
use crate::session::Session;
use crate::through;

/// Rows that are computed before others have their turn.
const ROWS_AT_ONCE: usize = 1024;

/// A row and the new ones that meet it.
struct Group {
    /// Its primary key.
    key: Vec<u8>,
    /// The new rows, as they come.
    rows: Vec<u32>,
    existed: bool,
    /// The row after the new rows so far.
    current: Option<Vec<u8>>,
    is_changed: bool,
}

/// What the statement did.
#[derive(Default)]
struct Counts {
    inserted: u64,
    updated: u64,
    same: u64,
}

/// Inserts the rows in the session's buffer, or updates those that have their keys, by values that
/// read what is carried beside the rows.
///
/// # Errors
/// Expressions, values; keys that others hold; 1062.
pub async fn insert_or_update(
    session: &mut Session,
    target: &Target,
    table: &TableName,
    (set, carried): (&Assignments, Option<&Carried>),
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let database = session.database_of(table.database.as_deref())?;
    session.authorize_use(Privilege::Update, database, &table.table)?;
    let ignores = target.on_existing == OnExisting::Skip;
    if let Some(through) = &target.through {
        let place = ((database, table.table.as_str()), &**target.into.table());
        through::check_updates(session, through, place, set)?;
    }
    let into = (&target.into, target.through.as_deref());
    let assigned = Assigned::new(session, into, (set, None), ignores)?;
    if session.buffer.rows() == 0 {
        return Ok(Reply::Done { affected: nothing(session) });
    }
    let mut tries = Tries::begin(session);
    loop {
        let mut buffer = std::mem::take(&mut session.buffer);
        let given = (table, &assigned, carried);
        let done = write(session, target, given, &buffer, &parameters).await;
        // A TRUNCATE came between the ids of the rows and the rows.
        let is_late = done.as_ref().is_err_and(|error| error.code() == ErrorCode::Deadlock);
        let is_renewed = is_late && target.plan.renew_ids(&mut buffer)?;
        session.buffer = buffer;
        match done {
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) => tries.again(session, &target.into).await?,
            Err(_) if is_renewed => {}
            Err(error) => return Err(error),
        }
    }
}

/// `None` if a TRUNCATE or DROP PARTITION has removed rows that it met.
async fn write(
    session: &mut Session,
    target: &Target,
    (table, assigned, carried): (&TableName, &Assigned, Option<&Carried>),
    buffer: &LoadBuffer,
    parameters: &[Parameter],
) -> Result<Option<Reply>> {
    let engine = Arc::clone(&session.shared.engine);
    let own = session.transactions.writable(&engine, &session.settings)?.cloned();
    let new = rows_of(buffer, target);
    if let (None, [row]) = (&own, &new[..])
        && let Some(reply) = write_alone(session, target, assigned, (buffer, *row)).await?
    {
        return Ok(Some(reply));
    }
    let patience = WaitLimit::For(session.settings.insert_timeout.time());
    let rules = key_rules(session, OnExisting::Replace);
    let mut change = engine.change(&target.into, own, rules, patience);
    let before = session.told();
    let met_again;
    let mut meeting = bounded(session, change.meet(buffer)).await?;
    let groups = meeting.groups().into_iter().map(|met| {
        let ingest::Group { key, rows, current } = met;
        Group { key, rows, existed: current.is_some(), current, is_changed: false }
    });
    let mut rounds = Rounds {
        target,
        table,
        assigned,
        carried,
        new: &new,
        groups: groups.collect(),
        meeting: &meeting,
        in_order: false,
        counts: Counts::default(),
    };
    if !rounds.run_all(session, parameters).await? {
        session.forget_since(&before)?;
        // Their keys are locked: it finds what it has found before.
        met_again = bounded(session, change.meet(buffer)).await?;
        rounds.meeting = &met_again;
        rounds.run_in_order(session, &mut change, parameters).await?;
    }
    let (groups, counts) = (rounds.groups, rounds.counts);
    let changed = || groups.iter().filter(|group| group.is_changed);
    let old = changed().filter(|group| group.existed);
    let old = old.map(|group| group.key.clone()).collect::<BTreeSet<_>>();
    let mut written = LoadBuffer::default();
    let out = written.begin();
    changed().filter_map(|group| group.current.as_ref()).for_each(|row| out.extend(row));
    written.count(changed().count())?;
    let Written::Done(loaded) = bounded(session, change.write(&old, &written)).await? else {
        return Ok(None);
    };
    session.acked = session.acked.max(loaded.lsn);
    let current = groups.first().and_then(|group| group.current.as_deref());
    note_ids(session, target, buffer, &counts, current);
    Ok(Some(report(session, u64::from(buffer.rows()), &counts)))
}

/// Inserts or updates the row of a statement of its own under the latch of its table; `None` where
/// [`write`] has to lock its key, or something is to be planned.
async fn write_alone(
    session: &mut Session,
    target: &Target,
    assigned: &Assigned,
    (buffer, row): (&LoadBuffer, &[u8]),
) -> Result<Option<Reply>> {
    let (engine, into) = (Arc::clone(&session.shared.engine), &target.into);
    let is_plain = into.table().key_model == KeyModel::Primary
        && !into.table().has_row_ids()
        && target.on_existing != OnExisting::Skip
        && target.through.is_none()
        && !session.hides_rows_of(into.table());
    if !is_plain || assigned.of_new(&[row]).is_none() {
        return Ok(None);
    }
    let keys = KeyedRows::of_encoded(row, (1, 0), into.table(), into.schema());
    let (mut current, mut warnings) = (None, None);
    let decide = |old: Option<&[u8]>, out: &mut Vec<u8>| -> Result<OneRow> {
        let Some(old) = old else {
            out.extend_from_slice(row);
            return Ok(OneRow::Written);
        };
        let (start, values) = (out.len(), assigned.of_new(&[row]));
        let mut values = values.expect("it was so before");
        let differs = assigned.columns().apply(old, (&mut values, 0), out)?;
        warnings = Some(values.warnings);
        if !differs {
            current = Some(old.to_vec());
            return Ok(OneRow::Kept);
        }
        target.plan.check_named(&out[start..])?;
        current = Some(out[start..].to_vec());
        Ok(OneRow::Written)
    };
    let patience = WaitLimit::For(session.settings.insert_timeout.time());
    let changing = change_row(&engine, into, (&keys, buffer.ids()), patience, decide);
    let Some(changed) = bounded(session, changing).await? else { return Ok(None) };
    let mut counts = Counts::default();
    match (changed.existed, changed.became) {
        (false, _) => counts.inserted = 1,
        (true, OneRow::Kept) => counts.same = 1,
        (true, _) => counts.updated = 1,
    }
    if let Some(warnings) = warnings.filter(|_| changed.existed) {
        told(session, warnings);
    }
    session.acked = session.acked.max(changed.loaded.lsn);
    note_ids(session, target, buffer, &counts, current.as_deref());
    Ok(Some(report(session, 1, &counts)))
}

/// What LAST_INSERT_ID() says from now on; `current` is the first row as it is now.
fn note_ids(
    session: &mut Session,
    target: &Target,
    buffer: &LoadBuffer,
    counts: &Counts,
    current: Option<&[u8]>,
) {
    let into = &target.into;
    if into.table().hides_ids() || !target.tells_ids() {
        return;
    }
    if counts.inserted > 0 {
        session.note_ids(buffer.ids());
    } else if session.insert_id == 0
        && let (1, Some(counter)) = (buffer.rows(), into.counter())
    {
        // As in MySQL, the id of the row that was there, but for that of LAST_INSERT_ID(value).
        let id = current.and_then(|row| counter.of_rows(into.schema(), row, 1));
        let id = id.and_then(|ids| ids.explicit);
        session.last_insert_id = id.unwrap_or(session.last_insert_id);
        session.insert_id = id.unwrap_or(0);
    }
}

fn report(session: &mut Session, rows: u64, counts: &Counts) -> Reply {
    let Counts { inserted, updated, same } = counts;
    let warnings = session.diagnostics.count;
    if rows > 1 {
        let text = format!("Records: {rows}  Duplicates: {updated}  Warnings: {warnings}");
        session.info.set(text);
    } else {
        session.info.clear();
    }
    let counts_found = session.client.capabilities.contains(Capabilities::FOUND_ROWS);
    let found = if counts_found { *same } else { 0 };
    Reply::Done { affected: inserted + 2 * updated + found }
}

fn rows_of<'a>(buffer: &'a LoadBuffer, target: &Target) -> Vec<&'a [u8]> {
    let (cells, mut rest) = (RowCells::new(target.into.schema()), buffer.row_bytes());
    let mut rows = Vec::with_capacity(buffer.rows() as usize);
    while !rest.is_empty() {
        let (row, behind) = rest.split_at(cells.row_bytes(rest));
        rows.push(row);
        rest = behind;
    }
    rows
}

struct Rounds<'a> {
    target: &'a Target,
    table: &'a TableName,
    assigned: &'a Assigned,
    /// What stands beside the new rows.
    carried: Option<&'a Carried>,
    /// The new rows.
    new: &'a [&'a [u8]],
    groups: Vec<Group>,
    meeting: &'a Meeting,
    /// Whether the new rows are taken one after another.
    in_order: bool,
    counts: Counts,
}

impl Rounds<'_> {
    /// `false`, and nothing counts, where it matters in which order the new rows come.
    async fn run_all(&mut self, session: &mut Session, parameters: &[Parameter]) -> Result<bool> {
        let mut open = (0..self.groups.len()).collect::<Vec<_>>();
        for round in 0.. {
            open.retain(|&at| self.groups[at].rows.len() > round);
            if open.is_empty() {
                break;
            }
            if !self.run(session, (round, &open), parameters).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the new rows one after another, by a meeting of which nothing was taken so far.
    async fn run_in_order(
        &mut self,
        session: &mut Session,
        change: &mut Change<'_>,
        parameters: &[Parameter],
    ) -> Result<()> {
        (self.groups, self.counts, self.in_order) = (Vec::new(), Counts::default(), true);
        let mut course = self.meeting.course();
        for row in 0..self.new.len() as u32 {
            let next = self.groups.len();
            let (at, stored) = match course.meets(row) {
                ingest::Met::Row(at) => (at, None),
                ingest::Met::Stored(key, row) => (next, Some((key, row))),
                ingest::Met::Nothing => (next, None),
            };
            if at == next {
                if let Some((_, row)) = &stored {
                    course.becomes(at, None, row);
                }
                let (key, current) = stored.unzip();
                let (key, existed) = (key.unwrap_or_default(), current.is_some());
                let rows = Vec::new();
                self.groups.push(Group { key, rows, existed, current, is_changed: false });
            }
            self.groups[at].rows = vec![row];
            let (before, was_changed) =
                (self.groups[at].current.clone(), self.groups[at].is_changed);
            self.run(session, (0, &[at]), parameters).await?;
            let after = self.groups[at].current.as_deref().expect("it is there from now on");
            if self.target.on_existing == OnExisting::Skip
                && let Some(before) = before.as_deref()
                && self.meeting.is_key_changed(before, after)
                && let Some(error) = bounded(session, change.met_by(&course, (at, after))).await?
            {
                session.diagnostics.push("Warning", error.code().errno(), error.message().into());
                self.counts.updated -= 1;
                self.counts.same += 1;
                let group = &mut self.groups[at];
                (group.current, group.is_changed) = (Some(before.to_vec()), was_changed);
                continue;
            }
            course.becomes(at, before.as_deref(), after);
        }
        Ok(())
    }

    /// The new rows with these numbers.
    fn rows(&self, numbers: &[u32]) -> Vec<&[u8]> {
        numbers.iter().map(|&at| self.new[at as usize]).collect()
    }

    /// What stored rows become where each column takes that of the new row.
    fn taken(&self, session: &Session, numbers: &[u32]) -> Option<NewValues> {
        let is_all_seen = !session.hides_rows_of(self.target.into.table());
        // Names are those of a view there.
        let is_plain = is_all_seen && self.target.through.is_none();
        is_plain.then(|| self.assigned.of_new(&self.rows(numbers))).flatten()
    }

    /// What stored rows become by the new ones that meet them.
    async fn computed(
        &self,
        session: &mut Session,
        old: &[&[u8]],
        numbers: Vec<u32>,
        parameters: &[Parameter],
    ) -> Result<NewValues> {
        let new = self.rows(&numbers);
        let (into, exprs) = (&self.target.into, self.assigned.exprs());
        let (given, select) = match self.target.through.as_deref() {
            None => (given(into, old, Some(&new))?, over_rows(self.table, &exprs)),
            Some(view) => {
                let select = over_rows_through(view, self.table, &exprs);
                (given_through(into, view, old, &new)?, select)
            }
        };
        let given = match self.carried {
            Some(carried) => carried.beside(given, numbers)?,
            None => given,
        };
        self.assigned.compute(session, &select, (given, old.len()), parameters.to_vec()).await
    }

    /// Takes the row with this number of each key that is open: that has so many. `false` where one
    /// of them changes a key that another row has, too, unless they come one after another.
    async fn run(
        &mut self,
        session: &mut Session,
        (round, open): (usize, &[usize]),
        parameters: &[Parameter],
    ) -> Result<bool> {
        let mut updates = Vec::new();
        for &at in open {
            let group = &mut self.groups[at];
            let row = group.rows[round];
            if group.current.is_some() {
                updates.push(at);
                continue;
            }
            group.current = Some(self.new[row as usize].to_vec());
            group.is_changed = true;
            self.counts.inserted += 1;
        }
        if updates.is_empty() {
            return Ok(true);
        }
        let current = |at: &usize| self.groups[*at].current.as_deref().expect("it is there");
        let old = updates.iter().map(current).collect::<Vec<_>>();
        let number = |at: &usize| self.groups[*at].rows[round];
        let numbers = updates.iter().map(number).collect::<Vec<_>>();
        let mut values = match self.taken(session, &numbers) {
            Some(values) => values,
            None => self.computed(session, &old, numbers, parameters).await?,
        };
        for (number, at) in updates.into_iter().enumerate() {
            if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 {
                check_running(session)?;
                tokio::task::yield_now().await;
            }
            if !values.has(number) {
                return Err(session.hidden_row(&self.table.table));
            }
            let group = &mut self.groups[at];
            let before = group.current.take().expect("it is there");
            let mut after = Vec::new();
            let mut differs =
                self.assigned.columns().apply(&before, (&mut values, number), &mut after)?;
            if differs && let Err(error) = self.target.plan.check_named(&after) {
                if self.target.on_existing != OnExisting::Skip {
                    return Err(error);
                }
                let (errno, message) = (error.code().errno(), error.message().to_owned());
                session.diagnostics.push("Warning", errno, message);
                (differs, after) = (false, before.clone());
            }
            self.counts.updated += u64::from(differs);
            self.counts.same += u64::from(!differs);
            group.is_changed |= differs;
            let row = group.rows[round];
            if differs && !self.is_in_order(row, &before, &after) {
                return Ok(false);
            }
            self.groups[at].current = Some(after);
        }
        told(session, values.warnings);
        Ok(true)
    }

    /// Whether a change by the new row with this index is done where it belongs: no other new row
    /// meets what it gives up or takes.
    fn is_in_order(&self, row: u32, before: &[u8], after: &[u8]) -> bool {
        match self.target.on_existing {
            _ if self.in_order => true,
            // A row that would get the key of another one stays as it is.
            OnExisting::Skip => !self.meeting.is_key_changed(before, after),
            _ => self.new.len() == 1 || !self.meeting.interferes(row, before, after),
        }
    }
}
