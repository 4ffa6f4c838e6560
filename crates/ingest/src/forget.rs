//! Rows that delete are forgotten, in tables with a sequence column (keys.md K30, RFC 0047): a
//! merge with the oldest rowset of its tablet names those that are old, and a load of removals says
//! so in the log. Whoever reads the log ends the life of the same rows at the same place.

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::{ErrorCode, Lsn, Result, TableId, err};
use freshet_schema::key::KeyCodec;
use freshet_schema::{Forgotten, GroupCommitMode, TableSchema};

use crate::admit::{Admission, WaitLimit};
use crate::append::{Appended, Appender, Signed, SmallLoad};
use crate::buffer::LoadBuffer;
use crate::compact::Compactor;
use crate::job::Job;
use crate::named::Forgettable;
use crate::store::Store;
use crate::target::LoadTarget;

/// The bytes of a record of removals.
const RECORD_BYTES: usize = 256 << 10;

/// A record that lets rows be forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forgot {
    pub table: TableId,
    pub lsn: Lsn,
    /// The keys whose rows are forgotten, unless other ones have come behind `to`.
    pub keys: Vec<Box<[u8]>>,
    /// The last LSN whose rows the merge has read.
    pub to: Lsn,
}

/// Appends the records.
pub(crate) struct Forgetter {
    store: Arc<Store>,
    admission: Arc<Admission>,
    appender: Arc<Appender>,
    forgettable: Arc<Forgettable>,
    pub job: Job,
}

impl Forgetter {
    /// Appends what the merges of `compactor` name.
    pub fn new(
        (store, admission): (&Arc<Store>, &Arc<Admission>),
        appender: &Arc<Appender>,
        compactor: &Compactor,
    ) -> Self {
        let (store, admission) = (Arc::clone(store), Arc::clone(admission));
        let (appender, forgettable) = (Arc::clone(appender), Arc::clone(&compactor.forgettable));
        Self { store, admission, appender, forgettable, job: Job::default() }
    }

    /// Begins to append, if there is something.
    pub fn plan(self: &Arc<Self>) {
        if !self.store.config.forgets_by_itself || self.forgettable.is_empty() {
            return;
        }
        let Some(running) = self.job.begin() else { return };
        let forgetter = Arc::clone(self);
        let task = async move {
            while !forgetter.store.keeper.is_stopping() {
                match forgetter.forget_some().await {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    // The next merge with the oldest rowset finds them again.
                    Err(error) => {
                        tracing::warn!(%error, "rows that delete are not forgotten yet");
                        break;
                    }
                }
            }
            drop(running);
        };
        self.store.pool().spawn("forget", Box::pin(task));
    }

    /// Appends a record with some of the rows that are to be forgotten; `None` without any. What
    /// cannot be appended is left out.
    ///
    /// # Errors
    /// Those of admission and appending.
    pub async fn forget_some(&self) -> Result<Option<Forgot>> {
        while let Some(mut named) = self.forgettable.next() {
            let target = match LoadTarget::of_id(&self.store.tables, named.table) {
                Ok(target) if has_same_keys(&named.schema, target.schema()) => target,
                // The table is gone, or its keys are other ones.
                _ => continue,
            };
            let (mut buffer, keys) = removals(&mut named.rows, target.schema())?;
            let to = named.to;
            self.forgettable.put_back(named);
            let patience = WaitLimit::For(self.store.config.load_patience);
            let admitted = self.admission.admit(buffer.payload_bytes(), None, patience).await?;
            let load = SmallLoad {
                table: &target.state,
                schema_version: target.schema().version,
                mode: GroupCommitMode::Off,
                signed: Signed::Label(None),
                looked_up: None,
            };
            return match self.appender.append_rows(load, &mut buffer, admitted) {
                Ok((Appended { lsn, .. }, _)) => {
                    self.store.metrics().rows_forgotten.inc_by(keys.len() as u64);
                    Ok(Some(Forgot { table: target.id(), lsn, keys, to }))
                }
                Err(error) if error.code() == ErrorCode::NoSuchTable => continue,
                Err(error) => Err(error),
            };
        }
        Ok(None)
    }
}

/// Whether keys and values of the sequence column are the same bytes in both.
fn has_same_keys(before: &TableSchema, now: &TableSchema) -> bool {
    let key = |schema: &TableSchema| {
        let sequence = schema.sequence.and_then(|by| schema.position_of(by));
        let columns = schema.sort_key.iter().copied().chain(sequence);
        let of = |at: usize| {
            let column = &schema.columns[at];
            (column.id, column.ty, column.collation, column.keyed_by_weights, column.nullable)
        };
        columns.map(of).collect::<Vec<_>>()
    };
    before.sequence.is_some() && before.sequence == now.sequence && key(before) == key(now)
}

/// Takes the first of these rows, as the rows of a record; also returns their keys.
fn removals(
    rows: &mut VecDeque<Forgotten>,
    schema: &TableSchema,
) -> Result<(LoadBuffer, Vec<Box<[u8]>>)> {
    let codec = KeyCodec::of_sort_key(schema);
    let (mut buffer, mut keys, mut alone) = (LoadBuffer::default(), Vec::new(), Vec::new());
    buffer.begin();
    while buffer.payload_bytes() < RECORD_BYTES {
        let Some(row) = rows.pop_front() else { break };
        alone.clear();
        let put = codec.put_row(schema, &row.key, &mut alone);
        put.map_err(|what| err!(Internal, "the key of a row that deletes is {what}"))?;
        schema.put_forgotten(&alone, &row, buffer.resume());
        keys.push(row.key);
    }
    buffer.count(keys.len())?;
    buffer.removes_so_far();
    Ok((buffer, keys))
}
