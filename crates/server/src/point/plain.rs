//! Rows of plain columns, written to the client as they are stored.
//!
//! Integers and texts need no Arrow array on their way: most point reads are of these alone.

use freshet_query::result::{ResultColumn, ResultType};
use freshet_schema::{ColumnType, RowCells, TableSchema};
use freshet_wire::{BinaryRow, PacketWriter, TextRow};

use crate::mysql::results::{Encoding, put_int};

/// How the columns of a result are written from stored rows.
pub struct PlainColumns {
    cells: RowCells,
    columns: Vec<PlainColumn>,
}

struct PlainColumn {
    /// Where the column is in the table.
    at: usize,
    kind: Kind,
    /// The width of an integer in the binary protocol.
    ty: ResultType,
}

#[derive(Clone, Copy)]
enum Kind {
    Signed,
    Unsigned,
    Text,
}

impl PlainColumns {
    /// For the columns of the table at `places`; `None` if one of them is not plain.
    pub fn of(schema: &TableSchema, places: &[usize], columns: &[ResultColumn]) -> Option<Self> {
        let plain = places.iter().zip(columns).map(|(&at, column)| {
            let kind = kind(schema.columns[at].ty)?;
            Some(PlainColumn { at, kind, ty: column.ty })
        });
        Some(Self { columns: plain.collect::<Option<_>>()?, cells: RowCells::new(schema) })
    }

    /// Writes a row of the table.
    pub fn put(&self, writer: &mut PacketWriter, encoding: Encoding, row: &[u8]) {
        let cells = self.columns.iter().map(|column| (column, self.cells.cell(row, column.at)));
        match encoding {
            Encoding::Text => {
                let mut out = writer.text_row(self.columns.len());
                cells.for_each(|(column, cell)| put_text(&mut out, column, cell));
                out.finish();
            }
            Encoding::Binary => {
                let mut out = writer.binary_row(self.columns.len());
                cells.for_each(|(column, cell)| put_binary(&mut out, column, cell));
                out.finish();
            }
        }
    }
}

/// `None` for types that are shown otherwise than they are stored.
fn kind(ty: ColumnType) -> Option<Kind> {
    match ty {
        ColumnType::TinyInt { unsigned }
        | ColumnType::SmallInt { unsigned }
        | ColumnType::MediumInt { unsigned }
        | ColumnType::Int { unsigned }
        | ColumnType::BigInt { unsigned } => {
            Some(if unsigned { Kind::Unsigned } else { Kind::Signed })
        }
        ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text => Some(Kind::Text),
        _ => None,
    }
}

/// The integer in a cell, whose bits above those of its width are those of its sign.
fn int_of(cell: &[u8], kind: Kind) -> i64 {
    let is_negative = matches!(kind, Kind::Signed) && cell.last().is_some_and(|last| *last >= 0x80);
    let mut wide = [if is_negative { 0xff } else { 0 }; 8];
    wide[..cell.len()].copy_from_slice(cell);
    i64::from_le_bytes(wide)
}

fn put_text(out: &mut TextRow<'_>, column: &PlainColumn, cell: Option<&[u8]>) {
    match (cell, column.kind) {
        (None, _) => out.null(),
        (Some(cell), Kind::Text) => out.bytes(cell),
        (Some(cell), Kind::Signed) => out.int(int_of(cell, Kind::Signed)),
        (Some(cell), Kind::Unsigned) => out.uint(int_of(cell, Kind::Unsigned).cast_unsigned()),
    }
}

fn put_binary(out: &mut BinaryRow<'_>, column: &PlainColumn, cell: Option<&[u8]>) {
    match (cell, column.kind) {
        (None, _) => out.null(),
        (Some(cell), Kind::Text) => out.bytes(cell),
        (Some(cell), kind) => put_int(out, column.ty, int_of(cell, kind)),
    }
}
