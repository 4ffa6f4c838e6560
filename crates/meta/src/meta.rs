//! The metadata of a server: its store, the fold, and how they are changed.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use freshet_base::clock::ClockRef;
use freshet_base::{Lsn, Result, SchemaVersion, TableId, TabletId};
use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::fold::{Flushed, Fold, MetaEvent, Truncate};
use crate::ids::IdBlocks;
use crate::label::LabelRegistry;
use crate::log_state::LogState;
use crate::privilege::{Privilege, Privileges};
use crate::rowset::RowsetMeta;
use crate::store::{Batch, MetaStore};
use crate::user::{Account, AuthData, GrantObject, User};
use crate::{format, keys};

/// All metadata of a server. Records of the log change memory first and the store later; calls that
/// change anything else block until the change is durable.
#[derive(Debug)]
pub struct Meta {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) clock: Clock,
    fold: Mutex<Fold>,
    /// The catalog of the fold, for readers that need only definitions.
    catalog: ArcSwap<Catalog>,
    /// Held from a decision based on the catalog until the change is made.
    changing: Mutex<()>,
    /// Held during a commit.
    pub(crate) saving: Mutex<()>,
    /// The contents of the store.
    pub(crate) saved: ArcSwap<Fold>,
    pub(crate) log: Mutex<LogState>,
    /// Empty until a start begins its term.
    pub(crate) id_blocks: OnceLock<IdBlocks>,
    labels: Arc<LabelRegistry>,
}

/// A clock that implements `Debug`.
pub(crate) struct Clock(pub ClockRef);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Meta {
    /// Opens metadata: checks its format and reads all of it. A new store gets the user `root` with
    /// all privileges and an empty password. Whoever takes ids calls [`Self::begin`] before.
    ///
    /// # Errors
    /// When the store is from a newer version or cannot be read.
    pub fn open(store: Arc<dyn MetaStore>, clock: ClockRef) -> Result<Self> {
        format::check(store.as_ref())?;
        ensure_root(store.as_ref())?;
        let fold = Fold::load(store.as_ref())?;
        let labels = LabelRegistry::load(store.as_ref(), clock.clone())?;
        Ok(Self {
            catalog: ArcSwap::new(Arc::clone(&fold.catalog)),
            saved: ArcSwap::from_pointee(fold.clone()),
            fold: Mutex::new(fold),
            changing: Mutex::default(),
            saving: Mutex::default(),
            log: Mutex::new(LogState::load(store.as_ref())?),
            id_blocks: OnceLock::new(),
            labels: Arc::new(labels),
            clock: Clock(clock),
            store,
        })
    }

    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// All settled metadata.
    pub fn fold(&self) -> Fold {
        self.fold.lock().clone()
    }

    /// Notes that all records up to `lsn` have settled.
    ///
    /// # Panics
    /// When `lsn` goes back.
    pub fn settled_to(&self, lsn: Lsn) {
        let mut fold = self.fold.lock();
        assert!(fold.settled <= lsn, "records settle in the order of the log");
        fold.settled = lsn;
    }

    /// All records up to here have settled.
    pub fn settled(&self) -> Lsn {
        self.fold.lock().settled
    }

    /// Labels given by clients.
    pub fn labels(&self) -> &Arc<LabelRegistry> {
        &self.labels
    }

    /// How far a table is flushed; `None` if it does not exist.
    pub fn flushed(&self, table: TableId) -> Option<Flushed> {
        self.fold().flushed.get(&table).copied()
    }

    /// The rowsets of a tablet, in LSN order.
    pub fn rowsets(&self, tablet: TabletId) -> Vec<RowsetMeta> {
        self.fold().rowsets(tablet).cloned().collect()
    }

    /// Applies the record at `lsn`; see `Fold::settle`. Records are applied in log order, each once
    /// it is durable.
    pub fn settle(&self, lsn: Lsn, event: &MetaEvent) -> bool {
        let fits = self.edit(|fold| fold.settle(lsn, event));
        if let MetaEvent::DropDatabase(id) = event {
            self.labels().forget(*id);
        }
        fits
    }

