//! Which partition a row belongs to, while it is decoded.

use std::fmt;

use freshet_schema::key::KeyCodec;
use freshet_schema::{Column, PartitionBy, Router, Table, TableSchema};

/// Finds out whether a partition takes a row.
pub(super) struct Divider {
    router: Router,
    codec: KeyCodec,
    /// The indices of the partitions that may take it; `None` for all.
    only: Option<Vec<u32>>,
    /// With AUTO, and the columns that divide.
    auto: Option<(PartitionBy, Vec<Column>)>,
}

/// A row that is not taken.
pub(super) struct Undivided {
    /// Its values of the columns of PARTITION BY.
    pub values: String,
    /// Whether a partition would take it that was not named.
    pub is_elsewhere: bool,
}

impl fmt::Debug for Divider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Divider").finish_non_exhaustive()
    }
}

impl Divider {
    /// That of a table, whose columns are those of `schema`; `None` without PARTITION BY, and where
    /// partitions follow from generated ids.
    pub fn new(table: &Table, schema: &TableSchema) -> Option<Self> {
        let router = table.router()?;
        let columns = router.positions(schema);
        // Ids are generated when all rows are known; who appends looks at them.
        let is_generated = |at: &usize| schema.columns[*at].auto_increment.is_some();
        let codec = KeyCodec::new(schema, &columns);
        let auto =
            table.partition_by.as_ref().filter(|by| by.auto.is_some()).map(|by| {
                (by.clone(), columns.iter().map(|&at| schema.columns[at].clone()).collect())
            });
        (!columns.iter().any(is_generated)).then_some(Self { router, codec, only: None, auto })
    }

    /// Takes rows of these partitions alone, by their indices.
    pub fn only(self, those: Vec<u32>) -> Self {
        Self { only: Some(those), ..self }
    }

    /// Whether it takes rows of some partitions alone.
    pub fn names_some(&self) -> bool {
        self.only.is_some()
    }

    /// Whether a partition will be made for a row with this key.
    fn is_made(&self, key: &[u8]) -> bool {
        let Some((by, columns)) = &self.auto else { return false };
        let pieces = self.codec.pieces(key).expect("the key of a row is a key");
        let key = pieces.into_iter().map(<[u8]>::to_vec).collect();
        by.made_for(&columns.iter().collect::<Vec<_>>(), &key).is_some()
    }

    /// Why a row is not taken, using `key` as a buffer.
    pub fn refused(
        &self,
        row: &[u8],
        schema: &TableSchema,
        key: &mut Vec<u8>,
    ) -> Option<Undivided> {
        key.clear();
        self.codec.put(row, key);
        let partition = self.router.route(key);
        let is_taken = |at| self.only.as_ref().is_none_or(|only| only.contains(&at));
        if partition.is_some_and(is_taken) {
            return None;
        }
        let is_made = partition.is_none() && self.is_made(key);
        if is_made && self.only.is_none() {
            return None;
        }
        let values = self.codec.text(schema, key).unwrap_or_default();
        Some(Undivided { values, is_elsewhere: is_made || partition.is_some() })
    }
}
