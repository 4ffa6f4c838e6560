//! Keys that another one makes superfluous, and how much of their numbers AUTO_INCREMENT columns
//! have used.

use freshet_schema::{ColumnType, DeclaredKey, DeclaredKeyKind, Table};

use super::super::catalog::{key_parts, stored};
use super::super::wanted::Wanted;
use super::super::{Cell, SystemTables};

/// A key as it is compared with others.
struct Listed<'a> {
    name: &'a str,
    /// Names of columns, with a comma behind each.
    columns: String,
    is_unique: bool,
    is_primary: bool,
    has_first: bool,
}

impl<'a> Listed<'a> {
    fn new(table: &Table, key: &'a DeclaredKey) -> Self {
        let parts = key_parts(table, key);
        Self {
            name: &key.name,
            columns: parts.iter().map(|part| part.column.clone() + ",").collect(),
            is_unique: key.kind.is_unique(),
            is_primary: key.kind == DeclaredKeyKind::Primary,
            has_first: parts.iter().any(|part| part.first.is_some()),
        }
    }

    fn shown_columns(&self) -> &str {
        self.columns.trim_end_matches(',')
    }

    /// Whether nothing is found by it that is not found by the other one, and no row refused.
    fn is_redundant_beside(&self, other: &Self) -> bool {
        if self.columns == other.columns {
            let rank = |key: &Self| (!key.is_unique, !key.is_primary, key.name.to_owned());
            return rank(self) > rank(other);
        }
        let is_beginning = other.columns.starts_with(&self.columns) && !self.is_unique;
        is_beginning || self.columns.starts_with(&other.columns) && other.is_unique
    }
}

pub fn redundant(system: &SystemTables) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, &Wanted::ALL) {
        let plain = table.declared_keys.iter().filter(|key| key.global.is_none());
        let keys = plain.map(|key| Listed::new(table, key)).collect::<Vec<_>>();
        for (at, key) in keys.iter().enumerate() {
            let others = keys.iter().enumerate().filter(|(other, _)| *other != at);
            for (_, other) in others.filter(|(_, other)| key.is_redundant_beside(other)) {
                rows.push(redundant_row([&database.name, &table.name], key, other));
            }
        }
    }
    rows
}

fn redundant_row([database, table]: [&str; 2], key: &Listed<'_>, other: &Listed<'_>) -> Vec<Cell> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let drop = format!(
        "ALTER TABLE {}.{} DROP INDEX {}",
        quoted(database),
        quoted(table),
        quoted(key.name)
    );
    vec![
        database.into(),
        table.into(),
        key.name.into(),
        key.shown_columns().into(),
        i64::from(!key.is_unique).into(),
        other.name.into(),
        other.shown_columns().into(),
        i64::from(!other.is_unique).into(),
        i64::from(key.has_first || other.has_first).into(),
        drop.into(),
    ]
}

/// The largest value of a type that AUTO_INCREMENT can have.
fn largest(ty: ColumnType) -> u64 {
    let bits = match ty {
        ColumnType::TinyInt { .. } => 8,
        ColumnType::SmallInt { .. } => 16,
        ColumnType::MediumInt { .. } => 24,
        ColumnType::Int { .. } => 32,
        _ => 64,
    };
    let bits = if ty.is_unsigned() { bits } else { bits - 1 };
    u64::MAX >> (64 - bits)
}

pub fn auto_increment(system: &SystemTables) -> Vec<Vec<Cell>> {
    let row = |(database, table): (&str, &Table)| {
        let column = &table.schema().columns[table.schema().shown_auto_increment()?];
        let (next, largest) = (system.source.next_id(table.id)?, largest(column.ty));
        let used = next as f64 / largest as f64;
        let is_unsigned = column.ty.is_unsigned();
        let cells = vec![
            database.into(),
            table.name.as_str().into(),
            column.name.as_str().into(),
            column.data_type_name().into(),
            column.type_text().into(),
            i64::from(!is_unsigned).into(),
            i64::from(is_unsigned).into(),
            largest.to_string().into(),
            next.into(),
            format!("{used:.4}").into(),
        ];
        Some((used, largest, cells))
    };
    let tables = stored(system, &Wanted::ALL);
    let tables = tables.map(|(database, table)| (database.name.as_str(), &**table));
    let mut rows = tables.filter_map(row).collect::<Vec<_>>();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    rows.into_iter().map(|(_, _, cells)| cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<'a>(name: &'a str, columns: &str, is_unique: bool) -> Listed<'a> {
        let (columns, is_primary) = (columns.to_owned(), name == "PRIMARY");
        Listed { name, columns, is_unique, is_primary, has_first: false }
    }

    #[test]
    fn a_key_is_redundant_beside_one_that_does_its_work() {
        let is = |key: &Listed<'_>, other: &Listed<'_>| key.is_redundant_beside(other);
        let (a, ab) = (listed("a", "a,", false), listed("ab", "a,b,", false));
        assert!(is(&a, &ab) && !is(&ab, &a));
        let other = listed("a2", "a,", false);
        assert!(is(&other, &a) && !is(&a, &other), "of two that are the same, one");
        let unique = listed("z", "a,", true);
        assert!(is(&a, &unique) && !is(&unique, &a));
        assert!(is(&ab, &unique), "what is behind a unique one decides nothing");
        assert!(!is(&unique, &ab), "it refuses rows that the other one takes");
        let primary = listed("PRIMARY", "a,", true);
        assert!(is(&unique, &primary) && !is(&primary, &unique));
        let longer = listed("l", "ab,", false);
        assert!(!is(&a, &longer) && !is(&longer, &a), "names are compared as a whole");
    }

    #[test]
    fn the_largest_id_is_that_of_its_type() {
        assert_eq!(largest(ColumnType::TinyInt { unsigned: false }), 127);
        assert_eq!(largest(ColumnType::MediumInt { unsigned: true }), 16_777_215);
        assert_eq!(largest(ColumnType::Int { unsigned: true }), u64::from(u32::MAX));
        assert_eq!(largest(ColumnType::BigInt { unsigned: false }), i64::MAX as u64);
        assert_eq!(largest(ColumnType::BigInt { unsigned: true }), u64::MAX);
    }
}
