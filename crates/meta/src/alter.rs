//! ALTER of columns: the next schema of a table.

mod modify;
mod sequenced;

use std::sync::Arc;

use freshet_base::{ColumnId, Result, TableId, bail, err};
use freshet_schema::{
    Aggregate, COLUMNS_MAX, Collation, Column, DeclaredKey, DefaultValue, KeyModel, Table,
    TableSchema,
};

use crate::catalog::Catalog;
use crate::create::{check_comment, column};
use crate::spec::{CheckSpec, ColumnSpec, DefaultSpec};
use crate::{checks, foreign, generated, names, policies};

/// Maximum number of schema versions of a table. All are kept, since rows in old files refer to
/// theirs.
const VERSIONS_MAX: usize = 10_000;

/// The position of a new column.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ColumnPlace {
    #[default]
    Last,
    First,
    /// AFTER the named column.
    After(String),
}

/// A clause of an ALTER TABLE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SchemaChange {
    AddColumn {
        column: ColumnSpec,
        place: ColumnPlace,
    },
    /// ADD COLUMN of one that is marked KEY or PRIMARY KEY.
    AddKeyColumn {
        column: ColumnSpec,
        place: Option<ColumnPlace>,
    },
    DropColumn {
        name: String,
    },
    RenameColumn {
        from: String,
        to: String,
    },
    /// MODIFY and CHANGE: the column `from` becomes `column`.
    ModifyColumn {
        from: String,
        column: ColumnSpec,
        place: Option<ColumnPlace>,
        is_key: bool,
    },
    /// ALTER COLUMN .. SET DEFAULT, and .. DROP DEFAULT for one that is not set.
    SetDefault {
        name: String,
        default: DefaultSpec,
    },
    /// MODIFY COLUMN .. COMMENT.
    SetComment {
        name: String,
        comment: String,
    },
    /// CONVERT TO CHARACTER SET: texts compare by this collation from then on.
    Convert(Collation),
    /// ENABLE FEATURE "SEQUENCE_LOAD": the table gets a hidden sequence column of this type.
    EnableSequence {
        ty: String,
    },
    /// ORDER BY: all columns in their new order.
    Reorder {
        columns: Vec<String>,
    },
    /// ADD CHECK.
    AddCheck(CheckSpec),
    /// DROP CHECK and DROP CONSTRAINT.
    DropCheck {
        name: String,
    },
    /// ALTER CHECK .. ENFORCED or NOT ENFORCED.
    EnforceCheck {
        name: String,
        is_enforced: bool,
    },
}

impl Catalog {
    /// The schema that a table would have after these clauses; it is the table's once its record
    /// has settled.
    ///
    /// # Errors
    /// 1060, 1090, 1091 and errors of Doris, 1146 if the table does not exist.
    pub fn altered(&self, table: TableId, changes: &[SchemaChange]) -> Result<Arc<TableSchema>> {
        let table = self.require(table)?;
        self.check_no_temporary(table)?;
        changed(table, changes).map(Arc::new)
    }

    /// Whether a table may have a comment.
    ///
    /// # Errors
    /// 1628 for one that is too long, 1146 if the table does not exist.
    pub fn check_comment(&self, table: TableId, comment: &str) -> Result<()> {
        check_comment(comment, &format!("table '{}'", self.require(table)?.name))
    }
}

/// The next schema of `table` after `changes`.
pub(crate) fn changed(table: &Table, changes: &[SchemaChange]) -> Result<TableSchema> {
    let now = table.schema();
    check_versions(table)?;
    let mut columns = now.columns.clone();
    let hidden = columns.split_off(now.shown().len());
    let mut next_id = table.next_column;
    let mut checks = now.checks.clone();
    for change in changes {
        if let Some(name) = change.unnames()
            && let Some(at) = find(&columns, name)
        {
            checks::check_unnamed(&columns[at], &checks)?;
            policies::check_unnamed(&columns[at], &table.policies)?;
            generated::check_unnamed(&columns[at], &columns)?;
        }
        match change {
            SchemaChange::AddColumn { column, place } => {
                add(table, &mut columns, column, place, next_id)?;
                next_id = next_id.next();
                checks::refuse_beside(column)?;
            }
            SchemaChange::AddKeyColumn { column, .. } => refuse_key(column)?,
            SchemaChange::DropColumn { name } => drop_column(table, &mut columns, name)?,
            SchemaChange::RenameColumn { from, to } => rename(table, &mut columns, from, to)?,
            SchemaChange::ModifyColumn { from, column, place, is_key } => {
                modify::modify(table, &mut columns, (from, *is_key), column, place.as_ref())?;
                checks::refuse_beside(column)?;
            }
            SchemaChange::SetDefault { name, default } => {
                modify::set_default(table, &mut columns, name, default)?;
            }
            SchemaChange::SetComment { name, comment } => {
                check_comment(comment, &format!("column '{name}'"))?;
                let at = require(&columns, name)?;
                columns[at].comment.clone_from(comment);
            }
            SchemaChange::Convert(collation) => {
                modify::convert(table, &mut columns, *collation)?;
            }
            SchemaChange::AddCheck(written) => {
                checks::add(&table.name, written, &columns, &mut checks)?;
            }
            SchemaChange::DropCheck { name } => checks::drop(table, name, &mut checks)?,
            SchemaChange::EnforceCheck { name, is_enforced } => {
                checks::enforce(table, name, *is_enforced, &mut checks)?;
            }
            SchemaChange::Reorder { columns: names } => {
                modify::reorder(table, &mut columns, names)?;
            }
            SchemaChange::EnableSequence { .. } => {}
        }
    }
    generated::check_order(&columns)?;
    columns.extend(hidden);
    let sequence = sequenced::enabled(table, changes, &mut columns, next_id)?;
    let position = |id: ColumnId| columns.iter().position(|column| column.id == id);
    let sort_key = now
        .sort_key
        .iter()
        .map(|&at| position(now.columns[at].id).expect("key columns are never dropped"))
        .collect();
    let next = TableSchema::new(now.version.next(), columns, sort_key);
    Ok(next.with_checks(checks).sequenced_by(sequence).hiding_row_id())
}

