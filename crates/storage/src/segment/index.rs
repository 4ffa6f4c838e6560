//! Statistics in a segment's footer, and how a reader uses them to skip data.

use std::collections::BTreeSet;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, sum, take};
use arrow::datatypes::Field;
use freshet_base::ColumnId;
use parquet::arrow::arrow_reader::RowSelector;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

/// Decides what need not be read. It may keep too much, never too little.
pub trait Prune: Send + Sync {
    /// The columns whose statistics it needs.
    fn columns(&self) -> &[ColumnId];

    /// For each container, whether it may contain a matching row.
    fn keep(&self, containers: &Containers) -> Vec<bool>;
}

/// Statistics of containers: rowsets, row groups or ranges of rows.
#[derive(Clone, Debug)]
pub struct Containers {
    /// The number of rows in each.
    pub rows: Vec<u64>,
    columns: Vec<(ColumnId, ColumnBounds)>,
}

/// Bounds of a column in each container.
#[derive(Clone, Debug)]
pub struct ColumnBounds {
    /// Lower bounds; NULL if unknown. Text may be truncated.
    pub min: ArrayRef,
    /// Upper bounds; NULL if unknown. Text may be truncated and rounded up.
    pub max: ArrayRef,
    /// Numbers of NULLs; NULL if unknown.
    pub null_counts: UInt64Array,
}

impl Containers {
    /// Containers with these numbers of rows and these bounds.
    pub fn new(rows: Vec<u64>, columns: Vec<(ColumnId, ColumnBounds)>) -> Self {
        Self { rows, columns }
    }

    /// The bounds of a column; `None` if there are none, because the column is newer than the file.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnBounds> {
        self.columns.iter().find(|(of, _)| *of == id).map(|(_, bounds)| bounds)
    }
}

/// Bounds of a column in a whole segment or rowset.
#[derive(Clone, Debug)]
pub struct ColumnRange {
    /// An array with the minimum.
    pub min: ArrayRef,
    /// An array with the maximum.
    pub max: ArrayRef,
    /// The number of NULLs, if known.
    pub null_count: Option<u64>,
}

impl ColumnBounds {
    /// The bounds of all containers together, if all are known.
    pub fn range(&self) -> Option<ColumnRange> {
        let min = extreme(&self.min, std::cmp::Ordering::Less)?;
        let max = extreme(&self.max, std::cmp::Ordering::Greater)?;
        let known = self.null_counts.null_count() == 0;
        let null_count = known.then(|| sum(&self.null_counts).unwrap_or(0));
        Some(ColumnRange { min, max, null_count })
    }
}

impl ColumnRange {
    /// The bounds of both together.
    pub fn union(&self, other: &Self) -> Option<Self> {
        let join = |a: &ArrayRef, b: &ArrayRef, which| {
            let both = arrow::compute::concat(&[a.as_ref(), b.as_ref()]).ok()?;
            extreme(&both, which)
        };
        Some(Self {
            min: join(&self.min, &other.min, std::cmp::Ordering::Less)?,
            max: join(&self.max, &other.max, std::cmp::Ordering::Greater)?,
            null_count: self.null_count.zip(other.null_count).map(|(a, b)| a + b),
        })
    }
}

/// The smallest (`Less`) or greatest (`Greater`) element; `None` if any is unknown.
fn extreme(values: &ArrayRef, which: std::cmp::Ordering) -> Option<ArrayRef> {
    if values.is_empty() || values.null_count() > 0 {
        return None;
    }
    let compare = make_comparator(values, values, SortOptions::default()).ok()?;
    let better = |best: usize, at: usize| if compare(at, best) == which { at } else { best };
    let best = (1..values.len()).fold(0, better);
    Some(values.slice(best, 1))
}

/// A column whose statistics are needed.
pub(super) struct Wanted<'a> {
    pub id: ColumnId,
    /// Its position in the file.
    pub index: usize,
    pub field: &'a Field,
}

