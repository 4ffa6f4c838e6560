//! Loads of tables with a primary key: who writes looks first (keys.md K1 to K10).
//!
//! A statement of its own takes the latch of its table, finds the rows that have its keys, decides,
//! appends, and marks what it has replaced. Nobody else does so meanwhile, so it locks no key; but
//! it waits for keys that others hold, who compute rows from stored ones.

use std::time::Duration;

use freshet_base::budget::Permit;
use freshet_base::clock::Deadline;
use freshet_base::{Error, Lsn, Result, err};
use freshet_schema::key::KeyCodec;
use freshet_schema::row::RowCells;
use freshet_schema::{Table, TableSchema};
use freshet_storage::resolver::{KeyedRows, Latch, Place, Resolver};

use crate::admit::{Admitted, WaitLimit};
use crate::append::{Appended, LookedUp, SmallLoad};
use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::locks::LockOwner;
use crate::target::{KeyOutcome, LoadTarget, Loaded};

/// Messages about rows that were left out; further ones are only counted.
const MESSAGES_MAX: usize = 64;

/// What a load does with a row whose key exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnExisting {
    /// The load fails: INSERT.
    Refuse,
    /// The row is left out with a warning: INSERT IGNORE.
    Skip,
    /// It replaces the other: REPLACE and Stream Load.
    #[default]
    Replace,
}

/// How a load treats the keys of its rows.
#[derive(Clone, Copy, Debug)]
pub struct KeyRules {
    pub on_existing: OnExisting,
    /// How long it waits for keys that others hold.
    pub lock_wait: Duration,
}

impl Default for KeyRules {
    fn default() -> Self {
        Self { on_existing: OnExisting::default(), lock_wait: Duration::from_secs(50) }
    }
}

impl KeyRules {
    pub(crate) fn deadline(self, engine: &Engine) -> Deadline {
        Deadline::after(engine.store.clock(), self.lock_wait)
    }
}

/// A small load of a table with a primary key, outside of transactions.
pub(crate) struct KeyedLoad<'a> {
    pub engine: &'a Engine,
    pub target: &'a LoadTarget,
    pub rules: KeyRules,
    pub patience: WaitLimit,
    /// Of a statement that computed rows from stored ones: the keys that it holds, and the end of
    /// the log when it first looked.
    pub computed: Option<(&'a LockOwner, Lsn)>,
}

/// What becomes of the rows of a load.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Decided {
    /// The rows that are written, ascending.
    pub kept: Vec<u32>,
    /// The first row that fails the load.
    pub refused: Option<u32>,
    /// Rows that are left out, ascending.
    pub skipped: Vec<u32>,
    /// How many rows others replace.
    pub replaced: u64,
}

/// Decides about rows in the order in which they come: among those of one key, and where it exists.
pub(crate) fn decide(
    rows: &KeyedRows,
    exists: impl Fn(u32) -> bool,
    on_existing: OnExisting,
) -> Decided {
    let (mut kept, mut skipped, mut refused) = (Vec::new(), Vec::new(), None::<u32>);
    let mut replaced = 0;
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
            OnExisting::Replace => {
                kept.push(group[group.len() - 1]);
                replaced += conflicts.len() as u64;
            }
        }
    }
    kept.sort_unstable();
    skipped.sort_unstable();
    Decided { kept, refused, skipped, replaced }
}

