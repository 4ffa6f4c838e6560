//! The rows of a load with their keys in order.

use arrow::array::RecordBatch;
use freshet_base::Lsn;
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::key::{KeyCodec, Keys};
use freshet_schema::{Distribution, Table, TableSchema, hash as tablet_hash};

use super::runs::Wanted;

/// Rows with their keys and buckets.
pub struct KeyedRows {
    keys: Keys,
    /// Of each row; empty if they are not known.
    buckets: Vec<u32>,
    /// The indices of the rows, by key and then as they come.
    order: Vec<u32>,
}

impl KeyedRows {
    /// The rows of a batch, which has the columns of `schema`.
    pub fn of_batch(
        batch: &RecordBatch,
        schema: &TableSchema,
        distribution: &Distribution,
        buckets: u32,
    ) -> Self {
        let buckets = tablet_hash::tablet_indices(batch, schema, distribution, buckets, 0);
        Self::new(Keys::of_batch(batch, schema), buckets)
    }

    /// `rows` encoded rows of `table`, which have the columns of `schema`.
    ///
    /// # Panics
    /// When `bytes` are not so many rows.
    pub fn of_encoded(bytes: &[u8], rows: u32, table: &Table, schema: &TableSchema) -> Self {
        let keys = KeyCodec::of_sort_key(schema).of_rows(bytes);
        assert_eq!(keys.len(), rows as usize, "each row has a key");
        let count = table.partition().tablets.len() as u32;
        let buckets = if count == 1 {
            vec![0; rows as usize]
        } else {
            let mut columns = ColumnsBuilder::new(schema, rows as usize);
            columns.append(bytes, rows as usize);
            let batch = columns.finish();
            tablet_hash::tablet_indices(&batch, schema, &table.distribution, count, 0)
        };
        Self::new(keys, buckets)
    }

    /// Keys whose buckets are not known.
    pub fn of_keys<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::new(keys.collect(), Vec::new())
    }

    fn new(keys: Keys, buckets: Vec<u32>) -> Self {
        let mut order = (0..keys.len() as u32).collect::<Vec<_>>();
        order.sort_by(|&a, &b| keys.key(a as usize).cmp(keys.key(b as usize)));
        Self { keys, buckets, order }
    }

    /// The number of rows.
    pub fn len(&self) -> u32 {
        self.order.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The key of the row with this index.
    pub fn key(&self, at: u32) -> &[u8] {
        self.keys.key(at as usize)
    }

    /// The rows of each key, in the order of keys.
    pub fn groups(&self) -> impl Iterator<Item = &[u32]> {
        self.order.chunk_by(|&a, &b| self.key(a) == self.key(b))
    }

    /// The look-up of a row's key, for what dies at `lsn`.
    pub(super) fn wanted(&self, at: u32, lsn: Lsn) -> Wanted<'_> {
        let bucket = self.buckets.get(at as usize).map(|bucket| *bucket as usize);
        Wanted { at, key: self.key(at), bucket, lsn }
    }
}
