//! Which row of a key stays among those that a transaction has written and read, in a table with a
//! sequence column (keys.md K30, RFC 0032): that with the greatest value there, of equal ones the
//! last. In other tables the last row always does.

use std::collections::BTreeMap;

use freshet_base::Result;
use freshet_schema::TableSchema;
use freshet_schema::key::KeyCodec;
use freshet_storage::resolver::KeyedRows;

use crate::key_rules::resolver;
use crate::keyed_own::RowsByKey;
use crate::target::LoadTarget;

/// Compares encoded rows of one key.
pub struct Ranks(Option<KeyCodec>);

impl Ranks {
    /// Those of a table with these columns.
    pub fn of(schema: &TableSchema) -> Self {
        let codec = schema.sequence.map(|by| {
            KeyCodec::of_index(schema, &[by]).expect("the sequence column is of the table")
        });
        Self(codec)
    }

    /// Whether a row replaces one that came before it.
    pub fn replaces(&self, new: &[u8], before: &[u8]) -> bool {
        let Some(codec) = &self.0 else { return true };
        let rank = |row| {
            let (values, nulls) = codec.values_of_rows(row);
            // NULL comes first.
            (!nulls[0]).then(|| values.key(0).to_vec())
        };
        rank(new) >= rank(before)
    }

    /// The row of each key that stays of these, which come in this order.
    pub(crate) fn last<'r>(
        &self,
        rows: impl Iterator<Item = (Box<[u8]>, &'r [u8])>,
    ) -> BTreeMap<Box<[u8]>, &'r [u8]> {
        let mut last = BTreeMap::<Box<[u8]>, &[u8]>::new();
        for (key, row) in rows {
            match last.get(&key) {
                Some(before) if !self.replaces(row, before) => {}
                _ => _ = last.insert(key, row),
            }
        }
        last
    }
}

/// Takes rows out that a stored row of their key stays before, and returns these stored rows: the
/// transaction has read them.
///
/// # Errors
/// Files that cannot be read.
pub(crate) async fn take_late(target: &LoadTarget, rows: &mut RowsByKey) -> Result<RowsByKey> {
    let schema = target.schema();
    if schema.sequence.is_none() || rows.is_empty() {
        return Ok(RowsByKey::new());
    }
    let keys = KeyedRows::of_keys(rows.keys().map(|key| &**key));
    let mut latch = resolver(target).latch().await?;
    let places = latch.find(&keys).await?;
    let stored = places.iter().flatten().collect::<Vec<_>>();
    let mut stored = latch.read(&stored, schema).await?.into_iter();
    let (ranks, mut late) = (Ranks::of(schema), RowsByKey::new());
    for (at, place) in (0..keys.len()).zip(&places) {
        let found = place.as_ref().and_then(|_| stored.next().flatten());
        let (Some(found), Some(row)) = (found, rows.get(keys.key(at))) else { continue };
        if !ranks.replaces(row, &found) {
            rows.remove(keys.key(at));
            late.insert(Box::from(keys.key(at)), found.into());
        }
    }
    Ok(late)
}

#[cfg(test)]
mod tests {
    use freshet_base::{ColumnId, SchemaVersion};
    use freshet_schema::row::RowWriter;
    use freshet_schema::{Column, ColumnType, hidden_columns};

    use super::*;

    fn row(schema: &TableSchema, rank: Option<i32>, tail: i8) -> Vec<u8> {
        let mut row = Vec::new();
        let mut writer = RowWriter::new(schema.columns.len(), &mut row);
        writer.begin_row();
        writer.put_encoded(&1_i32.to_le_bytes());
        match rank {
            Some(rank) => writer.put_encoded(&rank.to_le_bytes()),
            None => writer.put_null(),
        }
        writer.put_encoded(&tail.to_le_bytes());
        writer.end_row();
        row
    }

    fn schema(sequence: bool) -> TableSchema {
        let int = ColumnType::Int { unsigned: false };
        let mut columns =
            vec![Column::new(ColumnId(1), "k", int), Column::new(ColumnId(2), "v", int)];
        columns.extend(hidden_columns(ColumnId(3), None));
        let schema = TableSchema::new(SchemaVersion(1), columns, vec![0]);
        schema.sequenced_by(sequence.then_some(ColumnId(2)))
    }

    #[test]
    fn the_greatest_rank_stays_and_of_equal_ones_the_last() {
        let last = |sequence: bool, rows: &[(Option<i32>, i8)]| {
            let schema = schema(sequence);
            let rows = rows.iter().map(|(rank, tail)| row(&schema, *rank, *tail));
            let rows = rows.collect::<Vec<_>>();
            let keyed = rows.iter().map(|row| (Box::from(&b"key"[..]), row.as_slice()));
            let last = Ranks::of(&schema).last(keyed);
            let found = rows.iter().rposition(|row| last[&b"key"[..]] == row.as_slice());
            found.unwrap()
        };
        let rows = [(Some(-5), 0), (None, 1), (Some(7), 0), (Some(7), 1), (Some(6), 0)];
        assert_eq!(last(true, &rows), 3);
        assert_eq!(last(true, &rows[..2]), 0);
        assert_eq!(last(true, &rows[1..2]), 0);
        assert_eq!(last(false, &rows), 4);
    }
}
