//! The keys of a table in the statement that creates it again. They come from the table: what
//! people read of a key says less of it, and a COMMENT is a text like any other.

use freshet_base::{Result, bail};
use freshet_schema::{DeclaredKey, DeclaredKeyKind, ForeignKey, Table};

use crate::spec::{DeclaredKeySpec, ForeignKeySpec, GlobalIndexSpec, TableSpec};

impl TableSpec {
    /// The statement with the keys of `table`, which it creates. Of its words stays what a key has
    /// as a global index.
    ///
    /// # Errors
    /// `Internal` when it has another number of keys.
    pub fn with_keys_of(mut self, table: &Table) -> Result<Self> {
        let (words, keys) = (self.declared_keys, &table.declared_keys);
        if words.len() != keys.len() {
            bail!(
                Internal,
                "table '{}' has {} keys, and is described by {}",
                table.name,
                keys.len(),
                words.len()
            );
        }
        let kept = keys.iter().zip(words).map(|(key, words)| declared(key, words.global, table));
        self.declared_keys = kept.collect();
        self.foreign_keys = table.foreign_keys.iter().map(|key| foreign(key, table)).collect();
        Ok(self)
    }
}

fn declared(key: &DeclaredKey, global: Option<GlobalIndexSpec>, table: &Table) -> DeclaredKeySpec {
    let schema = table.schema();
    let parts = key.columns.iter().filter_map(|part| {
        let column = &schema.columns[schema.position_of(*part)?];
        Some((column, key.first_shown(*part, column)))
    });
    let parts = parts.collect::<Vec<_>>();
    let first = parts.iter().filter_map(|(column, first)| Some((column.name.clone(), (*first)?)));
    let descending = parts.iter().filter(|(column, _)| key.form.is_descending(column));
    DeclaredKeySpec {
        kind: key.kind,
        name: (key.kind != DeclaredKeyKind::Primary).then(|| key.name.clone()),
        columns: parts.iter().map(|(column, _)| column.name.clone()).collect(),
        first: first.collect(),
        descending: descending.map(|(column, _)| column.name.clone()).collect(),
        is_btree: key.form.is_btree,
        comment: key.comment.clone(),
        global,
    }
}

fn foreign(key: &ForeignKey, table: &Table) -> ForeignKeySpec {
    let schema = table.schema();
    let name = |id| schema.position_of(id).map(|at| schema.columns[at].name.clone());
    ForeignKeySpec {
        name: Some(key.name.clone()),
        columns: key.columns.iter().filter_map(|id| name(*id)).collect(),
        database: key.database.clone(),
        table: key.table.clone(),
        referenced: key.referenced.clone(),
        on_delete: key.on_delete,
        on_update: key.on_update,
        is_copied: true,
    }
}

#[cfg(test)]
mod tests;
