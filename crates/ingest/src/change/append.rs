//! The record of a change that is of no transaction.

use std::sync::Arc;

use freshet_base::{ErrorCode, Lsn, Result};
use freshet_meta::Claim;
use freshet_schema::GroupCommitMode;
use freshet_storage::resolver::KeyedRows;

use super::{Change, Written};
use crate::append::{Appended, PreparedLoad, Signed, SmallLoad};
use crate::buffer::LoadBuffer;
use crate::key_rules::{KeyRules, OnExisting, resolver};
use crate::keyed::{Computed, KeyedLoad};
use crate::overtaken::LookedUp;
use crate::removals::put_removals;
use crate::target::Loaded;
use crate::uniques::keys_of;

impl<'a> Change<'a> {
    /// The rows of a record: keys that are removed, then new rows.
    fn encoded(&self, new: &LoadBuffer, removed: &[&[u8]]) -> Result<LoadBuffer> {
        let mut buffer = LoadBuffer::default();
        put_removals(self.target.schema(), removed.iter().copied(), &mut buffer)?;
        buffer.resume().extend_from_slice(new.row_bytes());
        buffer.count(new.rows() as usize)?;
        buffer.use_ids(self.ids_of(new));
        self.check_bytes(&buffer)?;
        Ok(buffer)
    }

    fn check_bytes(&self, buffer: &LoadBuffer) -> Result<()> {
        self.engine.appender.check_changes_of(buffer.payload_bytes(), buffer.rows() as usize)
    }

    fn load(&self, label: Option<Claim>, looked_up: Option<LookedUp>) -> SmallLoad<'a> {
        SmallLoad {
            table: &self.target.state,
            schema_version: self.target.schema().version,
            mode: GroupCommitMode::Off,
            signed: Signed::Label(label),
            looked_up,
        }
    }

    /// Appends a record unless one of its rows was written since they were looked at. Blind writes
    /// lock no rows, so nothing at all may come between the last look and the record.
    pub(super) async fn append_if_unchanged(
        &mut self,
        new: &LoadBuffer,
        removed: &[&[u8]],
        mut prepared: Option<PreparedLoad<'_>>,
    ) -> Result<Written> {
        let (engine, target) = (self.engine, self.target);
        let deadline = self.rules.deadline(engine);
        self.make_partitions(new).await?;
        loop {
            let mut buffer = self.encoded(new, removed)?;
            let rows = keys_of(target, &buffer);
            let bytes = buffer.payload_bytes();
            let admitted = engine.admission.admit(bytes, None, self.patience).await?;
            let mut latch = resolver(target).latch().await?;
            self.check_current()?;
            let places = latch.find(&rows).await?;
            let mut all = places.iter().zip(0..);
            if !all.all(|(place, at)| self.looked.get(rows.key(at)) == Some(place)) {
                return Ok(Written::Overtaken);
            }
            let looked_up = LookedUp::last(latch.end());
            let label = self.label.take();
            let given = label.as_ref().map(|label| Arc::from(label.label()));
            let signed = match &mut prepared {
                Some(prepared) => Signed::Prepared(prepared.again()),
                None => Signed::Label(label),
            };
            let load = SmallLoad { signed, ..self.load(None, Some(looked_up)) };
            match engine.appender.append_rows(load, &mut buffer, admitted) {
                Ok((Appended { lsn, txn }, _)) => {
                    let loaded = Loaded::alone(lsn.max(self.seen), txn, given);
                    return Ok(Written::Done(loaded));
                }
                Err(error) => {
                    let is_late = deadline.left(engine.store.clock()).is_zero();
                    if is_late || !looked_up.is_overtaken(&target.state) {
                        return Err(error);
                    }
                    // A label was used up by the attempt.
                    if given.is_some() {
                        return Ok(Written::Overtaken);
                    }
                }
            }
        }
    }

    /// Appends a record of rows that are locked, or that nobody has written to.
    pub(super) async fn append(&mut self, new: &LoadBuffer, removed: &[&[u8]]) -> Result<Written> {
        self.make_partitions(new).await?;
        let buffer = self.encoded(new, removed)?;
        let rows = keys_of(self.target, &buffer);
        self.append_keyed(buffer, rows).await
    }

    /// As [`Self::append`], of a record whose rows have these keys.
    pub(super) async fn append_keyed(
        &mut self,
        mut buffer: LoadBuffer,
        rows: KeyedRows,
    ) -> Result<Written> {
        self.check_bytes(&buffer)?;
        let (engine, target) = (self.engine, self.target);
        let label = self.label.take();
        let load = self.load(label, None);
        let rules = KeyRules { on_existing: OnExisting::Overwrite, ..self.rules };
        let end = self.end.expect("a change has looked");
        let is_last = self.same.is_some();
        let computed = Some(Computed { owner: &self.statement, end, is_last });
        let keyed = KeyedLoad { engine, target, rules, patience: self.patience, computed };
        match keyed.commit_rows(load, (&mut buffer, rows), None).await {
            Ok(loaded) => Ok(Written::Done(Loaded { lsn: loaded.lsn.max(self.seen), ..loaded })),
            Err(error) if self.is_overtaken(error.code(), end) => Ok(Written::Overtaken),
            Err(error) => Err(error),
        }
    }

    /// Whether what it has read up to `end` is not so any more, and not what it has waited for in
    /// vain: a TRUNCATE or DROP PARTITION has removed rows that it has locked, or others have
    /// written where it has locked none.
    fn is_overtaken(&self, code: ErrorCode, end: Lsn) -> bool {
        let state = &self.target.state;
        let is_written = self.same.is_some() && LookedUp::last(end).is_overtaken(state);
        match code {
            ErrorCode::Deadlock => state.cut() > end || is_written,
            ErrorCode::TableChanged => is_written,
            _ => false,
        }
    }

    async fn make_partitions(&self, new: &LoadBuffer) -> Result<()> {
        self.engine.ddl.make_partitions(self.target, new.row_bytes(), new.removals()).await
    }
}