    /// Like [`Self::settle`], for a start with an accepted hole in the log: a table whose name the
    /// event needs gets another one, since the record that freed that name was given up.
    pub fn settle_behind_hole(&self, lsn: Lsn, event: &MetaEvent) {
        for (name, renamed) in self.edit(|fold| fold.make_way(event)) {
            tracing::warn!(%lsn, table = name, renamed, "a lost record would have freed a name");
        }
        self.settle(lsn, event);
    }

    /// Makes up for the TRUNCATE of a table whose record at `at` was given up: later records of its
    /// rows have revealed it.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn truncate_lost(&self, at: Lsn, truncate: Truncate) -> Result<()> {
        self.commit(Change::of_fold(move |fold| {
            fold.truncate(at, &truncate);
        }))
    }

    /// Leaves out schema versions up to `lost` of a table, since the records of their ALTER were
    /// given up: none of them may be given to other columns, because rows in the log have them.
    pub fn skip_schemas(&self, table: TableId, lost: SchemaVersion) {
        self.edit(|fold| fold.skip_schemas(table, lost));
    }

    /// Begins to assign ids, once the whole log has settled: any id below an end in it may have
    /// been assigned. Until the record of the term has settled, taking an id commits.
    ///
    /// # Panics
    /// When it is called twice.
    pub fn begin(&self) {
        let ids = self.fold().ids;
        self.id_blocks.set(IdBlocks::new(ids, ids)).expect("a start begins once");
    }

    /// Leaves out all ids that this many lost records may have reserved: each a block of a kind.
    pub fn skip_ids(&self, lost_records: u64) {
        self.edit(|fold| fold.reserve(fold.ids.further(lost_records)));
    }

    /// Like [`Self::skip_ids`], durably: an operator gives up a part of the log.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn give_up_ids(&self, lost_records: u64) -> Result<()> {
        let ends = self.fold().ids.further(lost_records);
        self.commit(Change::of_fold(move |fold| {
            fold.reserve(ends);
        }))
    }

    /// Changes the fold, by what is durable, and publishes its catalog and its ends of ids.
    pub(crate) fn edit<T>(&self, edit: impl FnOnce(&mut Fold) -> T) -> T {
        let mut fold = self.fold.lock();
        let answer = edit(&mut fold);
        self.catalog.store(Arc::clone(&fold.catalog));
        if let Some(blocks) = self.id_blocks.get() {
            blocks.raise(fold.ids);
        }
        answer
    }

    /// Changes store and catalog. `plan` gets the catalog while no other change can happen, and
    /// returns the change to make, or `None` if there is none.
    pub(crate) fn change<T>(
        &self,
        plan: impl FnOnce(&Catalog) -> Result<(Option<Change>, T)>,
    ) -> Result<T> {
        let _one = self.changing.lock();
        let (change, answer) = plan(&self.catalog.load())?;
        change.map_or(Ok(()), |change| self.commit(change))?;
        Ok(answer)
    }
}

/// A change that is committed immediately. Its edit is applied twice: to the fold that is written,
/// and after the commit to the fold in memory, which may be newer.
pub(crate) struct Change {
    pub edit: Box<dyn Fn(&mut Fold)>,
    /// Additional writes.
    pub batch: Batch,
}

impl Default for Change {
    fn default() -> Self {
        Self { edit: Box::new(|_| ()), batch: Batch::default() }
    }
}

impl Change {
    /// A change of the catalog.
    pub fn of_catalog(edit: impl Fn(&mut Catalog) + 'static) -> Self {
        let edit = move |fold: &mut Fold| {
            fold.changes += 1;
            edit(Arc::make_mut(&mut fold.catalog));
        };
        Self { edit: Box::new(edit), batch: Batch::default() }
    }

    /// A change of the fold.
    pub fn of_fold(edit: impl Fn(&mut Fold) + 'static) -> Self {
        Self { edit: Box::new(edit), batch: Batch::default() }
    }
}

/// Creates `root` with an empty password if it does not exist.
fn ensure_root(store: &dyn MetaStore) -> Result<()> {
    let key = keys::user(&Account::root());
    if store.get(&key)?.is_some() {
        return Ok(());
    }
    let all = Privileges::all().with(Privilege::GrantOption);
    let user = User::new(Account::root(), AuthData::default()).with_grant(GrantObject::Server, all);
    let put = vec![(key.clone(), keys::encode(&user))];
    Ok(store.commit(Batch { expect: vec![(key, None)], put, delete: Vec::new() })?)
}
