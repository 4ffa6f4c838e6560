//! The rows of a load with their keys in order.

use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{ColumnId, Lsn};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::hash::{Place, Places};
use freshet_schema::key::{KeyCodec, KeyOrder, Keys, key_alone};
use freshet_schema::{Distribution, RowCells, Table, TableSchema, encode};

use super::runs::{RowPlace, Wanted};

/// Rows with their keys, and what says in which bucket they are; shared by all who have them.
#[derive(Clone)]
pub struct KeyedRows(Arc<Ordered>);

struct Ordered {
    keys: Keys,
    /// By which each row is in a bucket; empty if they are not known.
    places: Vec<Option<Place>>,
    /// The indices of the rows, by key and then as they come; without those that have NULL in a
    /// unique index, which are equal to no other.
    order: Vec<u32>,
    /// Whether it is known that no two rows of these have one key.
    are_distinct: bool,
}

impl KeyedRows {
    /// The rows of a batch, which has the columns of `schema`, and of which some only remove their
    /// key; `divides` says in which bucket they are, if there are several.
    pub fn of_batch(
        batch: &RecordBatch,
        is_removal: &[bool],
        schema: &TableSchema,
        divides: Option<&Distribution>,
    ) -> Self {
        let mut rows = Vec::new();
        let of_key = batch.project(&schema.sort_key).expect("the key is of columns of the batch");
        let alone = key_alone(schema, &schema.sort_key);
        encode(&of_key, &alone, &mut rows);
        let keys = keys_of(&rows, &alone, |at| is_removal[at]);
        let places = divides.map(|by| Places::new(batch, schema, by, 0));
        let places = places.map(|places| known(&places, keys.len(), schema, |at| is_removal[at]));
        Self::new(keys, places.unwrap_or_default())
    }

    /// `rows` encoded rows of `table`, which have the columns of `schema`, and of which the first
    /// `removals` only remove their key.
    ///
    /// # Panics
    /// When `bytes` are not so many rows.
    pub fn of_encoded(
        bytes: &[u8],
        (rows, removals): (u32, u32),
        table: &Table,
        schema: &TableSchema,
    ) -> Self {
        let is_removal = |at: usize| at < removals as usize;
        let keys = keys_of(bytes, schema, is_removal);
        assert_eq!(keys.len(), rows as usize, "each row has a key");
        if !table.has_several_buckets() {
            return Self::new(keys, Vec::new());
        }
        let batch = ColumnsBuilder::batch_of(schema, bytes, rows as usize);
        let places = Places::new(&batch, schema, &table.distribution, 0);
        let places = known(&places, keys.len(), schema, is_removal);
        Self::new(keys, places)
    }

    /// The values of an index in `rows` encoded rows, which have the columns of `schema`, and of
    /// which the first `removals` have none; `None` if the schema lacks a column of the index.
    ///
    /// # Panics
    /// When `bytes` are not so many rows.
    pub fn of_index(
        bytes: &[u8],
        (rows, removals): (u32, u32),
        schema: &TableSchema,
        columns: &[ColumnId],
    ) -> Option<Self> {
        let (values, mut nulls) = KeyCodec::of_index(schema, columns)?.values_of_rows(bytes);
        assert_eq!(values.len(), rows as usize, "each row has a value");
        nulls[..removals as usize].fill(true);
        Some(Self::of_values(values, &nulls))
    }

    /// The values of an index in the rows of a batch, which has the columns of `schema`; `None` if
    /// that lacks a column of the index.
    pub(super) fn of_index_of_batch(
        batch: &RecordBatch,
        schema: &TableSchema,
        columns: &[ColumnId],
    ) -> Option<Self> {
        let (values, nulls) = Keys::of_index(batch, schema, columns)?;
        Some(Self::of_values(values, &nulls))
    }

    fn of_values(values: Keys, nulls: &[bool]) -> Self {
        let mut rows = Ordered::of(values, Vec::new());
        rows.order.retain(|&row| !nulls[row as usize]);
        Self(Arc::new(rows))
    }

    /// Keys of which nobody knows in which bucket they are.
    pub fn of_keys<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::new(keys.collect(), Vec::new())
    }

    fn new(keys: Keys, places: Vec<Option<Place>>) -> Self {
        Self(Arc::new(Ordered::of(keys, places)))
    }

    /// The first row of each key alone.
    #[must_use]
    pub fn distinct(self) -> Self {
        match self.0.are_distinct {
            true => self,
            false => Self::of_keys(self.groups().map(|group| self.key(group[0]))),
        }
    }

    /// Whether it is known that no two rows of these have one key.
    pub fn are_distinct(&self) -> bool {
        self.0.are_distinct
    }

    /// The number of rows.
    pub fn len(&self) -> u32 {
        self.0.keys.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.0.keys.is_empty()
    }

    /// The key of the row with this index.
    pub fn key(&self, at: u32) -> &[u8] {
        self.0.keys.key(at as usize)
    }

    /// The rows of each key, in the order of keys; without values that have NULL.
    pub fn groups(&self) -> impl Iterator<Item = &[u32]> {
        self.0.order.chunk_by(|&a, &b| !self.0.are_distinct && self.key(a) == self.key(b))
    }

    /// The look-up of a row's key, for what dies at `lsn`.
    pub(super) fn wanted(&self, at: u32, lsn: Lsn) -> Wanted<'_> {
        let place = self.0.places.get(at as usize).copied().flatten();
        Wanted { at, key: self.key(at), place: place.map(RowPlace::Row), lsn }
    }
}

impl Ordered {
    fn of(keys: Keys, places: Vec<Option<Place>>) -> Self {
        let order = KeyOrder::of(keys.len() as u32, |at| keys.key(at as usize));
        let KeyOrder { numbers: order, are_distinct } = order;
        Self { keys, places, order, are_distinct }
    }
}

/// The sort keys of encoded rows, of which some only remove theirs.
fn keys_of(mut bytes: &[u8], schema: &TableSchema, is_removal: impl Fn(usize) -> bool) -> Keys {
    let codec = KeyCodec::of_sort_key(schema);
    if !codec.has_weights() {
        return codec.of_rows(bytes);
    }
    let (of_removals, cells) = (KeyCodec::of_sort_key(schema).of_removals(), RowCells::new(schema));
    let mut keys = Vec::new();
    while !bytes.is_empty() {
        let (row, behind) = bytes.split_at(cells.row_bytes(bytes));
        let codec = if is_removal(keys.len()) { &of_removals } else { &codec };
        let mut key = Vec::new();
        codec.put(row, &mut key);
        keys.push(key);
        bytes = behind;
    }
    keys.iter().map(Vec::as_slice).collect()
}

/// What is known of the buckets of rows: one that only removes its key has weights in place of its
/// texts.
fn known(
    places: &Places,
    rows: usize,
    schema: &TableSchema,
    is_removal: impl Fn(usize) -> bool,
) -> Vec<Option<Place>> {
    let has_weights = KeyCodec::of_sort_key(schema).has_weights();
    let is_known = |row: usize| !(has_weights && is_removal(row));
    (0..rows).map(|row| places.place(row).filter(|_| is_known(row))).collect()
}
