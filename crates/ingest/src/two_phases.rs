//! Loads of two phases: prepare, then commit or abort.

mod partial;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use freshet_base::budget::Permit;
use freshet_base::clock::Deadline;
use freshet_base::task;
use freshet_base::{DbId, Error, ErrorCode, Lsn, Result, TxnId, bail, err};
use freshet_meta::{Claim, LabelKind, NotedPartial, NotedRows, PreparedNote, Renaming};
use freshet_schema::{GroupCommitMode, KeyModel, TableSchema};

use crate::admit::WaitLimit;
use crate::append::pieces::RowPieces;
use crate::append::{Appended, PartBody, PartLoad, PreparedLoad, Signature, Signed, SmallLoad};
use crate::behind::wait_for_keys;
use crate::buffer::LoadBuffer;
use crate::counter::UsedIds;
use crate::decode::PartialColumns;
use crate::engine::Engine;
use crate::key_rules::KeyRules;
use crate::keyed_files::KeyedFiles;
use crate::large_load::LargeLoad;
use crate::load::{Load, Staged, StagedBody};
use crate::looked::{OnNewKey, PartialRows, has_deleting};
use crate::names;
use crate::note;
use crate::prepared::{Prepared, PreparedEnd, PreparedId, PreparedTable, WholeRows};
use crate::record::PART_HEAD_BYTES;
use crate::spool;
use crate::spooled::SpooledRows;
use crate::target::LoadTarget;

/// How often a table is renamed anew because notes of loads are still to go that were committed
/// meanwhile.
const RENAMES_MAX: usize = 20;

/// What the commit of a load that is being prepared has to know.
struct HowCommitted {
    partial: Option<NotedPartial>,
    is_grouped: bool,
}

impl From<NotedPartial> for HowCommitted {
    fn from(partial: NotedPartial) -> Self {
        Self { partial: Some(partial), is_grouped: false }
    }
}

impl Engine {
    /// Prepares a load: its rows are durable when this returns, and readable behind its commit.
    /// Without a commit it is aborted after `keep`. If it is of a group and fits in a record, its
    /// commit joins the group that is open then.
    ///
    /// # Errors
    /// Those of writing files; nothing of it remains then.
    pub async fn prepare(
        &self,
        load: Load<'_>,
        buffer: &mut LoadBuffer,
        (claim, keep): (Option<Claim>, Duration),
    ) -> Result<(TxnId, String)> {
        let target = load.target().clone();
        // Until its note keeps the table (RFC 0039).
        let _pass = load.pass();
        let is_grouped = load.is_grouped();
        let staged = load.staged(buffer).await?;
        let how = HowCommitted { partial: None, is_grouped };
        self.note_staged(&target, staged, how, (claim, keep)).await
    }

    /// Prepares a partial update: its rows are durable when this returns, and completed by those
    /// that are stored when it is committed (RFC 0050). It is aborted after `keep`.
    ///
    /// # Errors
    /// `NotSupported` for rows that do not fit a record, and where completed rows are computed or
    /// checked; those of writing files. Nothing of it remains then.
    pub async fn prepare_partial(
        &self,
        load: Load<'_>,
        rows: PartialRows<'_>,
        memory: Permit,
        (claim, keep): (Option<Claim>, Duration),
    ) -> Result<(TxnId, String)> {
        let target = load.target().clone();
        // Until its note keeps the table (RFC 0039).
        let _pass = load.pass();
        check_partial(&target, rows.columns)?;
        let bytes = rows.bytes.len() + rows.given.len();
        assert!(self.takes_record_of(PART_HEAD_BYTES + bytes), "more rows are in a file");
        let mut noted = Vec::with_capacity(bytes);
        noted.extend_from_slice(rows.bytes);
        noted.extend(rows.given.iter().map(|given| u8::from(*given)));
        let count = crate::buffer::row_count(rows.count)?;
        let ids = target.counter();
        let ids = ids.and_then(|ids| ids.of_rows(target.schema(), rows.bytes, count));
        let own = (!rows.given.is_empty(), has_deleting(rows.given, rows.count));
        let partial = partial::noted(rows.columns, own, rows.on_new_key);
        let staged = Staged {
            rows: count,
            incarnation: target.state.incarnation(),
            ids,
            body: StagedBody::Rows(WholeRows::new(vec![noted.into()], memory)),
        };
        self.note_staged(&target, staged, partial.into(), (claim, keep)).await
    }

