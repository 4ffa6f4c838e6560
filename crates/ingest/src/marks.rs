//! Files of keyed tables: a flush writes the rows of earlier files that have died, and a merge
//! those of its result that died while it ran (keys.md K26 to K28).

use std::sync::Arc;

use freshet_base::task::{self, Lane};
use freshet_base::{Error, Lsn, Result, TableId};
use freshet_meta::{MarkFileMeta, NewMarks};
use freshet_storage::Rowset;
use freshet_storage::marks::{MarkSection, write_mark_file};
use freshet_storage::resolver::{FlushSwap, FlushedRows, Resolver, Swap, dead, died};
use freshet_storage::view::TableView;

use crate::store::Store;
use crate::sweep::InFlight;

/// With more mark files of a table, the next flush writes one with all marks.
const FILES_MAX: usize = 8;

/// Writes the rows of a table's files that have died behind the flushed LSN, up to `to`. The files
/// of large loads, which become its files now, are among `new`.
pub(crate) async fn of_flush(
    store: &Arc<Store>,
    view: &TableView,
    new: &[Arc<Rowset>],
    to: Lsn,
    in_flight: &mut InFlight,
) -> Result<Option<NewMarks>> {
    if view.resolver.is_none() {
        return Ok(None);
    }
    let files = view.tablets.iter().flat_map(|tablet| &tablet.rowsets);
    let loaded = new.iter().filter(|rowset| rowset.marks().is_some());
    let rowsets = files.chain(loaded);
    let table = view.table.id;
    let is_whole = store.meta().fold().marks(table).count() >= FILES_MAX;
    let (from, sections) = match is_whole {
        true => (Lsn::ZERO, dead(rowsets, to)),
        false => (view.flushed, died(rowsets, to)),
    };
    let file = write(store, table, (from, to), sections, in_flight).await?;
    Ok(file.map(|file| NewMarks { file, is_whole }))
}

/// Begins the swap of a flush that has written these rows; `None` in tables without keys.
pub(crate) async fn begin_flush_swap(
    store: &Arc<Store>,
    view: &TableView,
    rows: Vec<FlushedRows>,
) -> Result<Option<Box<FlushSwap>>> {
    let Some(resolver) = &view.resolver else { return Ok(None) };
    let swap = begin_swap(store, resolver).await?;
    Ok(Some(Box::new(FlushSwap { swap, rows })))
}

/// Begins a swap with all marks up to the horizon.
pub(crate) async fn begin_swap(store: &Arc<Store>, resolver: &Resolver) -> Result<Swap> {
    let store = Arc::clone(store);
    Ok(resolver.begin_swap(move || store.horizon().get()).await?)
}

/// Writes a mark file if there are any marks.
pub(crate) async fn write(
    store: &Arc<Store>,
    table: TableId,
    lsns: (Lsn, Lsn),
    sections: Vec<MarkSection>,
    in_flight: &mut InFlight,
) -> Result<Option<MarkFileMeta>> {
    if sections.is_empty() {
        return Ok(None);
    }
    let number = store.meta().ids().rowset()?;
    in_flight.add(number);
    let (files, path) = (store.files.clone(), store.files.dir.marks(table, number));
    let write = move || write_mark_file(&*files.fs, &path, table, number, lsns, &sections);
    let file = task::run_in(store.pool(), Lane::Background, write).await?;
    store.failpoints().pass("marks-written").map_err(|e| Error::io("mark file", e))?;
    Ok(Some(file))
}
