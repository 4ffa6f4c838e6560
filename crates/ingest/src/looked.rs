//! Loads that look at stored rows before they write.
//!
//! Partial updates of tables with a UNIQUE KEY take other columns of their rows from the stored
//! ones; what is written is whole rows (keys.md K10). Loads lock no keys of such tables (RFC 0052):
//! one that was overtaken between its look and its record has written nothing and looks again.
//!
//! Loads of which rows delete, in tables with a PRIMARY KEY, lock their keys.

use std::collections::BTreeSet;

use freshet_base::{Error, ErrorCode, Result, bail, err};
use freshet_meta::Claim;
use freshet_schema::row::{RowCells, RowWriter};
use freshet_schema::value::cell_text;
use freshet_schema::{KeyModel, Rules};
use freshet_storage::resolver::KeyedRows;

use crate::admit::WaitLimit;
use crate::append::{PreparedLoad, Signed};
use crate::buffer::LoadBuffer;
use crate::change::{Change, Written};
use crate::decode::{PartialColumns, Warnings};
use crate::engine::Engine;
use crate::key_rules::KeyRules;
use crate::overtaken::was_cut;
use crate::own_rows::OwnRows;
use crate::target::{LoadTarget, Loaded};

/// Keys that are looked up at once, so that few stored rows are in memory before they are merged.
pub(crate) const KEYS_AT_ONCE: usize = 1024;
/// How often a load looks again.
pub const TRIES_MAX: u32 = 100;

/// What a partial update does with a row whose key is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnNewKey {
    /// It is inserted; columns that it lacks get their defaults.
    #[default]
    Append,
    /// The load fails.
    Refuse,
}

/// The rows of a partial update, encoded as whole rows.
#[derive(Clone, Copy)]
pub struct PartialRows<'a> {
    pub target: &'a LoadTarget,
    pub bytes: &'a [u8],
    pub count: usize,
    /// Which columns count.
    pub columns: &'a PartialColumns,
    /// The same for each row, one after another, where each has its own; else empty. A row that is
    /// given none deletes its key: beside a sequence column it has those of all rows.
    pub given: &'a [bool],
    pub on_new_key: OnNewKey,
    /// How values of generated columns are converted.
    pub rules: &'a Rules,
}

/// What became of a partial update.
pub(crate) enum Updated {
    Done(Loaded),
    /// Others have written the rows: it has written nothing, and looks again.
    Overtaken,
    /// It has written nothing: whole rows do not fit a record.
    TooLarge,
}

/// Writes the rows of a partial update, with the label of the load; `None` when it was overtaken:
/// it has written nothing, and its label is free again. Of several rows of one key each one counts,
/// in their order.
///
/// # Errors
/// `NoDefault` and `WrongArguments` for a new key that is refused; `OutOfRoom` for rows that do not
/// fit a record; files that cannot be read. Nothing was written then.
pub async fn update_columns(
    engine: &Engine,
    rows: PartialRows<'_>,
    label: Option<Claim>,
    patience: WaitLimit,
) -> Result<Option<Loaded>> {
    if rows.count == 0 {
        return engine.load_nothing(rows.target, label, patience).await.map(Some);
    }
    match update_columns_as(engine, rows, Signed::Label(label), patience).await? {
        Updated::Done(loaded) => Ok(Some(loaded)),
        Updated::Overtaken => Ok(None),
        Updated::TooLarge => Err(too_large(engine)),
    }
}

/// The same in a transaction.
///
/// # Errors
/// Those of [`update_columns`].
pub async fn update_own_columns(
    engine: &Engine,
    rows: PartialRows<'_>,
    own: &OwnRows,
    patience: WaitLimit,
) -> Result<Loaded> {
    for _ in 0..TRIES_MAX {
        let own = Some(own.clone());
        let change = engine.change(rows.target, own, KeyRules::default(), patience);
        match changed(engine, change, rows, None).await? {
            Updated::Done(loaded) => return Ok(loaded),
            Updated::Overtaken => {}
            Updated::TooLarge => return Err(too_large(engine)),
        }
    }
    Err(others_wrote(rows.target))
}

fn others_wrote(target: &LoadTarget) -> Error {
    err!(
        Deadlock,
        "others wrote the same rows of table '{}' while the statement changed them; try \
         restarting transaction",
        target.table().name
    )
}

fn too_large(engine: &Engine) -> Error {
    err!(
        OutOfRoom,
        "the rows of a partial update take more than one record of the log (wal_load_bytes_max: \
         {}); send fewer at once",
        engine.config().wal_load_bytes_max
    )
}

/// As [`update_columns`], of rows of which there is one at least.
///
/// # Errors
/// Those of [`update_columns`], but for rows that do not fit a record.
pub(crate) async fn update_columns_as(
    engine: &Engine,
    rows: PartialRows<'_>,
    signed: Signed<'_>,
    patience: WaitLimit,
) -> Result<Updated> {
    let change = engine.change(rows.target, None, KeyRules::default(), patience);
    let (label, prepared) = match signed {
        Signed::Label(label) => (label, None),
        Signed::Prepared(prepared) => (None, Some(prepared)),
    };
    changed(engine, change.with_label(label), rows, prepared).await
}

