//! Dynamic partitions: now and then, tables make and drop partitions as the clock says.

use std::sync::Arc;
use std::time::Duration;

use freshet_meta::Dynamic;
use freshet_schema::Table;
use parking_lot::Mutex;

use crate::ddl::Ddl;
use crate::job::Job;
use crate::store::Store;

/// How often the clock is asked. The shortest period is an hour, and its partition is there from
/// one period before.
const INTERVAL: Duration = Duration::from_secs(30);

/// Asks the clock for all tables.
pub(crate) struct Follower {
    pub store: Arc<Store>,
    pub ddl: Arc<Ddl>,
    /// When it is asked next.
    due: Mutex<Duration>,
    job: Job,
}

impl Follower {
    pub fn new(store: Arc<Store>, ddl: Arc<Ddl>) -> Self {
        Self { store, ddl, due: Mutex::default(), job: Job::default() }
    }

    /// Begins to ask, if it is time.
    pub fn plan(&self) {
        let now = self.store.clock().now();
        if *self.due.lock() > now {
            return;
        }
        *self.due.lock() = now + INTERVAL;
        let is_dynamic = |table: &&Arc<Table>| Dynamic::is_named(&table.properties);
        let catalog = self.store.tables.catalog();
        let tables = catalog.tables().filter(is_dynamic).map(|table| table.id).collect::<Vec<_>>();
        let Some(running) = (!tables.is_empty()).then(|| self.job.begin()).flatten() else {
            return;
        };
        let ddl = Arc::clone(&self.ddl);
        let follow = async move {
            for table in tables {
                ddl.follow_clock(table).await;
            }
            drop(running);
        };
        self.store.pool().spawn("dynamic partitions", Box::pin(follow));
    }

    pub fn is_busy(&self) -> bool {
        self.job.is_running()
    }
}
