//! Rows of a table as rows of one with other columns, for a change of columns that rewrites them
//! (RFC 0039). What does not fit is an error that names it, as in MySQL's strict mode.

use std::sync::Arc;

use freshet_base::{ColumnId, Error, ErrorCode, Result};

use crate::row::{RowCells, RowWriter, decimal, fixed};
use crate::value::{
    BadDefault, LocalDateTime, cell_text, put, put_default, put_f64, put_null, put_zero,
};
use crate::{BadValue, Column, ColumnType, Literal, Put, ROW_ID, Rules, TableSchema};

/// Columns of the sort key that an error shows of its row.
const SHOWN_KEYS_MAX: usize = 4;

/// Where the values of a column come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The column with this id.
    Column(ColumnId),
    /// It is new: this literal, or its default.
    New(Option<String>),
}

/// How the cells of a column are made.
enum Cells {
    /// As they are in the column at this index.
    Same(usize),
    /// From the values of the column at this index.
    Cast(usize),
    /// All alike; `None` is NULL.
    Given(Option<Vec<u8>>),
    /// Generated; of a column that users see, or of one that only names rows.
    Numbered { names: bool },
}

/// Converts rows.
pub struct RowConverter {
    from: Arc<TableSchema>,
    to: Arc<TableSchema>,
    cells: RowCells,
    made: Vec<Cells>,
    rules: Rules,
    /// The last generated id, and the last number that names a row.
    last_ids: [u64; 2],
}

impl RowConverter {
    /// Rows of `from` become rows of `to`, whose columns come from `sources`. `now` is the time of
    /// new defaults, in microseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// A default that its column does not take.
    ///
    /// # Panics
    /// Unless `sources` names a column of `from` for each column of `to`.
    pub fn new(
        (from, to): (&Arc<TableSchema>, &Arc<TableSchema>),
        sources: &[Source],
        now: i64,
        rules: Rules,
    ) -> Result<Self> {
        assert_eq!(sources.len(), to.columns.len(), "each column comes from somewhere");
        let made = to.columns.iter().zip(sources).map(|(column, source)| match source {
            // It is computed when the row is whole.
            _ if column.generated.is_some() => Ok(Cells::Given(None)),
            Source::Column(id) => {
                let at = from.position_of(*id).expect("a column comes from one that is there");
                let is_same = has_same_cells(&from.columns[at], column);
                Ok(if is_same { Cells::Same(at) } else { Cells::Cast(at) })
            }
            Source::New(_) if column.auto_increment.is_some() => {
                Ok(Cells::Numbered { names: column.name == ROW_ID })
            }
            Source::New(text) => given(column, text.as_deref(), now, &rules).map(Cells::Given),
        });
        let made = made.collect::<Result<Vec<_>>>()?;
        let cells = RowCells::new(from);
        Ok(Self {
            from: Arc::clone(from),
            to: Arc::clone(to),
            cells,
            made,
            rules,
            last_ids: [0; 2],
        })
    }

    /// Whether a row becomes the same row each time: none of its values is generated.
    pub fn is_repeatable(&self) -> bool {
        !self.made.iter().any(|cells| matches!(cells, Cells::Numbered { .. }))
    }

    /// Appends encoded rows to `out`, and returns how many; `before` rows came before them.
    ///
    /// # Errors
    /// For the first value that its column does not take: 1138, 1264, 1265, 1292, 1366, 1406, 3140.
    pub fn convert(&mut self, rows: &[u8], before: u64, out: &mut Vec<u8>) -> Result<u32> {
        let mut writer = RowWriter::new(self.to.columns.len(), out);
        let (mut rest, mut count) = (rows, 0);
        while !rest.is_empty() {
            let (row, behind) = rest.split_at(self.cells.row_bytes(rest));
            rest = behind;
            writer.begin_row();
            for at in 0..self.made.len() {
                let put = put_cell(
                    (&self.made[at], &self.to.columns[at], &mut self.last_ids),
                    (&self.from, &self.cells, row),
                    &self.rules,
                    &mut writer,
                );
                put.map_err(|bad| self.error(at, &bad, row, before + u64::from(count) + 1))?;
            }
            writer.end_row();
            count += 1;
        }
        Ok(count)
    }

