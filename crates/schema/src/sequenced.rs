//! Tables with a sequence column: of the rows of a key that with the greatest value in it stays, of
//! equal ones the last (keys.md K30, RFC 0032).
//!
//! A row that deletes its key is kept as a row, so that a late one with a smaller value does not
//! come back; a hidden column says so. Hidden columns stand behind all others.

use freshet_base::ColumnId;

use crate::row::{RowCells, RowWriter};
use crate::table::{Column, DefaultValue, TableSchema};
use crate::types::ColumnType;

/// The hidden column that says whether a row deletes its key.
pub const DELETE_SIGN: &str = "__DORIS_DELETE_SIGN__";
/// The hidden sequence column of a table that has none of its own columns for it.
pub const SEQUENCE_COLUMN: &str = "__DORIS_SEQUENCE_COL__";

/// The columns that hide behind those of a table: the sequence column if `ty` gives it a type, and
/// the delete sign. Their ids begin with `first`.
pub fn hidden_columns(first: ColumnId, ty: Option<ColumnType>) -> Vec<Column> {
    let sequence = ty.map(|ty| Column::new(first, SEQUENCE_COLUMN, ty));
    let id = if sequence.is_some() { first.next() } else { first };
    let sign = Column {
        nullable: false,
        default: Some(DefaultValue::Literal("0".to_owned())),
        ..Column::new(id, DELETE_SIGN, ColumnType::TinyInt { unsigned: false })
    };
    sequence.into_iter().chain([sign]).collect()
}

impl ColumnType {
    /// Whether a sequence column may have this type: integers, dates and times of day on a date.
    pub const fn is_sequence(self) -> bool {
        matches!(
            self,
            Self::TinyInt { .. }
                | Self::SmallInt { .. }
                | Self::MediumInt { .. }
                | Self::Int { .. }
                | Self::BigInt { .. }
                | Self::LargeInt
                | Self::Date
                | Self::DateTime { .. }
        )
    }
}

impl TableSchema {
    /// With this sequence column, behind whose table's columns the hidden ones stand.
    ///
    /// # Panics
    /// When it lacks the column, or the last column is not the delete sign.
    #[must_use]
    pub fn sequenced_by(mut self, sequence: Option<ColumnId>) -> Self {
        if let Some(by) = sequence {
            assert!(self.position_of(by).is_some(), "the sequence column is there");
            let sign = self.columns.last().is_some_and(|last| last.name == DELETE_SIGN);
            assert!(sign, "the last column of a table with a sequence is the delete sign");
        }
        self.sequence = sequence;
        self
    }

    /// The columns that users see, which are the first ones.
    pub fn shown(&self) -> &[Column] {
        let hidden = self.hidden_sequence().or(self.delete_sign()).or(self.row_id());
        &self.columns[..hidden.unwrap_or(self.columns.len())]
    }

    /// Their names.
    pub fn shown_names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.shown().iter().map(|column| column.name.as_str())
    }

    /// The position of the column that says whether a row deletes its key.
    pub fn delete_sign(&self) -> Option<usize> {
        self.sequence.map(|_| self.columns.len() - 1)
    }

    /// The position of a sequence column that is not one of the table's own columns.
    pub fn hidden_sequence(&self) -> Option<usize> {
        let at = self.position_of(self.sequence?)?;
        (self.columns[at].name == SEQUENCE_COLUMN).then_some(at)
    }

    /// Whether an encoded row deletes its key.
    pub fn is_deleted(&self, row: &[u8]) -> bool {
        let sign = self.delete_sign();
        let cell = |at| RowCells::new(self).cell(row, at).is_some_and(|cell| cell != [0]);
        sign.is_some_and(cell)
    }

    /// Appends an encoded row as one that deletes its key.
    ///
    /// # Panics
    /// When the schema has no sequence column.
    pub fn put_deleted(&self, row: &[u8], out: &mut Vec<u8>) {
        let sign = self.delete_sign().expect("deleted rows are kept beside a sequence");
        let cells = RowCells::new(self);
        let mut writer = RowWriter::new(self.columns.len(), out);
        writer.begin_row();
        for at in 0..sign {
            match cells.encoded(row, at) {
                Some(cell) => writer.put_encoded(cell),
                None => writer.put_null(),
            }
        }
        writer.put_encoded(&[1]);
        writer.end_row();
    }
}

#[cfg(test)]
mod tests {
    use freshet_base::SchemaVersion;

    use super::*;

    fn schema(ty: Option<ColumnType>) -> TableSchema {
        let int = ColumnType::Int { unsigned: false };
        let mut columns =
            vec![Column::new(ColumnId(1), "k", int), Column::new(ColumnId(2), "v", int)];
        columns.extend(hidden_columns(ColumnId(3), ty));
        let by = ColumnId(if ty.is_some() { 3 } else { 2 });
        TableSchema::new(SchemaVersion(1), columns, vec![0]).sequenced_by(Some(by))
    }

    #[test]
    fn hidden_columns_stand_behind_the_others() {
        for ty in [None, Some(ColumnType::Date)] {
            let schema = schema(ty);
            assert_eq!(schema.shown().len(), 2);
            assert_eq!(schema.hidden_sequence(), ty.map(|_| 2));
            assert_eq!(schema.delete_sign(), Some(schema.columns.len() - 1));
        }
        let plain = TableSchema::new(SchemaVersion(1), schema(None).shown().to_vec(), vec![0]);
        assert_eq!((plain.shown().len(), plain.delete_sign()), (2, None));
    }

    #[test]
    fn a_deleted_row_keeps_its_other_values() {
        let schema = schema(Some(ColumnType::BigInt { unsigned: false }));
        let mut row = Vec::new();
        let mut writer = RowWriter::new(schema.columns.len(), &mut row);
        writer.begin_row();
        writer.put_encoded(&7_i32.to_le_bytes());
        writer.put_null();
        writer.put_encoded(&9_i64.to_le_bytes());
        writer.put_encoded(&[0]);
        writer.end_row();
        assert!(!schema.is_deleted(&row));
        let mut deleted = Vec::new();
        schema.put_deleted(&row, &mut deleted);
        assert!(schema.is_deleted(&deleted));
        let cells = RowCells::new(&schema);
        assert_eq!(
            (0..3).map(|at| cells.cell(&deleted, at)).collect::<Vec<_>>(),
            [Some(&7_i32.to_le_bytes()[..]), None, Some(&9_i64.to_le_bytes()[..]),]
        );
    }
}
