//! `statement_analysis`: the digests of statements, the most expensive first.

use std::cmp::Reverse;

use super::super::{Cell, ServerTable, SystemTables};
use super::source::{Form, Source};

/// Characters of a statement that are shown.
const SHOWN_CHARS: usize = 64;

pub fn shown(system: &SystemTables) -> Vec<Vec<Cell>> {
    rows(system, Form::Shown)
}

pub fn raw(system: &SystemTables) -> Vec<Vec<Cell>> {
    rows(system, Form::Raw)
}

fn rows(system: &SystemTables, form: Form) -> Vec<Vec<Cell>> {
    let mut digests = Source::of(system, ServerTable::StatementDigests);
    let mut all = std::mem::take(&mut digests.rows);
    all.sort_by_key(|row| Reverse(number(&digests.cell(row, "SUM_TIMER_WAIT"))));
    all.iter().map(|row| of_digest(&|column| digests.cell(row, column), form)).collect()
}

fn of_digest(cell: &dyn Fn(&str) -> Cell, form: Form) -> Vec<Cell> {
    let count = number(&cell("COUNT_STAR"));
    let average = |column| Cell::Int(rounded(number(&cell(column)), count));
    let scans = ["SUM_NO_GOOD_INDEX_USED", "SUM_NO_INDEX_USED"];
    let has_scan = scans.iter().any(|column| number(&cell(column)) > 0);
    let query = match (cell("DIGEST_TEXT"), form) {
        (Cell::Text(text), Form::Shown) => shortened(&text).into(),
        (text, _) => text,
    };
    let mut row = vec![query, cell("SCHEMA_NAME"), (if has_scan { "*" } else { "" }).into()];
    row.extend(["COUNT_STAR", "SUM_ERRORS", "SUM_WARNINGS"].map(cell));
    let times = ["SUM_TIMER_WAIT", "MAX_TIMER_WAIT", "AVG_TIMER_WAIT"];
    row.extend(times.map(|column| form.time(cell(column))));
    // Neither waits for locks nor processors are measured.
    row.extend([Cell::Null, Cell::Null]);
    for column in ["SUM_ROWS_SENT", "SUM_ROWS_EXAMINED", "SUM_ROWS_AFFECTED"] {
        row.extend([cell(column), average(column)]);
    }
    row.extend(["SUM_CREATED_TMP_TABLES", "SUM_CREATED_TMP_DISK_TABLES"].map(cell));
    row.extend(["SUM_SORT_ROWS", "SUM_SORT_MERGE_PASSES"].map(cell));
    row.extend([Cell::Null, Cell::Null]);
    row.extend(["DIGEST", "FIRST_SEEN", "LAST_SEEN"].map(cell));
    row
}

fn number(cell: &Cell) -> i64 {
    match cell {
        Cell::Int(number) => *number,
        _ => 0,
    }
}

fn rounded(sum: i64, count: i64) -> i64 {
    sum.saturating_add(count / 2).checked_div(count).unwrap_or(0)
}

/// Its beginning and its end, if it is long.
pub fn shortened(text: &str) -> String {
    let text = text.replace('\n', " ");
    let chars = text.chars().count();
    if chars <= SHOWN_CHARS {
        return text;
    }
    let part = SHOWN_CHARS / 2 - 2;
    let begin = text.chars().take(part).collect::<String>();
    let end = text.chars().skip(chars - part).collect::<String>();
    format!("{begin} ... {end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_statements_are_shortened_in_the_middle() {
        assert_eq!(shortened("SELECT\n1"), "SELECT 1");
        let fits = "x".repeat(64);
        assert_eq!(shortened(&fits), fits);
        let long = format!("{}{}", "a".repeat(40), "\u{e9}".repeat(40));
        assert_eq!(shortened(&long), format!("{} ... {}", "a".repeat(30), "\u{e9}".repeat(30)));
    }

    #[test]
    fn averages_are_rounded() {
        assert_eq!((rounded(5, 2), rounded(4, 3), rounded(0, 9), rounded(3, 0)), (3, 1, 0, 0));
    }
}
