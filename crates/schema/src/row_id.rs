//! Tables whose rows have no name of their own, and whose unique keys have columns that may be
//! NULL: a hidden column names them, as InnoDB's row id and MySQL's generated invisible primary key
//! do (RFC 0051). It is generated like an AUTO_INCREMENT column and stands behind all others.

use freshet_base::ColumnId;

use crate::distribution::Distribution;
use crate::table::{Column, Table, TableSchema};
use crate::types::ColumnType;

/// The hidden column that names the rows of a table. No user column begins like this.
pub const ROW_ID: &str = "__DORIS_ROW_ID__";

/// The column that names rows, with this id.
pub fn row_id_column(id: ColumnId) -> Column {
    Column {
        nullable: false,
        auto_increment: Some(1),
        ..Column::new(id, ROW_ID, ColumnType::BigInt { unsigned: true })
    }
}

impl TableSchema {
    /// With its last column hidden if that is the row id, of a definition that has all columns of
    /// a table: what has some of them shows all.
    ///
    /// # Panics
    /// When the row id does not end the sort key.
    #[must_use]
    pub fn hiding_row_id(mut self) -> Self {
        let last = self.columns.len().checked_sub(1);
        self.row_id = last.filter(|&at| self.columns[at].name == ROW_ID);
        if self.row_id.is_some() {
            assert_eq!(self.sort_key.last().copied(), self.row_id, "the row id ends the sort key");
        }
        self
    }

    /// The position of the hidden column that names rows.
    pub fn row_id(&self) -> Option<usize> {
        self.row_id
    }

    /// That of the AUTO_INCREMENT column that users see.
    pub fn shown_auto_increment(&self) -> Option<usize> {
        self.auto_increment().filter(|at| self.row_id != Some(*at))
    }

    /// That of the hidden column, where it has numbers of the AUTO_INCREMENT column's counter: that
    /// of the row, if it was generated, and one of its own otherwise.
    pub fn row_id_beside(&self) -> Option<usize> {
        self.row_id.filter(|_| self.shown_auto_increment().is_some())
    }
}

impl Table {
    /// Whether it generates numbers that users do not see, and no others.
    pub fn hides_ids(&self) -> bool {
        self.has_row_ids() && self.schema().shown_auto_increment().is_none()
    }

    /// Whether a hidden column names its rows, so that users know no key of them.
    pub fn has_row_ids(&self) -> bool {
        self.schema().row_id().is_some()
    }

    /// Whether none of the columns that users see says in which bucket a row is.
    pub fn is_random(&self) -> bool {
        let row_id = self.schema().row_id().map(|at| self.schema().columns[at].id);
        let is_by_row_id = row_id.is_some_and(|row_id| self.distribution.has(row_id));
        self.distribution == Distribution::Random || is_by_row_id
    }
}

#[cfg(test)]
mod tests {
    use freshet_base::SchemaVersion;

    use super::*;

    fn schema() -> TableSchema {
        let columns = vec![
            Column::new(ColumnId(1), "a", ColumnType::Int { unsigned: false }),
            row_id_column(ColumnId(2)),
        ];
        TableSchema::new(SchemaVersion(1), columns, vec![1])
    }

    #[test]
    fn nobody_sees_or_names_the_row_id_of_a_whole_table() {
        let schema = schema().hiding_row_id();
        assert_eq!(schema.shown_names().collect::<Vec<_>>(), ["a"]);
        assert_eq!((schema.position(ROW_ID), schema.position("A")), (None, Some(0)));
        assert_eq!((schema.row_id(), schema.auto_increment()), (Some(1), Some(1)));
    }

    #[test]
    fn a_part_of_a_table_shows_it() {
        let part = schema();
        assert_eq!((part.shown().len(), part.row_id()), (2, None));
        assert_eq!(part.position(ROW_ID), Some(1));
        let plain = TableSchema::new(SchemaVersion(1), schema().columns[..1].to_vec(), vec![0]);
        assert_eq!(plain.hiding_row_id().row_id(), None);
    }
}
