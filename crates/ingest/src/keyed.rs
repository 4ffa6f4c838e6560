//! Loads of tables with a primary key: who writes looks first (keys.md K1 to K10).
//!
//! A statement of its own takes the latch of its table, finds the rows that have its keys, decides,
//! appends, and marks what it has replaced. Nobody else does so meanwhile, so it locks no key; but
//! it waits for keys that others hold, who compute rows from stored ones.

use freshet_base::budget::Permit;
use freshet_base::{Error, ErrorCode, Lsn, Result, bail};
use freshet_schema::TableSchema;
use freshet_schema::row::RowCells;
use freshet_storage::resolver::{KeyedRows, Latch, Place, Values};

use crate::admit::{Admitted, WaitLimit};
use crate::append::{Appended, SmallLoad};
use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::key_rules::{Conflict, Decided, KeyRules, OnExisting, resolver};
use crate::locks::{LockOwner, PRIMARY};
use crate::overtaken::LookedUp;
use crate::removals::put_removals;
use crate::target::{KeyOutcome, LoadTarget, Loaded};
use crate::uniques::{Holders, decide_by_all, duplicate_row, keys_of, values_of};

/// Messages about rows that were left out; further ones are only counted.
const MESSAGES_MAX: usize = 64;

/// A small load of a table with a primary key, outside of transactions.
pub(crate) struct KeyedLoad<'a> {
    pub engine: &'a Engine,
    pub target: &'a LoadTarget,
    pub rules: KeyRules,
    pub patience: WaitLimit,
    pub computed: Option<Computed<'a>>,
}

/// What is known of a statement that computed rows from stored ones.
#[derive(Clone, Copy)]
pub(crate) struct Computed<'a> {
    /// It holds the keys that the statement has locked.
    pub owner: &'a LockOwner,
    /// The end of the log when it first looked.
    pub end: Lsn,
    /// Whether nothing at all may have entered the table since, as it has locked no keys.
    pub is_last: bool,
}

/// Decides about rows in the order in which they come: among those of one key, and where it exists.
pub(crate) fn decide(
    rows: &KeyedRows,
    (values, holders): (&Values, &Holders),
    exists: impl Fn(u32) -> bool,
    on_existing: OnExisting,
) -> Decided {
    if !values.is_empty() && on_existing != OnExisting::Overwrite {
        return decide_by_all(rows, values, holders, exists, on_existing);
    }
    let replaces = matches!(on_existing, OnExisting::Replace | OnExisting::Overwrite);
    if replaces && rows.are_distinct() {
        let replaced = (0..rows.len()).filter(|&at| exists(at)).count() as u64;
        let (kept, skipped, removed) = ((0..rows.len()).collect(), Vec::new(), Vec::new());
        return Decided { kept, refused: None, skipped, replaced, removed };
    }
    let (mut kept, mut skipped, mut refused) = (Vec::new(), Vec::new(), None::<u32>);
    let (mut replaced, removed) = (0, Vec::new());
    for group in rows.groups() {
        let is_there = exists(group[0]);
        let conflicts = &group[usize::from(!is_there)..];
        match on_existing {
            OnExisting::Refuse => {
                let first = conflicts.first().copied();
                refused = refused.into_iter().chain(first).min();
                kept.push(group[0]);
            }
            OnExisting::Skip => {
                kept.extend((!is_there).then_some(group[0]));
                skipped.extend(conflicts);
            }
            OnExisting::Replace | OnExisting::Overwrite => {
                kept.push(group[group.len() - 1]);
                replaced += conflicts.len() as u64;
            }
        }
    }
    kept.sort_unstable();
    skipped.sort_unstable();
    let (refused, skipped) =
        (refused.map(|at| (at, PRIMARY)), skipped.into_iter().map(|at| (at, PRIMARY)).collect());
    Decided { kept, refused, skipped, replaced, removed }
}

/// The latch of a table with what was found under it.
struct Looked {
    latch: Latch,
    /// With the unique keys that it has under the latch.
    target: LoadTarget,
    rows: KeyedRows,
    places: Vec<Option<Place>>,
    values: Values,
    holders: Holders,
}

