//! CREATE INDEX, DROP INDEX, and the clauses of ALTER TABLE for keys.
//!
//! Adding or dropping a key is a change of the catalog: files that are written from then on have an
//! index by it or not (RFC 0020), and those that are there stay as they are. Before a unique key is
//! enforced, whoever changes the catalog looks at the rows (RFC 0026).

use freshet_base::{Error, Result, TableId, bail, err};
use freshet_schema::{
    Column, DeclaredKey, DeclaredKeyKind, ForeignKey, KeyModel, Table, TableForm,
};

use crate::alter::{SchemaChange, changed};
use crate::catalog::{Catalog, DatabaseMode};
use crate::create::{
    add_foreign, check_table, check_unique, check_unique_count, check_unique_global, declared_key,
    key_warning, looked_up, made_global_of, make_enforced, make_hint, rank,
};
use crate::spec::{DeclaredKeySpec, ForeignKeySpec, UnkeptKeySpec};
use crate::unkept::unkept;
use crate::{foreign, names};

/// Maximum number of keys of a table, as in MySQL.
const KEYS_MAX: usize = 64;

/// What is said to who makes a unique key invisible.
pub const INVISIBLE_UNIQUE: &str =
    "This version of Freshet doesn't yet support INVISIBLE of a unique key";

/// The keys of a table, and its foreign keys.
pub type Keys = (Vec<DeclaredKey>, Vec<ForeignKey>);

/// A change of the keys of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyChange {
    Add(Box<DeclaredKeySpec>),
    AddForeign(ForeignKeySpec),
    /// FULLTEXT and SPATIAL keys are not kept, so this checks their columns alone.
    AddUnkept(UnkeptKeySpec),
    Drop {
        name: String,
    },
    /// ENABLE KEYS: all unique keys that are not enforced yet are from there on.
    Enforce,
    DropForeign {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// ALTER INDEX name VISIBLE or INVISIBLE.
    Show {
        name: String,
        visible: bool,
    },
}

impl KeyChange {
    /// Whether it is done before columns are added and dropped.
    pub const fn is_first(&self) -> bool {
        !matches!(self, Self::Add(_) | Self::AddForeign(_) | Self::AddUnkept(_))
    }
}

impl Catalog {
    /// The keys of a table after these changes, and warnings.
    ///
    /// # Errors
    /// 1061, 1068, 1072, 1075, 1091 and 1503 for changes that do not fit the table; 1235 for
    /// changes of its primary key, and for unique keys that cannot be enforced.
    pub fn keys_with(&self, id: TableId, changes: &[KeyChange]) -> Result<(Keys, Vec<String>)> {
        let table = self.require(id)?;
        self.check_no_temporary(table)?;
        let (changes, notes) = made_global_of(table, changes, self.mode_of(table));
        let (keys, warnings) = keys_with(table, &changes)?;
        Ok((keys, [notes, warnings].concat()))
    }

    /// Checks that keys and columns of a table can be changed like this: keys are dropped, then
    /// the columns are changed, then keys are added.
    ///
    /// # Errors
    /// Those of [`Self::keys_with`] and [`Self::altered`].
    pub fn check_alteration(
        &self,
        id: TableId,
        keys: &[KeyChange],
        columns: &[SchemaChange],
    ) -> Result<()> {
        let mut table = Table::clone(self.require(id)?);
        self.check_no_temporary(&table)?;
        let (keys, _) = made_global_of(&table, keys, self.mode_of(&table));
        let (first, last): (Vec<_>, Vec<_>) = keys.into_iter().partition(KeyChange::is_first);
        (table.declared_keys, table.foreign_keys) = keys_with(&table, &first)?.0;
        table.history = table.history.with(changed(&table, columns)?);
        keys_with(&table, &last)?;
        Ok(())
    }

    /// That of the database of a table.
    fn mode_of(&self, table: &Table) -> Option<DatabaseMode> {
        self.database_by_id(table.db)?.mode
    }
}

