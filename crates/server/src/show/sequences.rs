use freshet_base::Result;
use freshet_meta::{Object, Privilege, may_see_table, require_visible};
use freshet_query::parser::TableName;
use freshet_query::system::SEQUENCE_OF_IDS;
use freshet_schema::{Sequence, SequenceChange, SequenceKind};

use super::listing::{Listing, some};
use crate::session::Session;

/// SHOW CREATE SEQUENCE.
///
/// # Errors
/// 1049, 4091, and 1142 for who has no right to it.
pub fn create(session: &Session, name: &TableName) -> Result<Listing> {
    let database = session.database_of(name.database.as_deref())?;
    let catalog = session.shared.engine.catalog();
    if !may_see_table(&catalog, session.client.actor(), database, &name.table) {
        session.authorize(Privilege::Select, Object::Table(database, &name.table))?;
    }
    let table = catalog.require_sequence(database, &name.table)?;
    let sequence = table.sequence.expect("it is a sequence");
    let mut listing = Listing::new(&["Table", "Create Table"]);
    listing.add([&*table.name, &statement(&table.name, &sequence)]);
    Ok(listing)
}

/// The statement that creates it.
fn statement(name: &str, sequence: &Sequence) -> String {
    let Sequence { kind, start, increment, max, cycle, .. } = sequence;
    let create = format!("CREATE {} SEQUENCE `{}`", kind.name(), name.replace('`', "``"));
    if *kind == SequenceKind::Time {
        return create;
    }
    let cycle = if *cycle { "CYCLE" } else { "NOCYCLE" };
    format!("{create} START WITH {start} INCREMENT BY {increment} MAXVALUE {max} {cycle}")
}

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
