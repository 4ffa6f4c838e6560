//! The metadata of a server: its store, the fold, and how they are changed.

use std::sync::Arc;

use arc_swap::ArcSwap;
use freshet_base::clock::ClockRef;
use freshet_base::{Lsn, Result};
use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::fold::Fold;
use crate::format;
use crate::ids::Ids;
use crate::label::{LabelBook, LabelLimits};
use crate::store::{Batch, MetaStore};
use crate::{log, user_admin};

#[derive(Clone, Copy, Debug, Default)]
pub struct MetaConfig {
    /// How long and how many labels are kept.
    pub labels: LabelLimits,
}

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
    pub(crate) log: Mutex<log::LogState>,
    ids: Ids,
    labels: Arc<LabelBook>,
}

/// A clock that implements `Debug`.
pub(crate) struct Clock(pub ClockRef);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Meta {
    /// Opens metadata: checks its format, reads all of it, and reserves ids. A new store gets the
    /// user `root` with all privileges and an empty password.
    ///
    /// # Errors
    /// When the store is from a newer version or cannot be read.
    pub fn open(store: Arc<dyn MetaStore>, clock: ClockRef, config: MetaConfig) -> Result<Self> {
        format::check(store.as_ref())?;
        user_admin::ensure_root(store.as_ref())?;
        let fold = Fold::load(store.as_ref())?;
        let labels = LabelBook::load(store.as_ref(), config.labels, clock.clone())?;
        Ok(Self {
            catalog: ArcSwap::new(Arc::clone(&fold.catalog)),
            saved: ArcSwap::from_pointee(fold.clone()),
            fold: Mutex::new(fold),
            changing: Mutex::default(),
            saving: Mutex::default(),
            log: Mutex::new(log::load(store.as_ref())?),
            ids: Ids::open(&store)?,
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

    /// Allocates ids.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Labels given by clients.
    pub fn labels(&self) -> &Arc<LabelBook> {
        &self.labels
    }

    /// Changes the fold and publishes its catalog.
    pub(crate) fn edit<T>(&self, edit: impl FnOnce(&mut Fold) -> T) -> T {
        let mut fold = self.fold.lock();
        let answer = edit(&mut fold);
        self.catalog.store(Arc::clone(&fold.catalog));
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