/// The latch of a table with what was found under it.
struct Looked {
    latch: Latch,
    rows: KeyedRows,
    places: Vec<Option<Place>>,
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
        // Locks are released after the marks, whatever happens.
        let waiting = LockOwner::new(self.engine.locks());
        let (admitted, mut looked) = self.look(buffer, held, &waiting).await?;
        if let (Some(counter), Some(ids)) = (&self.target.state.counter, buffer.ids()) {
            counter.check(&ids)?;
        }
        let rules = self.rules;
        let decided =
            decide(&looked.rows, |at| looked.places[at as usize].is_some(), rules.on_existing);
        let seen = seen(&looked.latch, &looked.places);
        if let Some(at) = decided.refused {
            let error = duplicate_entry(self.target, looked.rows.key(at));
            drop(looked);
            // The row that it tells of must not be lost (K4).
            self.engine.horizon().wait(seen).await;
            return Err(error);
        }
        let keys = outcome(self.target, &looked.rows, &decided);
        if decided.kept.is_empty() {
            return Ok(Loaded { keys, ..Loaded::looked_only(seen) });
        }
        let mut chosen = LoadBuffer::default();
        let buffer = match decided.kept.len() as u32 == buffer.rows() {
            true => buffer,
            false => {
                choose(buffer, &decided.kept, self.target.schema(), &mut chosen)?;
                chosen.use_ids(buffer.ids());
                looked.choose(&decided.kept, &chosen, self.target);
                &mut chosen
            }
        };
        let end = self.computed.map_or(looked.latch.end(), |(_, end)| end);
        let is_derived = self.computed.is_some() || !decided.skipped.is_empty();
        let mode = load.mode;
        let load =
            SmallLoad { looked_up: Some(LookedUp { end, is_derived, is_last: false }), ..load };
        let given = load.label.as_ref().map(|label| label.label().into());
        let Appended { lsn, txn } = self.append(load, buffer, admitted, looked)?;
        let lsn = if keys.skipped > 0 { lsn.max(seen) } else { lsn };
        Ok(Loaded { lsn, txn: Some(txn), mode, given, keys })
    }

    /// Takes the latch once nobody else holds any of the keys, and finds their rows.
    async fn look(
        &self,
        buffer: &LoadBuffer,
        mut held: Option<Permit>,
        waiting: &LockOwner,
    ) -> Result<(Admitted, Looked)> {
        let (engine, table) = (self.engine, self.target.id());
        let rows = keys_of(self.target, buffer);
        let deadline = self.rules.deadline(engine);
        let mut owner = self.computed.map(|(owner, _)| owner);
        loop {
            let bytes = buffer.payload_bytes();
            let admitted = engine.admission.admit(bytes, held.take(), self.patience).await?;
            let mut latch = resolver(self.target).latch().await?;
            if !engine.locks().others_hold(table, &rows, owner) {
                let places = latch.find(&rows).await?;
                return Ok((admitted, Looked { latch, rows, places }));
            }
            // Nobody waits for a key with log room or the latch in hand (K5).
            drop((latch, admitted));
            waiting.lock(table, &rows, engine.store.clock(), deadline).await?;
            owner = Some(waiting);
        }
    }

    fn append(
        &self,
        load: SmallLoad<'_>,
        buffer: &mut LoadBuffer,
        admitted: Admitted,
        looked: Looked,
    ) -> Result<Appended> {
        let Looked { latch, rows, places } = looked;
        let removals = buffer.removals();
        let (appended, cut) = self.engine.appender.append_rows(load, buffer, admitted)?;
        latch.appended(appended.lsn, &rows, removals, &places, cut);
        Ok(appended)
    }
}

impl Looked {
    /// Goes on with some of the rows, which are in `buffer`.
    fn choose(&mut self, kept: &[u32], buffer: &LoadBuffer, target: &LoadTarget) {
        self.rows = keys_of(target, buffer);
        self.places = kept.iter().map(|&at| self.places[at as usize].take()).collect();
    }
}

pub(crate) fn resolver(target: &LoadTarget) -> &Resolver {
    target.state.resolver.as_ref().expect("a table with keys has a resolver")
}

pub(crate) fn keys_of(target: &LoadTarget, buffer: &LoadBuffer) -> KeyedRows {
    KeyedRows::of_encoded(buffer.row_bytes(), buffer.rows(), target.table(), target.schema())
}

/// The highest LSN of the rows at these places, which a reply that tells of them waits for.
pub(crate) fn seen(latch: &Latch, places: &[Option<Place>]) -> Lsn {
    let lsns = places.iter().flatten().filter_map(|place| latch.lsn_of(place));
    lsns.fold(Lsn::ZERO, Lsn::max)
}

/// What is told of the keys of a load.
pub(crate) fn outcome(target: &LoadTarget, rows: &KeyedRows, decided: &Decided) -> KeyOutcome {
    let told = decided.skipped.iter().take(MESSAGES_MAX);
    KeyOutcome {
        replaced: decided.replaced,
        skipped: decided.skipped.len() as u64,
        messages: told
            .map(|&at| duplicate_entry(target, rows.key(at)).message().to_owned())
            .collect(),
    }
}

/// Appends chosen rows of `from` to `to`.
fn choose(
    from: &LoadBuffer,
    kept: &[u32],
    schema: &TableSchema,
    to: &mut LoadBuffer,
) -> Result<()> {
    assert_eq!(from.removals(), 0, "each key that is removed is removed once");
    let (cells, mut rest) = (RowCells::new(schema), from.row_bytes());
    let out = to.begin();
    let mut kept_rows = kept.iter().copied().peekable();
    for at in 0..from.rows() {
        let (row, behind) = rest.split_at(cells.row_bytes(rest));
        rest = behind;
        if kept_rows.next_if_eq(&at).is_some() {
            out.extend_from_slice(row);
        }
    }
    to.count(kept.len())
}

/// 1062 in MySQL's words.
pub(crate) fn duplicate_entry(target: &LoadTarget, key: &[u8]) -> Error {
    let (table, schema): (&Table, _) = (target.table(), target.schema());
    let text = KeyCodec::of_sort_key(schema).text(schema, key);
    let text = text.expect("the key of a row is a key");
    err!(DuplicateKey, "Duplicate entry '{text}' for key '{}.PRIMARY'", table.name)
}