    /// As [`Self::prepare_partial`], of rows that are too many for a record.
    ///
    /// # Errors
    /// Those of [`Self::prepare_partial`]; `DiskFull`.
    pub async fn prepare_spooled_partial(
        &self,
        load: Load<'_>,
        rows: SpooledRows,
        (columns, on_new_key): (&PartialColumns, OnNewKey),
        (claim, keep): (Option<Claim>, Duration),
    ) -> Result<(TxnId, String)> {
        let target = load.target().clone();
        // Until its note keeps the table (RFC 0039).
        let _pass = load.pass();
        check_partial(&target, columns)?;
        self.store.disk.may_grow()?;
        let own = (rows.is_flexible(), rows.has_deleting());
        let partial = partial::noted(columns, own, on_new_key);
        let (count, of) = (rows.count()?, target.clone());
        let read =
            move || rows.noted(of.schema(), of.counter().map(Arc::as_ref)).map(|of| (rows, of));
        let (rows, (noted, ids)) = task::run(&**self.pool(), read).await?;
        let staged = Staged {
            rows: count,
            incarnation: target.state.incarnation(),
            ids: UsedIds::join(ids, load.ids()),
            body: StagedBody::Spooled(rows, noted),
        };
        self.note_staged(&target, staged, partial.into(), (claim, keep)).await
    }

    /// Writes the note of a load.
    async fn note_staged(
        &self,
        target: &LoadTarget,
        staged: Staged,
        HowCommitted { partial, is_grouped }: HowCommitted,
        (claim, keep): (Option<Claim>, Duration),
    ) -> Result<(TxnId, String)> {
        // Ids in its rows are never given again, whatever happens before its commit.
        let entered = self.appender.enter_ids(&target.state, staged.ids)?;
        self.horizon().wait(entered.map_or(Lsn::ZERO, |ids| ids.reserved)).await;
        let nothing = || (Vec::new(), self.upkeep.sweeper.in_flight());
        let ((rowsets, in_flight), kept, spooled) = match staged.body {
            StagedBody::Files { metas, in_flight } => ((metas, in_flight), None, None),
            StagedBody::Rows(rows) => (nothing(), Some(rows), None),
            StagedBody::Spooled(rows, noted) => (nothing(), None, Some((rows, noted))),
        };
        if let Some((_, noted)) = &spooled {
            spool::wait_for_room(self, noted.bytes).await?;
        }
        let txn = self.store.meta().ids().txn()?;
        let labels = self.meta().labels();
        let claim = match claim {
            Some(claim) => claim,
            None => {
                let label = names::load_label(txn);
                labels.claim(target.db(), &label, LabelKind::Streaming)?.or_refuse()?
            }
        };
        let (state, home) = (Arc::clone(&target.state), claim.db());
        let Some(arriving) = self.prepared.arrives(target.id(), || state.db() == home) else {
            bail!(
                TableChanged,
                "table '{}' has gone to another database while the load ran; nothing was loaded, \
                 send it again",
                target.table().name
            );
        };
        let keep_micros = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        let note = PreparedNote {
            txn,
            db: claim.db(),
            label: claim.label().to_owned(),
            table: target.id(),
            incarnation: staged.incarnation,
            schema_version: target.schema().version,
            rows: staged.rows,
            rowsets,
            noted: None,
            partial,
            is_grouped: is_grouped && kept.is_some(),
            highest_id: staged.ids.map(|ids| ids.highest()),
            expires_micros: labels.clock().now_micros().saturating_add(keep_micros),
        };
        let label = note.label.clone();
        let prepared = Prepared { note, claim: Some(claim), kept, _in_flight: in_flight };
        let (loads, ending) = (Arc::clone(&self.prepared), self.prepared.end_begins());
        // Runs to its end, whoever waits for it.
        let write = move || {
            let written = match &spooled {
                None => loads.write(prepared),
                Some((rows, noted)) => loads.write_with(prepared, *noted, |fs, path, head| {
                    rows.write_behind(fs, path, head)
                }),
            };
            drop((arriving, ending));
            written
        };
        task::run(&**self.pool(), write).await?;
        Ok((txn, label))
    }

