//! A change of columns or keys that rows which are there cannot follow when they are read: they are
//! copied to a new table, which takes the place of the old one in one record (RFC 0039).
//!
//! Writers go on meanwhile. In each round what has come since the last one is flushed and copied,
//! and what has died since then is removed. At the end the gate of the table lets nobody in until
//! the last round and the record are done.

mod copy;
mod job;

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, ErrorCode, Lsn, Result, TableId, bail, err};
use freshet_meta::{Claim, MetaEvent, disk};
use freshet_schema::{Partition, Table};
use freshet_wal::Room;
use futures::lock::MutexGuard;

use self::copy::Copying;
use self::job::Job;
pub use self::job::{Progress, Rewriting, Stage};
use crate::append::Signature;
use crate::engine::Engine;
use crate::overwrite::signature_of;
use crate::record::{self, GroupEndReason, Kind, MetadataBody};
use crate::state::TableState;
use crate::target::Loaded;
use crate::unlisted::UnpublishedTable;

/// How often it begins again, where what was copied is gone or of another form.
const TRIES_MAX: usize = 5;
/// A round that has moved no more rows is followed by the last one.
const ROWS_FEW: u64 = 100_000;
/// After so many rounds it ends however much comes.
const ROUNDS_MAX: usize = 10;
/// How long nobody is let in while writers are waited for.
const DRAIN: Duration = Duration::from_secs(2);
/// How long writers are let in between.
const OPEN: Duration = Duration::from_millis(300);
/// How often it is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(10);
/// How long the old table stays, for plans that were made before.
const OLD_STAYS: Duration = Duration::from_secs(1);

/// Copies the rows of a table to one of another form, and exchanges both. Returns warnings.
///
/// # Errors
/// The first row that does not fit; 1062 for rows that share a key; 1317 when it is cancelled;
/// 1412 when another change has taken the place of the table before it began. The table is as it
/// was then.
pub async fn rewrite(
    engine: &Arc<Engine>,
    id: TableId,
    how: &dyn Rewriting,
    progress: &Progress,
) -> Result<Vec<String>> {
    engine.begun().await?;
    let state = engine.ddl().states_of(&[id])?.remove(0);
    let job = Job { engine, state: &state, progress };
    let _alone = job.alone().await?;
    progress.set(Stage::Running);
    let _left = LeftAlone::begin(engine, &state).await;
    for _ in 0..TRIES_MAX {
        if let Some(warnings) = job.copy_and_exchange(how).await? {
            return Ok(warnings);
        }
    }
    bail!(
        Deadlock,
        "table '{}' was truncated, altered or divided anew, or rows of its AGGREGATE KEY deleted, \
         again and again while its rows were copied; try again when it is not",
        state.name()
    )
}

/// As [`rewrite`], of a temporary table, to which nobody writes beside its session: returns the
/// table that is to have its name.
///
/// # Errors
/// Those of [`rewrite`]; nothing remains of the new table then.
pub async fn rewrite_temporary(
    engine: &Arc<Engine>,
    id: TableId,
    how: &dyn Rewriting,
    progress: &Progress,
) -> Result<(UnpublishedTable, Vec<String>)> {
    engine.begun().await?;
    let state = engine.ddl().states_of(&[id])?.remove(0);
    let job = Job { engine, state: &state, progress };
    progress.set(Stage::Running);
    let _left = LeftAlone::begin(engine, &state).await;
    let before = Arc::clone(engine.meta().catalog().require(id)?);
    let form = how.form(&before)?;
    let (new, warnings) = engine.ddl().create_copy(&before, &form).await?;
    let mut copying = Copying::begin(&job, how, (&before, &form), new.target().clone())?;
    if copying.round().await?.is_none() {
        return Err(state.changed());
    }
    copying.check_count().await?;
    copying.move_counter(&state).await?;
    Ok((new, warnings))
}

/// INSERT OVERWRITE: puts a table that is filled in the place of `before`, like which it was made
/// (RFC 0049). Rows that were acknowledged before the record go with the old table. The record uses
/// up the label, if there is one, and what it did is returned then.
///
/// # Errors
/// 1412 when the other table was altered since, 1317 when it is cancelled, and those of the log.
/// The other table is as it was then.
pub async fn overwrite(
    engine: &Arc<Engine>,
    before: &Table,
    (filled, label): (UnpublishedTable, Option<Claim>),
    progress: &Progress,
) -> Result<Option<Loaded>> {
    engine.begun().await?;
    let mut signature = signature_of(engine, label)?;
    let signed = signature.signed_as();
    let state = engine.ddl().states_of(&[before.id])?.remove(0);
    let job = Job { engine, state: &state, progress };
    let _alone = job.alone().await?;
    progress.set(Stage::Running);
    let new = Arc::clone(&filled.target().state);
    loop {
        match job.replace(before, &new, &mut signature).await? {
            End::Done => break,
            End::Later => job.pause(OPEN).await?,
            End::Again => return Err(state.changed()),
        }
    }
    filled.keep();
    job.drop_old_later();
    engine.ddl().follow_clock(new.id).await;
    Ok(signed)
}

