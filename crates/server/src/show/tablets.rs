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
    let table = stored(session, name)?;
    Ok(of_table(session, &table, &chosen(&table, partitions)?))
}

/// The rows of SHOW TABLETS of some tablets of a table.
pub fn of_table(session: &Session, table: &Table, chosen: &HashSet<TabletId>) -> Listing {
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
    // Who does not see all rows is not told how many there are.
    let is_told = !session.hides_rows_of(table);
    for tablet in held(session, table, chosen) {
        listing.push([
            some(tablet.id),
            some(tablet.id),
            some(1),
            some(0),
            some(tablet.version),
            some(tablet.version),
            some(-1),
            None,
            is_told.then(|| tablet.bytes.to_string()),
            some(0),
            is_told.then(|| tablet.rows.to_string()),
            some("NORMAL"),
            None,
            some(-1),
            some(tablet.rowsets),
            some(tablet.rowsets),
            some(0),
            some(0),
            some(""),
            some(""),
            some(""),
            some(-1),
            some(""),
        ]);
    }
    listing
}

/// What a tablet has in files.
pub struct Held {
    pub id: TabletId,
    /// That of its table.
    pub version: u64,
    pub rows: u64,
    pub bytes: u64,
    pub rowsets: usize,
}

/// What some tablets of a table have in files, in the order of partitions and buckets.
pub fn held(session: &Session, table: &Table, chosen: &HashSet<TabletId>) -> Vec<Held> {
    let engine = &session.shared.engine;
    let version = engine.table_state(table.id).map_or(1, |state| state.version().get());
    let views = engine.views().load();
    let Some(view) = views.tables.get(&table.id) else { return Vec::new() };
    let of_chosen = view.tablets.iter().filter(|tablet| chosen.contains(&tablet.id));
    let held = of_chosen.map(|tablet| Held {
        id: tablet.id,
        version,
        rows: tablet.rowsets.iter().map(|rowset| rowset.meta().rows).sum(),
        bytes: tablet.rowsets.iter().map(|rowset| rowset.meta().bytes()).sum(),
        rowsets: tablet.rowsets.len(),
    });
    held.collect()
}

/// The tablets of the named partitions, or of all.
pub fn chosen(table: &Table, names: &[String]) -> Result<HashSet<TabletId>> {
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