fn check_versions(table: &Table) -> Result<()> {
    if table.history.versions().len() < VERSIONS_MAX {
        return Ok(());
    }
    bail!(
        Unknown,
        "table '{}' was altered {VERSIONS_MAX} times, which is the limit; copy it with \
         CREATE TABLE and INSERT .. SELECT",
        table.name
    )
}

impl SchemaChange {
    /// The column that does not keep its name.
    fn unnames(&self) -> Option<&str> {
        match self {
            Self::DropColumn { name } => Some(name),
            Self::RenameColumn { from, .. } => Some(from),
            Self::ModifyColumn { from, column, .. } => {
                (!column.name.eq_ignore_ascii_case(from)).then_some(from)
            }
            _ => None,
        }
    }
}

fn find(columns: &[Column], name: &str) -> Option<usize> {
    columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
}

fn add(
    table: &Table,
    columns: &mut Vec<Column>,
    written: &ColumnSpec,
    place: &ColumnPlace,
    id: ColumnId,
) -> Result<()> {
    let name = &written.name;
    if find(columns, name).is_some() {
        bail!(
            DuplicateColumn,
            "Duplicate column name '{name}': Can not add column which already exists in base \
             table: {name}"
        );
    }
    let hidden = table.schema().columns.len() - table.schema().shown().len();
    if columns.len() + hidden >= COLUMNS_MAX {
        bail!(Unknown, "Too many columns: table '{}' has {COLUMNS_MAX}, the limit", table.name);
    }
    if written.auto_increment {
        bail!(
            NotSupported,
            "ALTER TABLE ... ADD COLUMN with AUTO_INCREMENT is not supported: rows that are there \
             would need ids; create a table with it and copy them by INSERT .. SELECT"
        );
    }
    let mut new = column(written, id, table.form, table.collation)?;
    new.generated = generated::of_column(written, columns, table.form)?;
    if new.generated.is_some() {
        if table.key_model == KeyModel::Aggregate {
            generated::check_keys(std::slice::from_ref(&new), (table.key_model, &[]), &[])?;
        }
        return Err(generated::computed_anew(&new));
    }
    check_aggregate(table, &new)?;
    let is_known = matches!(written.default, DefaultSpec::Computed { .. });
    if !is_known && new.default.as_ref().is_some_and(DefaultValue::is_computed) {
        bail!(
            InvalidDefault,
            "Invalid default value for '{name}': rows that are there need one value for ever"
        );
    }
    let at = match place {
        ColumnPlace::Last => columns.len(),
        ColumnPlace::First => 0,
        ColumnPlace::After(before) => {
            let unknown = || err!(UnknownColumn, "Unknown column '{before}' in '{}'", table.name);
            find(columns, before).ok_or_else(unknown)? + 1
        }
    };
    columns.insert(at, new);
    check_key_first(table, columns)
}

fn refuse_key(column: &ColumnSpec) -> Result<()> {
    bail!(
        NotSupported,
        "Can not add key column '{}' to files that are sorted by others",
        column.name
    )
}

/// Key columns of Doris stand first, in their order.
fn check_key_first(table: &Table, columns: &[Column]) -> Result<()> {
    if table.form != freshet_schema::TableForm::Olap {
        return Ok(());
    }
    let schema = table.schema();
    let keys = schema.sort_key.iter().take(table.key_columns).map(|&at| &schema.columns[at]);
    for (key, column) in keys.zip(columns) {
        if key.id != column.id {
            bail!(
                NotSupported,
                "Can not put column '{}' before key column '{}', by which files are sorted; put it \
                 behind the key columns",
                column.name,
                key.name
            );
        }
    }
    Ok(())
}

