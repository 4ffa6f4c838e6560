//! `information_schema.partitions`.

use std::collections::HashMap;

use freshet_base::TabletId;
use freshet_meta::{HashedText, hashed_text, partition_text};
use freshet_schema::{Partition, Table, TableForm};

use super::catalog::{CATALOG, stored};
use super::wanted::Wanted;
use super::{Cell, SystemTables};

/// The rows and bytes of a table by tablet, or, where nothing divides its partitions, by the first
/// tablet of each; none if they cannot be read, or policies hide rows.
type Sizes = HashMap<TabletId, (u64, u64)>;

/// A row for each partition. Where HASH or KEY divides a table, or its partitions, their tablets
/// are what MySQL calls partitions, or subpartitions.
pub fn partitions(system: &SystemTables, wanted: &Wanted) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, wanted) {
        let hashed = hashed_text(table);
        let sizes = sizes(system, table, hashed.is_some());
        for (place, (_, partition)) in (1_u64..).zip(table.shown_partitions()) {
            let mut row = vec![Cell::Null; 25];
            row[0] = CATALOG.into();
            row[1] = database.name.as_str().into();
            row[2] = table.name.as_str().into();
            put_names(&mut row, table, (place, partition));
            row[18] = Cell::Time(table.created_micros);
            row[22] = "".into();
            let Some(hashed) = &hashed else {
                put_sizes(&mut row, &partition.tablets, &sizes);
                rows.push(row);
                continue;
            };
            let tablets = partition.tablets.iter().enumerate();
            rows.extend(tablets.map(|(at, tablet)| {
                let mut row = row.clone();
                put_hashed(&mut row, table, (at, partition), hashed);
                put_sizes(&mut row, &[*tablet], &sizes);
                row
            }));
        }
    }
    rows
}

fn sizes(system: &SystemTables, table: &Table, is_hashed: bool) -> Sizes {
    if system.source.hides_rows_of(table) {
        return Sizes::new();
    }
    let Some(read) = system.snapshot.table(table.id).ok().flatten() else { return Sizes::new() };
    // Only tablets need the hash of each row in memory.
    if is_hashed {
        return read.by_tablet().unwrap_or_default();
    }
    let sizes = read.by_partition().unwrap_or_default();
    let of = |one: &Partition| Some((*one.tablets.first()?, *sizes.get(&one.id)?));
    table.partitions.iter().filter_map(of).collect()
}

fn put_names(row: &mut [Cell], table: &Table, (place, partition): (u64, &Partition)) {
    // MySQL has no partition where a table is not divided; Doris has one.
    if table.form == TableForm::Olap || table.partition_by.is_some() {
        row[3] = partition.name.as_str().into();
        row[5] = place.into();
    }
    if let Some(text) = partition_text(table, partition) {
        row[7] = text.method.into();
        row[9] = text.expression.into();
        row[11] = text.description.into();
    }
}

/// The names that MySQL gives where none is written: here none is kept.
fn put_hashed(
    row: &mut [Cell],
    table: &Table,
    (at, partition): (usize, &Partition),
    hashed: &HashedText,
) {
    let place = at as u64 + 1;
    let (name, [of_name, of_place, of_method, of_expression]) = match table.partition_by {
        None => (format!("p{at}"), [3, 5, 7, 9]),
        Some(_) => (format!("{}sp{at}", partition.name), [4, 6, 8, 10]),
    };
    row[of_name] = name.into();
    row[of_place] = place.into();
    row[of_method] = hashed.method.into();
    row[of_expression] = hashed.expression.as_str().into();
}

fn put_sizes(row: &mut [Cell], tablets: &[TabletId], sizes: &Sizes) {
    let mut known = tablets.iter().filter_map(|id| sizes.get(id)).peekable();
    if known.peek().is_none() {
        return;
    }
    let (count, bytes) = known.fold((0, 0), |(rows, all), (more, size)| (rows + more, all + size));
    let average = bytes.checked_div(count).unwrap_or(0);
    [row[12], row[13], row[14]] = [count.into(), average.into(), bytes.into()];
}
