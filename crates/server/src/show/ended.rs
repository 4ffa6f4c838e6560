//! What has ended lately, for `information_schema`: groups, flushes, and loads with rejected rows.

use std::time::Duration;

use freshet_base::TableId;
use freshet_ingest::{EndedFlush, EndedGroup, FlushTimes, names};
use freshet_meta::{Object, Privilege};
use freshet_query::system::{Cell, SystemSource};

use super::system::ServerView;
use crate::load_book::RejectedLoad;

const MICROS_OF_MILLI: i64 = 1000;

/// The names of a database and a table of it.
type Place = (String, String);

impl ServerView {
    /// The names of a table that the user may see; `Some(None)` for one that was dropped, on which
    /// there are no privileges, so that PROCESS is needed.
    fn seen_place(&self, id: TableId) -> Option<Option<Place>> {
        let catalog = self.shared.engine.catalog();
        let place = catalog.table_by_id(id).and_then(|table| {
            let database = catalog.database_by_id(table.db)?;
            Some((database.name.clone(), table.name.clone()))
        });
        let is_seen = match &place {
            Some((database, table)) => self.may_see_table(database, table),
            None => self.authorize(Privilege::Process, Object::Server).is_ok(),
        };
        is_seen.then_some(place)
    }

    /// Open groups, then ended ones, newest first.
    pub(super) fn group_commits(&self) -> Vec<Vec<Cell>> {
        let engine = &self.shared.engine;
        let mut rows = Vec::new();
        for state in engine.table_states() {
            let Some(Some((database, table))) = self.seen_place(state.id) else { continue };
            rows.extend(state.open_group(|open| {
                vec![
                    names::group_label(open.txn).into(),
                    database.into(),
                    table.into(),
                    open.txn.get().into(),
                    open.loads.into(),
                    open.rows.into(),
                    open.bytes.into(),
                    Cell::Time(open.opened_micros),
                    Cell::Null,
                    Cell::Null,
                    Cell::Null,
                    Cell::Null,
                    Cell::Null,
                    Cell::Null,
                ]
            }));
        }
        for group in engine.history().groups().into_iter().rev() {
            if let Some(place) = self.seen_place(group.table) {
                rows.push(ended(&group, place));
            }
        }
        rows
    }

    /// The last flushes, newest first.
    pub(super) fn flushes(&self) -> Vec<Vec<Cell>> {
        let flushes = self.shared.engine.history().flushes();
        let row = |flush: &EndedFlush| Some(flushed(flush, self.seen_place(flush.table)?));
        flushes.iter().rev().filter_map(row).collect()
    }

    /// Rejected rows, those of the last load first.
    pub(super) fn load_rejects(&self) -> Vec<Vec<Cell>> {
        let loads = self.shared.book.rejected();
        let (catalog, actor) = (self.shared.engine.catalog(), self.client.actor());
        let seen = loads.iter().rev().filter(|load| load.note.shows_rows_to(&catalog, actor));
        seen.flat_map(|load| rejected(load)).collect()
    }
}

fn ended(group: &EndedGroup, place: Option<Place>) -> Vec<Cell> {
    let (database, table) = place.unzip();
    let millis = |stage: Duration| i64::try_from(stage.as_millis()).unwrap_or(i64::MAX);
    let flushed = group.flushed.as_ref();
    let waited =
        |times: &FlushTimes| (times.began_micros - group.ended_micros).max(0) / MICROS_OF_MILLI;
    vec![
        names::group_label(group.txn).into(),
        database.into(),
        table.into(),
        group.txn.get().into(),
        group.loads.into(),
        group.rows.into(),
        group.bytes.into(),
        Cell::Time(group.opened_micros),
        Cell::Time(group.ended_micros),
        group.reason.name().into(),
        group.version.get().into(),
        flushed.map(waited).into(),
        flushed.map(|times| millis(times.flush)).into(),
        flushed.map(|times| millis(times.publish)).into(),
    ]
}

fn flushed(flush: &EndedFlush, place: Option<Place>) -> Vec<Cell> {
    let (database, table) = place.unzip();
    let (files, message) = match &flush.result {
        Ok(files) => (Some(files), ""),
        Err(message) => (None, message.as_str()),
    };
    vec![
        database.into(),
        table.into(),
        flush.reason.name().into(),
        if files.is_some() { "DONE" } else { "FAILED" }.into(),
        Cell::Time(flush.began_micros),
        files.map(|files| files.rows).into(),
        files.map(|files| files.rowsets).into(),
        files.map(|files| files.segments).into(),
        files.map(|files| files.bytes).into(),
        files.map(|files| files.version.get()).into(),
        files.map(|files| files.to.get()).into(),
        micros(flush.took).into(),
        files.map(|files| micros(files.wait)).into(),
        files.map(|files| micros(files.write)).into(),
        files.map(|files| micros(files.mark)).into(),
        files.map(|files| micros(files.publish)).into(),
        message.into(),
    ]
}

fn micros(stage: Duration) -> i64 {
    i64::try_from(stage.as_micros()).unwrap_or(i64::MAX)
}

fn rejected(load: &RejectedLoad) -> impl Iterator<Item = Vec<Cell>> {
    let note = &load.note;
    load.rows.iter().map(|row| {
        vec![
            note.label.clone().into(),
            note.txn.map(|txn| txn.get()).into(),
            note.database.clone().into(),
            note.table.clone().into(),
            Cell::Time(note.ended_micros),
            note.status.into(),
            note.account.to_string().into(),
            note.client.clone().into(),
            row.row.into(),
            row.column.clone().into(),
            row.reason.clone().into(),
            row.line.clone().into(),
            note.error_url.clone().into(),
        ]
    })
}