/// Statistics by row group.
pub(super) fn row_groups(
    parquet: &ParquetMetaData,
    groups: Range<usize>,
    wanted: &[Wanted<'_>],
) -> Result<Containers, ParquetError> {
    let groups = &parquet.row_groups()[groups];
    let schema = parquet.file_metadata().schema_descr();
    let bounds = |wanted: &Wanted<'_>| {
        let of = StatisticsConverter::from_column_index(wanted.index, wanted.field, schema)?
            .with_missing_null_counts_as_zero(false);
        let bounds = ColumnBounds {
            min: of.row_group_mins(groups)?,
            max: of.row_group_maxes(groups)?,
            null_counts: of.row_group_null_counts(groups)?,
        };
        Ok((wanted.id, bounds))
    };
    Ok(Containers {
        rows: groups.iter().map(|group| group.num_rows().cast_unsigned()).collect(),
        columns: wanted.iter().map(bounds).collect::<Result<_, ParquetError>>()?,
    })
}

/// Selects the rows of a row group that `prune` keeps, by page.
pub(super) fn select_pages(
    parquet: &ParquetMetaData,
    group: usize,
    wanted: &[Wanted<'_>],
    prune: &dyn Prune,
) -> Result<Vec<RowSelector>, ParquetError> {
    let rows = parquet.row_group(group).num_rows().cast_unsigned() as usize;
    let starts = page_starts(parquet, group, wanted);
    let ends = starts.iter().skip(1).copied().chain([rows]);
    let lengths = starts.iter().zip(ends).map(|(start, end)| end - start).collect::<Vec<_>>();
    let columns = wanted
        .iter()
        .map(|wanted| Ok((wanted.id, page_bounds(parquet, group, wanted, &starts)?)))
        .collect::<Result<_, ParquetError>>()?;
    let containers =
        Containers { rows: lengths.iter().map(|&rows| rows as u64).collect(), columns };
    let keep = prune.keep(&containers);
    assert_eq!(keep.len(), lengths.len(), "pruning decides about every container");
    let selectors = lengths.into_iter().zip(keep).map(|(rows, keep)| match keep {
        true => RowSelector::select(rows),
        false => RowSelector::skip(rows),
    });
    Ok(selectors.collect())
}

/// The row offsets in the group at which a page of any wanted column begins.
fn page_starts(parquet: &ParquetMetaData, group: usize, wanted: &[Wanted<'_>]) -> Vec<usize> {
    let mut starts = BTreeSet::from([0]);
    for wanted in wanted {
        starts.extend(first_rows(parquet, group, wanted.index));
    }
    starts.into_iter().collect()
}

fn first_rows(
    parquet: &ParquetMetaData,
    group: usize,
    column: usize,
) -> impl Iterator<Item = usize> {
    let pages = parquet.offset_index().map(|index| index[group][column].page_locations());
    pages.into_iter().flatten().map(|page| page.first_row_index.cast_unsigned() as usize)
}

/// The bounds of pages for the row ranges that begin at `starts`.
fn page_bounds(
    parquet: &ParquetMetaData,
    group: usize,
    wanted: &Wanted<'_>,
    starts: &[usize],
) -> Result<ColumnBounds, ParquetError> {
    let missing = || ParquetError::General("the footer has no page index".to_owned());
    let column_index = parquet.column_index().ok_or_else(missing)?;
    let offset_index = parquet.offset_index().ok_or_else(missing)?;
    let schema = parquet.file_metadata().schema_descr();
    let of = StatisticsConverter::from_column_index(wanted.index, wanted.field, schema)?;
    let pages = first_rows(parquet, group, wanted.index).collect::<Vec<_>>();
    let page_of = |start: &usize| pages.partition_point(|first| first <= start) as u32 - 1;
    let pages = UInt32Array::from_iter_values(starts.iter().map(page_of));
    let spread = |values: &dyn Array| Ok::<_, ParquetError>(take(values, &pages, None)?);
    let nulls = spread(&of.data_page_null_counts(column_index, offset_index, [&group])?)?;
    Ok(ColumnBounds {
        min: spread(&of.data_page_mins(column_index, offset_index, [&group])?)?,
        max: spread(&of.data_page_maxes(column_index, offset_index, [&group])?)?,
        null_counts: nulls
            .as_any()
            .downcast_ref::<UInt64Array>()
            .expect("taking keeps the type")
            .clone(),
    })
}