    #[cold]
    fn error(&self, at: usize, bad: &BadValue, row: &[u8], number: u64) -> Error {
        let column = &self.to.columns[at];
        let (value, was_text) = match self.made[at] {
            Cells::Same(from) | Cells::Cast(from) => {
                let ty = self.from.columns[from].ty;
                let value = self.cells.cell(row, from).map(|cell| cell_text(ty, cell));
                (value.unwrap_or_default(), matches!(ty, ColumnType::VarChar { .. }))
            }
            Cells::Given(_) | Cells::Numbered { .. } => (String::new(), false),
        };
        let row = self.named(row);
        let said = bad.message(column, value.as_bytes(), number);
        match bad {
            BadValue::Null => Error::new(
                ErrorCode::NullValue,
                format!(
                    "Invalid use of NULL value: column '{}' of row {number} is NULL{row}",
                    column.name
                ),
            ),
            // A shorter VARCHAR cuts, where another type refuses, as in MySQL.
            BadValue::TooLong { .. } if was_text && is_var(column.ty) => {
                let said = said.replacen("Data too long", "Data truncated", 1);
                Error::new(ErrorCode::Truncated, said + &row)
            }
            _ => Error::new(bad.code(), said + &row),
        }
    }

    /// Which row it is, for messages.
    fn named(&self, row: &[u8]) -> String {
        let shown = |at: &&usize| Some(**at) != self.from.row_id();
        let keys = self.from.sort_key.iter().filter(shown).take(SHOWN_KEYS_MAX).map(|&at| {
            let column = &self.from.columns[at];
            let text = self.cells.cell(row, at).map(|cell| cell_text(column.ty, cell));
            let text = text.map_or("NULL".to_owned(), |text| format!("'{text}'"));
            format!("{} = {text}", column.name)
        });
        let keys = keys.collect::<Vec<_>>().join(", ");
        if keys.is_empty() { String::new() } else { format!(" (the row with {keys})") }
    }
}

fn is_var(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::VarChar { .. })
}

/// Whether every cell of a column is one of another column, but for NULL.
fn has_same_cells(from: &Column, to: &Column) -> bool {
    from.ty == to.ty
        && (from.non_negative || !to.non_negative)
        && from.labels == to.labels
        && from.length_unit == to.length_unit
        && from.lob_size <= to.lob_size
}

/// The cell of a new column in rows that are there.
fn given(column: &Column, text: Option<&str>, now: i64, rules: &Rules) -> Result<Option<Vec<u8>>> {
    let mut cell = Vec::new();
    let written = match text {
        Some(text) => {
            let literal = Literal::Text(text.as_bytes());
            put(column, literal, rules, &mut cell).map_err(BadDefault::Value)
        }
        None => put_default(column, now, rules, &mut cell),
    };
    match written {
        Ok(Put::Value) => Ok(Some(cell)),
        Ok(Put::Null) => Ok(None),
        // An expression that was NULL for the rows that are there.
        Err(BadDefault::Missing) if column.nullable => Ok(None),
        Err(BadDefault::Missing) => {
            put_zero(column.ty, &mut cell);
            Ok(Some(cell))
        }
        Err(BadDefault::Value(bad)) => {
            Err(bad.error(column, text.unwrap_or_default().as_bytes(), 1))
        }
    }
}

fn put_cell(
    (made, column, last_ids): (&Cells, &Column, &mut [u64; 2]),
    (from, cells, row): (&TableSchema, &RowCells, &[u8]),
    rules: &Rules,
    writer: &mut RowWriter<'_>,
) -> Result<(), BadValue> {
    match made {
        Cells::Same(at) => match cells.encoded(row, *at) {
            Some(cell) => writer.put_encoded(cell),
            None => writer.cell(|_| put_null(column))?,
        },
        Cells::Cast(at) => {
            let cell = cells.cell(row, *at);
            writer.cell(|out| match cell {
                Some(cell) => cast(&from.columns[*at], cell, column, rules, out),
                None => put_null(column),
            })?;
        }
        Cells::Given(Some(cell)) => writer.put_encoded(cell),
        Cells::Given(None) => writer.put_null(),
        Cells::Numbered { names } => {
            let last = &mut last_ids[usize::from(*names)];
            *last += 1;
            let id = i128::from(*last);
            writer.cell(|out| put(column, Literal::Int(id), rules, out))?;
        }
    }
    Ok(())
}

