//! What a table comes to, told so that two engines can be compared: the one that has written a
//! log, and one that has replayed it.

use std::collections::BTreeMap;

use freshet_base::{Incarnation, Lsn, Result, SchemaVersion, TableId, TabletId, Version};
use freshet_meta::RowsetMeta;
use freshet_storage::Rowset;
use freshet_storage::side::SideEntry;
use freshet_storage::view::TableView;

use crate::engine::Engine;
use crate::state::TableState;

/// A table at one place of the log.
#[derive(Debug)]
pub struct TableDigest {
    /// The last record of it.
    pub applied: Lsn,
    /// What the log has made of it.
    pub tip: Tip,
    /// What it holds; `None` while metadata is ahead of what readers are shown, or behind.
    pub contents: Option<Contents>,
}

/// What the log has made of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tip {
    /// Raised by TRUNCATE.
    pub incarnation: Incarnation,
    /// The schema version at the end of the log.
    pub schema_version: SchemaVersion,
    /// Groups and large loads that have ended, and the open group, which ends with its run.
    pub version: Version,
}

/// The rows of a table, in files and in memory.
#[derive(PartialEq, Eq, Debug)]
pub struct Contents {
    /// Rows of records up to here are in files.
    pub flushed: Lsn,
    /// Its tablets.
    pub tablets: Vec<TabletId>,
    /// Its files, those of large loads above `flushed` included.
    pub rowsets: Vec<RowsetMeta>,
    /// Its rows in memory, record by record.
    pub rows: Vec<SideEntry>,
}

impl Engine {
    /// All tables that have a name and are not dropped.
    ///
    /// # Errors
    /// Rows that contradict their columns.
    pub fn digests(&self) -> Result<BTreeMap<TableId, TableDigest>> {
        let mut digests = BTreeMap::new();
        for state in self.table_states() {
            if let Some(digest) = self.digest(&state)? {
                digests.insert(state.id, digest);
            }
        }
        Ok(digests)
    }

    fn digest(&self, state: &TableState) -> Result<Option<TableDigest>> {
        // In this order: nobody brings it further once it is held.
        let settling = state.settling.try_lock();
        let view = self.views().load().tables.get(&state.id).cloned();
        let table = state.lock();
        let log = table.log();
        let Some(view) = view.filter(|view| !view.table.unlisted && !log.is_dropped()) else {
            return Ok(None);
        };
        let version = log.open().map_or(log.version(), |_| log.version().next());
        let (incarnation, schema_version) = (log.incarnation(), log.schema_version());
        let tip = Tip { incarnation, schema_version, version };
        let is_settled = settling.is_some() && log.unsettled().next().is_none();
        let contents = match is_settled && !self.compactor.is_busy() {
            true => Some(contents(&view)?),
            false => None,
        };
        Ok(Some(TableDigest { applied: log.applied(), tip, contents }))
    }
}

fn contents(view: &TableView) -> Result<Contents> {
    let flushed = view.flushed;
    let chunks = view.delta.chunks(&view.head);
    let files = view.tablets.iter().flat_map(|tablet| tablet.rowsets.iter().cloned());
    let mut loaded = view.delta.rowsets(&view.head);
    loaded.retain(|rowset| rowset.lsns().0 > flushed);
    let meta = |rowset: std::sync::Arc<Rowset>| rowset.meta().clone();
    let mut rows = Vec::new();
    view.side_rows(&chunks, view.delta.last(), |row| {
        // A group that is open here ends with its term in a replay.
        rows.push(SideEntry { open: false, ..row });
        Ok(())
    })?;
    Ok(Contents {
        flushed,
        tablets: view.tablets.iter().map(|tablet| tablet.id).collect(),
        rowsets: files.chain(loaded).map(meta).collect(),
        rows,
    })
}
