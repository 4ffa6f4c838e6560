//! PARTITION BY: which partition a row belongs to, by the values of a few columns (RFC 0019).
//!
//! Values are compared as the bytes of keys ([`crate::key::KeyCodec`]), so a partition is a range
//! of byte strings, or a list of them. The definition of a table has these bytes; their text
//! follows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{ColumnId, SchemaVersion};

use self::expr::Numbers;
pub use self::expr::{DatePart, PartitionExpr, Step};
pub use self::period::{FirstDay, TimeUnit, all_digits};
use crate::key::{KeyCodec, Keys};
use crate::value::temporal::{LocalDateTime, parse};
use crate::{
    Column, ColumnType, Literal, Partition, RowCells, RowWriter, Rules, TableSchema, value,
};

/// The maximum number of partitions of a table.
pub const PARTITIONS_MAX: usize = 4096;
/// The maximum number of tablets of all partitions of a table.
pub const TABLETS_MAX: usize = 16_384;

/// How PARTITION BY divides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionMethod {
    Range,
    List,
}

/// A function of MySQL around the only column of PARTITION BY RANGE. It rises with its argument, so
/// that its bounds are bounds of the column, and only the text has the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionFunction {
    Year,
    ToDays,
    ToSeconds,
    /// Of a TIMESTAMP alone.
    UnixTimestamp,
}

impl PartitionFunction {
    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Year => "year",
            Self::ToDays => "to_days",
            Self::ToSeconds => "to_seconds",
            Self::UnixTimestamp => "unix_timestamp",
        }
    }

    /// Parses a name, case-insensitively.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Year, Self::ToDays, Self::ToSeconds, Self::UnixTimestamp];
        all.into_iter().find(|it| it.name().eq_ignore_ascii_case(text))
    }
}

/// AUTO PARTITION BY: which partition is made for a row that none takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AutoPartition {
    /// LIST: one of its values alone.
    Value,
    /// RANGE: the period of its only column, `date_trunc(c, unit)`.
    Period(TimeUnit),
}

/// The PARTITION BY clause of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionBy {
    pub method: PartitionMethod,
    /// Their values decide. They are never altered or dropped.
    pub columns: Vec<ColumnId>,
    pub function: Option<PartitionFunction>,
    /// The expression whose numbers decide, in place of the values of the only column.
    pub computed: Option<Box<PartitionExpr>>,
    /// Whether COLUMNS was written, which MySQL wants for columns that are no integers.
    pub has_columns_word: bool,
    pub auto: Option<AutoPartition>,
}

impl PartitionBy {
    /// What partitions have values of: its columns, of those that the table has, or what stands for
    /// the numbers of an expression.
    pub fn columns_of<'c>(&'c self, columns: &'c [Column]) -> Vec<&'c Column> {
        if let Some(computed) = &self.computed {
            return vec![&computed.numbers];
        }
        let of = |id: &ColumnId| {
            let found = columns.iter().find(|column| column.id == *id);
            found.expect("a column of PARTITION BY is never dropped")
        };
        self.columns.iter().map(of).collect()
    }

    /// The partition that is made for a row with these values; `None` if none is, without AUTO, and
    /// for NULL or the zero date in a column of periods. `columns` are those of the clause.
    pub fn made_for(&self, columns: &[&Column], key: &PartitionKey) -> Option<PartitionValues> {
        match self.auto? {
            AutoPartition::Value => Some(PartitionValues::List(vec![key.clone()])),
            AutoPartition::Period(unit) => {
                let (column, text) = (columns[0], value_text(columns[0], &key[0])?);
                let moment = parse(text.as_bytes()).filter(|moment| !moment.is_zero())?;
                let begin = unit.floor(moment, FirstDay::default());
                // Behind the last period there is nothing.
                let upper = match unit.plus(begin, 1) {
                    Some(end) => vec![moment_key(column, end)?],
                    None => Vec::new(),
                };
                let lower = Some(vec![moment_key(column, begin)?]);
                Some(PartitionValues::Range { lower, upper })
            }
        }
    }

    /// The values of a partition that has no row and is not shown. Tables have it whose partitions
    /// are made when they are needed, since a table always has one.
    pub fn nothing(&self) -> PartitionValues {
        match self.method {
            PartitionMethod::List => PartitionValues::List(Vec::new()),
            PartitionMethod::Range => {
                PartitionValues::Range { lower: Some(Vec::new()), upper: Vec::new() }
            }
        }
    }
}

