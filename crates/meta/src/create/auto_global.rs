//! In a database of PolarDB-X's AUTO mode a unique key need not have the columns of PARTITION BY:
//! one that lacks some is a global index by itself (keys.md K36, RFC 0048).

use freshet_schema::{DeclaredKeyKind, Table, TableForm};

use super::free_name;
use crate::alter_keys::KeyChange;
use crate::catalog::DatabaseMode;
use crate::spec::{BucketsSpec, DeclaredKeySpec, GlobalIndexSpec, TableSpec};

/// Makes such keys of a new table of a database of this mode global; returns a note for each.
pub fn make_global(spec: &mut TableSpec, mode: Option<DatabaseMode>) -> Vec<String> {
    let Some(by) = &spec.partition_by else { return Vec::new() };
    if mode != Some(DatabaseMode::Auto) || spec.form != TableForm::MySql {
        return Vec::new();
    }
    let names = spec.declared_keys.iter().filter_map(|key| key.name.clone());
    let mut names = names.collect::<Vec<_>>();
    let mut notes = Vec::new();
    for key in &mut spec.declared_keys {
        notes.extend(made_global(key, &by.columns, &mut names));
    }
    notes
}

/// The same of keys that are added to a table.
pub(crate) fn made_global_of(
    table: &Table,
    changes: &[KeyChange],
    mode: Option<DatabaseMode>,
) -> (Vec<KeyChange>, Vec<String>) {
    let (mut changes, mut notes) = (changes.to_vec(), Vec::new());
    let is_auto = mode == Some(DatabaseMode::Auto) && table.form == TableForm::MySql;
    let Some(by) = table.partition_by.as_ref().filter(|_| is_auto) else {
        return (changes, notes);
    };
    let columns = &table.schema().columns;
    let of = |id| columns.iter().find(|column| column.id == id).map(|one| one.name.clone());
    let divided_by = by.columns.iter().filter_map(|id| of(*id)).collect::<Vec<_>>();
    let mut names = table.declared_keys.iter().map(|key| key.name.clone()).collect::<Vec<_>>();
    for change in &mut changes {
        if let KeyChange::Add(key) = change {
            notes.extend(made_global(key, &divided_by, &mut names));
        }
    }
    (changes, notes)
}

/// Makes a unique key global that lacks one of these columns, and says so.
fn made_global(
    key: &mut DeclaredKeySpec,
    divided_by: &[String],
    names: &mut Vec<String>,
) -> Option<String> {
    // A global index has whole columns.
    let is_plain = key.global.is_none() && key.first.is_empty();
    if key.kind != DeclaredKeyKind::Unique || !is_plain {
        return None;
    }
    let has = |name: &&String| key.columns.iter().any(|own| own.eq_ignore_ascii_case(name));
    let lacked = divided_by.iter().find(|name| !has(name))?;
    let first = key.columns.first()?;
    let taken = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let name = key.name.clone().unwrap_or_else(|| free_name(first, taken));
    let note = format!(
        "UNIQUE KEY '{name}' lacks column '{lacked}' of PARTITION BY, so it is a UNIQUE GLOBAL \
         INDEX"
    );
    names.push(name.clone());
    key.name = Some(name);
    key.global = Some(GlobalIndexSpec {
        clustered: false,
        covering: Vec::new(),
        placement: None,
        partition_by: None,
        buckets: BucketsSpec::Unset,
    });
    Some(note)
}
