//! ORDER BY of SHOW.

use std::cmp::Ordering;

use freshet_base::{Result, bail};
use freshet_query::parser::{Order, OrderColumn};
use freshet_query::result::ResultColumn;

use super::listing::Row;

/// Sorts rows: numbers by value, other texts by bytes, NULL first. Rows that are alike stay in
/// their order, by id, which goes down where the last column does: times are of whole seconds, and
/// who asks for the newest row is told of the newest one of its second.
///
/// # Errors
/// 1054 for an unknown column.
pub fn sort(columns: &[ResultColumn], rows: &mut [Row], order: &[Order]) -> Result<()> {
    if order.is_empty() {
        return Ok(());
    }
    let keys = order.iter().map(|item| Ok((position(columns, &item.by)?, item.descending)));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    if order.last().is_some_and(|item| item.descending) {
        rows.reverse();
    }
    rows.sort_by(|a, b| compare(a, b, &keys));
    Ok(())
}

fn position(columns: &[ResultColumn], by: &OrderColumn) -> Result<usize> {
    let found = match by {
        OrderColumn::Name(name) => {
            columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
        }
        OrderColumn::Position(position) => usize::try_from(*position)
            .ok()
            .filter(|position| (1..=columns.len()).contains(position))
            .map(|position| position - 1),
    };
    match (found, by) {
        (Some(at), _) => Ok(at),
        (None, OrderColumn::Name(name)) => {
            bail!(UnknownColumn, "Unknown column '{name}' in 'order clause'")
        }
        (None, OrderColumn::Position(position)) => {
            bail!(UnknownColumn, "Unknown column '{position}' in 'order clause'")
        }
    }
}

fn compare(a: &Row, b: &Row, keys: &[(usize, bool)]) -> Ordering {
    let of_key = |&(at, descending): &(usize, bool)| {
        let ordering = compare_cells(a[at].as_deref(), b[at].as_deref());
        if descending { ordering.reverse() } else { ordering }
    };
    keys.iter().map(of_key).find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}

fn compare_cells(a: Option<&str>, b: Option<&str>) -> Ordering {
    let number = |cell: Option<&str>| cell?.parse::<i128>().ok();
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) if b.is_some() => Ordering::Less,
        (None, Some(_)) if a.is_some() => Ordering::Greater,
        _ => a.cmp(&b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_by_value() {
        let mut cells = [Some("b"), Some("10"), None, Some("9"), Some("a")];
        cells.sort_by(|a, b| compare_cells(*a, *b));
        assert_eq!(cells, [None, Some("9"), Some("10"), Some("a"), Some("b")]);
    }
}
