use freshet_base::Result;
use freshet_meta::{may_see_table, require_visible};
use freshet_query::system::SEQUENCE_OF_IDS;
use freshet_schema::{Sequence, SequenceChange};

use super::listing::{Listing, some};
use crate::session::Session;

/// SHOW SEQUENCES: those of the current database, and of the ids of its tables.
pub fn sequences(session: &Session) -> Result<Listing> {
    let database = session.database_of(None)?;
    let catalog = session.shared.engine.catalog();
    let account = session.client.actor();
    require_visible(&catalog, account, database)?;
    let mut listing = Listing::new(&[
        "SCHEMA_NAME",
        "NAME",
        "VALUE",
        "UNIT_COUNT",
        "UNIT_INDEX",
        "INNER_STEP",
        "INCREMENT_BY",
        "START_WITH",
        "MAX_VALUE",
        "CYCLE",
        "TYPE",
    ]);
    let home = catalog.database(database).into_iter();
    for (name, table) in home.flat_map(|home| &home.sequences) {
        let Some(sequence) = table.sequence else { continue };
        if !may_see_table(&catalog, account, database, name) {
            continue;
        }
        let next = session.shared.engine.next_id(table.id);
        let next = next.filter(|_| sequence.block().is_none());
        let unknown = "N/A".to_owned();
        let value = next.map_or(unknown, |next| sequence.upcoming(next).to_string());
        listing.push([
            some(database),
            some(name),
            some(value),
            some("N/A"),
            some("N/A"),
            some("N/A"),
            some(sequence.increment),
            some(sequence.start),
            some(sequence.max),
            some(if sequence.cycle { "Y" } else { "N" }),
            some(sequence.kind.name()),
        ]);
    }
    for (name, table) in catalog.database(database).into_iter().flat_map(|home| &home.tables) {
        let is_seen = table.schema().shown_auto_increment().is_some()
            && may_see_table(&catalog, account, database, name);
        let Some(next) = session.shared.engine.next_id(table.id).filter(|_| is_seen) else {
            continue;
        };
        let kind = Sequence::new(&SequenceChange::default())?;
        listing.push([
            some(database),
            some(format!("{SEQUENCE_OF_IDS}{name}")),
            some(next),
            some("N/A"),
            some("N/A"),
            some("N/A"),
            some(kind.increment),
            some(kind.start),
            some(kind.max),
            some("N"),
            some(kind.kind.name()),
        ]);
    }
    Ok(listing)
}
