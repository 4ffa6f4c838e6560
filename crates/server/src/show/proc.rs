//! SHOW PROC: a tree of lists, of which there are those that tools read of one node.

use std::sync::Arc;

use freshet_base::{DbId, Result, TableId, bail};
use freshet_meta::{Database, Object, Privilege, may_see_database, partition_text};
use freshet_schema::Table;

use super::catalog::visible;
use super::listing::{Listing, some};
use super::nodes::{backends, bytes_shown, frontends, readable};
use super::tablets::{held, of_table};
use super::{loads, partitions, replicas};
use crate::session::Session;

/// The paths below `/`.
const ROOT: [&str; 6] = ["backends", "dbs", "frontends", "statistic", "transactions", "trash"];

/// Characters of a path that an error repeats.
const PATH_CHARS: usize = 64;

/// SHOW PROC of a path; blanks, and slashes that are not needed, do not count.
///
/// # Errors
/// 1227 without PROCESS; `NotSupported` for a path that does not exist here; 1049 and 1146 for ids
/// of nothing that the user may see.
pub fn proc(session: &Session, path: &str) -> Result<Listing> {
    session.authorize(Privilege::Process, Object::Server)?;
    let parts = path.trim().split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>();
    match parts.as_slice() {
        [] => Ok(names("name", &ROOT)),
        ["backends"] => Ok(backends(&session.shared)),
        ["frontends"] => Ok(frontends(&session.shared)),
        ["statistic"] => statistic(session),
        ["trash"] => replicas::trash(session, None),
        ["trash", node] => replicas::trash(session, Some(node)),
        ["transactions"] => transactions(session),
        ["transactions", db] => states(session, &*database(session, db)?),
        ["transactions", db, state @ ("running" | "finished")] => {
            in_state(session, &*database(session, db)?, state)
        }
        ["dbs"] => databases(session),
        ["dbs", db] => tables(session, &*database(session, db)?),
        ["dbs", db, table, below @ ..] => {
            let table = table_of(session, &*database(session, db)?, table)?;
            of_table_below(session, &table, below).unwrap_or_else(|| unknown(path))
        }
        _ => unknown(path),
    }
}

fn unknown(path: &str) -> Result<Listing> {
    bail!(
        NotSupported,
        "SHOW PROC '/{}' is not supported: there are '/{}', and what their lists name",
        path.trim().trim_matches('/').chars().take(PATH_CHARS).collect::<String>(),
        ROOT.join("', '/")
    )
}

fn names(heading: &str, names: &[&str]) -> Listing {
    let mut listing = Listing::new(&[heading]);
    names.iter().for_each(|name| listing.add([name]));
    listing
}

/// The databases that the user may see, by name.
fn seen(session: &Session) -> Vec<Arc<Database>> {
    let catalog = session.shared.engine.catalog();
    let actor = session.client.actor();
    let all = catalog.databases().cloned();
    all.filter(|database| may_see_database(&catalog, actor, &database.name)).collect()
}

/// A database by its id.
fn database(session: &Session, id: &str) -> Result<Arc<Database>> {
    let Ok(wanted) = id.parse::<u64>() else {
        bail!(WrongArguments, "Invalid db id format: {id}");
    };
    let found = seen(session).into_iter().find(|database| database.id == DbId::from(wanted));
    match found {
        Some(database) => Ok(database),
        None => bail!(UnknownDatabase, "Database {wanted} does not exist"),
    }
}

/// A table of a database by its id.
fn table_of(session: &Session, database: &Database, id: &str) -> Result<Arc<Table>> {
    let Ok(wanted) = id.parse::<u64>() else {
        bail!(WrongArguments, "Invalid table id format: {id}");
    };
    let tables = visible(session, &database.name)?;
    match tables.into_iter().find(|table| table.id == TableId::from(wanted)) {
        Some(table) => Ok(table),
        None => bail!(NoSuchTable, "Table {wanted} does not exist"),
    }
}

/// `/dbs`. There are no quotas and no checks of replicas against each other.
fn databases(session: &Session) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "DbId",
        "DbName",
        "TableNum",
        "Size",
        "Quota",
        "LastConsistencyCheckTime",
        "ReplicaCount",
        "ReplicaQuota",
    ]);
    let snapshot = session.shared.engine.snapshot(session.settings.freshness);
    for database in seen(session) {
        // One that was dropped beside this is left out.
        let Ok(tables) = visible(session, &database.name) else { continue };
        let (mut bytes, mut tablets) = (0, 0);
        for table in &tables {
            bytes += bytes_shown(session, &snapshot, table)?.unwrap_or(0);
            tablets += table.tablets().count();
        }
        listing.push([
            some(database.id),
            some(&database.name),
            some(tables.len()),
            some(readable(bytes)),
            None,
            None,
            some(tablets),
            None,
        ]);
    }
    Ok(listing)
}

/// `/dbs/{database}`: its tables, of which each has one index, that of its rows.
fn tables(session: &Session, database: &Database) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "TableId",
        "TableName",
        "IndexNum",
        "PartitionColumnName",
        "PartitionNum",
        "State",
        "Type",
        "LastConsistencyCheckTime",
        "ReplicaCount",
    ]);
    for table in visible(session, &database.name)? {
        let first = table.partitions.first();
        let text = first.and_then(|partition| partition_text(&table, partition));
        listing.push([
            some(table.id),
            some(&table.name),
            some(1),
            text.map(|text| text.columns),
            some(table.shown_partitions().count()),
            some("NORMAL"),
            some("OLAP"),
            None,
            some(table.tablets().count()),
        ]);
    }
    Ok(listing)
}