fn keys_with(table: &Table, changes: &[KeyChange]) -> Result<(Keys, Vec<String>)> {
    let (mut keys, mut foreign) = (table.declared_keys.clone(), table.foreign_keys.clone());
    let mut warnings = Vec::new();
    for change in changes {
        match change {
            KeyChange::Add(written) => warnings.extend(add(table, &mut keys, written)?),
            KeyChange::AddForeign(written) => {
                let (columns, known) = (&table.schema().columns, (&mut keys, &mut foreign));
                warnings.extend(add_foreign(&table.name, known, written, columns)?);
            }
            KeyChange::AddUnkept(written) => {
                warnings.push(unkept(written, &table.schema().columns)?);
            }
            KeyChange::Drop { name } => drop(table, &mut keys, name)?,
            KeyChange::Enforce => enforce(table, &mut keys)?,
            KeyChange::DropForeign { name } => foreign::drop(name, &mut foreign)?,
            KeyChange::Rename { from, to } => rename(table, &mut keys, from, to)?,
            KeyChange::Show { name, visible } => show(table, &mut keys, name, *visible)?,
        }
    }
    check_unique_count(&keys)?;
    if keys.len() > KEYS_MAX.max(table.declared_keys.len()) {
        bail!(Unknown, "Too many keys specified; max {KEYS_MAX} keys allowed");
    }
    if let Some(counted) = table.schema().shown().iter().find(|one| one.auto_increment.is_some())
        && table.form == TableForm::MySql
        && !keys.iter().any(|key| key.columns.first() == Some(&counted.id))
    {
        bail!(
            WrongAutoKey,
            "Incorrect table definition; there can be only one auto column and it must be defined \
             as a key: '{}'",
            counted.name
        );
    }
    Ok(((keys, foreign), warnings))
}

fn add(
    table: &Table,
    keys: &mut Vec<DeclaredKey>,
    written: &DeclaredKeySpec,
) -> Result<Option<String>> {
    if let Some(name) = &written.name {
        names::check_column(name)?;
    }
    let mut key = declared_key(written, table.schema().shown(), keys)?;
    let mut warning = None;
    check_table(&key, table.placement.as_ref())?;
    match key.kind {
        DeclaredKeyKind::Primary => {
            bail!(NotSupported, "Can not add a PRIMARY KEY to rows that lie by no key")
        }
        DeclaredKeyKind::Unique => {
            check_divided(table, &key)?;
            if can_have_row_ids(table) {
                return Err(rows_need_names(table, &key));
            }
            if let Some(why) = unenforceable(table, &key)? {
                check_unique_global(&key, Some(&why))?;
                make_hint(&mut key, &table.schema().columns);
                warning = Some(why);
            }
        }
        _ => {}
    }
    let warning = key_warning(&key, table.key_model).map(|said| match warning {
        Some(why) => format!("{said}; {why}"),
        None => said,
    });
    keys.push(key);
    keys.sort_by_key(|key| rank(key, &table.schema().columns));
    Ok(warning)
}

fn check_divided(table: &Table, key: &DeclaredKey) -> Result<()> {
    match &table.partition_by {
        Some(by) => check_unique(by, &table.schema().columns, std::slice::from_ref(key)),
        None => Ok(()),
    }
}

/// Whether a copy of its rows has a column that names them, so that unique keys are enforced
/// there (RFC 0051).
pub(crate) fn can_have_row_ids(table: &Table) -> bool {
    table.form == TableForm::MySql
        && table.key_model == KeyModel::Duplicate
        && table.primary_key().is_none()
        && !table.unlisted
}

fn rows_need_names(table: &Table, key: &DeclaredKey) -> Error {
    err!(
        NotSupported,
        "UNIQUE KEY '{}' cannot be enforced as long as the rows of table '{}' stay where they are: \
         they have no name, and have to be copied",
        key.name,
        table.name
    )
}

