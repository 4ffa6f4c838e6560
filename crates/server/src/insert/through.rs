//! INSERT through a view: the table behind it, and which of its columns get values.

use freshet_base::{Result, bail};
use freshet_ingest::OnExisting;
use freshet_meta::Privilege;
use freshet_schema::{Column, Table};

use super::Target;
use crate::as_of::AsOf;
use crate::session::Session;
use crate::session::policies::check_replaces;
use crate::through::{self, Writing};

/// The table behind a view of this name, for a user who may insert into the view; `None` if it is
/// none.
///
/// # Errors
/// 1054, 1143, 1393, 1394 and 1471; 1356 where the table is not there, or those whose rights count
/// may not insert into it; 1423 for a column that the view leaves out and that has no default.
pub fn target<N: AsRef<str>>(
    session: &Session,
    (database, view): (&str, &str),
    columns: Option<&[N]>,
    on_existing: OnExisting,
) -> Result<Option<Target>> {
    let engine = &session.shared.engine;
    let as_of = AsOf::now(session);
    let said = columns.unwrap_or_default().iter().map(AsRef::as_ref).collect::<Vec<&str>>();
    let through = through::of(session, (database, view), Writing::Insert, &said)?;
    let Some(through) = through else { return Ok(None) };
    let named = if columns.is_some() { said } else { through.names().collect() };
    session.check_columns(Privilege::Insert, (database, view), named.iter().copied())?;
    if !through.takes_rows() {
        bail!(NonInsertableTable, "The target table {view} of the INSERT is not insertable-into");
    }
    let below = named.iter().map(|name| through.assigned(name)).collect::<Result<Vec<_>>>()?;
    let into = through::table(session, &through)?;
    through::check(session, &through, Privilege::Insert, &below)?;
    if on_existing == OnExisting::Replace {
        through::check(session, &through, Privilege::Delete, &[])?;
    }
    let (catalog, actor) = (engine.catalog(), through::actor(session, &through));
    check_replaces(&catalog, actor, into.table(), on_existing)?;
    let shared = &session.shared;
    let settings = &session.settings;
    if settings.rules(into.table().form).strict() && on_existing != OnExisting::Skip {
        check_defaults(into.table(), &below, (database, view))?;
    }
    let hidden = |error| through.hidden(error);
    let checks = shared.view_check(&into, &through).map_err(hidden)?;
    let below = Some(below.as_slice());
    let target = Target::new(shared, settings, as_of, into, below, on_existing);
    let mut target = target.map_err(hidden)?;
    if let Some(checks) = checks {
        if target.partial.is_some() {
            bail!(
                NotSupported,
                "an INSERT of some columns through view '{view}', which has a CHECK OPTION, \
                 cannot update stored rows: SET enable_unique_key_partial_update = 0"
            );
        }
        target.plan = target.plan.checking(checks);
    }
    target.through = Some(through);
    Ok(Some(target))
}

impl Target {
    /// Whether LAST_INSERT_ID() tells of its ids: those of a column that a view does not have are
    /// not told of, as in MySQL.
    pub fn tells_ids(&self) -> bool {
        let Some(through) = &self.through else { return true };
        let mut columns = self.into.schema().columns.iter();
        let counted = columns.find(|column| column.auto_increment.is_some());
        counted.is_none_or(|column| {
            let mut shown = through.names().filter_map(|name| through.below(name));
            shown.any(|name| name.eq_ignore_ascii_case(&column.name))
        })
    }
}

/// Checks that columns which get no value have defaults.
fn check_defaults(table: &Table, below: &[&str], (database, view): (&str, &str)) -> Result<()> {
    let is_missing = |column: &&Column| {
        let is_left_out = !below.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
        let has_value = column.nullable
            || column.default.is_some()
            || column.auto_increment.is_some()
            || column.generated.is_some();
        is_left_out && !has_value
    };
    if table.schema().shown().iter().any(|column| is_missing(&column)) {
        bail!(
            NoDefaultBelow,
            "Field of view '{database}.{view}' underlying table doesn't have a default value"
        );
    }
    Ok(())
}
