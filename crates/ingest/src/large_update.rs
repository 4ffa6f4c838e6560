//! Partial updates of more rows than a record takes: their rows are completed part by part, into
//! files, and one record refers to these (keys.md K12).
//!
//! Neither it nor blind writes lock keys of a table with a UNIQUE KEY (RFC 0052). So it is watched
//! what others write to the keys that have been completed already. These are completed once more,
//! into one more segment, until there are none; then the record is appended, unless anything at all
//! has come in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use freshet_base::{Error, Incarnation, Result, bail, err};
use freshet_meta::Claim;
use freshet_schema::row::RowCells;
use freshet_storage::Rowset;
use freshet_storage::resolver::{KeyedRows, Latch, Watch};

use crate::admit::WaitLimit;
use crate::append::{Appended, PartBody, PartLoad, Signature};
use crate::buffer::row_count;
use crate::counter::UsedIds;
use crate::engine::Engine;
use crate::key_rules::{KeyRules, resolver};
use crate::large_load::LargeLoad;
use crate::looked::{KEYS_AT_ONCE, PartialRows};
use crate::overtaken::LookedUp;
use crate::target::{LoadTarget, Loaded};

/// Keys that others may have written meanwhile.
const OVERTAKEN_MAX: usize = 1 << 20;

/// A partial update whose rows go to files.
pub struct LargeUpdate<'a> {
    engine: &'a Engine,
    target: &'a LoadTarget,
    patience: WaitLimit,
    files: LargeLoad,
    /// The files that are written, in the order in which they act.
    own: Vec<Arc<Rowset>>,
    /// Where in these the files of this round begin.
    round: usize,
    /// From the first look on.
    watch: Option<Watch>,
    /// Keys that have been completed, and were written by others since.
    overtaken: BTreeSet<Box<[u8]>>,
    /// Keys that are deleted and that no partition takes: nothing is to be done for them, unless
    /// one does at the end. With AUTO PARTITION others may make it.
    left_out: BTreeSet<Box<[u8]>>,
    /// The keys of this round, in all rounds but the first.
    again: Option<BTreeSet<Box<[u8]>>>,
    ids: Option<UsedIds>,
    /// The incarnation of the table for which its rows were written, of a load that was prepared.
    prepared_in: Option<Incarnation>,
}

impl<'a> LargeUpdate<'a> {
    /// Begins a partial update. It is given all its rows, some at a time, for a first round.
    ///
    /// # Errors
    /// `NoSuchTable` when the table was dropped, `OutOfRoom` when its flush keeps failing.
    pub fn begin(engine: &'a Engine, target: &'a LoadTarget, patience: WaitLimit) -> Result<Self> {
        let files = LargeLoad::begin(&engine.flusher, &target.state, target.schema())?;
        Ok(Self {
            engine,
            target,
            patience,
            files,
            own: Vec::new(),
            round: 0,
            watch: None,
            overtaken: BTreeSet::new(),
            left_out: BTreeSet::new(),
            again: None,
            ids: None,
            prepared_in: None,
        })
    }

    /// Of rows that were written for an incarnation of the table: behind a TRUNCATE they are
    /// refused.
    #[must_use]
    pub(crate) fn prepared_in(mut self, incarnation: Incarnation) -> Self {
        self.prepared_in = Some(incarnation);
        self
    }

