//! `--dry-run`: reads everything, checks every row against its table, and loads nothing.

use std::sync::Arc;

use freshet_schema::value::{Encoding, put_i64, put_null, put_number, put_text};
use freshet_schema::{BadValue, Column, OnBad, Rules, Zone};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::LoadArgs;
use crate::exit::{Failure, Result};
use crate::fields::Fields;
use crate::format::Format;
use crate::inputs::Input;
use crate::job::columns_of;
use crate::json_lines::{BadRow, each_record, shown};
use crate::meter::Meter;
use crate::reader;
use crate::schema::{TableInfo, Tables};
use crate::split::Block;
use crate::stop::Stop;

/// What was found.
#[derive(Default)]
struct Found {
    rows: u64,
    bad: u64,
    /// The first bad row, with the name of its input.
    first: Option<(String, BadRow)>,
}

/// Tries all inputs.
///
/// # Errors
/// The first bad row, if there is one; what kept it from reading on.
pub fn run(
    args: &LoadArgs,
    inputs: &[Input],
    tables: &Tables,
    meter: &Arc<Meter>,
    stop: &Stop,
) -> Result<()> {
    let mut found = Found::default();
    for input in inputs {
        let table = &tables[&(input.database.clone(), input.table.clone())];
        try_input(args, input, table, meter, stop, &mut found)?;
        if stop.is_set() {
            return Err(Failure::stopped());
        }
    }
    let Found { rows, bad, first } = found;
    let Some((name, first)) = first else {
        meter.say(&format!("{rows} rows are good; nothing was loaded"));
        return Ok(());
    };
    let column = first.column.map(|column| format!(" column '{column}':")).unwrap_or_default();
    Err(Failure::bad_rows(format!(
        "{name}:{}:{column} {}\n  {}\n{bad} of {rows} rows are bad; nothing was loaded",
        first.line, first.reason, first.record
    )))
}

fn try_input(
    args: &LoadArgs,
    input: &Input,
    table: &TableInfo,
    meter: &Arc<Meter>,
    stop: &Stop,
    found: &mut Found,
) -> Result<()> {
    if input.format == Format::Parquet {
        return try_parquet(args, input, table, meter, found);
    }
    let (mut blocks, header) = reader::open(input, args, meter)?;
    let columns = columns_of(input, table, header, args)?;
    let zone = Zone::parse(&args.time_zone)
        .ok_or_else(|| Failure::usage(format!("--time-zone {}: unknown", args.time_zone)))?;
    let on_bad = if args.lax { OnBad::Null } else { OnBad::Refuse };
    let mut checker = Checker {
        table,
        columns: &columns,
        rules: Rules { on_bad, zone, ..Rules::default() },
        fields: Fields::default(),
        cell: Vec::new(),
    };
    let shown_name = input.name();
    while let Some(block) = blocks.next().map_err(Failure::of(&shown_name))? {
        if stop.is_set() {
            break;
        }
        let rows_before = found.rows;
        checker.check(&input.format, &block, &shown_name, found);
        meter.arrived(found.rows - rows_before);
    }
    Ok(())
}

/// Checks that the columns of a Parquet file fit the table. Its values are checked where they are
/// loaded.
fn try_parquet(
    args: &LoadArgs,
    input: &Input,
    table: &TableInfo,
    meter: &Meter,
    found: &mut Found,
) -> Result<()> {
    let file = reader::open_parquet(input, args)?;
    columns_of(input, table, Some(file.columns().to_vec()), args)?;
    let (name, rows) = (input.name(), file.rows());
    meter.say(&format!("{name}: its columns fit; the values of its {rows} rows are not looked at"));
    meter.read(input.bytes);
    meter.arrived(rows);
    found.rows += rows;
    Ok(())
}

struct Checker<'a> {
    table: &'a TableInfo,
    columns: &'a [(String, Option<usize>)],
    rules: Rules,
    fields: Fields,
    /// What a value becomes, which nobody reads.
    cell: Vec<u8>,
}

