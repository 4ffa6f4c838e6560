//! Rows of plain columns, written to the client as they are stored.
//!
//! Integers and texts need no Arrow array on their way: most point reads are of these alone.

use freshet_query::result::{ResultColumn, ResultType};
use freshet_schema::{ColumnType, RowCells, TableSchema};
use freshet_wire::PacketWriter;

use super::int_of;
use crate::mysql::results::{Encoding, Value};

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
    /// Of this type.
    Int(ColumnType),
    Text,
}

impl PlainColumn {
    /// What is in a cell of the column.
    fn value<'c>(&self, cell: Option<&'c [u8]>) -> Value<'c> {
        let Some(cell) = cell else { return Value::Null };
        match self.kind {
            Kind::Text => Value::Bytes(cell),
            Kind::Int(ty) => {
                let value = int_of(ty, cell).expect("a stored integer has the bytes of its type");
                match ty.is_unsigned() {
                    true => Value::UInt(value as u64),
                    false => Value::Int(value as i64),
                }
            }
        }
    }
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
                cells.for_each(|(column, cell)| column.value(cell).put_text(&mut out));
                out.finish();
            }
            Encoding::Binary => {
                let mut out = writer.binary_row(self.columns.len());
                cells.for_each(|(column, cell)| {
                    column.value(cell).put_binary(&mut out, column.ty);
                });
                out.finish();
            }
        }
    }
}

/// `None` for types that are shown otherwise than they are stored.
fn kind(ty: ColumnType) -> Option<Kind> {
    match ty {
        ColumnType::TinyInt { .. }
        | ColumnType::SmallInt { .. }
        | ColumnType::MediumInt { .. }
        | ColumnType::Int { .. }
        | ColumnType::BigInt { .. } => Some(Kind::Int(ty)),
        ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text => Some(Kind::Text),
        _ => None,
    }
}