    /// Completes the next rows: of those of one key each one counts, in their order.
    ///
    /// # Errors
    /// `NoDefault` and `WrongArguments` for a new key that is refused; files that cannot be read or
    /// written; `OutOfRoom`; `SnapshotTooOld` if rows were truncated meanwhile. Nothing was written
    /// then.
    pub async fn add(&mut self, rows: PartialRows<'_>) -> Result<()> {
        let (target, schema) = (self.target, self.target.schema());
        let count = row_count(rows.count)?;
        let keys = KeyedRows::of_encoded(rows.bytes, (count, 0), target.table(), schema);
        let encoded = RowCells::new(schema).rows(rows.bytes).collect::<Vec<_>>();
        let is_wanted = |group: &&[u32]| {
            self.again.as_ref().is_none_or(|again| again.contains(keys.key(group[0])))
        };
        let groups = keys.groups().filter(is_wanted).collect::<Vec<_>>();
        if groups.is_empty() {
            return Ok(());
        }
        for groups in groups.chunks(KEYS_AT_ONCE) {
            let firsts = groups.iter().flat_map(|group| encoded[group[0] as usize]);
            let firsts = firsts.copied().collect::<Vec<_>>();
            let wanted = (groups.len() as u32, 0);
            let wanted = KeyedRows::of_encoded(&firsts, wanted, target.table(), schema);
            let (mut whole, mut deletes) = (Vec::new(), Vec::with_capacity(groups.len()));
            for (group, mut row) in groups.iter().zip(self.stored(&wanted).await?) {
                let mut last: &[u8] = &[];
                for &at in *group {
                    last = encoded[at as usize];
                    row = rows.after(row.as_deref(), (at as usize, last))?;
                }
                deletes.push(row.is_none());
                whole.extend_from_slice(row.as_deref().unwrap_or(last));
            }
            self.write((whole, deletes), &wanted).await?;
        }
        self.files.write().await?;
        let files = &self.engine.store.files;
        for meta in &self.files.written()[self.own.len()..] {
            let rowset = files.rowset(target.id(), meta.clone(), schema);
            self.own.push(Arc::new(rowset.with_new_marks()));
        }
        let mut latch = resolver(target).latch().await?;
        self.look_again(&mut latch).await
    }

    /// Writes rows with these keys, of which those in `deletes` remove theirs.
    async fn write(
        &mut self,
        (rows, deletes): (Vec<u8>, Vec<bool>),
        keys: &KeyedRows,
    ) -> Result<()> {
        let (engine, target, count) = (self.engine, self.target, row_count(deletes.len())?);
        if let Some(counter) = target.counter() {
            self.ids = UsedIds::join(self.ids, counter.of_rows(target.schema(), &rows, count));
        }
        let soon = self.patience.soon(&engine.admission);
        let memory = engine.take_memory(rows.len() as u64, soon).await?;
        let (rows, deletes) = self.with_partitions(rows, deletes, keys).await?;
        if deletes.is_empty() {
            return Ok(());
        }
        let count = row_count(deletes.len())?;
        match deletes.contains(&true) {
            true => self.files.push_deleting(rows.into(), deletes, memory).await,
            false => self.files.push(rows.into(), count, memory).await,
        }
    }

    /// Makes the partitions that rows need. Left out are those that delete a key which none takes.
    async fn with_partitions(
        &mut self,
        rows: Vec<u8>,
        deletes: Vec<bool>,
        keys: &KeyedRows,
    ) -> Result<(Vec<u8>, Vec<bool>)> {
        let (ddl, target) = (&self.engine.ddl, self.target);
        let may_leave_out = deletes.contains(&true) && self.left_out.len() < OVERTAKEN_MAX;
        if !may_leave_out || target.state.layout().is_none() {
            ddl.make_partitions(target, &rows, 0).await?;
            return Ok((rows, deletes));
        }
        let cells = RowCells::new(target.schema());
        let added = cells.rows(&rows).zip(&deletes).filter(|(_, deletes)| !**deletes);
        let added = added.flat_map(|(row, _)| row).copied().collect::<Vec<_>>();
        ddl.make_partitions(target, &added, 0).await?;
        let layout = target.state.layout().expect("a table stays divided");
        let routed = layout.routed_keys(target.schema());
        let (mut left, mut signs) = (Vec::with_capacity(rows.len()), Vec::new());
        for ((row, deletes), at) in cells.rows(&rows).zip(deletes).zip(0..) {
            let key = keys.key(at);
            if deletes && !routed.has(key) {
                self.left_out.insert(key.into());
                continue;
            }
            left.extend_from_slice(row);
            signs.push(deletes);
        }
        Ok((left, signs))
    }

    /// Finds out which of the keys that were left out a partition takes by now. Others may have
    /// written these; a later row of this load may even be completed of what they wrote.
    fn look_at_left_out(&mut self) {
        let target = self.target;
        let Some(layout) = target.state.layout().filter(|_| !self.left_out.is_empty()) else {
            return;
        };
        let routed = layout.routed_keys(target.schema());
        let taken = self.left_out.extract_if(.., |key| routed.has(key));
        self.overtaken.extend(taken);
    }

