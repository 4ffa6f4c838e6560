//! SHOW CATALOG RECYCLE BIN.

use freshet_base::Result;
use freshet_meta::{may_see_database, may_see_table};

use super::listing::{Listing, instant, some};
use super::nodes::{bytes_shown, readable};
use crate::session::Session;

/// The databases, tables and partitions in the recycle bin that the user may see, the newest first.
///
/// # Errors
/// Those of a snapshot.
pub fn listing(session: &Session) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "Type",
        "Name",
        "#DbId",
        "#TableId",
        "#PartitionId",
        "DropTime",
        "DataSize",
        "RemoteDataSize",
    ]);
    let snapshot = session.shared.engine.snapshot(session.settings.freshness);
    let catalog = session.shared.engine.catalog();
    let actor = session.client.actor();
    let is_seen = |database: &str, name: &str| may_see_table(&catalog, actor, database, name);
    let mut databases = catalog.dropped_databases().collect::<Vec<_>>();
    databases.retain(|database| may_see_database(&catalog, actor, &database.name));
    databases.sort_by_key(|database| std::cmp::Reverse((database.dropped_micros, database.id)));
    for database in databases {
        let mut bytes = 0;
        for table in catalog.tables_of(database.id) {
            bytes += bytes_shown(session, &snapshot, &table)?.unwrap_or(0);
        }
        listing.push([
            some("Database"),
            some(&database.name),
            some(database.id),
            None,
            None,
            database.dropped_micros.map(instant),
            some(readable(bytes)),
            some(readable(0)),
        ]);
    }
    let mut tables = catalog.bin().collect::<Vec<_>>();
    tables.retain(|table| is_seen(catalog.database_name(table), &table.name));
    tables.sort_by_key(|table| std::cmp::Reverse((table.dropped_micros, table.id)));
    for table in tables {
        let bytes = bytes_shown(session, &snapshot, table)?;
        listing.push([
            some("Table"),
            some(&table.name),
            some(table.db),
            some(table.id),
            None,
            table.dropped_micros.map(instant),
            bytes.map(readable),
            some(readable(0)),
        ]);
    }
    partitions(&mut listing, session);
    Ok(listing)
}

/// Those of tables that the user may see; partitions of a table that is in the bin come back with
/// it.
fn partitions(listing: &mut Listing, session: &Session) {
    let engine = &session.shared.engine;
    let (catalog, actor) = (engine.catalog(), session.client.actor());
    let mut resting = engine.resting_partitions();
    resting.sort_by_key(|one| {
        std::cmp::Reverse((one.resting.dropped_micros, one.resting.partition.id))
    });
    for stored in resting {
        let resting = &stored.resting;
        let Some(table) = catalog.table_by_id(resting.table) else { continue };
        let is_seen = may_see_table(&catalog, actor, catalog.database_name(table), &table.name);
        if catalog.is_in_bin(table) || !is_seen {
            continue;
        }
        listing.push([
            some("Partition"),
            some(&resting.partition.name),
            some(table.db),
            some(table.id),
            some(resting.partition.id),
            some(instant(resting.dropped_micros)),
            (!session.hides_rows_of(table)).then(|| readable(stored.bytes())),
            some(readable(0)),
        ]);
    }
}