/// Why a row is bad: the column, if one is to blame, and the reason.
type Fault = (Option<String>, String);

impl Checker<'_> {
    fn check(&mut self, format: &Format, block: &Block, input: &str, found: &mut Found) {
        each_record(format, block, |record, line| {
            let checked = match format {
                Format::Json => self.check_object(record),
                _ => self.check_fields(format, record),
            };
            match checked {
                Ok(None) => return,
                Ok(Some(())) => {}
                Err((column, reason)) => {
                    found.bad += 1;
                    let bad = || BadRow { line, column, reason, record: shown(record) };
                    found.first.get_or_insert_with(|| (input.to_owned(), bad()));
                }
            }
            found.rows += 1;
        });
    }

    /// `None` for a line without a row.
    fn check_fields(
        &mut self,
        format: &Format,
        record: &[u8],
    ) -> std::result::Result<Option<()>, Fault> {
        let unclosed = || (None, "a field is not closed before the end of the input".to_owned());
        self.fields.read(format, record).map_err(|_| unclosed())?;
        let is_text_of_one = matches!(format, Format::Tsv { .. }) && self.columns.len() == 1;
        if self.fields.is_blank() && !is_text_of_one {
            return Ok(None);
        }
        let (is, wanted) = (self.fields.len(), self.columns.len());
        if is != wanted {
            return Err((None, format!("it has {is} fields instead of {wanted}")));
        }
        let (cell, rules) = (&mut self.cell, &self.rules);
        for (field, (_, position)) in self.fields.iter().zip(self.columns) {
            let column = position.and_then(|at| self.table.columns[at].rules.as_ref());
            let Some(column) = column else { continue };
            cell.clear();
            let put = match field {
                None => put_null(column).map(drop),
                Some(text) => put_text(column, text, Encoding::Unknown, rules, cell).map(drop),
            };
            put.map_err(|bad| fault(column, field.unwrap_or_default(), &bad))?;
        }
        Ok(Some(()))
    }

    fn check_object(&mut self, record: &[u8]) -> std::result::Result<Option<()>, Fault> {
        let record = record.trim_ascii();
        if record.is_empty() {
            return Ok(None);
        }
        let object: std::collections::HashMap<String, &RawValue> =
            serde_json::from_slice(record).map_err(|error| (None, error.to_string()))?;
        let given = |name: &str| object.keys().find(|key| key.eq_ignore_ascii_case(name));
        for (name, position) in self.columns {
            let Some(info) = position.map(|at| &self.table.columns[at]) else { continue };
            match (given(name), &info.rules) {
                (None, _) if !info.optional => {
                    return Err((
                        Some(name.clone()),
                        "it is missing and has no default".to_owned(),
                    ));
                }
                (Some(key), Some(column)) => self
                    .check_member(column, object[key].get())
                    .map_err(|bad| fault(column, object[key].get().as_bytes(), &bad))?,
                _ => {}
            }
        }
        Ok(Some(()))
    }

    fn check_member(&mut self, column: &Column, text: &str) -> std::result::Result<(), BadValue> {
        self.cell.clear();
        let (rules, cell) = (&self.rules, &mut self.cell);
        let put = match serde_json::from_str::<Value>(text).unwrap_or(Value::Null) {
            Value::Null => put_null(column),
            Value::Bool(value) => put_i64(column, i64::from(value), rules, cell),
            Value::String(value) if !column.ty.is_json() => {
                put_text(column, value.as_bytes(), Encoding::Utf8, rules, cell)
            }
            Value::Number(_) if column.ty.is_numeric() => {
                put_number(column, text.as_bytes(), rules, cell)
            }
            _ => put_text(column, text.as_bytes(), Encoding::Utf8, rules, cell),
        };
        put.map(drop)
    }
}

fn fault(column: &Column, value: &[u8], bad: &BadValue) -> Fault {
    (Some(column.name.clone()), bad.reason(column, value))
}