    /// The row that each key has, in this load or else in the table.
    async fn stored(&mut self, wanted: &KeyedRows) -> Result<Vec<Option<Vec<u8>>>> {
        let mut latch = resolver(self.target).latch().await?;
        self.watch.get_or_insert_with(|| latch.watch());
        let own = latch.find_in(&self.own[self.round..], wanted).await?;
        let stored = latch.find(wanted).await?;
        let places = own.into_iter().zip(stored).map(|(own, stored)| match own {
            Some(own) if own.is_removed() => None,
            own => own.or(stored),
        });
        let places = places.collect::<Vec<_>>();
        let there = (0..places.len()).filter(|&at| places[at].is_some()).collect::<Vec<_>>();
        let read = places.iter().flatten().collect::<Vec<_>>();
        let read = latch.read(&read, self.target.schema()).await?;
        let mut rows = vec![None; places.len()];
        for (at, row) in there.into_iter().zip(read) {
            rows[at] = row.filter(|row| !self.target.schema().is_deleted(row));
        }
        Ok(rows)
    }

    /// Finds out which of the keys in files others have written since.
    async fn look_again(&mut self, latch: &mut Latch) -> Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let name = &self.target.table().name;
        let Some(overtaken) = latch.overtaken(watch, &self.own).await? else {
            bail!(
                SnapshotTooOld,
                "table '{name}' was truncated, or its partitions changed, while the load ran; \
                 nothing was loaded, send it again"
            );
        };
        self.overtaken.extend(overtaken);
        if self.overtaken.len() > OVERTAKEN_MAX {
            bail!(
                Deadlock,
                "others wrote more than {OVERTAKEN_MAX} of the rows that the load updates in table \
                 '{name}' while it ran; nothing was loaded, send it again"
            );
        }
        Ok(())
    }

    /// Appends the record. `None` if others have written some of the rows: then all rows are to be
    /// given once more, of which those are completed anew.
    ///
    /// # Errors
    /// Those of [`Self::add`] and of appending. Nothing was written then.
    pub async fn commit(&mut self, label: &mut Option<Claim>) -> Result<Option<Loaded>> {
        let mut signature = Signature { label: label.take(), txn: None };
        let committed = self.commit_as(&mut signature).await;
        *label = signature.label;
        committed
    }

    /// As [`Self::commit`], with what is known of the load before.
    ///
    /// # Errors
    /// Those of [`Self::commit`].
    pub(crate) async fn commit_as(&mut self, signature: &mut Signature) -> Result<Option<Loaded>> {
        let (engine, target) = (self.engine, self.target);
        let (patience, state) = (KeyRules::default().deadline(engine), &target.state);
        let given = signature.label.as_ref().map(|label| Arc::from(label.label()));
        loop {
            let deadline = self.patience.late(&engine.admission);
            let mut part = PartLoad { ids: self.ids, ..self.files.part() };
            part.began_in = self.prepared_in.unwrap_or(part.began_in);
            if self.own.is_empty() {
                // All rows were left out; a record without files is one of no rows.
                let permit = engine.memory().acquire_over(0);
                part.body = PartBody::Rows { bytes: Bytes::new(), permit };
            }
            let mut parts = vec![part];
            let room = engine.appender.room_for(&parts, deadline).await?;
            let mut latch = resolver(target).latch().await?;
            self.look_again(&mut latch).await?;
            self.look_at_left_out();
            if !self.overtaken.is_empty() {
                self.again = Some(std::mem::take(&mut self.overtaken));
                self.round = self.own.len();
                return Ok(None);
            }
            let looked_up = LookedUp::last(latch.end());
            parts[0].looked_up = Some(looked_up);
            match engine.appender.append_parts(parts, signature, room) {
                Ok((Appended { lsn, txn }, _)) => return Ok(Some(Loaded::alone(lsn, txn, given))),
                Err(_)
                    if looked_up.is_overtaken(state)
                        && !patience.left(engine.store.clock()).is_zero() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Why it gives up.
    pub fn never_last(&self) -> Error {
        err!(
            Deadlock,
            "others wrote the same rows of table '{}' again and again while they were updated; \
             send the load again",
            self.target.table().name
        )
    }
}
