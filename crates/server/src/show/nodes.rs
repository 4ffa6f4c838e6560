//! SHOW of nodes, of which there is one, and of what is stored on it: BACKENDS, FRONTENDS, DATA.

use freshet_base::{Result, bail};
use freshet_query::parser::TableName;
use freshet_schema::Table;
use freshet_storage::snapshot::Snapshot;

use super::catalog::visible;
use super::listing::{Listing, instant, some};
use crate::Shared;
use crate::session::Session;

/// SHOW DATA: bytes of tables, then their sum; nothing of a table whose rows policies hide.
///
/// # Errors
/// 1046, 1049, 1146; those of a snapshot.
pub fn data(session: &Session, of: Option<&TableName>) -> Result<Listing> {
    let mut listing = Listing::new(&["TableName", "Size", "ReplicaCount", "RemoteSize"]);
    let database = session.database_of(of.and_then(|table| table.database.as_deref()))?.to_owned();
    let mut tables = visible(session, &database)?;
    if let Some(of) = of {
        tables.retain(|table| table.name == of.table);
        if tables.is_empty() {
            bail!(NoSuchTable, "Table '{database}.{}' doesn't exist", of.table);
        }
    }
    let snapshot = session.shared.engine.snapshot(session.settings.freshness);
    let (mut bytes, mut tablets) = (0, 0);
    for table in tables {
        let own = bytes_shown(session, &snapshot, &table)?;
        let count = table.tablets().count();
        let size = own.map(readable);
        listing.push([some(&table.name), size, some(count), some(readable(0))]);
        (bytes, tablets) = (bytes + own.unwrap_or(0), tablets + count);
    }
    if of.is_none() {
        listing.push([some("Total"), some(readable(bytes)), some(tablets), some(readable(0))]);
    }
    Ok(listing)
}

/// The bytes of a table; `None` for who does not see all its rows, and is not told how many there
/// are.
///
/// # Errors
/// Those of a snapshot.
pub fn bytes_shown(session: &Session, snapshot: &Snapshot, table: &Table) -> Result<Option<u64>> {
    if session.hides_rows_of(table) {
        return Ok(None);
    }
    Ok(Some(snapshot.table(table.id)?.map_or(0, |read| read.bytes())))
}

/// Bytes as Doris writes them.
pub fn readable(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["", "KB", "MB", "GB"] {
        if value < 1024.0 {
            return format!("{value:.3} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.3} TB")
}

fn bytes_of_files(shared: &Shared) -> u64 {
    let views = shared.engine.views().load();
    let tablets = views.tables.values().flat_map(|view| view.tablets.iter());
    let rowsets = tablets.flat_map(|tablet| tablet.rowsets.iter());
    rowsets.map(|rowset| rowset.meta().bytes()).sum()
}

/// What is free on the disk of the data.
fn free_bytes(shared: &Shared) -> u64 {
    shared.engine.fs().available_bytes(&shared.engine.config().data_dir).unwrap_or(0)
}

/// The start of the server, in microseconds since 1970-01-01 UTC.
fn started_micros(shared: &Shared) -> i64 {
    let clock = shared.engine.clock();
    let uptime = clock.now().saturating_sub(shared.started);
    clock.wall_micros().saturating_sub(i64::try_from(uptime.as_micros()).unwrap_or(i64::MAX))
}

/// SHOW BACKENDS.
pub fn backends(shared: &Shared) -> Listing {
    let mut listing = Listing::new(&[
        "BackendId",
        "Host",
        "HeartbeatPort",
        "BePort",
        "HttpPort",
        "BrpcPort",
        "ArrowFlightSqlPort",
        "LastStartTime",
        "LastHeartbeat",
        "Alive",
        "SystemDecommissioned",
        "TabletNum",
        "DataUsedCapacity",
        "TrashUsedCapacity",
        "AvailCapacity",
        "TotalCapacity",
        "UsedPct",
        "MaxDiskUsedPct",
        "RemoteUsedCapacity",
        "Tag",
        "ErrMsg",
        "Version",
        "Status",
        "HeartbeatFailureCounter",
        "CpuCores",
        "Memory",
        "RunningTasks",
        "NodeRole",
    ]);
    let now = some(instant(shared.engine.clock().wall_micros()));
    let catalog = shared.engine.catalog();
    let tablets = catalog.tables().map(|table| table.tablets().count()).sum::<usize>();
    let used = bytes_of_files(shared);
    let zero = || some("0.000 ");
    let free = free_bytes(shared);
    let percent = some(format!("{:.2} %", 100.0 * used as f64 / (used + free).max(1) as f64));
    listing.push([
        some(1),
        some("127.0.0.1"),
        some(0),
        some(0),
        some(shared.settings.http_listen.port()),
        some(0),
        some(-1),
        some(instant(started_micros(shared))),
        now,
        some("true"),
        some("false"),
        some(tablets),
        some(readable(used)),
        zero(),
        some(readable(free)),
        some(readable(used + free)),
        percent.clone(),
        percent,
        zero(),
        some("{\"location\" : \"default\"}"),
        some(""),
        some(&shared.settings.version),
        some("{}"),
        some(0),
        some(shared.settings.io_threads),
        some(""),
        some(0),
        some("mix"),
    ]);
    listing
}

/// SHOW FRONTENDS.
pub fn frontends(shared: &Shared) -> Listing {
    let mut listing = Listing::new(&[
        "Name",
        "Host",
        "EditLogPort",
        "HttpPort",
        "QueryPort",
        "RpcPort",
        "ArrowFlightSqlPort",
        "Role",
        "IsMaster",
        "ClusterId",
        "Join",
        "Alive",
        "ReplayedJournalId",
        "LastStartTime",
        "LastHeartbeat",
        "IsHelper",
        "ErrMsg",
        "Version",
        "CurrentConnected",
    ]);
    let now = some(instant(shared.engine.clock().wall_micros()));
    listing.push([
        some("freshet"),
        some("127.0.0.1"),
        some(0),
        some(shared.settings.http_listen.port()),
        some(shared.settings.mysql_listen.port()),
        some(0),
        some(-1),
        some("FOLLOWER"),
        some("true"),
        some(1),
        some("true"),
        some("true"),
        some(shared.engine.horizon().get()),
        some(instant(started_micros(shared))),
        now,
        some("true"),
        some(""),
        some(&shared.settings.version),
        some("Yes"),
    ]);
    listing
}