/// Keeps merges from the files of a table.
struct LeftAlone<'a>(&'a TableState);

impl<'a> LeftAlone<'a> {
    async fn begin(engine: &Engine, state: &'a TableState) -> Self {
        state.set_copied(true);
        let left = Self(state);
        engine.upkeep.compactor.merges_ended(state).await;
        left
    }
}

impl Drop for LeftAlone<'_> {
    fn drop(&mut self) {
        self.0.set_copied(false);
    }
}

/// The exchange of the tables, or why it is not done.
enum End {
    Done,
    /// Writers stay, or came in between.
    Later,
    /// What was copied is gone.
    Again,
}

impl Job<'_> {
    /// Waits for other changes that copy the table.
    async fn alone(&self) -> Result<MutexGuard<'_, ()>> {
        let alone = loop {
            match self.state.rewriting.try_lock() {
                Some(alone) => break alone,
                None => self.pause(LOOK).await?,
            }
        };
        match self.state.gate.is_replaced() {
            true => Err(self.state.gone()),
            false => Ok(alone),
        }
    }

    /// `None` where what was copied is gone, or the table has another form by now.
    async fn copy_and_exchange(&self, how: &dyn Rewriting) -> Result<Option<Vec<String>>> {
        let ddl = self.engine.ddl();
        let catalog = self.engine.meta().catalog();
        let before = Arc::clone(catalog.require(self.state.id)?);
        catalog.check_no_temporary(&before)?;
        let form = how.form(&before)?;
        let (new, warnings) = ddl.create_copy(&before, &form).await?;
        let mut copying = Copying::begin(self, how, (&before, &form), new.target().clone())?;
        let mut rounds = 0;
        loop {
            let Some(moved) = copying.round().await? else { return Ok(None) };
            rounds += 1;
            let failpoints = self.engine.store.failpoints();
            failpoints.pass("rewrite-copied").map_err(|e| Error::io("rewrite", e))?;
            if moved > ROWS_FEW && rounds < ROUNDS_MAX {
                continue;
            }
            match self.end(&before, &mut copying).await? {
                End::Done => break,
                End::Again => return Ok(None),
                End::Later => self.pause(OPEN).await?,
            }
        }
        let table = new.target().id();
        new.keep();
        self.drop_old_later();
        ddl.follow_clock(table).await;
        Ok(Some(warnings))
    }

    /// Lets nobody in, copies what has come, and exchanges the tables.
    async fn end(&self, before: &Table, copying: &mut Copying<'_>) -> Result<End> {
        let (ddl, state) = (self.engine.ddl(), self.state);
        // What is reserved with the gate closed would be waited for by those who want to write.
        let room = ddl.room_of_definition().await?;
        let _closed = state.gate.close();
        let is_prepared = || self.engine.prepared.holds(state.id);
        if !self.drained(is_prepared).await? {
            return Ok(End::Later);
        }
        let Some(_) = copying.round().await? else { return Ok(End::Again) };
        copying.check_count().await?;
        copying.move_counter(self.state).await?;
        let _names = ddl.lock_names().await;
        let _one = ddl.lock_definition(state).await?;
        let catalog = self.engine.meta().catalog();
        if !is_same(before, catalog.require(state.id)?)
            || catalog.has_temporary_partitions(state.id)
        {
            return Ok(End::Again);
        }
        self.check_running()?;
        let new = &copying.target().state;
        match self.exchange(new, copying.seen(), (room, &mut Signature::default())).await {
            Ok(()) => Ok(End::Done),
            Err(error) if error.code() == ErrorCode::Deadlock => Ok(End::Later),
            Err(error) => Err(error),
        }
    }

    /// Whether nobody writes to the table any more, and nothing else is waited for.
    async fn drained(&self, is_waited_for: impl Fn() -> bool) -> Result<bool> {
        let clock = self.engine.clock();
        let until = clock.now() + DRAIN;
        while self.state.gate.inside() > 0 || is_waited_for() {
            self.progress.set(Stage::Waiting);
            if clock.now() >= until {
                return Ok(false);
            }
            self.pause(LOOK).await?;
        }
        self.progress.set(Stage::Running);
        Ok(true)
    }

    /// Lets nobody in, and exchanges the tables.
    async fn replace(
        &self,
        before: &Table,
        new: &Arc<TableState>,
        signature: &mut Signature,
    ) -> Result<End> {
        let (ddl, state) = (self.engine.ddl(), self.state);
        // What is reserved with the gate closed would be waited for by those who want to write.
        let room = ddl.room_of_definition().await?;
        let _closed = state.gate.close();
        // Prepared loads are not waited for: as behind a TRUNCATE, their commit is refused.
        if !self.drained(|| false).await? {
            return Ok(End::Later);
        }
        // The version of its rows counts, though they go.
        self.engine.flusher.appender.end_group(state, GroupEndReason::Barrier, |_| true)?;
        if let Some(next) = state.counter.as_ref().map(|counter| counter.next()) {
            ddl.move_counter(new.id, next).await?;
        }
        let _names = ddl.lock_names().await;
        let _one = ddl.lock_definition(state).await?;
        let catalog = self.engine.meta().catalog();
        catalog.check_no_temporary(before)?;
        if !is_same(before, catalog.require(state.id)?) {
            return Ok(End::Again);
        }
        self.check_running()?;
        match self.exchange(new, Lsn(u64::MAX), (room, signature)).await {
            Ok(()) => Ok(End::Done),
            Err(error) if error.code() == ErrorCode::Deadlock => Ok(End::Later),
            Err(error) => Err(error),
        }
    }

    /// Appends the record of the exchange, unless the old table has a record above `seen`, or an
    /// open group.
    async fn exchange(
        &self,
        new: &Arc<TableState>,
        seen: Lsn,
        (room, signature): (Room, &mut Signature),
    ) -> Result<()> {
        let (store, settler) = (&self.engine.store, &self.engine.settler);
        let old = self.state;
        let event = MetaEvent::Exchange { old: old.id, new: new.id };
        let payload = record::metadata_payload(MetadataBody::Inline(&disk::encode(&event)));
        let payload = signature.signed(payload);
        store.failpoints().pass("rewrite-exchange").map_err(|e| Error::io("rewrite", e))?;
        let (_, unsettled) = store.wal.append_timed(
            Kind::Metadata as u8,
            &payload[..],
            room,
            |lsn, time, stamp| {
                let mut group = old.lock();
                if group.is_gone() {
                    return Err(old.gone());
                }
                if old.delta.last() > seen || group.log().open().is_some() {
                    return Err(err!(Deadlock, "rows came in between"));
                }
                // From here on nothing enters the old table.
                old.gate.replace();
                group.set_in_bin(true);
                drop(group);
                for state in [old, new] {
                    state.note_event(lsn);
                    record::write_metadata_stamp(stamp, state.id);
                }
                signature.appended(lsn, time);
                Ok(settler.settle_later(lsn, event, None, None))
            },
        )?;
        settler.settled_as_told(unsettled).await
    }

    /// Drops the table that has lost its name, as the next start would.
    fn drop_old_later(&self) {
        let engine = Arc::clone(self.engine);
        let gone_with_it = engine.meta().catalog().with_temporary(self.state.id);
        let gone = async move {
            let until = engine.clock().now() + OLD_STAYS;
            while engine.clock().now() < until && !engine.store.keeper.is_stopping() {
                engine.clock().sleep(LOOK).await;
            }
            if !engine.store.keeper.is_stopping() {
                gone_with_it.iter().for_each(|id| engine.ddl().drop_unlisted_later(*id));
            }
        };
        self.engine.store.pool().spawn("drop-replaced", Box::pin(gone));
    }
}

/// Whether a table is still of the form that is copied. Partitions that rows make for themselves
/// are made in the copy, too.
fn is_same(before: &Table, now: &Table) -> bool {
    let values = |table: &Table| {
        let of = |one: &Partition| (one.name.clone(), one.values.clone());
        table.partitions.iter().map(of).collect::<Vec<_>>()
    };
    let is_divided_alike = before.makes_partitions() || values(before) == values(now);
    let mut undivided = Table { partitions: now.partitions.clone(), ..before.clone() };
    // They follow RENAME of the tables that they reference, as those of the copy do.
    for (key, now) in undivided.foreign_keys.iter_mut().zip(&now.foreign_keys) {
        (key.database, key.table) = (now.database.clone(), now.table.clone());
    }
    is_divided_alike && undivided == *now
}
