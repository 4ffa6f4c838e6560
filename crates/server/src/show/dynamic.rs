//! SHOW DYNAMIC PARTITION TABLES.

use freshet_base::Result;
use freshet_meta::Dynamic;
use freshet_schema::TimeUnit;

use super::catalog::visible;
use super::listing::{Listing, instant, some};
use crate::session::Session;

const NAMES_OF_DAYS: [&str; 7] =
    ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"];

/// The property with periods that are kept.
const RESERVED: &str = "dynamic_partition.reserved_history_periods";

/// The tables of a database whose partitions follow the clock.
///
/// # Errors
/// 1044, 1046 and 1049.
pub fn tables(session: &Session, database: Option<&str>) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "TableName",
        "Enable",
        "TimeUnit",
        "Start",
        "End",
        "Prefix",
        "Buckets",
        "ReplicationNum",
        "ReplicaAllocation",
        "StartOf",
        "LastUpdateTime",
        "LastSchedulerTime",
        "State",
        "LastCreatePartitionMsg",
        "LastDropPartitionMsg",
        "ReservedHistoryPeriods",
    ]);
    for table in visible(session, session.database_of(database)?)? {
        let Ok(Some(dynamic)) = Dynamic::of(&table.properties) else { continue };
        let state = session.shared.engine.table_state(table.id);
        let followed = state.and_then(|state| state.followed_clock());
        let (at, error) = followed.map_or((None, None), |(at, error)| (Some(at), error));
        let reserved = |(key, _): &&(String, String)| key == RESERVED;
        let reserved = table.properties.others.iter().find(reserved).map(|(_, value)| value);
        let replicas = table.properties.replication_num;
        listing.push([
            some(&table.name),
            some(dynamic.is_enabled),
            some(dynamic.unit.name().to_ascii_uppercase()),
            some(dynamic.start.unwrap_or(i64::from(i32::MIN))),
            some(dynamic.end),
            some(&dynamic.prefix),
            some(dynamic.buckets_of(&table)),
            some(replicas),
            some(format!("tag.location.default: {replicas}")),
            some(start_of(&dynamic)),
            None,
            at.map(instant),
            some(if error.is_some() { "ERROR" } else { "NORMAL" }),
            error,
            None,
            some(reserved.map_or("NULL", String::as_str)),
        ]);
    }
    Ok(listing)
}

fn start_of(dynamic: &Dynamic) -> String {
    match dynamic.unit {
        TimeUnit::Week => NAMES_OF_DAYS[dynamic.first.of_week as usize].to_owned(),
        TimeUnit::Month => format!("{}th", dynamic.first.of_month),
        _ => "N/A".to_owned(),
    }
}