    /// The table of a prepared load of a database.
    ///
    /// # Errors
    /// Where there is no such load, in Doris's words.
    pub fn prepared(&self, db: DbId, id: PreparedId<'_>) -> Result<PreparedTable> {
        self.prepared.find(db, id)
    }

    /// All prepared loads, by transaction.
    pub fn prepared_loads(&self) -> Vec<PreparedTable> {
        self.prepared.list()
    }

    /// Commits or aborts a prepared load. Whoever begins this must see it to its end: a load whose
    /// end is dropped half-way can be ended again only behind a restart.
    ///
    /// # Errors
    /// Where there is no such load. An error to retry leaves it prepared. Where its table was
    /// dropped or truncated, it is aborted.
    pub async fn end_prepared(&self, txn: TxnId, end: PreparedEnd) -> Result<()> {
        let _ending = self.prepared.end_begins();
        self.begun().await?;
        let prepared = self.prepared.begin_end(txn)?;
        match end {
            PreparedEnd::Commit => self.commit_prepared(prepared).await,
            PreparedEnd::Abort => self.abort_prepared(prepared).await,
        }
    }

    async fn abort_prepared(&self, prepared: Box<Prepared>) -> Result<()> {
        let loads = Arc::clone(&self.prepared);
        task::run(&**self.pool(), move || loads.abort(prepared)).await
    }

    async fn commit_prepared(&self, mut prepared: Box<Prepared>) -> Result<()> {
        let txn = prepared.note.txn;
        match self.append_prepared(&mut prepared).await {
            Ok(lsn) => {
                self.horizon().wait(lsn).await;
                if !self.prepared.committed(txn) {
                    let loads = Arc::clone(&self.prepared);
                    task::run(&**self.pool(), move || loads.end_notes(vec![txn])).await;
                }
                Ok(())
            }
            Err(error) if is_final(&error) => {
                self.abort_prepared(prepared).await?;
                Err(err!(WrongArguments, "transaction [{txn}] is aborted: {error}"))
            }
            Err(error) => {
                self.prepared.put_back(prepared);
                Err(error)
            }
        }
    }

    /// Appends the record of a prepared load.
    async fn append_prepared(&self, prepared: &mut Prepared) -> Result<Lsn> {
        let note = &prepared.note;
        let catalog = self.catalog();
        let dropped = || err!(NoSuchTable, "its table was dropped");
        let table = catalog.table_by_id(note.table).ok_or_else(dropped)?;
        let state = self.table_state(note.table).ok_or_else(dropped)?;
        let target = LoadTarget::new(state, Arc::clone(table));
        let schema = table.history.at(note.schema_version).ok_or_else(dropped)?;
        self.appender.check_flushable(&target.state)?;
        if let (Some(noted), Some(of)) = (note.noted, note.partial.clone()) {
            return partial::append_partial(self, prepared, target, (noted, of)).await;
        }
        if let Some(noted) = note.noted {
            return self.append_noted(prepared, (&target, schema), noted).await;
        }
        let part = PartLoad {
            table: Arc::clone(&target.state),
            schema: Arc::clone(schema),
            began_in: note.incarnation,
            rows: note.rows,
            removals: 0,
            body: PartBody::Rowsets {
                metas: note.rowsets.clone(),
                // They are kept by the prepared load.
                in_flight: self.upkeep.sweeper.in_flight(),
            },
            looked_up: None,
            ids: note.highest_id.map(UsedIds::up_to),
        };
        let patience = WaitLimit::For(self.config().load_patience);
        let deadline = patience.late(&self.admission);
        let mut signature = Signature { label: prepared.claim.take(), txn: Some(note.txn) };
        let appended = match table.key_model {
            KeyModel::Primary => {
                let rules = KeyRules::default();
                let files = KeyedFiles { engine: self, target: &target, rules };
                files.append(vec![part], &mut signature, deadline).await
            }
            _ => self.append_part(part, &mut signature, deadline).await,
        };
        prepared.claim = signature.label;
        appended.map(|Appended { lsn, .. }| lsn)
    }

