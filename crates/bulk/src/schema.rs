//! What a table looks like, as its server tells.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::ColumnId;
use freshet_schema::{Column, ColumnType, LengthUnit};

use crate::connection::Connection;
use crate::exit::{Failure, Result};

/// A table and its columns.
#[derive(Clone, PartialEq, Debug)]
pub struct TableInfo {
    pub database: String,
    pub name: String,
    pub columns: Vec<ColumnInfo>,
    /// When the table was created, which tells it from an earlier one of the same name.
    pub created: String,
}

/// Tables by database and name.
pub type Tables = HashMap<(String, String), Arc<TableInfo>>;

#[derive(Clone, PartialEq, Debug)]
pub struct ColumnInfo {
    pub name: String,
    /// What values are checked against; `None` for types that only other servers have.
    pub rules: Option<Column>,
    /// Whether a row may leave it out.
    pub optional: bool,
    pub is_binary: bool,
    /// Whether it is a BIT, whose values are written as numbers.
    pub is_bits: bool,
    /// Whether its values are computed from those of others.
    pub is_generated: bool,
}

impl ColumnInfo {
    pub fn is_json(&self) -> bool {
        self.rules.as_ref().is_some_and(|column| column.ty.is_json())
    }
}

impl TableInfo {
    /// Asks for a table.
    ///
    /// # Errors
    /// When it does not exist, or the account may not see it.
    pub fn of(connection: &mut Connection, database: &str, table: &str) -> Result<Self> {
        let condition = format!(
            "TABLE_SCHEMA = {} AND TABLE_NAME = {}",
            text_literal(database),
            text_literal(table)
        );
        let rows = connection.rows(&format!(
            "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, \
             CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH FROM information_schema.columns \
             WHERE {condition} ORDER BY ORDINAL_POSITION"
        ))?;
        if rows.is_empty() {
            return Err(Failure::failed(format!(
                "there is no table {database}.{table}, or the account may not see it"
            )));
        }
        let created = connection.rows(&format!(
            "SELECT CREATE_TIME FROM information_schema.tables WHERE {condition}"
        ))?;
        let created = created.into_iter().flatten().next().flatten().unwrap_or_default();
        let columns = rows.iter().map(|row| column_of(row)).collect();
        Ok(Self { database: database.to_owned(), name: table.to_owned(), columns, created })
    }

    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// The table in SQL.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.database), quoted(&self.name))
    }
}

fn column_of(row: &[Option<String>]) -> ColumnInfo {
    let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let (name, type_text) = (text(0), text(1).to_ascii_lowercase());
    let nullable = text(2).eq_ignore_ascii_case("YES");
    let has_default = row.get(3).is_some_and(Option::is_some);
    let generated = text(4).to_ascii_lowercase().contains("auto_increment");
    let ty = parse_type(&type_text);
    let rules = ty.map(|ty| {
        let mut column = Column::new(ColumnId(0), name.clone(), ty);
        column.nullable = nullable || generated;
        column.non_negative = !ty.is_integer() && type_text.contains("unsigned");
        // Servers that count bytes name the same length twice.
        if text(5) != text(6) {
            column.length_unit = LengthUnit::Characters;
        }
        column
    });
    let is_binary = type_text.contains("blob") || type_text.contains("binary");
    let is_generated = text(4).to_ascii_lowercase().contains(" generated");
    let optional = nullable || has_default || generated || is_generated;
    let is_bits = type_text.starts_with("bit");
    ColumnInfo { name, rules, optional, is_binary, is_bits, is_generated }
}

/// The type that a server writes like this.
fn parse_type(text: &str) -> Option<ColumnType> {
    let name = text.split(['(', ' ']).next()?;
    let arguments = text.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let mut numbers = arguments.map_or("", |(inside, _)| inside).split(',');
    let mut number = || numbers.next().and_then(|text| text.trim().parse::<u32>().ok());
    let unsigned = text.contains("unsigned");
    Some(match name {
        "tinyint" => ColumnType::TinyInt { unsigned },
        "boolean" => ColumnType::Boolean,
        "smallint" => ColumnType::SmallInt { unsigned },
        "mediumint" => ColumnType::MediumInt { unsigned },
        "int" | "integer" => ColumnType::Int { unsigned },
        "bigint" => ColumnType::BigInt { unsigned },
        "largeint" => ColumnType::LargeInt,
        "float" => ColumnType::Float,
        "double" => ColumnType::Double,
        "decimal" => {
            let precision = u8::try_from(number()?).ok()?;
            let scale = u8::try_from(number().unwrap_or(0)).ok()?;
            (precision <= freshet_schema::DECIMAL_PRECISION_MAX && scale <= precision)
                .then_some(ColumnType::Decimal { precision, scale })?
        }
        "date" => ColumnType::Date,
        "datetime" => ColumnType::DateTime { fsp: u8::try_from(number().unwrap_or(0)).ok()? },
        "timestamp" => ColumnType::Timestamp { fsp: u8::try_from(number().unwrap_or(0)).ok()? },
        "time" => ColumnType::Time { fsp: u8::try_from(number().unwrap_or(0)).ok()? },
        "year" => ColumnType::Year,
        "char" => ColumnType::Char { len: number().unwrap_or(1) },
        "varchar" => ColumnType::VarChar { len: number()? },
        "text" | "string" | "mediumtext" | "longtext" => ColumnType::Text,
        "binary" => ColumnType::Binary { len: number().unwrap_or(1) },
        "varbinary" => ColumnType::VarBinary { len: number()? },
        "blob" | "mediumblob" | "longblob" => ColumnType::Blob,
        "json" => ColumnType::Json,
        "variant" => ColumnType::Variant,
        _ => return None,
    })
}

/// A name in SQL.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text in SQL.
pub fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_servers_write_them() {
        let cases = [
            ("int(11)", ColumnType::Int { unsigned: false }),
            ("bigint(20) unsigned", ColumnType::BigInt { unsigned: true }),
            ("decimal(10,2) unsigned", ColumnType::Decimal { precision: 10, scale: 2 }),
            ("datetime(3)", ColumnType::DateTime { fsp: 3 }),
            ("varchar(50)", ColumnType::VarChar { len: 50 }),
            ("time(3)", ColumnType::Time { fsp: 3 }),
            ("year(4)", ColumnType::Year),
            ("double", ColumnType::Double),
        ];
        for (text, ty) in cases {
            assert_eq!(parse_type(text), Some(ty), "{text}");
        }
        for text in ["enum('a','b')", "decimal(65,2)", "geometry", ""] {
            assert_eq!(parse_type(text), None, "{text}");
        }
    }

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quoted("a`b"), "`a``b`");
        assert_eq!(text_literal("a'b\\"), "'a''b\\\\'");
    }
}
