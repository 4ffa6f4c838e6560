//! SHOW PARTITIONS and SHOW TEMPORARY PARTITIONS.

use std::sync::Arc;

use freshet_base::Result;
use freshet_meta::partition_text;
use freshet_query::parser::TableName;
use freshet_schema::Table;

use super::catalog::{distribution_of, stored};
use super::listing::{Listing, instant, some};
use crate::session::Session;

/// SHOW PARTITIONS.
///
/// # Errors
/// 1046, 1049 and 1146.
pub fn partitions(session: &Session, name: &TableName) -> Result<Listing> {
    of_table(session, Some(&stored(session, name)?))
}

/// SHOW TEMPORARY PARTITIONS.
///
/// # Errors
/// 1046, 1049 and 1146.
pub fn temporary(session: &Session, name: &TableName) -> Result<Listing> {
    let table = stored(session, name)?;
    of_table(session, session.shared.engine.catalog().temporary_partitions(table.id))
}

/// The rows of SHOW PARTITIONS; none without a table.
///
/// # Errors
/// Those of a snapshot.
pub fn of_table(session: &Session, table: Option<&Arc<Table>>) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "PartitionId",
        "PartitionName",
        "VisibleVersion",
        "VisibleVersionTime",
        "State",
        "PartitionKey",
        "Range",
        "DistributionKey",
        "Buckets",
        "ReplicationNum",
        "StorageMedium",
        "CooldownTime",
        "RemoteStoragePolicy",
        "LastConsistencyCheckTime",
        "DataSize",
        "IsInMemory",
        "ReplicaAllocation",
        "IsMutable",
        "SyncWithBaseTables",
        "UnsyncTables",
        "CommittedVersion",
        "RowCount",
    ]);
    let Some(table) = table else { return Ok(listing) };
    let engine = &session.shared.engine;
    let snapshot = engine.snapshot(session.settings.freshness);
    let read = snapshot.table(table.id)?;
    let counts = read.map(|read| read.by_partition()).transpose()?.unwrap_or_default();
    let version = engine.table_state(table.id).map_or(1, |state| state.version().get());
    // Who does not see all rows is not told how many there are.
    let is_told = !session.hides_rows_of(table);
    let replicas = table.properties.replication_num;
    for (_, partition) in table.shown_partitions() {
        let (rows, bytes) = counts.get(&partition.id).copied().unwrap_or_default();
        let text = partition_text(table, partition);
        let (key, range) = text.map(|text| (text.columns, text.range)).unwrap_or_default();
        listing.push([
            some(partition.id),
            some(&partition.name),
            some(version),
            some(instant(table.created_micros)),
            some("NORMAL"),
            some(key),
            some(range),
            some(distribution_of(table)),
            some(partition.tablets.len()),
            some(replicas),
            some("HDD"),
            some("9999-12-31 23:59:59"),
            some(""),
            None,
            is_told.then(|| bytes.to_string()),
            some("false"),
            some(format!("tag.location.default: {replicas}")),
            some("true"),
            some("true"),
            None,
            some(version),
            is_told.then(|| rows.to_string()),
        ]);
    }
    Ok(listing)
}