    /// Appends the record of a load whose rows stand behind its note.
    async fn append_noted(
        &self,
        prepared: &mut Prepared,
        (target, schema): (&LoadTarget, &Arc<TableSchema>),
        noted: NotedRows,
    ) -> Result<Lsn> {
        let PreparedNote { txn, rows, schema_version, incarnation, highest_id, .. } = prepared.note;
        let patience = WaitLimit::For(self.config().load_patience);
        let bytes = usize::try_from(noted.bytes).expect("a record is far below 4 GiB");
        if !self.takes_record_of(PART_HEAD_BYTES + bytes) {
            return self.append_noted_as_files(prepared, (target, schema), noted).await;
        }
        let (kept, memory) = match prepared.kept.take() {
            Some(WholeRows { pieces, memory, .. }) => (Some(pieces), Some(memory)),
            None => (None, None),
        };
        wait_for_keys(self, &target.state, || patience.soon(&self.admission)).await?;
        let admitted = self.admission.admit(PART_HEAD_BYTES + bytes, memory, patience).await?;
        let pieces = match kept {
            Some(pieces) => pieces,
            None => vec![self.read_noted(&prepared.note, noted).await?.into()],
        };
        let of = RowPieces { pieces, rows, ids: highest_id.map(UsedIds::up_to) };
        let is_noted = of.payload_bytes() == PART_HEAD_BYTES + bytes;
        assert!(is_noted, "the rows are those that were noted");
        let mode = match prepared.note.is_grouped {
            true => GroupCommitMode::Async,
            false => GroupCommitMode::Off,
        };
        let mut signature = Signature { label: prepared.claim.take(), txn: Some(txn) };
        let load = SmallLoad {
            table: &target.state,
            schema_version,
            mode,
            signed: Signed::Prepared(PreparedLoad { signature: &mut signature, incarnation }),
            looked_up: None,
        };
        let appended = self.appender.append_pieces(load, of, admitted);
        prepared.claim = signature.label;
        appended.map(|Appended { lsn, .. }| lsn)
    }

    /// The rows of a prepared load as they were kept, or as they stand behind its note.
    async fn noted_rows(
        &self,
        prepared: &mut Prepared,
        noted: NotedRows,
        deadline: Deadline,
    ) -> Result<WholeRows> {
        if let Some(kept) = prepared.kept.take() {
            return Ok(kept);
        }
        let memory = self.take_memory(noted.bytes, deadline).await?;
        let rows = self.read_noted(&prepared.note, noted).await?;
        Ok(WholeRows::new(vec![rows.into()], memory))
    }

    /// Reads the rows behind a note; their memory is the caller's to hold.
    async fn read_noted(&self, note: &PreparedNote, noted: NotedRows) -> Result<Vec<u8>> {
        let (txn, extension) = (note.txn, note::extension(note));
        let loads = Arc::clone(&self.prepared);
        task::run(&**self.pool(), move || loads.read_rows((txn, extension), noted)).await
    }