/// Completes rows, of which there is one at least, and writes them.
async fn changed(
    engine: &Engine,
    mut change: Change<'_>,
    rows: PartialRows<'_>,
    prepared: Option<PreparedLoad<'_>>,
) -> Result<Updated> {
    assert!(rows.count > 0, "it has rows");
    let target = rows.target;
    let (schema, count) = (target.schema(), crate::buffer::row_count(rows.count)?);
    let keys = KeyedRows::of_encoded(rows.bytes, (count, 0), target.table(), schema);
    let encoded = RowCells::new(schema).rows(rows.bytes).collect::<Vec<_>>();
    let (mut old, mut new) = (BTreeSet::new(), LoadBuffer::default());
    let mut removed_bytes = 0;
    new.begin();
    let groups = keys.groups().collect::<Vec<_>>();
    for groups in groups.chunks(KEYS_AT_ONCE) {
        let firsts = groups.iter().flat_map(|group| encoded[group[0] as usize]);
        let firsts = firsts.copied().collect::<Vec<_>>();
        let count = (groups.len() as u32, 0);
        let wanted = KeyedRows::of_encoded(&firsts, count, target.table(), schema);
        let stored = change.lock(&wanted).await?;
        for (group, stored) in groups.iter().zip(stored) {
            if stored.is_some() {
                old.insert(keys.key(group[0]).to_vec());
            }
            let mut row = stored;
            for &at in *group {
                row = rows.after(row.as_deref(), (at as usize, encoded[at as usize]))?;
            }
            let Some(row) = row else {
                // Also a key that no row has is removed, so that there is a record of the load.
                old.insert(keys.key(group[0]).to_vec());
                removed_bytes += encoded[group[0] as usize].len();
                continue;
            };
            new.resume().extend_from_slice(&row);
            new.count(1)?;
        }
        if !engine.takes_record_of(new.payload_bytes() + removed_bytes) {
            return Ok(Updated::TooLarge);
        }
    }
    match change.write_as(&old, &new, prepared).await {
        Ok(Written::Done(loaded)) => Ok(Updated::Done(loaded)),
        Ok(Written::Overtaken) => Ok(Updated::Overtaken),
        // A key that was new has a row now.
        Err(error) if error.code() == ErrorCode::DuplicateKey => Ok(Updated::Overtaken),
        Err(error) => Err(error),
    }
}

/// Writes rows, of which those in `deletes` remove their key, into a table with a PRIMARY KEY; the
/// others replace. Of several rows of one key the last one counts.
///
/// # Errors
/// Keys that others hold (1205, 1213); `OutOfRoom` for rows that do not fit a record; files that
/// cannot be read. Nothing was written then.
pub async fn merge_rows(
    engine: &Engine,
    target: &LoadTarget,
    rows: (&[u8], &[bool]),
    label: Option<Claim>,
    patience: WaitLimit,
) -> Result<Loaded> {
    let mut change = engine.change(target, None, KeyRules::default(), patience);
    let (old, new) = found(&mut change, target, rows).await?;
    if old.is_empty() && new.rows() == 0 {
        let seen = change.seen();
        drop(change);
        let loaded = engine.load_nothing(target, label, patience).await?;
        return Ok(Loaded { lsn: loaded.lsn.max(seen), ..loaded });
    }
    match change.with_label(label).write(&old, &new).await? {
        Written::Done(loaded) => Ok(loaded),
        Written::Overtaken => Err(was_cut(&target.state)),
    }
}

/// The same in a transaction, and a table with a UNIQUE KEY. What others write to the keys until
/// its COMMIT does not matter, as for rows that replace: nothing follows from the stored ones.
///
/// # Errors
/// Files that cannot be read; `OutOfRoom`.
pub(crate) async fn merge_own(
    engine: &Engine,
    target: &LoadTarget,
    own: &OwnRows,
    rows: (&[u8], &[bool]),
    patience: WaitLimit,
) -> Result<Loaded> {
    let mut change = engine.change(target, Some(own.clone()), KeyRules::default(), patience);
    let (old, new) = found(&mut change, target, rows).await?;
    match change.forgetting().write(&old, &new).await? {
        Written::Done(loaded) => Ok(loaded),
        Written::Overtaken => Err(others_wrote(target)),
    }
}