/// Appends the value of a cell as one of another column.
fn cast(
    from: &Column,
    cell: &[u8],
    to: &Column,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    match from.ty {
        ColumnType::Float => {
            let value = f32::from_bits(fixed(cell) as u32);
            let is_number = matches!(to.ty, ColumnType::Float | ColumnType::Double);
            if is_number || to.ty.is_integer() {
                return put_f64(to, f64::from(value), rules, out);
            }
            // With the digits that a FLOAT shows.
            put(to, Literal::Number(value.to_string().as_bytes()), rules, out)
        }
        ColumnType::Double => put_f64(to, f64::from_bits(fixed(cell)), rules, out),
        ColumnType::Decimal { .. } | ColumnType::LargeInt => {
            let text = cell_text(from.ty, cell);
            put(to, Literal::Number(text.as_bytes()), rules, out)
        }
        ColumnType::Timestamp { fsp } => {
            let micros = (fixed(cell)).cast_signed();
            if matches!(to.ty, ColumnType::Timestamp { .. }) {
                let instant = LocalDateTime::from_micros(micros);
                let instant = LocalDateTime { offset: Some(0), ..instant };
                return put(to, Literal::Time(instant), rules, out);
            }
            let local = rules.zone.to_local(micros).to_le_bytes();
            put_time(&cell_text(ColumnType::DateTime { fsp }, &local), to, rules, out)
        }
        ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Time { .. } => {
            put_time(&cell_text(from.ty, cell), to, rules, out)
        }
        ColumnType::Enum { .. } if to.ty.is_numeric() => {
            let at = from.labels.iter().position(|label| label.as_bytes() == cell);
            put(to, Literal::Int(at.map_or(0, |at| at as i128 + 1)), rules, out)
        }
        ty if ty.is_integer() => put(to, Literal::Int(integer(ty, cell)), rules, out),
        _ => put(to, Literal::Text(cell), rules, out),
    }
}

fn integer(ty: ColumnType, cell: &[u8]) -> i128 {
    if ty.is_unsigned() || matches!(ty, ColumnType::Bit { .. }) {
        return i128::from(fixed(cell));
    }
    match cell.len() {
        16 => decimal(cell),
        bytes => {
            let unused = 64 - 8 * bytes;
            i128::from((fixed(cell) << unused).cast_signed() >> unused)
        }
    }
}

/// A date or time, which is a number by its digits.
fn put_time(text: &str, to: &Column, rules: &Rules, out: &mut Vec<u8>) -> Result<Put, BadValue> {
    if !to.ty.is_numeric() {
        return put(to, Literal::Text(text.as_bytes()), rules, out);
    }
    let is_kept = |(at, c): &(usize, char)| c.is_ascii_digit() || *c == '.' || *at == 0;
    let digits = text.char_indices().filter(is_kept).map(|(_, c)| c).collect::<String>();
    put(to, Literal::Number(digits.as_bytes()), rules, out)
}

#[cfg(test)]
mod tests {
    use freshet_base::SchemaVersion;

    use super::*;
    use crate::value;

    fn schema(columns: Vec<Column>) -> Arc<TableSchema> {
        Arc::new(TableSchema::new(SchemaVersion(1), columns, vec![0]))
    }

    fn column(id: u32, name: &str, ty: ColumnType) -> Column {
        Column::new(ColumnId(id), name, ty)
    }

    const INT: ColumnType = ColumnType::Int { unsigned: false };

