//! The store, the catalog folded from it, and who may change them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use freshet_base::Result;
use freshet_base::clock::ClockRef;
use parking_lot::Mutex;

use crate::catalog::Catalog;
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

/// All metadata of a server. Calls that change something block until it is durable.
#[derive(Debug)]
pub struct Meta {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) clock: Clock,
    catalog: ArcSwap<Catalog>,
    /// Held while the catalog changes, so that it folds changes in the order of their commits.
    changing: Mutex<()>,
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
        let catalog = Catalog::load(store.as_ref())?;
        let labels = LabelBook::load(store.as_ref(), config.labels, clock.clone())?;
        Ok(Self {
            catalog: ArcSwap::from_pointee(catalog),
            changing: Mutex::default(),
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

    /// Ids that nobody has.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The labels that clients gave.
    pub fn labels(&self) -> &Arc<LabelBook> {
        &self.labels
    }

    /// Changes store and catalog: `plan` sees the catalog that no other change can touch, and
    /// returns what to write, or `None` where there is nothing to do.
    pub(crate) fn change<T>(
        &self,
        plan: impl FnOnce(&Catalog) -> Result<(Option<Change>, T)>,
    ) -> Result<T> {
        let _one = self.changing.lock();
        let (change, answer) = plan(&self.catalog.load())?;
        if let Some(Change { batch, catalog }) = change {
            self.store.commit(batch)?;
            self.catalog.store(Arc::new(catalog));
        }
        Ok(answer)
    }
}

/// What to write, and the catalog once it is written.
pub(crate) struct Change {
    pub batch: Batch,
    pub catalog: Catalog,
}
