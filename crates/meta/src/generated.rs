//! Generated columns of a table: the columns that they need, and what depends on them.

use freshet_base::{Error, Result, bail, err};
use freshet_schema::{
    CHECK_BYTES_MAX, Column, DeclaredKey, DeclaredKeyKind, Generated, KeyModel, TableForm,
};

use crate::spec::{ColumnSpec, DefaultSpec, GeneratedSpec, TableSpec};

/// Sets how the generated columns of a new table are computed.
pub(crate) fn of_table(spec: &TableSpec, mut columns: Vec<Column>) -> Result<Vec<Column>> {
    for (at, written) in spec.columns.iter().enumerate() {
        columns[at].generated = of_column(written, &columns, spec.form)?;
    }
    check_order(&columns)?;
    Ok(columns)
}

/// How a column is computed, if `written` says so.
pub(crate) fn of_column(
    written: &ColumnSpec,
    columns: &[Column],
    form: TableForm,
) -> Result<Option<Generated>> {
    let Some(how) = &written.generated else { return Ok(None) };
    let name = &written.name;
    let beside = [
        (written.default != DefaultSpec::Unset, "DEFAULT"),
        (written.auto_increment, "AUTO_INCREMENT"),
        (written.on_update_now, "ON UPDATE"),
        (written.aggregate.is_some(), "an aggregation"),
    ];
    if let Some((_, what)) = beside.iter().find(|(is_there, _)| *is_there) {
        bail!(WrongUsage, "Incorrect usage of {what} and generated column: column '{name}'");
    }
    if written.ty.sketch().is_some() || written.ty.is_nested() {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'generated columns of type {}': '{name}'",
            written.ty
        );
    }
    if how.text.len() > CHECK_BYTES_MAX {
        bail!(
            TooLong,
            "The expression of generated column '{name}' has {} bytes, limit {CHECK_BYTES_MAX}",
            how.text.len()
        );
    }
    resolved(how, columns, form).map(Some)
}

fn resolved(written: &GeneratedSpec, columns: &[Column], form: TableForm) -> Result<Generated> {
    let id = |name: &String| {
        let found = columns.iter().find(|known| known.name.eq_ignore_ascii_case(name));
        let unknown =
            || err!(UnknownColumn, "Unknown column '{name}' in 'generated column function'");
        found.map(|column| column.id).ok_or_else(unknown)
    };
    let ids = written.columns.iter().map(id).collect::<Result<_>>()?;
    // Doris knows one kind.
    let is_stored = written.is_stored || form == TableForm::Olap;
    Ok(Generated { text: written.text.clone(), columns: ids, is_stored })
}

/// Checks that each generated column can be computed when those before it are.
pub(crate) fn check_order(columns: &[Column]) -> Result<()> {
    for (at, column) in columns.iter().enumerate() {
        let Some(how) = &column.generated else { continue };
        for id in &how.columns {
            let named = columns.iter().position(|known| known.id == *id);
            let named = named.expect("columns that others name are not dropped");
            if columns[named].auto_increment.is_some() {
                bail!(
                    GeneratedOfAutoIncrement,
                    "Generated column '{}' cannot refer to auto-increment column.",
                    column.name
                );
            }
            if columns[named].generated.is_some() && named >= at {
                bail!(
                    GeneratedNotPrior,
                    "Generated column can refer only to generated columns defined prior to it: \
                     '{}' names '{}'",
                    column.name,
                    columns[named].name
                );
            }
        }
    }
    Ok(())
}

/// Refuses generated columns where a key takes none. Loads of some columns of a UNIQUE KEY, and
/// removals, know their rows by the columns of the key alone.
pub(crate) fn check_keys(
    columns: &[Column],
    (key_model, sort_key): (KeyModel, &[usize]),
    keys: &[DeclaredKey],
) -> Result<()> {
    let generated = |column: &&Column| column.generated.is_some();
    let primary = keys.iter().find(|key| key.kind == DeclaredKeyKind::Primary);
    let is_virtual = |column: &Column| column.generated.as_ref().is_some_and(|how| !how.is_stored);
    let in_primary = |column: &Column| primary.is_some_and(|key| key.columns.contains(&column.id));
    if columns.iter().any(|column| is_virtual(column) && in_primary(column)) {
        bail!(
            GeneratedUnsupported,
            "'Defining a virtual generated column as primary key' is not supported for generated \
             columns."
        );
    }
    let refused = match key_model {
        KeyModel::Aggregate => columns.iter().find(generated),
        KeyModel::Unique => sort_key.iter().map(|&at| &columns[at]).find(generated),
        KeyModel::Duplicate | KeyModel::Primary => None,
    };
    let Some(column) = refused else { return Ok(()) };
    bail!(
        NotSupported,
        "This version of Freshet doesn't yet support 'generated columns of an AGGREGATE KEY table, \
         or in a UNIQUE KEY': column '{}'",
        column.name
    )
}

/// Refuses to drop, rename or convert a column that a generated one names.
pub(crate) fn check_unnamed(column: &Column, columns: &[Column]) -> Result<()> {
    let names = |other: &&Column| {
        other.id != column.id
            && other.generated.as_ref().is_some_and(|how| how.columns.contains(&column.id))
    };
    match columns.iter().find(names) {
        None => Ok(()),
        Some(_) => bail!(
            GeneratedDependency,
            "Column '{}' has a generated column dependency.",
            column.name
        ),
    }
}

/// Whether MODIFY may make `new` of `old` while values that are stored stay: where they would be
/// others, `NotSupported` says that rows have to be copied.
pub(crate) fn check_modified(old: &Column, new: &Column, columns: &[Column]) -> Result<()> {
    let unsupported = |what: &str| {
        err!(
            GeneratedUnsupported,
            "'{what}' is not supported for generated columns: '{}'",
            old.name
        )
    };
    match (&old.generated, &new.generated) {
        (None, None) => {}
        (Some(before), None) if before.is_stored => {}
        (None, Some(_)) | (Some(_), None) => {
            return Err(unsupported("Changing the STORED status"));
        }
        (Some(before), Some(after)) if before.is_stored != after.is_stored => {
            return Err(unsupported("Changing the STORED status"));
        }
        (Some(before), Some(after)) => {
            let is_same = before.text == after.text
                && (old.ty, old.collation, &old.labels) == (new.ty, new.collation, &new.labels);
            if !is_same {
                return Err(computed_anew(old));
            }
        }
    }
    let is_same = (old.ty, old.collation, &old.labels) == (new.ty, new.collation, &new.labels);
    match is_same || check_unnamed(old, columns).is_ok() {
        true => Ok(()),
        false => Err(computed_anew(old)),
    }
}

/// Values of generated columns are computed when rows are written.
pub(crate) fn computed_anew(column: &Column) -> Error {
    err!(
        NotSupported,
        "This version of Freshet doesn't yet support a change of column '{}' by which rows of this \
         table get other values of generated columns",
        column.name
    )
}
