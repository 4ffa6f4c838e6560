//! What row policies hide from the user of a session (RFC 0028).

use freshet_base::{Error, Result, err};
use freshet_ingest::OnExisting;
use freshet_meta::{Actor, Catalog, Privilege, is_restricted};
use freshet_schema::{KeyModel, Table};

use super::Session;

impl Session {
    /// Whether policies hide rows of a table from the user.
    pub fn hides_rows_of(&self, table: &Table) -> bool {
        // Most tables have none, and point reads ask.
        if table.policies.is_empty() && table.temporary_of.is_none() {
            return false;
        }
        let catalog = self.shared.engine.catalog();
        if let Some(owner) = table.temporary_of.and_then(|of| catalog.table_by_id(of)) {
            return is_restricted(&catalog, self.client.actor(), owner);
        }
        // A statement may know the table as it was when it began.
        let now = catalog.table_by_id(table.id).map_or(table, |now| now);
        is_restricted(&catalog, self.client.actor(), now)
    }

    /// Checks that a load replaces no row that the user cannot see.
    ///
    /// # Errors
    /// 1142.
    pub fn check_replaces(&self, table: &Table, on_existing: OnExisting) -> Result<()> {
        check_replaces(&self.shared.engine.catalog(), self.client.actor(), table, on_existing)
    }

    /// Checks that the user sees all rows of a table, for a statement that tells of all of them
    /// or removes them, and needs `privilege`; `why` ends the error.
    ///
    /// # Errors
    /// 1142.
    pub fn check_sees_all(&self, table: &Table, privilege: Privilege, why: &str) -> Result<()> {
        if !self.hides_rows_of(table) {
            return Ok(());
        }
        Err(err!(
            TableAccessDenied,
            "{} command denied to user {} for table '{}': row policies hide rows of the table from \
             the user, and {why}",
            privilege.name(),
            self.client.account,
            table.name
        ))
    }

    /// 1142 for a row that policies hide, and the statement would change.
    pub fn hidden_row(&self, table: &str) -> Error {
        err!(
            TableAccessDenied,
            "UPDATE command denied to user {} for table '{table}': a row policy hides the row that \
             has this key",
            self.client.account
        )
    }
}

/// Checks that a load of `actor` replaces no row that policies hide from it: which rows it replaces
/// is not known before.
///
/// # Errors
/// 1142.
pub fn check_replaces(
    catalog: &Catalog,
    actor: Actor<'_>,
    table: &Table,
    on_existing: OnExisting,
) -> Result<()> {
    let replaces = match table.key_model {
        KeyModel::Duplicate => false,
        KeyModel::Unique | KeyModel::Aggregate => true,
        KeyModel::Primary => {
            matches!(on_existing, OnExisting::Replace | OnExisting::Overwrite)
        }
    };
    if !replaces || !is_restricted(catalog, actor, table) {
        return Ok(());
    }
    Err(err!(
        TableAccessDenied,
        "{} command denied to user {} for table '{}': row policies hide rows of the table from \
         the user, and the statement could replace such",
        Privilege::Insert.name(),
        actor.account,
        table.name
    ))
}
