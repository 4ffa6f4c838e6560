//! Column definitions of result sets and prepared statements.

use crate::cursor::{Cursor, utf8};
use crate::encode::{put_lenenc, put_lenenc_bytes};
use crate::{Collation, ColumnFlags, ColumnType, Error, Result};

/// The length of the part of a definition that has a fixed size.
const FIXED_BYTES: u64 = 12;

/// A column definition in the form of protocol 4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDefinition<'a> {
    /// The database of the table; empty for an expression.
    pub schema: &'a str,
    /// The table's alias in the statement.
    pub table: &'a str,
    pub table_original: &'a str,
    /// The column's alias in the statement.
    pub name: &'a str,
    /// The name of the column in its table; empty for an expression.
    pub name_original: &'a str,
    /// [`Collation::BINARY`] for anything but text.
    pub collation: Collation,
    /// The display length: the maximum length in bytes of a value as text.
    pub length: u32,
    pub column_type: ColumnType,
    pub flags: ColumnFlags,
    /// Fraction digits of a number or a second; 31 for FLOAT and DOUBLE without a scale.
    pub decimals: u8,
}

impl<'a> ColumnDefinition<'a> {
    /// A definition for an expression; set further fields with `..`.
    pub fn new(name: &'a str, column_type: ColumnType) -> Self {
        Self {
            schema: "",
            table: "",
            table_original: "",
            name,
            name_original: "",
            collation: Collation::BINARY,
            length: 0,
            column_type,
            flags: ColumnFlags::NONE,
            decimals: 0,
        }
    }

    /// The definition in a prepare reply for each `?`.
    pub fn parameter() -> Self {
        Self { flags: ColumnFlags::BINARY, ..ColumnDefinition::new("?", ColumnType::VarString) }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_lenenc_bytes(out, b"def");
        let names = [self.schema, self.table, self.table_original, self.name, self.name_original];
        for name in names {
            put_lenenc_bytes(out, name.as_bytes());
        }
        put_lenenc(out, FIXED_BYTES);
        out.extend_from_slice(&self.collation.0.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.push(self.column_type.code());
        out.extend_from_slice(&self.flags.bits().to_le_bytes());
        out.extend_from_slice(&[self.decimals, 0, 0]);
    }

    /// Parses a definition.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        const WHAT: &str = "column definition cut short";
        let mut cursor = Cursor::new(payload);
        cursor.lenenc_bytes(WHAT)?;
        let mut name = || cursor.lenenc_bytes(WHAT).and_then(|n| utf8(n, "column name not UTF-8"));
        let [schema, table, table_original] = [name()?, name()?, name()?];
        let [name, name_original] = [name()?, name()?];
        cursor.lenenc(WHAT)?;
        Ok(Self {
            schema,
            table,
            table_original,
            name,
            name_original,
            collation: Collation(cursor.u16(WHAT)?),
            length: cursor.u32(WHAT)?,
            column_type: ColumnType::from_code(cursor.u8(WHAT)?)
                .ok_or(Error::Malformed { what: "column definition of an unknown type" })?,
            flags: ColumnFlags(cursor.u16(WHAT)?),
            decimals: cursor.u8(WHAT)?,
        })
    }
}