    fn row(schema: &TableSchema, values: &[Option<&str>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = RowWriter::new(values.len(), &mut out);
        writer.begin_row();
        for (column, text) in schema.columns.iter().zip(values) {
            let literal = text.map_or(Literal::Null, |text| Literal::Text(text.as_bytes()));
            writer.cell(|out| value::put(column, literal, &Rules::default(), out)).unwrap();
        }
        writer.end_row();
        out
    }

    fn converted(from: ColumnType, text: &str, to: ColumnType) -> Result<String> {
        let before = schema(vec![column(1, "k", INT), column(2, "v", from)]);
        let after = schema(vec![column(1, "k", INT), column(2, "v", to)]);
        let sources = [Source::Column(ColumnId(1)), Source::Column(ColumnId(2))];
        let mut converter =
            RowConverter::new((&before, &after), &sources, 0, Rules::default()).unwrap();
        let mut out = Vec::new();
        assert_eq!(converter.convert(&row(&before, &[Some("7"), Some(text)]), 0, &mut out)?, 1);
        let cells = RowCells::new(&after);
        assert_eq!(cells.cell(&out, 0), Some(&7i32.to_le_bytes()[..]));
        Ok(cell_text(to, cells.cell(&out, 1).unwrap()))
    }

    #[test]
    fn values_become_those_of_other_types() {
        let text = ColumnType::VarChar { len: 30 };
        let cents = ColumnType::Decimal { precision: 10, scale: 2 };
        let moment = ColumnType::DateTime { fsp: 0 };
        let is = |from, value, to, wanted: &str| {
            assert_eq!(converted(from, value, to).unwrap(), wanted, "{value} of {from} as {to}");
        };
        is(text, "-12", INT, "-12");
        is(INT, "-12", text, "-12");
        is(text, "2024-02-29", ColumnType::Date, "2024-02-29");
        is(moment, "2024-02-29 23:59:58", ColumnType::Date, "2024-02-29");
        is(ColumnType::Date, "2024-02-29", text, "2024-02-29");
        is(ColumnType::Date, "2024-02-29", INT, "20240229");
        is(cents, "1.25", ColumnType::Double, "1.25");
        is(ColumnType::Double, "2.5", text, "2.5");
        is(ColumnType::Float, "0.1", cents, "0.10");
        is(cents, "12.34", text, "12.34");
        is(ColumnType::Timestamp { fsp: 0 }, "2024-01-01 00:00:01", moment, "2024-01-01 00:00:01");
        is(INT, "200", ColumnType::TinyInt { unsigned: true }, "200");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let text = ColumnType::VarChar { len: 30 };
        let fails = |from, value, to, code| {
            let error = converted(from, value, to).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.message().contains("k = '7'"), "{error}");
            assert!(error.message().contains("row 1"), "{error}");
        };
        fails(text, "abc", INT, ErrorCode::WrongFieldValue);
        fails(text, "12x", INT, ErrorCode::Truncated);
        fails(INT, "70000", ColumnType::SmallInt { unsigned: false }, ErrorCode::OutOfRange);
        fails(INT, "-1", ColumnType::Int { unsigned: true }, ErrorCode::OutOfRange);
        fails(text, "abcd", ColumnType::VarChar { len: 3 }, ErrorCode::Truncated);
        fails(ColumnType::Text, "abcd", ColumnType::VarChar { len: 3 }, ErrorCode::TooLong);
        fails(text, "tomorrow", ColumnType::Date, ErrorCode::WrongValue);
    }

    #[test]
    fn new_columns_have_their_default_and_null_is_refused() {
        let before = schema(vec![column(1, "k", INT), column(2, "v", INT)]);
        let not_null = Column { nullable: false, ..column(2, "v", INT) };
        let id = Column {
            nullable: false,
            auto_increment: Some(1),
            ..column(3, "id", ColumnType::BigInt { unsigned: false })
        };
        let text = Column { nullable: false, ..column(4, "s", ColumnType::Text) };
        let after = schema(vec![id, column(1, "k", INT), not_null, text]);
        let sources = [
            Source::New(None),
            Source::Column(ColumnId(1)),
            Source::Column(ColumnId(2)),
            Source::New(None),
        ];
        let mut converter =
            RowConverter::new((&before, &after), &sources, 0, Rules::default()).unwrap();
        assert!(!converter.is_repeatable());
        let rows = [row(&before, &[Some("1"), Some("2")]), row(&before, &[Some("3"), Some("4")])];
        let mut out = Vec::new();
        assert_eq!(converter.convert(&rows.concat(), 0, &mut out).unwrap(), 2);
        let cells = RowCells::new(&after);
        let ids = cells.rows(&out).map(|row| cells.cell(row, 0).unwrap()[0]).collect::<Vec<_>>();
        assert_eq!(ids, [1, 2]);
        assert_eq!(cells.cell(&out, 3), Some(&b""[..]));
        let error = converter.convert(&row(&before, &[Some("5"), None]), 2, &mut out).unwrap_err();
        assert_eq!(error.code(), ErrorCode::NullValue);
        assert!(error.message().contains("column 'v' of row 3"), "{error}");
    }
}