/// Why no rows can be looked up by a unique key.
///
/// # Errors
/// Columns of which there are no keys at all.
fn unenforceable(table: &Table, key: &DeclaredKey) -> Result<Option<String>> {
    if table.key_model != KeyModel::Primary {
        return Ok(Some(format!("table '{}' has no PRIMARY KEY", table.name)));
    }
    let columns = &table.schema().columns;
    let places = looked_up(key, columns, table.form)?;
    let other = places.into_iter().map(|at| &columns[at]);
    let is_compared = |column: &Column| column.ty.is_text() && !column.collation.is_by_bytes();
    let mut other = other.filter(|column| is_compared(column) && column.key_collation().is_none());
    Ok(other.next().map(|column| {
        format!(
            "column '{}' is compared by {}, and was made when rows were found by their bytes: \
             ALTER TABLE .. MODIFY it, to the same definition or to another one",
            column.name,
            column.collation.name()
        )
    }))
}

fn enforce(table: &Table, keys: &mut [DeclaredKey]) -> Result<()> {
    if table.primary_key().is_some_and(|key| !table.enforces(key)) {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'ENABLE KEYS' of a PRIMARY KEY ('{}') \
             that is not enforced; create a table with the key, copy the rows by INSERT .. \
             SELECT, and exchange both by ALTER TABLE .. REPLACE WITH TABLE",
            table.name
        );
    }
    for key in keys.iter_mut().filter(|key| key.kind == DeclaredKeyKind::UniqueHint) {
        if can_have_row_ids(table) {
            return Err(rows_need_names(table, key));
        }
        make_enforced(key, &table.schema().columns)?;
        if let Some(why) = unenforceable(table, key)? {
            bail!(NotSupported, "UNIQUE KEY '{}' cannot be enforced: {why}", key.name);
        }
        check_divided(table, key)?;
    }
    keys.sort_by_key(|key| rank(key, &table.schema().columns));
    Ok(())
}

fn find(keys: &[DeclaredKey], name: &str) -> Result<usize> {
    let at = keys.iter().position(|key| key.name.eq_ignore_ascii_case(name));
    at.ok_or_else(|| err!(CannotDropColumn, "Can't DROP '{name}'; check that column/key exists"))
}

fn drop(table: &Table, keys: &mut Vec<DeclaredKey>, name: &str) -> Result<()> {
    let at = find(keys, name)?;
    if keys[at].kind == DeclaredKeyKind::Primary {
        bail!(NotSupported, "Can not drop the PRIMARY KEY by which rows lie");
    }
    let sorts = keys.iter().position(|key| table.is_sorted_by(key));
    if table.row_key().is_some() && sorts == Some(at) {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support DROP INDEX of the UNIQUE KEY ('{name}') \
             that is in the place of a PRIMARY KEY; create a table without it, copy the rows by \
             INSERT .. SELECT, and exchange both by ALTER TABLE .. REPLACE WITH TABLE"
        );
    }
    keys.remove(at);
    Ok(())
}

fn show(table: &Table, keys: &mut [DeclaredKey], name: &str, visible: bool) -> Result<()> {
    let missing = || err!(NoSuchKey, "Key '{name}' doesn't exist in table '{}'", table.name);
    let at = find(keys, name).map_err(|_| missing())?;
    if !keys[at].kind.is_unique() {
        keys[at].kind = match visible {
            true => DeclaredKeyKind::Index,
            false => DeclaredKeyKind::InvisibleIndex,
        };
    } else if !visible {
        bail!(NotSupported, "{INVISIBLE_UNIQUE} ('{name}')");
    }
    Ok(())
}

fn rename(table: &Table, keys: &mut [DeclaredKey], from: &str, to: &str) -> Result<()> {
    let missing = || err!(NoSuchKey, "Key '{from}' doesn't exist in table '{}'", table.name);
    let at = find(keys, from).map_err(|_| missing())?;
    names::check_column(to)?;
    if keys[at].kind == DeclaredKeyKind::Primary || to.eq_ignore_ascii_case("PRIMARY") {
        bail!(WrongColumnName, "Incorrect index name '{from}'");
    }
    if keys.iter().enumerate().any(|(n, key)| n != at && key.name.eq_ignore_ascii_case(to)) {
        bail!(DuplicateKeyName, "Duplicate key name '{to}'");
    }
    to.clone_into(&mut keys[at].name);
    Ok(())
}

#[cfg(test)]
mod tests;