/// The keys that are replaced or removed, and the rows that are written: those of stored rows, and
/// of a UNIQUE KEY all, since others may write them before the COMMIT.
async fn found(
    change: &mut Change<'_>,
    target: &LoadTarget,
    (bytes, deletes): (&[u8], &[bool]),
) -> Result<(BTreeSet<Vec<u8>>, LoadBuffer)> {
    let (schema, count) = (target.schema(), crate::buffer::row_count(deletes.len())?);
    let keys = KeyedRows::of_encoded(bytes, (count, 0), target.table(), schema);
    let encoded = RowCells::new(schema).rows(bytes).collect::<Vec<_>>();
    let is_unique = target.table().key_model == KeyModel::Unique;
    let (mut old, mut new) = (BTreeSet::new(), LoadBuffer::default());
    new.begin();
    let last = |group: &[u32]| *group.last().expect("a group has a row") as usize;
    let groups = keys.groups().collect::<Vec<_>>();
    for groups in groups.chunks(KEYS_AT_ONCE) {
        let lasts = groups.iter().flat_map(|group| encoded[last(group)]);
        let lasts = lasts.copied().collect::<Vec<_>>();
        let count = (groups.len() as u32, 0);
        let wanted = KeyedRows::of_encoded(&lasts, count, target.table(), schema);
        let stored = change.lock(&wanted).await?;
        for (group, stored) in groups.iter().zip(stored) {
            if is_unique || stored.is_some() {
                old.insert(keys.key(group[0]).to_vec());
            }
            if !deletes[last(group)] {
                new.resume().extend_from_slice(encoded[last(group)]);
                new.count(1)?;
            }
        }
    }
    Ok((old, new))
}

/// Whether one of so many rows, which say which columns they have, deletes its key: it is given
/// none.
pub(crate) fn has_deleting(given: &[bool], count: usize) -> bool {
    let width = given.len().checked_div(count).unwrap_or_default();
    width > 0 && given.chunks(width).any(|given| !given.contains(&true))
}

impl PartialRows<'_> {
    /// Whether the row of this number deletes its key.
    fn deletes(&self, number: usize) -> bool {
        !self.given.is_empty() && !self.given(number).contains(&true)
    }

    /// Which columns count of the row of this number.
    fn given(&self, number: usize) -> &[bool] {
        let width = self.columns.given.len();
        match self.given.is_empty() {
            true => &self.columns.given,
            false => &self.given[number * width..][..width],
        }
    }

    /// What a key has behind `row`, and its number: `None` where it deletes, and nothing is kept of
    /// it. A sequence column keeps rows that delete; these are no rows for those behind them.
    pub(crate) fn after(
        &self,
        before: Option<&[u8]>,
        row: (usize, &[u8]),
    ) -> Result<Option<Vec<u8>>> {
        let schema = self.target.schema();
        let before = before.filter(|before| !schema.is_deleted(before));
        match (self.deletes(row.0), schema.sequence) {
            (false, _) => self.merged(before, row).map(Some),
            (true, None) => Ok(None),
            (true, Some(_)) => {
                let over = |before| self.over(before, row.1, &self.columns.given);
                let (whole, mut kept) = (before.map(over), Vec::new());
                schema.put_deleted(whole.as_deref().unwrap_or(row.1), &mut kept);
                Ok(Some(kept))
            }
        }
    }

    /// A row as it becomes: `row`, and its number, over the one before it.
    fn merged(&self, before: Option<&[u8]>, (number, row): (usize, &[u8])) -> Result<Vec<u8>> {
        let given = self.given(number);
        let deletes = self.target.schema().is_deleted(row);
        let mut merged = match before {
            Some(before) => self.over(before, row, given),
            None => {
                if !deletes {
                    self.check_new(row, given)?;
                }
                row.to_vec()
            }
        };
        if deletes {
            return Ok(merged);
        }
        let (completion, mut warnings) = (&self.columns.completion, Warnings::default());
        completion.complete(&mut merged, 0, 1, self.rules, &mut warnings).map_err(|error| {
            let said = format!("{}: row with key=[{}]", error.message(), self.key_text(row));
            Error::new(error.code(), said)
        })?;
        Ok(merged)
    }

    /// The columns of `row` that count, and those of the row before it.
    fn over(&self, before: &[u8], row: &[u8], given: &[bool]) -> Vec<u8> {
        let schema = self.target.schema();
        let (cells, mut out) = (RowCells::new(schema), Vec::new());
        let mut writer = RowWriter::new(schema.columns.len(), &mut out);
        writer.begin_row();
        assert_eq!(given.len(), schema.columns.len(), "each column is given or not");
        for (at, &is_given) in given.iter().enumerate() {
            let from = if is_given { row } else { before };
            match cells.encoded(from, at) {
                Some(cell) => writer.put_encoded(cell),
                None => writer.put_null(),
            }
        }
        writer.end_row();
        out
    }

    fn check_new(&self, row: &[u8], given: &[bool]) -> Result<()> {
        if self.on_new_key == OnNewKey::Refuse {
            bail!(
                WrongArguments,
                "Can't append new rows in partial update when partial_update_new_key_behavior is \
                 ERROR. Row with key=[{}] is not in table.",
                self.key_text(row)
            );
        }
        if let Some(&missing) = self.columns.required.iter().find(|&&at| !given[at]) {
            bail!(
                NoDefault,
                "the row with key=[{}] is new, and column '{}', which the partial update leaves \
                 out, has no default and takes no NULL",
                self.key_text(row),
                self.target.schema().columns[missing].name
            );
        }
        Ok(())
    }

    fn key_text(&self, row: &[u8]) -> String {
        let schema = self.target.schema();
        let cells = RowCells::new(schema);
        let text = |&at: &usize| {
            cells.cell(row, at).map_or("NULL".into(), |cell| cell_text(schema.columns[at].ty, cell))
        };
        schema.sort_key.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}