impl KeyedLoad<'_> {
    /// Appends the rows of `buffer`.
    ///
    /// # Errors
    /// 1062 for a key that exists, 1205 and 1213 for keys that others hold, and those of
    /// [`crate::append::Appender::append_rows`]. Nothing was appended then.
    pub async fn commit(
        &self,
        load: SmallLoad<'_>,
        buffer: &mut LoadBuffer,
        held: Option<Permit>,
    ) -> Result<Loaded> {
        let rows = keys_of(self.target, buffer);
        self.commit_rows(load, (buffer, rows), held).await
    }

    /// As [`Self::commit`], of rows whose keys are known.
    ///
    /// # Errors
    /// Those of [`Self::commit`].
    pub async fn commit_rows(
        &self,
        load: SmallLoad<'_>,
        (buffer, rows): (&mut LoadBuffer, KeyedRows),
        held: Option<Permit>,
    ) -> Result<Loaded> {
        // Locks are released after the marks, whatever happens.
        let waiting = LockOwner::new(self.engine.locks(), self.rules.connection);
        let (mut load, mut held, mut known) = (load, held, Some(rows));
        let mut bytes = buffer.payload_bytes();
        let given = load.given();
        loop {
            let rows = known.take().unwrap_or_else(|| keys_of(self.target, buffer));
            let looked = self.look((&*buffer, rows), bytes, held.take(), &waiting);
            let (admitted, looked) = looked.await?;
            if let (Some(counter), Some(ids)) = (&self.target.state.counter, buffer.ids()) {
                counter.check(&ids)?;
            }
            let decided = looked.decide(self.rules.on_existing);
            let seen = looked.seen();
            if let Some(conflict) = decided.refused {
                return Err(self.refuse(looked, buffer, conflict).await);
            }
            let of_rows = (&looked.rows, &looked.values);
            let keys = outcome(&looked.target, buffer, of_rows, &decided);
            if decided.kept.is_empty() {
                return Ok(Loaded { keys, ..Loaded::looked_only(seen) });
            }
            let mut chosen = LoadBuffer::default();
            let is_all = decided.kept.len() as u32 == buffer.rows() && decided.removed.is_empty();
            let (buffer, looked) = match is_all {
                true => (&mut *buffer, looked),
                false => {
                    choose(buffer, &decided, self.target.schema(), &mut chosen)?;
                    chosen.use_ids(buffer.ids());
                    (&mut chosen, looked)
                }
            };
            if buffer.payload_bytes() > bytes {
                // Rows that are removed are in the record, too.
                bytes = buffer.payload_bytes();
                self.check_bytes(bytes)?;
                continue;
            }
            let looked = looked.again(buffer, is_all).await?;
            if let Some(conflict) = looked.last_conflict(self.rules.on_existing) {
                return Err(self.refuse(looked, buffer, conflict).await);
            }
            let end = self.computed.map_or(looked.latch.end(), |computed| computed.end);
            let is_last = self.computed.is_some_and(|computed| computed.is_last);
            let is_derived = self.computed.is_some() || !decided.skipped.is_empty();
            let attempt = load.attempt(LookedUp { end, is_derived, is_last });
            match self.append(attempt, buffer, admitted, looked) {
                Ok(Appended { lsn, txn }) => {
                    let lsn = if keys.skipped > 0 { lsn.max(seen) } else { lsn };
                    return Ok(Loaded { lsn, txn: Some(txn), mode: load.mode, given, keys });
                }
                // Rows were left out for others, which a TRUNCATE or DROP PARTITION has removed
                // since. A label was used up by the attempt.
                Err(error)
                    if error.code() == ErrorCode::Deadlock
                        && self.computed.is_none()
                        && given.is_none()
                        && self.target.state.cut() > end => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// 1062, once what it tells of cannot be lost any more (K4).
    async fn refuse(&self, looked: Looked, buffer: &LoadBuffer, conflict: Conflict) -> Error {
        let of_rows = (&looked.rows, &looked.values);
        let error = duplicate_row(&looked.target, buffer, of_rows, conflict);
        let seen = looked.seen();
        drop(looked);
        self.engine.horizon().wait(seen).await;
        error
    }

    fn check_bytes(&self, bytes: usize) -> Result<()> {
        if self.engine.appender.takes_record_of(bytes) {
            return Ok(());
        }
        bail!(
            OutOfRoom,
            "REPLACE removes more rows than one record of the log takes ({}) with its own; send \
             it in parts",
            self.engine.config().wal_load_bytes_max
        );
    }

    /// Takes the latch once nobody else holds any of the keys, nor a row that has one of the
    /// values, and finds their rows.
    async fn look(
        &self,
        (buffer, rows): (&LoadBuffer, KeyedRows),
        bytes: usize,
        mut held: Option<Permit>,
        waiting: &LockOwner,
    ) -> Result<(Admitted, Looked)> {
        let (engine, table, mut target) = (self.engine, self.target.id(), self.target.clone());
        let mut values = values_of(&target, buffer);
        let deadline = self.rules.deadline(engine);
        let owner = self.computed.map_or(waiting, |computed| computed.owner);
        let locks = engine.locks();
        loop {
            let admitted = engine.admission.admit(bytes, held.take(), self.patience).await?;
            let mut latch = resolver(&target).latch().await?;
            if !latch.has_unique_keys_of(target.table()) {
                target = target.with_unique_keys_of_now(&engine.store.tables)?;
                values = values_of(&target, buffer);
            }
            let mut of_keys = std::iter::once(&rows).chain(values.all()).enumerate();
            let taken = of_keys
                .find(|(number, rows)| locks.others_hold((table, *number), rows, Some(owner)));
            if let Some((number, taken)) = taken {
                // Nobody waits for a key with log room or the latch in hand (K5).
                drop((latch, admitted));
                owner.lock((table, number), taken, engine.store.clock(), deadline).await?;
                continue;
            }
            let places = latch.find(&rows).await?;
            let of_rows = (&rows, &places[..]);
            let holders = Holders::find(&mut latch, &target, of_rows, &values).await?;
            let others = holders.others(&rows, |_| true);
            if !locks.others_hold((table, PRIMARY), &others, Some(owner)) {
                let looked = Looked { latch, target, rows, places, values, holders };
                return Ok((admitted, looked));
            }
            // What becomes of a row that has a value is known once its holder ends.
            drop((latch, admitted));
            owner.lock((table, PRIMARY), &others, engine.store.clock(), deadline).await?;
        }
    }

    fn append(
        &self,
        load: SmallLoad<'_>,
        buffer: &mut LoadBuffer,
        admitted: Admitted,
        looked: Looked,
    ) -> Result<Appended> {
        let Looked { latch, rows, places, values, .. } = looked;
        let removals = buffer.removals();
        let (appended, cut) = self.engine.appender.append_rows(load, buffer, admitted)?;
        latch.appended(appended.lsn, (&rows, &values), removals, &places, cut);
        Ok(appended)
    }
}

impl Looked {
    fn decide(&self, on_existing: OnExisting) -> Decided {
        let exists = |at: u32| self.places[at as usize].is_some();
        decide(&self.rows, (&self.values, &self.holders), exists, on_existing)
    }

    /// The highest LSN of the rows that were found, which a reply that tells of them waits for.
    fn seen(&self) -> Lsn {
        seen(&self.latch, &self.places).max(self.holders.seen)
    }

    /// Whether the rows that are written share a value with each other or with rows that stay.
    fn last_conflict(&self, on_existing: OnExisting) -> Option<Conflict> {
        let conflict = self.holders.last_conflict(&self.rows, &self.values, |_| false);
        let is_settled = on_existing != OnExisting::Overwrite;
        assert!(conflict.is_none() || !is_settled, "rows were chosen by all of their keys");
        conflict
    }

    /// Goes on with the rows that are in `buffer`, unless these are all.
    async fn again(mut self, buffer: &LoadBuffer, is_all: bool) -> Result<Self> {
        if !is_all {
            let target = &self.target;
            self.rows = keys_of(target, buffer);
            self.values = values_of(target, buffer);
            self.places = self.latch.find(&self.rows).await?;
            let of_rows = (&self.rows, &self.places[..]);
            self.holders = Holders::find(&mut self.latch, target, of_rows, &self.values).await?;
        }
        Ok(self)
    }
}

/// The highest LSN of the rows at these places, which a reply that tells of them waits for.
pub(crate) fn seen(latch: &Latch, places: &[Option<Place>]) -> Lsn {
    let lsns = places.iter().flatten().filter_map(|place| latch.lsn_of(place));
    lsns.fold(Lsn::ZERO, Lsn::max)
}

/// What is told of the keys of a load.
pub(crate) fn outcome(
    target: &LoadTarget,
    buffer: &LoadBuffer,
    of_rows: (&KeyedRows, &Values),
    decided: &Decided,
) -> KeyOutcome {
    let told = decided.skipped.iter().take(MESSAGES_MAX);
    KeyOutcome {
        replaced: decided.replaced,
        skipped: decided.skipped.len() as u64,
        messages: told
            .map(|&conflict| duplicate_row(target, buffer, of_rows, conflict).message().to_owned())
            .collect(),
    }
}

/// Appends to `to` what is left of the rows of `from`, behind the keys that they remove.
fn choose(
    from: &LoadBuffer,
    decided: &Decided,
    schema: &TableSchema,
    to: &mut LoadBuffer,
) -> Result<()> {
    assert_eq!(from.removals(), 0, "each key that is removed is removed once");
    put_removals(schema, decided.removed.iter().map(Vec::as_slice), to)?;
    let (cells, out) = (RowCells::new(schema), to.resume());
    let mut kept_rows = decided.kept.iter().copied().peekable();
    for (at, row) in (0..from.rows()).zip(cells.rows(from.row_bytes())) {
        if kept_rows.next_if_eq(&at).is_some() {
            out.extend_from_slice(row);
        }
    }
    to.count(decided.kept.len())
}
