//! Digests of the contents of a table, to compare an engine that has written a log with one that
//! has replayed it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use freshet_base::{Incarnation, Lsn, Result, SchemaVersion, TableId, TabletId, Version};
use freshet_meta::RowsetMeta;
use freshet_schema::Table;
use freshet_storage::Rowset;
use freshet_storage::side::SideEntry;
use freshet_storage::view::TableView;

use crate::compact::Compactor;
use crate::state::TableState;
use crate::tables::Tables;

/// The state of a table at one position of the log.
#[derive(Debug)]
pub struct TableDigest {
    /// The last record that affects it.
    pub applied: Lsn,
    /// Its state according to the log.
    pub in_log: StateInLog,
    /// Its contents; `None` while metadata is ahead of the published view, or behind it.
    pub contents: Option<Contents>,
}

/// The state of a table according to the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateInLog {
    /// Incremented by TRUNCATE.
    pub incarnation: Incarnation,
    /// The schema version at the end of the log.
    pub schema_version: SchemaVersion,
    /// Number of ended groups and large loads, including an open group, which ends with its term.
    pub version: Version,
}

/// The rows of a table in files and in memory.
#[derive(PartialEq, Eq, Debug)]
pub struct Contents {
    pub definition: Arc<Table>,
    /// Rows of records up to this LSN are in files.
    pub flushed: Lsn,
    pub tablets: Vec<TabletId>,
    /// Its rowsets, including those of large loads above `flushed`.
    pub rowsets: Vec<RowsetMeta>,
    /// The rows of each segment of its tablets that are dead at `flushed`, in keyed tables.
    pub dead: Vec<Vec<u32>>,
    /// Its rows in memory by record.
    pub rows: Vec<SideEntry>,
}

/// The digests of all tables that are listed in the catalog and not dropped.
///
/// # Errors
/// When rows do not match their schema.
pub(crate) fn digests(
    tables: &Tables,
    compactor: &Compactor,
) -> Result<BTreeMap<TableId, TableDigest>> {
    let mut digests = BTreeMap::new();
    for state in tables.states() {
        if let Some(digest) = digest(tables, compactor, &state)? {
            digests.insert(state.id, digest);
        }
    }
    Ok(digests)
}

fn digest(
    tables: &Tables,
    compactor: &Compactor,
    state: &TableState,
) -> Result<Option<TableDigest>> {
    // Locked first: while `flushing` is held, no flush or barrier of the table settles.
    let flushing = state.flushing.try_lock();
    let view = tables.view(state.id);
    let table = state.lock();
    let log = table.log();
    let Some(view) = view.filter(|view| !view.table.unlisted && !log.is_dropped()) else {
        return Ok(None);
    };
    let version = log.open().map_or(log.version(), |_| log.version().next());
    let (incarnation, schema_version) = (log.incarnation(), log.schema_version());
    let in_log = StateInLog { incarnation, schema_version, version };
    let is_settled = flushing.is_some() && state.last_event() <= tables.meta.settled();
    let contents = match is_settled && !compactor.is_busy() {
        true => Some(contents(&view)?),
        false => None,
    };
    Ok(Some(TableDigest { applied: log.applied(), in_log, contents }))
}

fn contents(view: &TableView) -> Result<Contents> {
    let flushed = view.flushed;
    let chunks = view.delta.chunks(&view.head);
    let files = view.tablets.iter().flat_map(|tablet| tablet.rowsets.iter().cloned());
    let mut loaded = view.delta.rowsets(&view.head);
    let tablets = view.table.tablets().collect::<HashSet<_>>();
    loaded.retain(|rowset| rowset.lsns().0 > flushed && tablets.contains(&rowset.meta().tablet));
    let meta = |rowset: Arc<Rowset>| rowset.meta().clone();
    let marks = files.clone().flat_map(|rowset| rowset.marks().unwrap_or_default().to_vec());
    let dead = marks.map(|marks| marks.flushed_dead().rows().collect()).collect();
    let mut rows = Vec::new();
    view.side_rows(&chunks, view.delta.last(), |row| {
        // A group that is open here may have ended in a replay, with the next term.
        rows.push(SideEntry { open: false, ..row });
        Ok(())
    })?;
    Ok(Contents {
        definition: Arc::clone(&view.table),
        flushed,
        tablets: view.tablets.iter().map(|tablet| tablet.id).collect(),
        dead,
        rowsets: files.chain(loaded).map(meta).collect(),
        rows,
    })
}
