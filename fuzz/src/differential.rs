//! The scanner of VALUES against a parser of SQL: what both read, both read alike.

use std::sync::Arc;

use freshet_base::{ColumnId, SchemaVersion};
use freshet_ingest::decode::InsertPlan;
use freshet_ingest::decode::values::{Dialect, scan_rows};
use freshet_schema::{Collation, Column, ColumnType, LengthUnit, Rules, TableSchema};
use sqlparser::ast::{Expr, SetExpr, Statement, Value};
use sqlparser::parser::Parser;

const COLUMNS: u32 = 3;
const LENGTH_MAX: u32 = 60_000;

/// Scans `data` as what stands behind VALUES, and compares with what `sqlparser` reads there.
pub fn scanner_agrees_with_parser(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let rules = Rules::default();
    let plan = InsertPlan::new::<&str>(&schema(), None, 0, &rules).expect("all columns are given");
    let mut out = Vec::new();
    let Ok(scanned) = scan_rows(data, &plan, &rules, Dialect::default(), &mut out) else { return };
    let Some(parsed) = parse(&text[..scanned.consumed]) else { return };
    assert_eq!(parsed.len(), scanned.encoded.rows, "both see as many rows");
    let stored = stored(&out);
    for (at, (stored, parsed)) in stored.iter().zip(parsed.iter().flatten()).enumerate() {
        match parsed {
            Cell::Null => assert_eq!(*stored, None, "cell {at}"),
            Cell::Text(text) => assert_eq!(*stored, Some(text.as_bytes()), "cell {at}"),
            Cell::Other => {}
        }
    }
}

/// A cell, as far as the parser's tree says what is stored.
enum Cell {
    Null,
    Text(String),
    /// What the two may write in other ways: numbers, escapes that LIKE keeps, keywords.
    Other,
}

fn parse(values: &str) -> Option<Vec<Vec<Cell>>> {
    let dialect = sqlparser::dialect::MySqlDialect {};
    let sql = format!("INSERT INTO t VALUES {values}");
    let statements = Parser::parse_sql(&dialect, &sql).ok()?;
    let [Statement::Insert(insert)] = &statements[..] else { return None };
    let SetExpr::Values(values) = &*insert.source.as_ref()?.body else { return None };
    let keeps_escapes = sql.contains('\\');
    let cell = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Null => Cell::Null,
            Value::SingleQuotedString(text) if !keeps_escapes => Cell::Text(text.clone()),
            _ => Cell::Other,
        },
        _ => Cell::Other,
    };
    Some(values.rows.iter().map(|row| row.content.iter().map(cell).collect()).collect())
}

/// The cells of rows of text, in order.
fn stored(mut rows: &[u8]) -> Vec<Option<&[u8]>> {
    let mut cells = Vec::new();
    while let Some((&nulls, rest)) = rows.split_first() {
        rows = rest;
        for column in 0..COLUMNS {
            if nulls >> column & 1 > 0 {
                cells.push(None);
                continue;
            }
            let (mut length, mut shift) = (0, 0);
            while let Some((&byte, rest)) = rows.split_first() {
                rows = rest;
                length |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let (cell, rest) = rows.split_at(length);
            cells.push(Some(cell));
            rows = rest;
        }
    }
    cells
}

fn schema() -> Arc<TableSchema> {
    let text = ColumnType::VarChar { len: LENGTH_MAX };
    let column = |at| Column {
        collation: Collation::Utf8mb4Bin,
        length_unit: LengthUnit::Characters,
        ..Column::new(ColumnId(at), format!("c{at}"), text)
    };
    Arc::new(TableSchema::new(SchemaVersion(1), (0..COLUMNS).map(column).collect(), Vec::new()))
}
