//! SHOW TABLET, SHOW TRASH and ADMIN SHOW REPLICA: of tablets and their one copy.

use std::sync::Arc;

use freshet_base::{Result, TabletId, bail};
use freshet_meta::{Object, Privilege, may_see_table};
use freshet_query::parser::TableName;
use freshet_schema::{Partition, Table};

use super::catalog::stored;
use super::listing::{Listing, some};
use super::nodes::readable;
use super::tablets::{chosen, held};
use crate::session::Session;

/// SHOW TABLET: the names and ids of what a tablet belongs to. A table whose rows are divided anew
/// has other tablets.
///
/// # Errors
/// 1210 for a tablet that there is none, or of a table that the user may not see.
pub fn tablet(session: &Session, id: u64) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "DbName",
        "TableName",
        "PartitionName",
        "IndexName",
        "DbId",
        "TableId",
        "PartitionId",
        "IndexId",
        "IsSync",
        "Order",
        "QueryHits",
        "DetailCmd",
    ]);
    let Some((table, partition, order)) = find(session, id) else {
        bail!(WrongArguments, "There is no tablet {id}: SHOW TABLETS FROM a table has its tablets");
    };
    let catalog = session.shared.engine.catalog();
    let (db, own, part) = (table.db, table.id, partition.id);
    let detail = format!("SHOW PROC '/dbs/{db}/{own}/partitions/{part}/{own}/{id}';");
    listing.push([
        some(catalog.database_name(&table)),
        some(&table.name),
        some(&partition.name),
        some(&table.name),
        some(db),
        some(own),
        some(part),
        some(own),
        some("true"),
        some(order),
        some(0),
        some(detail),
    ]);
    Ok(listing)
}

/// The table and partition of a tablet, and its place in the partition from 0.
fn find(session: &Session, id: u64) -> Option<(Arc<Table>, Partition, usize)> {
    let catalog = session.shared.engine.catalog();
    let wanted = TabletId::from(id);
    let holds = |table: &&Arc<Table>| table.tablets().any(|tablet| tablet == wanted);
    let table = catalog.tables().find(holds)?;
    let is_named = table.temporary_of.is_none() && !table.unlisted && !catalog.is_in_bin(table);
    let (actor, database) = (session.client.actor(), catalog.database_name(table));
    if !is_named || !may_see_table(&catalog, actor, database, &table.name) {
        return None;
    }
    let place = |partition: &Partition| partition.tablets.iter().position(|own| *own == wanted);
    let mut placed = table.partitions.iter().filter_map(|one| Some((one.clone(), place(one)?)));
    let (partition, order) = placed.next()?;
    Some((Arc::clone(table), partition, order))
}

/// SHOW REPLICA STATUS: of each tablet of the named partitions, or of all.
///
/// # Errors
/// 1046, 1049 and 1146; 1735 for a partition that there is none.
pub fn status(session: &Session, name: &TableName, partitions: &[String]) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "TabletId",
        "ReplicaId",
        "BackendId",
        "Version",
        "LastFailedVersion",
        "LastSuccessVersion",
        "CommittedVersion",
        "SchemaHash",
        "VersionNum",
        "IsBad",
        "IsUserDrop",
        "State",
        "Status",
    ]);
    let table = stored(session, name)?;
    let chosen = chosen(&table, partitions)?;
    for tablet in held(session, &table, &chosen) {
        let (id, version) = (some(tablet.id), some(tablet.version));
        listing.push([
            id.clone(),
            id,
            some(1),
            version.clone(),
            some(-1),
            version.clone(),
            version,
            some(0),
            some(tablet.rowsets),
            some("false"),
            some("false"),
            some("NORMAL"),
            some("OK"),
        ]);
    }
    Ok(listing)
}

/// SHOW REPLICA DISTRIBUTION: how many copies of tablets the one node has, and their bytes in
/// files.
///
/// # Errors
/// 1046, 1049 and 1146; 1735 for a partition that there is none.
pub fn distribution(session: &Session, name: &TableName, partitions: &[String]) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "BackendId",
        "ReplicaNum",
        "ReplicaSize",
        "NumGraph",
        "NumPercent",
        "SizeGraph",
        "SizePercent",
    ]);
    let table = stored(session, name)?;
    let chosen = chosen(&table, partitions)?;
    let tablets = held(session, &table, &chosen);
    let bytes = tablets.iter().map(|tablet| tablet.bytes).sum::<u64>();
    // Who does not see all rows is not told how many there are.
    let is_told = !session.hides_rows_of(&table);
    let [num_graph, num_percent] = share(!tablets.is_empty());
    let [size_graph, size_percent] = match is_told {
        true => share(bytes > 0),
        false => [None, None],
    };
    listing.push([
        some(1),
        some(tablets.len()),
        is_told.then(|| bytes.to_string()),
        num_graph,
        num_percent,
        size_graph,
        size_percent,
    ]);
    Ok(listing)
}

/// What the one node has of all: a sign for each percent, and the percents.
fn share(is_any: bool) -> [Option<String>; 2] {
    match is_any {
        true => [some(">".repeat(100)), some("100.00 %")],
        false => [some(""), some("0.00 %")],
    }
}

/// SHOW TRASH: nothing, as files of what is dropped for good are removed at once. ON a node tells
/// of its directories.
///
/// # Errors
/// 1227 without PROCESS.
pub fn trash(session: &Session, on: Option<&str>) -> Result<Listing> {
    session.authorize(Privilege::Process, Object::Server)?;
    // There is one node, whatever its address is called where the client stands.
    if on.is_none() {
        let mut listing = Listing::new(&["BackendId", "Backend", "TrashUsedCapacity"]);
        listing.add(["1", "127.0.0.1:0", &readable(0)]);
        return Ok(listing);
    }
    let mut listing = Listing::new(&["RootPath", "State", "TrashUsedCapacity"]);
    let directory = session.shared.engine.config().data_dir.display().to_string();
    listing.add([&directory, "ONLINE", &readable(0)]);
    Ok(listing)
}