/// The key bytes of the values of some columns, one by one. Of a bound that has fewer than there
/// are columns, the rest is MAXVALUE.
pub type PartitionKey = Vec<Vec<u8>>;

/// Which rows a partition has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartitionValues {
    /// From `lower` on, if there is one, and below `upper`.
    Range { lower: Option<PartitionKey>, upper: PartitionKey },
    /// Exactly these.
    List(Vec<PartitionKey>),
    /// `DEFAULT` of lists: all but these, which the others have.
    Others(Vec<PartitionKey>),
}

/// Tells the partition that takes all other values, if there is one, those of all lists.
pub fn tell_others<'v>(values: impl IntoIterator<Item = &'v mut PartitionValues>) {
    let (mut others, mut all) = (Vec::new(), Vec::new());
    for one in values {
        match one {
            PartitionValues::List(keys) => all.extend(keys.iter().cloned()),
            PartitionValues::Others(listed) => others.push(listed),
            PartitionValues::Range { .. } => {}
        }
    }
    all.sort_unstable();
    others.into_iter().for_each(|listed| listed.clone_from(&all));
}

/// The place of a bound among keys: keys below it are those that are less. `None` is above all.
fn edge(bound: &PartitionKey, columns: usize) -> Option<Vec<u8>> {
    let mut bytes = bound.concat();
    if bound.len() == columns {
        return Some(bytes);
    }
    // The first string that is above all that begin with these bytes.
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

impl PartitionValues {
    /// Whether they are those of [`PartitionBy::nothing`].
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::List(keys) => keys.is_empty(),
            Self::Others(_) => false,
            Self::Range { lower, upper } => {
                upper.is_empty() && lower.as_ref().is_some_and(Vec::is_empty)
            }
        }
    }

    /// The range of keys, as its first and the one behind its last; `None` of lists.
    pub fn range(&self, columns: usize) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let Self::Range { lower, upper } = self else { return None };
        let lower = match lower {
            None => Some(Vec::new()),
            Some(lower) => edge(lower, columns),
        };
        // Nothing is above MAXVALUE: an empty range.
        Some((lower?, edge(upper, columns)))
    }

    /// Whether no row could have it.
    pub fn is_empty(&self, columns: usize) -> bool {
        match self {
            Self::List(values) => values.is_empty(),
            Self::Others(_) => false,
            Self::Range { .. } => match self.range(columns) {
                Some((lower, upper)) => upper.is_some_and(|upper| upper <= lower),
                None => true,
            },
        }
    }

    /// Whether a row could be of both.
    pub fn overlaps(&self, other: &Self, columns: usize) -> bool {
        match (self, other) {
            (Self::List(some), Self::List(others)) => some.iter().any(|one| others.contains(one)),
            (Self::List(some), Self::Others(listed)) | (Self::Others(listed), Self::List(some)) => {
                some.iter().any(|one| !listed.contains(one))
            }
            (Self::Others(_), Self::Others(_)) => true,
            _ => match (self.range(columns), other.range(columns)) {
                (Some((a, a_end)), Some((b, b_end))) => {
                    a_end.is_none_or(|end| b < end) && b_end.is_none_or(|end| a < end)
                }
                _ => false,
            },
        }
    }
}

enum Places {
    /// Lower and upper bound, and index of each partition; in order.
    Ranges(Vec<(Vec<u8>, Option<Vec<u8>>, u32)>),
    List(HashMap<Vec<u8>, u32>, Option<Others>),
}

/// The partition of the values that are in no list.
struct Others {
    listed: HashSet<Vec<u8>>,
    at: u32,
}

/// Finds the partition of a row.
pub struct Router {
    columns: Vec<ColumnId>,
    places: Places,
    numbers: Option<Numbers>,
}

/// A row that no partition takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unrouted {
    /// Its index among those that were asked for.
    pub row: usize,
    /// Its values of the columns of PARTITION BY, as text.
    pub values: String,
}

