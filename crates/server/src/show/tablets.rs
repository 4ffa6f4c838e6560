//! SHOW TABLETS.

use std::collections::HashSet;

use freshet_base::{Result, TabletId, err};
use freshet_query::parser::TableName;
use freshet_schema::Table;

use super::catalog::stored;
use super::listing::{Listing, some};
use crate::session::Session;

/// SHOW TABLETS: of the named partitions, or of all. Rows and bytes are those in files.
///
/// # Errors
/// 1046, 1049 and 1146; 1735 for a partition that there is none.
pub fn tablets(session: &Session, name: &TableName, partitions: &[String]) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "TabletId",
        "ReplicaId",
        "BackendId",
        "SchemaHash",
        "Version",
        "LstSuccessVersion",
        "LstFailedVersion",
        "LstFailedTime",
        "LocalDataSize",
        "RemoteDataSize",
        "RowCount",
        "State",
        "LstConsistencyCheckTime",
        "CheckVersion",
        "VisibleVersionCount",
        "VersionCount",
        "QueryHits",
        "PathHash",
        "Path",
        "MetaUrl",
        "CompactionStatus",
        "CooldownReplicaId",
        "CooldownMetaId",
    ]);
    let table = stored(session, name)?;
    let chosen = chosen(&table, partitions)?;
    let version = session.shared.engine.table_state(table.id);
    let version = version.map_or(1, |state| state.version().get());
    let views = session.shared.engine.views().load();
    let Some(view) = views.tables.get(&table.id) else { return Ok(listing) };
    // Who does not see all rows is not told how many there are.
    let is_told = !session.hides_rows_of(&table);
    for tablet in view.tablets.iter().filter(|tablet| chosen.contains(&tablet.id)) {
        let rows = tablet.rowsets.iter().map(|rowset| rowset.meta().rows).sum::<u64>();
        let bytes = tablet.rowsets.iter().map(|rowset| rowset.meta().bytes()).sum::<u64>();
        let count = tablet.rowsets.len();
        listing.push([
            some(tablet.id),
            some(tablet.id),
            some(1),
            some(0),
            some(version),
            some(version),
            some(-1),
            None,
            is_told.then(|| bytes.to_string()),
            some(0),
            is_told.then(|| rows.to_string()),
            some("NORMAL"),
            None,
            some(-1),
            some(count),
            some(count),
            some(0),
            some(0),
            some(""),
            some(""),
            some(""),
            some(-1),
            some(""),
        ]);
    }
    Ok(listing)
}

/// The tablets of the named partitions, or of all.
fn chosen(table: &Table, names: &[String]) -> Result<HashSet<TabletId>> {
    if names.is_empty() {
        return Ok(table.tablets().collect());
    }
    let mut chosen = HashSet::new();
    for name in names {
        let is_it = |name_of: &str| name_of.eq_ignore_ascii_case(name);
        let found = table.shown_partitions().find(|(_, partition)| is_it(&partition.name));
        let (_, partition) = found.ok_or_else(|| {
            err!(UnknownPartition, "Unknown partition '{name}' in table '{}'", table.name)
        })?;
        chosen.extend(partition.tablets.iter().copied());
    }
    Ok(chosen)
}
