//! The store, the fold that it is a checkpoint of, and who may change them.

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

/// What metadata lets its owner decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaConfig {
    /// How long and how many labels are remembered.
    pub labels: LabelLimits,
}

/// All metadata of a server. What the log decides changes memory, and the store later; calls that
/// change something else block until it is durable.
#[derive(Debug)]
pub struct Meta {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) clock: Clock,
    fold: Mutex<Fold>,
    /// That of the fold, for who only reads names.
    catalog: ArcSwap<Catalog>,
    /// Held while something is decided from the catalog, until it stands there.
    changing: Mutex<()>,
    /// Held while the store is brought up to date.
    pub(crate) saving: Mutex<()>,
    /// What the store holds.
    pub(crate) saved: ArcSwap<Fold>,
    pub(crate) log: Mutex<log::LogState>,
    ids: Ids,
    labels: Arc<LabelBook>,
}

/// A clock that can stand in a struct with `Debug`.
pub(crate) struct Clock(pub ClockRef);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Meta {
    /// Opens metadata: checks its format, reads all of it, reserves ids; a new store gets the
    /// user `root`, who may do everything, with the empty password.
    ///
    /// # Errors
    /// When a newer version wrote the store, or it cannot be read.
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

    /// What there is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// All that has settled.
    pub fn fold(&self) -> Fold {
        self.fold.lock().clone()
    }

    /// All records up to `lsn` have settled.
    ///
    /// # Panics
    /// When it goes back.
    pub fn settled_to(&self, lsn: Lsn) {
        let mut fold = self.fold.lock();
        assert!(fold.settled <= lsn, "records settle in the order of the log");
        fold.settled = lsn;
    }

    /// Ids that nobody has.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The labels that clients gave.
    pub fn labels(&self) -> &Arc<LabelBook> {
        &self.labels
    }

    /// Changes the fold, and with it what the catalog shows.
    pub(crate) fn edit<T>(&self, edit: impl FnOnce(&mut Fold) -> T) -> T {
        let mut fold = self.fold.lock();
        let answer = edit(&mut fold);
        self.catalog.store(Arc::clone(&fold.catalog));
        answer
    }

    /// Changes store and catalog at once: `plan` sees the catalog that no other change can touch,
    /// and returns what to do, or `None` where there is nothing to do.
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

/// What is committed at once. Its edit is done twice: on what is written, and on what is there
/// when that stands.
pub(crate) struct Change {
    pub edit: Box<dyn Fn(&mut Fold)>,
    /// What else to write.
    pub batch: Batch,
}

impl Default for Change {
    fn default() -> Self {
        Self { edit: Box::new(|_| ()), batch: Batch::default() }
    }
}

impl Change {
    /// One of what the catalog says.
    pub fn of_catalog(edit: impl Fn(&mut Catalog) + 'static) -> Self {
        let edit = move |fold: &mut Fold| {
            fold.changes += 1;
            edit(Arc::make_mut(&mut fold.catalog));
        };
        Self { edit: Box::new(edit), batch: Batch::default() }
    }

    /// One of what the fold says.
    pub fn of_fold(edit: impl Fn(&mut Fold) + 'static) -> Self {
        Self { edit: Box::new(edit), batch: Batch::default() }
    }
}