/// What is below `/dbs/{database}/{table}`: partitions, in each of them the one index, in it the
/// tablets, and of each its one replica. `None` for another path.
fn of_table_below(
    session: &Session,
    table: &Arc<Table>,
    below: &[&str],
) -> Option<Result<Listing>> {
    let (temporary, below) = match below {
        [] => return Some(Ok(names("Nodes", &["partitions", "temp_partitions"]))),
        ["partitions", below @ ..] => (false, below),
        ["temp_partitions", below @ ..] => (true, below),
        _ => return None,
    };
    let catalog = session.shared.engine.catalog();
    let held_by = match temporary {
        true => catalog.temporary_partitions(table.id),
        false => Some(table),
    };
    let [partition, below @ ..] = below else {
        return Some(partitions::of_table(session, held_by));
    };
    let is_it = |id: &dyn ToString| id.to_string() == **partition;
    let held_by = held_by?;
    let found = held_by.partitions.iter().find(|one| is_it(&one.id))?;
    let index = table.id.to_string();
    match below {
        [] => {
            let mut listing =
                Listing::new(&["IndexId", "IndexName", "State", "LastConsistencyCheckTime"]);
            listing.push([some(index), some(&table.name), some("NORMAL"), None]);
            Some(Ok(listing))
        }
        [named] if *named == index => {
            let chosen = found.tablets.iter().copied().collect();
            Some(Ok(of_table(session, held_by, &chosen)))
        }
        [named, tablet] if *named == index => {
            let tablet = found.tablets.iter().find(|one| one.to_string() == **tablet)?;
            let of_one = std::iter::once(*tablet).collect();
            let held = held(session, held_by, &of_one);
            let is_told = !session.hides_rows_of(held_by);
            Some(Ok(copies(&held, is_told)))
        }
        _ => None,
    }
}

/// The copies of a tablet, of which there is one.
fn copies(held: &[super::tablets::Held], is_told: bool) -> Listing {
    let mut listing = Listing::new(&[
        "ReplicaId",
        "BackendId",
        "Version",
        "LstSuccessVersion",
        "LstFailedVersion",
        "LstFailedTime",
        "SchemaHash",
        "LocalDataSize",
        "RemoteDataSize",
        "RowCount",
        "State",
        "IsBad",
        "IsUserDrop",
        "VisibleVersionCount",
        "VersionCount",
        "PathHash",
        "Path",
        "MetaUrl",
        "CompactionStatus",
        "CooldownReplicaId",
        "CooldownMetaId",
        "QueryHits",
    ]);
    for tablet in held {
        listing.push([
            some(tablet.id),
            some(1),
            some(tablet.version),
            some(tablet.version),
            some(-1),
            None,
            some(0),
            is_told.then(|| tablet.bytes.to_string()),
            some(0),
            is_told.then(|| tablet.rows.to_string()),
            some("NORMAL"),
            some("false"),
            some("false"),
            some(tablet.rowsets),
            some(tablet.rowsets),
            some(0),
            some(""),
            some(""),
            some(""),
            some(-1),
            some(""),
            some(0),
        ]);
    }
    listing
}

/// `/statistic`: what each database has, and all of them.
fn statistic(session: &Session) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "DbId",
        "DbName",
        "TableNum",
        "PartitionNum",
        "IndexNum",
        "TabletNum",
        "ReplicaNum",
    ]);
    let (mut all, mut count) = ([0; 3], 0);
    let row = |[tables, partitions, tablets]: [usize; 3]| {
        [tables, partitions, partitions, tablets, tablets].map(some)
    };
    for database in seen(session) {
        let mut own = [0; 3];
        let Ok(tables) = visible(session, &database.name) else { continue };
        for table in tables {
            let (partitions, tablets) = (table.shown_partitions().count(), table.tablets().count());
            own = [own[0] + 1, own[1] + partitions, own[2] + tablets];
        }
        listing.push([some(database.id), some(&database.name)].into_iter().chain(row(own)));
        all = std::array::from_fn(|at| all[at] + own[at]);
        count += 1;
    }
    listing.push([some("Total"), some(count)].into_iter().chain(row(all)));
    Ok(listing)
}

/// `/transactions`: how many loads with a label run or wait for their commit, and groups are open.
fn transactions(session: &Session) -> Result<Listing> {
    let mut listing = Listing::new(&["DbId", "DbName", "RunningTransactionNum"]);
    for database in seen(session) {
        let Ok(running) = in_state(session, &database, "running") else { continue };
        listing.push([some(database.id), some(&database.name), some(running.rows.len())]);
    }
    Ok(listing)
}

/// `/transactions/{database}`.
fn states(session: &Session, database: &Database) -> Result<Listing> {
    let mut listing = Listing::new(&["State", "Number"]);
    for state in ["running", "finished"] {
        let number = in_state(session, database, state)?.rows.len();
        listing.push([some(state), some(number)]);
    }
    Ok(listing)
}

/// `/transactions/{database}/running` and `finished`: the rows of SHOW TRANSACTION.
fn in_state(session: &Session, database: &Database, state: &str) -> Result<Listing> {
    let mut listing = loads::transactions(session, Some(&database.name))?;
    let status = listing.columns.iter().position(|column| column.name == "TransactionStatus");
    let status = status.expect("SHOW TRANSACTION has this column");
    let wants_finished = state == "finished";
    let is_finished = |row: &super::listing::Row| row[status].as_deref() == Some("VISIBLE");
    listing.rows.retain(|row| is_finished(row) == wants_finished);
    Ok(listing)
}