impl Router {
    /// Routes to partitions with these values, by their index.
    pub fn new<'a>(
        by: &PartitionBy,
        values: impl IntoIterator<Item = &'a PartitionValues>,
    ) -> Self {
        let (columns, count) = (by.columns.clone(), by.columns.len());
        let numbered = values.into_iter().zip(0u32..);
        let places = match by.method {
            PartitionMethod::Range => {
                let range = |(values, at): (&PartitionValues, u32)| {
                    values.range(count).map(|(lower, upper)| (lower, upper, at))
                };
                let mut ranges = numbered.filter_map(range).collect::<Vec<_>>();
                ranges.sort();
                Places::Ranges(ranges)
            }
            PartitionMethod::List => {
                let (mut list, mut others) = (HashMap::new(), None);
                for (values, at) in numbered {
                    match values {
                        PartitionValues::List(values) => {
                            list.extend(values.iter().map(|key| (key.concat(), at)));
                        }
                        PartitionValues::Others(listed) => {
                            let listed = listed.iter().map(|key| key.concat()).collect();
                            others = Some(Others { listed, at });
                        }
                        PartitionValues::Range { .. } => {}
                    }
                }
                Places::List(list, others)
            }
        };
        let numbers = by.computed.as_deref().map(Numbers::new);
        Self { columns, places, numbers }
    }

    /// The indices of its columns in a schema.
    pub fn positions(&self, schema: &TableSchema) -> Vec<usize> {
        let at = |&id| schema.position_of(id).expect("a column of PARTITION BY is never dropped");
        self.columns.iter().map(at).collect()
    }

    /// The index of the partition of a key of its columns.
    pub fn route(&self, key: &[u8]) -> Option<u32> {
        match &self.numbers {
            Some(numbers) => self.place(&numbers.key(key)),
            None => self.place(key),
        }
    }

    /// The index of the partition that has this value.
    fn place(&self, key: &[u8]) -> Option<u32> {
        match &self.places {
            Places::List(list, others) => list.get(key).copied().or_else(|| {
                let others = others.as_ref().filter(|others| !others.listed.contains(key));
                others.map(|others| others.at)
            }),
            Places::Ranges(ranges) => {
                let behind = ranges.partition_point(|(lower, _, _)| lower.as_slice() <= key);
                let (_, upper, at) = &ranges[behind.checked_sub(1)?];
                upper.as_ref().is_none_or(|upper| key < upper.as_slice()).then_some(*at)
            }
        }
    }

    /// The index of the partition of each row of a batch, which has the columns of `schema`.
    pub fn of_batch(&self, batch: &RecordBatch, schema: &TableSchema) -> Vec<Option<u32>> {
        let keys = Keys::of_columns(batch, schema, &self.positions(schema));
        (0..keys.len()).map(|row| self.route(keys.key(row))).collect()
    }

    /// The text of the values of a row of a batch.
    pub fn text(&self, batch: &RecordBatch, schema: &TableSchema, row: usize) -> String {
        let at = self.positions(schema);
        let keys = Keys::of_columns(&batch.slice(row, 1), schema, &at);
        text_of(&KeyCodec::new(schema, &at), schema, keys.key(0))
    }

    /// The values of encoded rows that no partition takes and for which `by` makes one: of one row
    /// for each of these, and of not many more than a table has.
    pub fn wanted(
        &self,
        by: &PartitionBy,
        schema: &TableSchema,
        mut rows: &[u8],
    ) -> Vec<PartitionKey> {
        let at = self.positions(schema);
        let columns = at.iter().map(|&at| &schema.columns[at]).collect::<Vec<_>>();
        let (codec, cells) = (KeyCodec::new(schema, &at), RowCells::new(schema));
        let (mut key, mut wanted, mut made) = (Vec::new(), Vec::new(), Made::default());
        while !rows.is_empty() && wanted.len() <= PARTITIONS_MAX {
            key.clear();
            codec.put(rows, &mut key);
            rows = &rows[cells.row_bytes(rows)..];
            if self.route(&key).is_some() || made.has(&key) {
                continue;
            }
            let pieces = codec.pieces(&key).expect("the key of a row is a key");
            let pieces = pieces.into_iter().map(<[u8]>::to_vec).collect::<PartitionKey>();
            if let Some(values) = by.made_for(&columns, &pieces) {
                made.add(&key, &values, columns.len());
                wanted.push(pieces);
            }
        }
        wanted
    }

    /// Checks encoded rows with the columns of `schema`.
    ///
    /// # Errors
    /// The first one that no partition takes.
    pub fn check(&self, schema: &TableSchema, mut rows: &[u8]) -> Result<(), Unrouted> {
        let (codec, cells) =
            (KeyCodec::new(schema, &self.positions(schema)), RowCells::new(schema));
        let (mut key, mut row) = (Vec::new(), 0);
        while !rows.is_empty() {
            key.clear();
            codec.put(rows, &mut key);
            if self.route(&key).is_none() {
                return Err(Unrouted { row, values: text_of(&codec, schema, &key) });
            }
            rows = &rows[cells.row_bytes(rows)..];
            row += 1;
        }
        Ok(())
    }
}

