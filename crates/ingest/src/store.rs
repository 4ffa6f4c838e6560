//! An open store, which the services of an engine share.

use std::sync::Arc;

use freshet_base::clock::Clock;
use freshet_base::fail::Failpoints;
use freshet_base::io::Fs;
use freshet_base::metrics::Metrics;
use freshet_base::task::Pool;
use freshet_meta::Meta;
use freshet_storage::flush::Files;
use freshet_wal::{Horizon, Wal};

use crate::config::EngineConfig;
use crate::disk::Disk;
use crate::keeper::Keeper;
use crate::locks::KeyLocks;
use crate::tables::Tables;
use crate::world::World;

/// The log, tables and files of an open store, and their environment.
pub(crate) struct Store {
    pub world: World,
    pub config: EngineConfig,
    pub wal: Arc<Wal>,
    pub disk: Arc<Disk>,
    pub keeper: Keeper,
    pub files: Files,
    /// Keys that statements and transactions hold.
    pub locks: Arc<KeyLocks>,
    /// The last field, since it excludes other processes from the store.
    pub tables: Tables,
}

impl Store {
    pub fn clock(&self) -> &dyn Clock {
        &*self.world.clock
    }

    pub fn pool(&self) -> &dyn Pool {
        &*self.world.pool
    }

    pub fn fs(&self) -> &dyn Fs {
        &*self.world.fs
    }

    pub fn metrics(&self) -> &Metrics {
        &self.world.metrics
    }

    pub fn failpoints(&self) -> &Failpoints {
        &self.world.failpoints
    }

    pub fn meta(&self) -> &Meta {
        &self.tables.meta
    }

    pub fn horizon(&self) -> &Horizon {
        self.wal.horizon()
    }
}