/// A column of a table with an AGGREGATE KEY is aggregated, and its default does not depend on how
/// many rows have become one already.
pub(crate) fn check_aggregate(table: &Table, new: &Column) -> Result<()> {
    let Column { name, ty, .. } = new;
    match (table.key_model == KeyModel::Aggregate, new.aggregate) {
        (false, None) => Ok(()),
        (false, Some(_)) => {
            let model = match table.key_model {
                KeyModel::Duplicate => "Duplicate",
                _ => "Unique",
            };
            bail!(
                Unknown,
                "Can not assign aggregation method on column in {model} data model table: {name}"
            )
        }
        (true, None) => bail!(
            NotSupported,
            "Can not add key column '{name}' to a table with an AGGREGATE KEY; a value column says \
             SUM, MIN, MAX, REPLACE or REPLACE_IF_NOT_NULL behind its type"
        ),
        (true, Some(function)) if !function.is_of(*ty) => bail!(
            Unknown,
            "Aggregate type {} is not compatible with primitive type {ty} of column[{name}]",
            function.name()
        ),
        (true, Some(Aggregate::Sum)) => match &new.default {
            None => Ok(()),
            Some(DefaultValue::Literal(text)) if text.parse() == Ok(0.0) => Ok(()),
            Some(_) => bail!(
                InvalidDefault,
                "Invalid default value for '{name}': a SUM that is added to rows that are there \
                 begins with 0 or NULL"
            ),
        },
        (true, Some(_)) => Ok(()),
    }
}

fn drop_column(table: &Table, columns: &mut Vec<Column>, name: &str) -> Result<()> {
    let at = find(columns, name).ok_or_else(|| {
        err!(
            CannotDropColumn,
            "Can't DROP '{name}'; check that column/key exists: Column does not exists: {name}"
        )
    })?;
    if columns.len() == 1 {
        bail!(
            CannotRemoveAllColumns,
            "You can't delete all columns with ALTER TABLE; use DROP TABLE instead"
        );
    }
    let id = columns[at].id;
    let schema = table.schema();
    if schema.sort_key.iter().any(|&key| schema.columns[key].id == id) {
        bail!(NotSupported, "Can not drop key column '{name}': files are sorted by it");
    }
    if schema.sequence == Some(id) {
        bail!(
            NotSupported,
            "Can not drop sequence mapping column[{name}] in Unique data model table[{}]",
            table.name
        );
    }
    if table.distribution.has(id) {
        bail!(NotSupported, "Can not modify distribution column '{name}'");
    }
    check_undivided(table, id, name)?;
    check_placement(table, id, name)?;
    foreign::check_unneeded(name, id, table)?;
    if let Some(key) = table.declared_keys.iter().find(|key| key.has(id)) {
        bail!(NotSupported, "Can not drop column '{name}': it is part of key '{}'", key.name);
    }
    if let Some(key) = table.declared_keys.iter().find(|key| key.is_covering(id)) {
        bail!(
            NotSupported,
            "Can not drop column '{name}': index '{}' is COVERING it; drop the index first",
            key.name
        );
    }
    columns.remove(at);
    Ok(())
}

/// Refuses to drop a column that divides the table.
fn check_undivided(table: &Table, column: ColumnId, name: &str) -> Result<()> {
    if table.partition_by.as_ref().is_some_and(|by| by.columns.contains(&column)) {
        bail!(
            PartitionColumn,
            "Column '{name}' has a partitioning function dependency and cannot be dropped."
        );
    }
    Ok(())
}

/// Refuses to drop or rename a column that a clause names which is shown as it was written, or an
/// expression in PARTITION BY.
fn check_placement(table: &Table, column: ColumnId, name: &str) -> Result<()> {
    let of_keys = table.declared_keys.iter().filter_map(DeclaredKey::placement);
    let is_computed = table
        .partition_by
        .as_ref()
        .is_some_and(|by| by.computed.is_some() && by.columns.contains(&column));
    let mut clauses = table.placement.iter().chain(of_keys);
    if is_computed || clauses.any(|clause| clause.columns.contains(&column)) {
        bail!(
            PartitionColumn,
            "Column '{name}' has a partitioning function dependency and cannot be dropped or \
             renamed."
        );
    }
    Ok(())
}

/// The position of a column that is to be changed.
fn require(columns: &[Column], name: &str) -> Result<usize> {
    find(columns, name).ok_or_else(|| {
        err!(UnknownColumn, "Unknown column '{name}': Column[{name}] does not exists")
    })
}

fn rename(table: &Table, columns: &mut [Column], from: &str, to: &str) -> Result<()> {
    let at = require(columns, from)?;
    check_placement(table, columns[at].id, from)?;
    names::check_column(to)?;
    if find(columns, to).is_some_and(|other| other != at) {
        bail!(DuplicateColumn, "Duplicate column name '{to}'");
    }
    to.clone_into(&mut columns[at].name);
    Ok(())
}

#[cfg(test)]
mod tests;
