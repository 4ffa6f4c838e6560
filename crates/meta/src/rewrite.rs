//! ALTER TABLE that rows which are there cannot follow when they are read: what table they are
//! copied to (RFC 0039).
//!
//! The clauses change the statement that would create the table, so that everything that they may
//! not do is said as CREATE TABLE says it.

use freshet_base::{ColumnId, Error, Result, bail, err};
use freshet_schema::convert::Source;
use freshet_schema::{Column, DeclaredKeyKind, RowPolicy, Table, TableForm};

use crate::alter::{ColumnPlace, SchemaChange};
use crate::alter_keys::{KeyChange, can_have_row_ids};
use crate::spec::{
    ColumnSpec, DeclaredKeySpec, DefaultSpec, DistributionSpec, ForeignKeySpec, TableSpec,
};

mod combined;
mod divide;

pub use divide::{Division, DivisionSpec};

/// A table that rows are copied to.
pub struct NewForm {
    pub spec: TableSpec,
    /// Where the values of its columns come from, in their order; of hidden ones nothing is said.
    pub sources: Vec<Source>,
}

impl NewForm {
    /// The form that the table has, whose statement is `spec`.
    pub fn same(table: &Table, spec: TableSpec) -> Self {
        let sources = table.schema().shown().iter().map(|column| Source::Column(column.id));
        Self { spec, sources: sources.collect() }
    }

    /// What `spec`, the statement that creates `table`, becomes by these clauses. `None` for
    /// clauses that only [`Catalog::altered`](crate::Catalog::altered) and
    /// [`Catalog::keys_with`](crate::Catalog::keys_with) know, and what they refuse stays refused.
    ///
    /// # Errors
    /// 1054, 1060, 1061, 1068, 1072, 1091 and those of Doris; for a division 1492, 1499, 1505,
    /// 1508, 1509, 1514 and 1515.
    pub fn of(
        table: &Table,
        spec: TableSpec,
        columns: &[SchemaChange],
        keys: &[KeyChange],
        division: Option<&Division>,
    ) -> Result<Option<Self>> {
        if table.sequence.is_some() {
            return Ok(None);
        }
        let Self { spec, sources } = Self::same(table, spec);
        let mut edit = Edit { table, spec, sources };
        // It names columns as they are behind the statement.
        if let Some(division) = division {
            edit.divide(division)?;
        }
        // As in MySQL: keys go before columns do, and come behind them.
        for key in keys.iter().filter(|key| key.is_first()) {
            if !edit.key(key)? {
                return Ok(None);
            }
        }
        for change in columns {
            if !edit.column(change)? {
                return Ok(None);
            }
        }
        for key in keys.iter().filter(|key| !key.is_first()) {
            if !edit.key(key)? {
                return Ok(None);
            }
        }
        edit.order_keys();
        Ok(Some(Self { spec: edit.spec, sources: edit.sources }))
    }

    /// Where the values of all columns of the new table come from.
    ///
    /// # Panics
    /// When it has other columns than the statement.
    pub fn all_sources(&self, before: &Table, new: &Table) -> Vec<Source> {
        let (from, to) = (before.schema(), new.schema());
        let hidden = to.columns[to.shown().len()..].iter().map(|column| {
            let same = from.columns[from.shown().len()..].iter();
            let same = same.into_iter().find(|other| other.name == column.name);
            // Rows that had no name get one.
            same.map_or(Source::New(None), |same| Source::Column(same.id))
        });
        let all = self.sources.iter().cloned().chain(hidden).collect::<Vec<_>>();
        assert_eq!(all.len(), to.columns.len(), "a new table has the columns of its statement");
        all
    }

    /// The row policies of the table, with the columns of the new one.
    ///
    /// # Errors
    /// `NotSupported` for one that names a column which goes or gets another name.
    pub fn policies(&self, before: &Table, new: &Table) -> Result<Vec<RowPolicy>> {
        let position = |id: ColumnId| {
            let is_it = |source: &Source| *source == Source::Column(id);
            self.sources.iter().position(is_it)
        };
        let policies = before.policies.iter().map(|policy| {
            let columns = policy.columns.iter().map(|&id| {
                let (from, to) = (before.schema(), new.schema());
                let name = from.position_of(id).map(|at| &from.columns[at].name);
                let column = position(id).map(|at| &to.columns[at]);
                match column.filter(|column| Some(&column.name) == name) {
                    Some(column) => Ok(column.id),
                    None => bail!(
                        NotSupported,
                        "row policy '{}' of table '{}' names a column that the statement drops or \
                         renames: DROP ROW POLICY first",
                        policy.name,
                        before.name
                    ),
                }
            });
            Ok(RowPolicy { columns: columns.collect::<Result<_>>()?, ..policy.clone() })
        });
        policies.collect()
    }
}