    /// Writes the rows behind a note to files, which the record names: the log was larger when
    /// they were prepared.
    async fn append_noted_as_files(
        &self,
        prepared: &mut Prepared,
        (target, schema): (&LoadTarget, &Arc<TableSchema>),
        noted: NotedRows,
    ) -> Result<Lsn> {
        let PreparedNote { txn, rows, incarnation, highest_id, .. } = prepared.note;
        let patience = WaitLimit::For(self.config().load_patience);
        let soon = patience.soon(&self.admission);
        let whole = self.noted_rows(prepared, noted, soon).await?;
        let (bytes, memory) = (whole.joined(), whole.memory);
        let mut files = LargeLoad::begin(&self.flusher, &target.state, schema)?;
        files.push(bytes, rows, memory).await?;
        let ids = highest_id.map(UsedIds::up_to);
        let part = PartLoad { ids, began_in: incarnation, ..files.finish().await? };
        assert_eq!(part.rows, rows, "the rows behind a note are those in the files");
        let deadline = patience.late(&self.admission);
        let mut signature = Signature { label: prepared.claim.take(), txn: Some(txn) };
        let appended = self.append_part(part, &mut signature, deadline).await;
        prepared.claim = signature.label;
        let is_same = target.state.incarnation() == incarnation;
        match appended {
            // The rows stand behind the note, and go to other files by the partitions of now.
            Err(error) if error.code() == ErrorCode::SnapshotTooOld && is_same => {
                Err(partitions_changed(&target.table().name))
            }
            appended => appended.map(|Appended { lsn, .. }| lsn),
        }
    }

    /// Renames tables, also into other databases, or views, all or none of them. A table that a
    /// prepared load waits for, or is just being prepared for, stays in its database, by which the
    /// load is found.
    ///
    /// # Errors
    /// Those of metadata and of the log, and 1235 for such a table.
    pub async fn rename_tables(&self, pairs: &[Renaming]) -> Result<()> {
        let only_a_note = AtomicBool::new(false);
        let binding = |tables| {
            self.prepared.move_tables(tables).map_err(|table| {
                only_a_note.store(!self.prepared.is_awaited(table), Ordering::Relaxed);
                let catalog = self.meta().catalog();
                let name = catalog.table_by_id(table).map_or("", |table| table.name.as_str());
                err!(
                    NotSupported,
                    "a prepared load waits for table '{name}', and is found by its database: \
                     commit or abort the load first, which SHOW TRANSACTION lists"
                )
            })
        };
        let mut tries = 0;
        loop {
            // A load that is told to be committed is none that waits.
            self.prepared.settled().await;
            let renamed = self.ddl().rename_tables(pairs, binding).await;
            tries += 1;
            // Another load was committed meanwhile.
            if !only_a_note.swap(false, Ordering::Relaxed) || tries == RENAMES_MAX {
                return renamed;
            }
        }
    }

    async fn append_part(
        &self,
        part: PartLoad,
        signature: &mut Signature,
        deadline: Deadline,
    ) -> Result<Appended> {
        wait_for_keys(self, &part.table, || deadline).await?;
        let parts = vec![part];
        let room = self.appender.room_for(&parts, deadline).await?;
        self.appender.append_parts(parts, signature, room).map(|(appended, _)| appended)
    }
}

/// Checks that nothing has to be computed of completed rows, which a commit cannot do.
fn check_partial(target: &LoadTarget, columns: &PartialColumns) -> Result<()> {
    if !columns.completion.is_nothing() {
        bail!(
            NotSupported,
            "a partial update of table '{}', which has generated columns or checks, is not \
             supported with two_phase_commit; leave it out",
            target.table().name
        );
    }
    Ok(())
}

fn partitions_changed(table: &str) -> Error {
    err!(
        OutOfRoom,
        "partitions of table '{table}' changed while the rows were written to files; commit the \
         load again"
    )
}

/// Whether a commit can never succeed.
fn is_final(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::NoSuchTable
            | ErrorCode::SnapshotTooOld
            | ErrorCode::TableChanged
            | ErrorCode::NoPartition
            | ErrorCode::NoDefault
            | ErrorCode::WrongArguments
    )
}
