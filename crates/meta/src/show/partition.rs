//! The text of PARTITION BY and of partitions.

use freshet_schema::partition::value_text;
use freshet_schema::value::temporal::parse;
use freshet_schema::{
    AutoPartition, Column, ColumnType, Partition, PartitionBy, PartitionFunction, PartitionKey,
    PartitionMethod, PartitionValues, Table, TableForm,
};

use super::{quoted, text};
use crate::create::{TO_DAYS_OF_1970, range_text, to_seconds};
use crate::zoned::unix_seconds;

/// What the tables of the system say of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionText {
    /// `RANGE`, `RANGE COLUMNS`, `LIST` or `LIST COLUMNS`.
    pub method: &'static str,
    /// What PARTITION BY divides by.
    pub expression: String,
    /// Its upper bound, or its values.
    pub description: String,
    /// Its lower and upper bound, or its values.
    pub range: String,
    /// The names of the columns of PARTITION BY.
    pub columns: String,
}

/// What the tables of the system say where HASH or KEY divides a table, or its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashedText {
    /// `HASH` or `KEY`, with `LINEAR` where that was written.
    pub method: &'static str,
    /// What it divides by.
    pub expression: String,
}

/// What HASH or KEY of MySQL says of the tablets of a table, or of each of its partitions; `None`
/// for other clauses, and where both are divided so, since the tablets are of both at once.
pub fn hashed_text(table: &Table) -> Option<HashedText> {
    const SUB: &str = "SUBPARTITION";
    const SUB_BY: &str = "SUBPARTITION BY";
    let text = table.placement.as_ref()?.text.as_str();
    let (head, rest) = text.split_once('(')?;
    let head = head.to_ascii_uppercase();
    let starts = if table.partition_by.is_some() { SUB } else { "PARTITION" };
    if !head.starts_with(starts) || rest.to_ascii_uppercase().contains(SUB_BY) {
        return None;
    }
    let has = |word: &str| head.split_whitespace().any(|one| one == word);
    let method = match (has("HASH"), has("LINEAR")) {
        (true, false) => "HASH",
        (true, true) => "LINEAR HASH",
        (false, false) => "KEY",
        (false, true) => "LINEAR KEY",
    };
    let mut depth = 1;
    let end = rest.find(|sign| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        depth == 0
    });
    Some(HashedText { method, expression: hashed_by(table, rest[..end?].trim()) })
}

/// Names of columns in quotes, and expressions as they were written.
fn hashed_by(table: &Table, written: &str) -> String {
    let columns = &table.schema().columns;
    let column = |name: &str| {
        let name = name.trim().trim_matches('`');
        columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    };
    match written.split(',').map(column).collect::<Option<Vec<_>>>() {
        Some(named) => {
            named.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(",")
        }
        None => written.to_owned(),
    }
}

/// The text of a partition; `None` without PARTITION BY.
pub fn partition_text(table: &Table, partition: &Partition) -> Option<PartitionText> {
    let by = table.partition_by.as_ref()?;
    let values = partition.values.as_ref()?;
    let columns = by.columns_of(&table.schema().columns);
    let names = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
    Some(PartitionText {
        method: match (by.method, by.has_columns_word) {
            (PartitionMethod::Range, false) => "RANGE",
            (PartitionMethod::Range, true) => "RANGE COLUMNS",
            (PartitionMethod::List, false) => "LIST",
            (PartitionMethod::List, true) => "LIST COLUMNS",
        },
        expression: expression(by, &columns),
        description: match values {
            PartitionValues::Range { upper, .. } => bound(table, by, &columns, upper),
            PartitionValues::List(keys) => list(table, by, &columns, keys),
            PartitionValues::Others(_) => "DEFAULT".to_owned(),
        },
        range: range_text(&columns, values),
        columns: names.join(", "),
    })
}

fn expression(by: &PartitionBy, columns: &[&Column]) -> String {
    if let Some(computed) = &by.computed {
        return computed.text.clone();
    }
    let names = columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(",");
    match (by.function, by.auto) {
        (Some(function), _) => format!("{}({names})", function.name()),
        (None, Some(AutoPartition::Period(unit))) => {
            format!("date_trunc({names}, '{}')", unit.name())
        }
        (None, _) => names,
    }
}