/// The statement, as far as it is changed.
struct Edit<'a> {
    table: &'a Table,
    spec: TableSpec,
    sources: Vec<Source>,
}

fn is(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

impl Edit<'_> {
    fn find(&self, name: &str) -> Option<usize> {
        self.spec.columns.iter().position(|column| is(&column.name, name))
    }

    fn require(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| {
            err!(UnknownColumn, "Unknown column '{name}': Column[{name}] does not exists")
        })
    }

    /// The column that the table has, if the one at an index comes from it.
    fn before(&self, at: usize) -> Option<&Column> {
        let Source::Column(id) = self.sources[at] else { return None };
        let schema = self.table.schema();
        schema.position_of(id).map(|at| &schema.columns[at])
    }

    /// Applies a clause for columns; false if it stays refused.
    fn column(&mut self, change: &SchemaChange) -> Result<bool> {
        match change {
            // As in Doris: what is not aggregated is of the key.
            SchemaChange::AddColumn { column, place }
                if self.is_combined() && column.aggregate.is_none() =>
            {
                self.add_key_column(column, Some(place))?;
            }
            SchemaChange::AddColumn { column, place } => self.add(column, Some(place))?,
            SchemaChange::AddKeyColumn { column, place } => {
                self.add_key_column(column, place.as_ref())?;
            }
            SchemaChange::DropColumn { name } => self.drop(name)?,
            SchemaChange::RenameColumn { from, to } => self.rename(from, to)?,
            SchemaChange::ModifyColumn { from, column, place, is_key } => {
                self.modify(from, column, place.as_ref())?;
                if *is_key {
                    self.mark_key(&column.name)?;
                }
            }
            SchemaChange::SetDefault { name, default } => {
                let at = self.require(name)?;
                self.spec.columns[at].default = default.clone();
            }
            SchemaChange::SetComment { name, comment } => {
                let at = self.require(name)?;
                self.spec.columns[at].comment.clone_from(comment);
            }
            SchemaChange::Convert(collation) => {
                let is_text =
                    |column: &&mut ColumnSpec| column.ty.is_text() && !column.ty.is_document();
                for column in self.spec.columns.iter_mut().filter(is_text) {
                    (column.collation, column.of_charset) = (Some(*collation), None);
                }
                (self.spec.collation, self.spec.of_charset) = (Some(*collation), None);
            }
            SchemaChange::Reorder { columns } => self.reorder(columns)?,
            SchemaChange::DropCheck { name } => {
                let known = self.spec.checks.len();
                let is_other = |known: Option<&str>| known.is_none_or(|known| !is(known, name));
                self.spec.checks.retain(|check| is_other(check.name.as_deref()));
                return Ok(self.spec.checks.len() < known);
            }
            SchemaChange::AddCheck(written) => self.spec.checks.push(written.clone()),
            SchemaChange::EnforceCheck { name, is_enforced } => {
                let mut known = self.spec.checks.iter_mut();
                let is_it = |known: &str| is(known, name);
                let Some(check) = known.find(|check| check.name.as_deref().is_some_and(is_it))
                else {
                    return Ok(false);
                };
                check.is_enforced = *is_enforced;
            }
            SchemaChange::EnableSequence { .. } => return Ok(false),
        }
        Ok(true)
    }

    fn add(&mut self, written: &ColumnSpec, place: Option<&ColumnPlace>) -> Result<()> {
        let name = &written.name;
        if self.find(name).is_some() {
            bail!(
                DuplicateColumn,
                "Duplicate column name '{name}': Can not add column which already exists in base \
                 table: {name}"
            );
        }
        let at = self.place(place.unwrap_or(&ColumnPlace::Last))?;
        let mut column = written.clone();
        let mut before = None;
        if let DefaultSpec::Computed { default, before: literal } = &written.default {
            column.default = DefaultSpec::Value(default.clone());
            before.clone_from(literal);
        }
        self.put_checks_behind(&mut column);
        self.spec.columns.insert(at, column);
        self.sources.insert(at, Source::New(before));
        Ok(())
    }

    /// Puts constraints of a column behind those of the table, whose names they leave alone.
    fn put_checks_behind(&mut self, column: &mut ColumnSpec) {
        self.spec.checks.append(&mut column.checks);
    }

    fn place(&self, place: &ColumnPlace) -> Result<usize> {
        match place {
            ColumnPlace::Last => Ok(self.spec.columns.len()),
            ColumnPlace::First => Ok(0),
            ColumnPlace::After(name) => match self.find(name) {
                Some(at) => Ok(at + 1),
                None => bail!(UnknownColumn, "Unknown column '{name}' in '{}'", self.table.name),
            },
        }
    }

    fn drop(&mut self, name: &str) -> Result<()> {
        let at = self.find(name).ok_or_else(|| {
            err!(
                CannotDropColumn,
                "Can't DROP '{name}'; check that column/key exists: Column does not exists: {name}"
            )
        })?;
        if self.spec.columns.len() == 1 {
            bail!(
                CannotRemoveAllColumns,
                "You can't delete all columns with ALTER TABLE; use DROP TABLE instead"
            );
        }
        self.drop_key_column(name)?;
        self.check_undivided(name, "dropped")?;
        if self.before(at).is_some_and(|before| self.table.schema().sequence == Some(before.id)) {
            bail!(
                NotSupported,
                "Can not drop sequence mapping column[{name}] in Unique data model table[{}]",
                self.table.name
            );
        }
        self.check_not_covered(name)?;
        self.check_unneeded(name)?;
        for key in &mut self.spec.declared_keys {
            key.columns.retain(|known| !is(known, name));
            key.first.retain(|(known, _)| !is(known, name));
            key.descending.retain(|known| !is(known, name));
        }
        // As in MySQL: a key without columns is gone.
        self.spec.declared_keys.retain(|key| !key.columns.is_empty());
        self.spec.columns.remove(at);
        self.sources.remove(at);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let at = self.require(from)?;
        if self.find(to).is_some_and(|other| other != at) {
            bail!(DuplicateColumn, "Duplicate column name '{to}'");
        }
        let old = self.spec.columns[at].name.clone();
        if old == to {
            return Ok(());
        }
        if self.spec.placement.is_some() {
            self.check_undivided(from, "renamed")?;
        }
        self.check_unplaced(from, "renamed")?;
        self.check_sequence(at)?;
        to.clone_into(&mut self.spec.columns[at].name);
        let spec = &mut self.spec;
        let first = spec.declared_keys.iter_mut().flat_map(|key| &mut key.first);
        let first = first.map(|(name, _)| name).filter(|name| is(name, &old));
        first.for_each(|name| to.clone_into(name));
        let keys = spec.declared_keys.iter_mut().flat_map(|key| {
            let covering = key.global.as_mut().map(|global| &mut global.covering);
            [&mut key.columns, &mut key.descending].into_iter().chain(covering)
        });
        let keys = keys.chain(spec.foreign_keys.iter_mut().map(|key| &mut key.columns));
        let lists = keys.chain(spec.key.iter_mut().map(|key| &mut key.columns));
        let lists = lists.chain(spec.partition_by.iter_mut().map(|by| &mut by.columns));
        let hashed = spec.distribution.iter_mut().filter_map(|by| match by {
            DistributionSpec::Hash(columns) => Some(columns),
            DistributionSpec::Random => None,
        });
        for name in lists.chain(hashed).flatten().filter(|name| is(name, &old)) {
            to.clone_into(name);
        }
        Ok(())
    }

    fn modify(
        &mut self,
        from: &str,
        written: &ColumnSpec,
        place: Option<&ColumnPlace>,
    ) -> Result<()> {
        self.rename(from, &written.name)?;
        let at = self.require(&written.name)?;
        let mut column = written.clone();
        if let Some(before) = self.before(at) {
            let is_same = (before.ty, before.nullable) == (column.ty, column.nullable);
            if !is_same {
                self.check_sequence(at)?;
                self.check_olap(before, &column)?;
            }
            let says_collation = column.collation.is_some() || column.of_charset.is_some();
            if self.is_of_key(&column.name) && column.ty.is_text() && !says_collation {
                column.collation = Some(before.collation);
            }
        }
        self.put_checks_behind(&mut column);
        let source = self.sources.remove(at);
        self.spec.columns.remove(at);
        let to = match place {
            None => at,
            Some(place) => self.place(place)?,
        };
        self.spec.columns.insert(to, column);
        self.sources.insert(to, source);
        Ok(())
    }

    fn reorder(&mut self, names: &[String]) -> Result<()> {
        if names.len() != self.spec.columns.len() {
            bail!(
                Unknown,
                "Reorder stmt should contains all columns: table '{}' has {}, and {} are named",
                self.table.name,
                self.spec.columns.len(),
                names.len()
            );
        }
        let mut order = Vec::with_capacity(names.len());
        for name in names {
            let at = self.require(name)?;
            if order.contains(&at) {
                bail!(ColumnTwice, "Column '{name}' specified twice");
            }
            order.push(at);
        }
        self.spec.columns = order.iter().map(|&at| self.spec.columns[at].clone()).collect();
        self.sources = order.iter().map(|&at| self.sources[at].clone()).collect();
        Ok(())
    }

    /// Makes a column one of the key behind the columns, or of the primary key.
    fn mark_key(&mut self, name: &str) -> Result<()> {
        if self.spec.form == TableForm::MySql && self.spec.key.is_none() {
            let (kind, columns) = (DeclaredKeyKind::Primary, vec![name.to_owned()]);
            return self.add_key(&DeclaredKeySpec::new(kind, columns));
        }
        let key = self.spec.key.as_mut().expect("a table in the form of Doris has a key");
        if !key.columns.iter().any(|known| is(known, name)) {
            key.columns.push(name.to_owned());
        }
        Ok(())
    }

    /// Puts the columns of the key behind the columns into their order.
    fn order_keys(&mut self) {
        let Some(key) = &mut self.spec.key else { return };
        let columns = &self.spec.columns;
        key.columns.sort_by_key(|name| columns.iter().position(|column| is(&column.name, name)));
    }

    /// Applies a clause for keys; false if it stays refused.
    fn key(&mut self, change: &KeyChange) -> Result<bool> {
        match change {
            KeyChange::Add(written) => self.add_key(written)?,
            KeyChange::AddForeign(written) => self.spec.foreign_keys.push(written.clone()),
            KeyChange::AddUnkept(written) => self.spec.unkept_keys.push(written.clone()),
            KeyChange::Drop { name } => {
                let at = self.find_key(name)?;
                self.spec.declared_keys.remove(at);
            }
            KeyChange::Rename { from, to } => {
                let at = self.find_key(from)?;
                let is_primary = self.spec.declared_keys[at].kind == DeclaredKeyKind::Primary;
                if is_primary || is(to, "PRIMARY") {
                    bail!(WrongColumnName, "Incorrect index name '{from}'");
                }
                self.spec.declared_keys[at].name = Some(to.clone());
            }
            KeyChange::DropForeign { name } => {
                let known = self.spec.foreign_keys.len();
                let is_other = |one: &str| !is(one, name);
                self.spec.foreign_keys.retain(|key| key.name.as_deref().is_none_or(is_other));
                if self.spec.foreign_keys.len() == known {
                    return Err(no_such_key(name));
                }
            }
            KeyChange::Enforce if can_have_row_ids(self.table) => self.enforce(),
            KeyChange::Enforce | KeyChange::Show { .. } => return Ok(false),
        }
        Ok(true)
    }

    /// Lets unique keys be enforced that were only shown.
    fn enforce(&mut self) {
        for key in &mut self.spec.declared_keys {
            if key.kind == DeclaredKeyKind::UniqueHint {
                key.kind = DeclaredKeyKind::Unique;
            }
        }
    }

    fn add_key(&mut self, written: &DeclaredKeySpec) -> Result<()> {
        if written.kind == DeclaredKeyKind::Primary {
            let mut known = self.spec.declared_keys.iter();
            if known.any(|key| key.kind == DeclaredKeyKind::Primary) {
                bail!(MultiplePrimaryKeys, "Multiple primary key defined");
            }
            if self.spec.key.is_some() {
                bail!(
                    MultiplePrimaryKeys,
                    "Multiple primary key defined: table '{}' has its key behind the columns",
                    self.table.name
                );
            }
            for name in &written.columns {
                let Some(at) = self.find(name) else {
                    bail!(KeyColumnMissing, "Key column '{name}' doesn't exist in table");
                };
                let column = &mut self.spec.columns[at];
                column.nullable = false;
                // What a column shows that may be NULL; a MODIFY would have to say it.
                if column.default == DefaultSpec::Null {
                    column.default = DefaultSpec::Unset;
                }
            }
        }
        self.spec.declared_keys.push(written.clone());
        Ok(())
    }

    fn find_key(&self, name: &str) -> Result<usize> {
        let is_it = |key: &DeclaredKeySpec| match key.kind {
            DeclaredKeyKind::Primary => is(name, "PRIMARY"),
            _ => key.name.as_deref().is_some_and(|known| is(known, name)),
        };
        let at = self.spec.declared_keys.iter().position(is_it);
        at.ok_or_else(|| no_such_key(name))
    }

    fn is_of_key(&self, name: &str) -> bool {
        let of_declared = self.spec.declared_keys.iter().flat_map(|key| &key.columns);
        let of_key = self.spec.key.iter().flat_map(|key| &key.columns);
        of_declared.chain(of_key).any(|known| is(known, name))
    }

    /// Refuses what takes away a column by which rows are divided.
    fn check_undivided(&self, name: &str, what: &str) -> Result<()> {
        self.check_unplaced(name, what)?;
        let by = self.spec.partition_by.iter().flat_map(|by| &by.columns);
        let placed = self.spec.placement.iter().flat_map(|placement| &placement.columns);
        if by.chain(placed).any(|known| is(known, name)) {
            bail!(
                PartitionColumn,
                "Column '{name}' has a partitioning function dependency and cannot be {what}."
            );
        }
        let Some(DistributionSpec::Hash(hashed)) = &self.spec.distribution else { return Ok(()) };
        if what == "dropped" && hashed.iter().any(|known| is(known, name)) {
            bail!(NotSupported, "Can not modify distribution column '{name}'");
        }
        Ok(())
    }

    /// Refuses what takes away a column that the clause of a global index names.
    fn check_unplaced(&self, name: &str, what: &str) -> Result<()> {
        let global = self.spec.declared_keys.iter().filter_map(|key| key.global.as_ref());
        let mut placed = global.filter_map(|global| global.placement.as_ref());
        if placed.any(|clause| clause.columns.iter().any(|known| is(known, name))) {
            bail!(
                PartitionColumn,
                "Column '{name}' has a partitioning function dependency and cannot be {what}."
            );
        }
        Ok(())
    }

    /// Refuses to drop a column of a foreign key.
    fn check_unneeded(&self, name: &str) -> Result<()> {
        let has_it = |key: &&ForeignKeySpec| key.columns.iter().any(|known| is(known, name));
        match self.spec.foreign_keys.iter().find(has_it) {
            Some(key) => bail!(
                ColumnOfForeignKey,
                "Cannot drop column '{name}': needed in a foreign key constraint '{}'",
                key.name.as_deref().unwrap_or_default()
            ),
            None => Ok(()),
        }
    }

    fn check_not_covered(&self, name: &str) -> Result<()> {
        for key in &self.spec.declared_keys {
            let covering = key.global.iter().flat_map(|global| &global.covering);
            if covering.into_iter().any(|known| is(known, name)) {
                bail!(
                    NotSupported,
                    "Can not drop column '{name}': index '{}' is COVERING it; drop the index first",
                    key.name.as_deref().unwrap_or_default()
                );
            }
        }
        Ok(())
    }

    fn check_sequence(&self, at: usize) -> Result<()> {
        let Some(before) = self.before(at) else { return Ok(()) };
        if self.table.schema().sequence == Some(before.id) {
            bail!(
                NotSupported,
                "Can not alter sequence column[{}]: rows that are there are compared by it",
                before.name
            );
        }
        Ok(())
    }

    /// Columns that divide a table in the form of Doris keep their type, as there.
    fn check_olap(&self, before: &Column, after: &ColumnSpec) -> Result<()> {
        if self.table.form != TableForm::Olap {
            return Ok(());
        }
        let is_hashed = self.table.distribution.has(before.id);
        let by = self.table.partition_by.as_ref();
        if is_hashed || by.is_some_and(|by| by.columns.contains(&before.id)) {
            bail!(
                NotSupported,
                "Can not modify partition or distribution column '{}' from {} to {}",
                before.name,
                before.ty,
                after.ty
            );
        }
        Ok(())
    }
}

fn no_such_key(name: &str) -> Error {
    err!(CannotDropColumn, "Can't DROP '{name}'; check that column/key exists")
}

#[cfg(test)]
mod tests;
