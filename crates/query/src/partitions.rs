//! Which partitions of a table may have rows that satisfy a condition (RFC 0019).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use datafusion::physical_expr::utils::LiteralGuarantee;
use freshet_base::{ColumnId, TabletId};
use freshet_schema::key::KeyCodec;
use freshet_schema::row::{Put, RowWriter, put_bytes};
use freshet_schema::{
    Column, ColumnsBuilder, Layout, PartitionBy, PartitionFunction, PartitionValues, Table,
    TableSchema, Zone,
};
use freshet_storage::segment::{ColumnBounds, Containers, Prune};

use crate::prune::{self, said_rows};

/// The indices of the partitions that may have matching rows; `None` if all may, as they do without
/// PARTITION BY.
fn kept(
    said: &[LiteralGuarantee],
    prune: Option<&dyn Prune>,
    table: &Table,
    schema: &TableSchema,
    zone: Zone,
) -> Option<Vec<usize>> {
    let by = table.partition_by.as_ref()?;
    let mut kept = (0..table.partitions.len()).collect::<Vec<_>>();
    if let (Some(prune), Some(containers)) = (prune, containers(table, by, schema)) {
        let keep = prune.keep(&containers);
        kept.retain(|&at| keep[at]);
    }
    // A condition has local times, and rows have instants.
    let said = if by.function == Some(PartitionFunction::UnixTimestamp) { &[] } else { said };
    if let Some((batch, of)) = said_rows(said, &by.columns, schema, zone)
        && let Some(router) = table.router()
    {
        let named = router.of_batch(&batch, &of).into_iter().flatten().collect::<HashSet<_>>();
        kept.retain(|&at| named.contains(&(at as u32)));
    }
    (kept.len() < table.partitions.len()).then_some(kept)
}

/// The tablets that may have matching rows, by PARTITION BY and by what distributes rows; `None` if
/// all may.
pub fn tablets(
    said: &[LiteralGuarantee],
    prune: Option<&dyn Prune>,
    table: &Table,
    schema: &TableSchema,
    zone: Zone,
) -> Option<HashSet<TabletId>> {
    let distributed = prune::tablets(said, prune, table, schema, zone);
    let Some(kept) = kept(said, prune, table, schema, zone) else { return distributed };
    let of_these = kept.iter().flat_map(|&at| &table.partitions[at].tablets).copied();
    Some(match distributed {
        Some(tablets) => of_these.filter(|tablet| tablets.contains(tablet)).collect(),
        None => of_these.collect(),
    })
}

/// The bounds of the first column of PARTITION BY in each partition.
fn containers(table: &Table, by: &PartitionBy, schema: &TableSchema) -> Option<Containers> {
    // Of numbers that an expression makes, values have no order that is known.
    if by.computed.is_some() {
        return None;
    }
    let id: ColumnId = *by.columns.first()?;
    let column = &schema.columns[schema.position_of(id)?];
    let codec = KeyCodec::of_sort_key(&alone(column, column.nullable));
    let cell = |key: &Vec<u8>| -> Option<Vec<u8>> { codec.decode(key).ok()?.pop()? };
    let whole = by.columns.len() == 1;
    let (mut min, mut max, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    for partition in &table.partitions {
        let (lowest, highest, has_null) = match partition.values.as_ref()? {
            PartitionValues::Range { lower, upper } => {
                let lowest = lower.as_ref().and_then(|lower| cell(lower.first()?));
                let mut highest = upper.first().and_then(&cell);
                if let Some(cell) = highest.as_mut().filter(|_| whole && is_discrete(column)) {
                    one_less(cell);
                }
                (lowest, highest, column.nullable && lower.is_none())
            }
            PartitionValues::Others(_) => (None, None, column.nullable),
            PartitionValues::List(keys) => {
                let keys = keys.iter().filter_map(|key| key.first());
                let has_null = keys.clone().any(|key| cell(key).is_none());
                let values = keys.filter(|key| cell(key).is_some());
                let lowest = values.clone().min().and_then(&cell);
                (lowest, values.max().and_then(&cell), has_null)
            }
        };
        min.push(lowest);
        max.push(highest);
        nulls.push((!has_null).then_some(0));
    }
    let bounds = ColumnBounds {
        min: array(column, &min),
        max: array(column, &max),
        null_counts: UInt64Array::from(nulls),
    };
    Some(Containers::new(vec![1; table.partitions.len()], vec![(id, bounds)]))
}

/// The column alone.
fn alone(column: &Column, nullable: bool) -> TableSchema {
    let column = Column { nullable, ..column.clone() };
    TableSchema::new(Default::default(), vec![column], vec![0])
}

/// Whether there is a next lower value, which is one less in its bytes.
fn is_discrete(column: &Column) -> bool {
    matches!(column.ty.layout(), Layout::Fixed(_))
}

/// What is below a value, unless it is the lowest one, below which a range has no rows.
fn one_less(cell: &mut [u8]) {
    for byte in cell {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            return;
        }
    }
}

fn array(column: &Column, cells: &[Option<Vec<u8>>]) -> ArrayRef {
    let schema = alone(column, true);
    let mut rows = Vec::new();
    let mut writer = RowWriter::new(1, &mut rows);
    for cell in cells {
        writer.begin_row();
        let put = |out: &mut Vec<u8>| {
            match (cell, column.ty.layout()) {
                (None, _) => return Ok::<_, std::convert::Infallible>(Put::Null),
                (Some(cell), Layout::Bytes) => put_bytes(out, cell),
                (Some(cell), Layout::Fixed(_)) => out.extend_from_slice(cell),
            }
            Ok(Put::Value)
        };
        let Ok(()) = writer.cell(put);
        writer.end_row();
    }
    Arc::clone(ColumnsBuilder::batch_of(&schema, &rows, cells.len()).column(0))
}