/// The values of a bound, without parentheses.
fn bound(table: &Table, by: &PartitionBy, columns: &[&Column], key: &PartitionKey) -> String {
    if key.is_empty() && columns.len() == 1 {
        return "MAXVALUE".to_owned();
    }
    let value = |(at, column): (usize, &&Column)| match key.get(at) {
        Some(key) => value(table, by, column, key),
        None => "MAXVALUE".to_owned(),
    };
    columns.iter().enumerate().map(value).collect::<Vec<_>>().join(",")
}

fn list(table: &Table, by: &PartitionBy, columns: &[&Column], keys: &[PartitionKey]) -> String {
    let one = |key: &PartitionKey| match columns.len() {
        1 => bound(table, by, columns, key),
        _ => format!("({})", bound(table, by, columns, key)),
    };
    keys.iter().map(one).collect::<Vec<_>>().join(",")
}

/// A value as a literal.
fn value(table: &Table, by: &PartitionBy, column: &Column, key: &[u8]) -> String {
    let Some(shown) = value_text(column, key) else { return "NULL".to_owned() };
    match (by.function, table.form) {
        (Some(PartitionFunction::Year), _) => {
            shown.get(..4).unwrap_or(&shown).trim_start_matches('0').to_owned()
        }
        (Some(PartitionFunction::ToDays), _) => {
            let days = parse(shown.as_bytes()).map(|date| i64::from(date.days) + TO_DAYS_OF_1970);
            days.map_or(shown, |days| days.to_string())
        }
        (Some(PartitionFunction::ToSeconds), _) => {
            parse(shown.as_bytes()).map_or(shown, |moment| to_seconds(&moment).to_string())
        }
        (Some(PartitionFunction::UnixTimestamp), _) => {
            parse(shown.as_bytes()).map_or(shown, |moment| unix_seconds(&moment).to_string())
        }
        (None, TableForm::MySql) if column.ty.is_integer() => shown,
        (None, TableForm::MySql) => text(&shown),
        (None, TableForm::Olap) if column.ty == ColumnType::Boolean => shown,
        (None, TableForm::Olap) => {
            format!("\"{}\"", shown.replace('\\', "\\\\").replace('"', "\\\""))
        }
    }
}

/// The PARTITION BY clause with its partitions.
pub(super) fn clause(table: &Table, by: &PartitionBy) -> String {
    let columns = by.columns_of(&table.schema().columns);
    let method = match (by.method, by.has_columns_word) {
        (PartitionMethod::Range, false) => "RANGE ",
        (PartitionMethod::Range, true) => "RANGE  COLUMNS",
        (PartitionMethod::List, false) => "LIST ",
        (PartitionMethod::List, true) => "LIST  COLUMNS",
    };
    let one = |partition: &Partition| {
        let values = match &partition.values {
            Some(PartitionValues::List(keys)) => {
                format!("VALUES IN ({})", list(table, by, &columns, keys))
            }
            Some(PartitionValues::Others(_)) => "VALUES IN (DEFAULT)".to_owned(),
            Some(PartitionValues::Range { lower: Some(lower), upper })
                if table.form == TableForm::Olap =>
            {
                let bound = |key| bound(table, by, &columns, key);
                format!("VALUES [({}), ({}))", bound(lower), bound(upper))
            }
            Some(PartitionValues::Range { upper, .. })
                if upper.is_empty() && columns.len() == 1 =>
            {
                "VALUES LESS THAN MAXVALUE".to_owned()
            }
            Some(PartitionValues::Range { upper, .. }) => {
                format!("VALUES LESS THAN ({})", bound(table, by, &columns, upper))
            }
            None => String::new(),
        };
        format!("PARTITION {} {values}", quoted(&partition.name))
    };
    let partitions = table.shown_partitions().map(|(_, partition)| one(partition));
    let partitions = partitions.collect::<Vec<_>>().join(",\n ");
    let auto = if by.auto.is_some() { "AUTO " } else { "" };
    let sub = table.placement.as_ref().map(|sub| format!("\n{}", sub.text)).unwrap_or_default();
    format!("{auto}PARTITION BY {method}({}){sub}\n({partitions})", expression(by, &columns))
}
