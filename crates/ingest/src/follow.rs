//! Dynamic partitions: now and then, tables make and drop partitions as the clock says.

use std::sync::Arc;
use std::time::Duration;

use freshet_meta::Dynamic;
use freshet_schema::Table;

use crate::ddl::Ddl;
use crate::periodic::Periodic;
use crate::store::Store;

/// How often the clock is asked. The shortest period is an hour, and its partition is there from
/// one period before.
const INTERVAL: Duration = Duration::from_secs(30);

/// Asks the clock for all tables.
pub(crate) struct Follower {
    store: Arc<Store>,
    ddl: Arc<Ddl>,
    job: Periodic,
}

impl Follower {
    pub fn new(store: Arc<Store>, ddl: Arc<Ddl>) -> Self {
        Self { store, ddl, job: Periodic::every(INTERVAL) }
    }

    /// Begins to ask, if it is time.
    pub fn plan(&self) {
        self.job.plan(&self.store, "dynamic partitions", || {
            let is_dynamic = |table: &&Arc<Table>| Dynamic::is_named(&table.properties);
            let catalog = self.store.tables.catalog();
            let tables = catalog.tables().filter(is_dynamic).map(|table| table.id);
            let tables = tables.collect::<Vec<_>>();
            let ddl = Arc::clone(&self.ddl);
            (!tables.is_empty()).then_some(async move {
                for table in tables {
                    ddl.follow_clock(table).await;
                }
            })
        });
    }

    pub fn is_busy(&self) -> bool {
        self.job.is_busy()
    }
}