/// The partitions that AUTO makes, while rows are looked at.
#[derive(Default)]
struct Made {
    /// From the first key of each to the one behind its last.
    ranges: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Made {
    fn has(&self, key: &[u8]) -> bool {
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key)));
        let before = before.last();
        before.is_some_and(|(_, end)| end.as_ref().is_none_or(|end| key < end.as_slice()))
    }

    fn add(&mut self, key: &[u8], values: &PartitionValues, columns: usize) {
        // No key is the beginning of another one.
        let alone = || (key.to_vec(), Some([key, &[0]].concat()));
        let (first, end) = values.range(columns).unwrap_or_else(alone);
        self.ranges.insert(first, end);
    }
}

fn text_of(codec: &KeyCodec, schema: &TableSchema, key: &[u8]) -> String {
    let mut text = codec.text(schema, key).expect("the key of a row is a key");
    // A value may be long.
    let end = text.char_indices().nth(64).map_or(text.len(), |(at, _)| at);
    text.truncate(end);
    text
}

/// The key of a value of a column, in the text form that an INSERT accepts, or of NULL; `None` if
/// it does not fit the column.
pub fn value_key(column: &Column, text: Option<&str>) -> Option<Vec<u8>> {
    let alone = TableSchema::new(SchemaVersion(1), vec![column.clone()], vec![0]);
    let literal = text.map_or(Literal::Null, |text| Literal::Text(text.as_bytes()));
    let (mut row, mut key) = (Vec::new(), Vec::new());
    let mut writer = RowWriter::new(1, &mut row);
    writer.begin_row();
    writer.cell(|out| value::put(column, literal, &Rules::default(), out)).ok()?;
    writer.end_row();
    KeyCodec::of_sort_key(&alone).put(&row, &mut key);
    Some(key)
}

/// The key of a moment in a column of dates, or of dates and times.
pub fn moment_key(column: &Column, moment: LocalDateTime) -> Option<Vec<u8>> {
    let text = moment.to_string();
    let whole = if column.ty == ColumnType::Date { &text[..10] } else { text.as_str() };
    value_key(column, Some(whole))
}

/// The text of a value of a column; `None` for NULL.
pub fn value_text(column: &Column, key: &[u8]) -> Option<String> {
    let alone = TableSchema::new(SchemaVersion(1), vec![column.clone()], vec![0]);
    let mut cells = KeyCodec::of_sort_key(&alone).decode(key).ok()?;
    cells.pop()?.map(|cell| value::cell_text(column.ty, &cell))
}

/// Which keys of a table are of some partitions.
pub struct RoutedKeys {
    router: Arc<Router>,
    sort_key: KeyCodec,
    /// For each column of PARTITION BY, where it stands in the sort key; `None` where one does not.
    places: Option<Vec<usize>>,
}

impl RoutedKeys {
    pub fn new(router: impl Into<Arc<Router>>, schema: &TableSchema) -> Self {
        let router = router.into();
        let place = |at| schema.sort_key.iter().position(|&key| key == at);
        let places = router.positions(schema).into_iter().map(place).collect();
        Self { router, sort_key: KeyCodec::of_sort_key(schema), places }
    }

    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Whether a row with this sort key is of one of these partitions.
    pub fn has(&self, sort_key: &[u8]) -> bool {
        let places = self.places.as_ref().expect("a unique key has the columns of PARTITION BY");
        let pieces = self.sort_key.pieces(sort_key).expect("a key of a row is a key");
        let key = places.iter().flat_map(|&at| pieces[at]).copied().collect::<Vec<_>>();
        self.router.route(&key).is_some()
    }
}

mod expr;
mod period;

impl Partition {
    /// The number of its buckets.
    pub fn buckets(&self) -> u32 {
        u32::try_from(self.tablets.len()).expect("buckets are bounded")
    }

    /// Whether it is only there because a table has a partition ([`PartitionBy::nothing`]).
    pub fn is_hidden(&self) -> bool {
        self.values.as_ref().is_some_and(PartitionValues::is_nothing)
    }

    /// Whether this is its name: the case of letters does not count.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || !name.is_ascii() && self.name.to_lowercase() == name.to_lowercase()
    }
}

#[cfg(test)]
mod tests;
