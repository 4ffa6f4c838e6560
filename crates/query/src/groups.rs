//! Engines of workload groups: the same threads, a part of the memory, turns of their own.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use freshet_base::Result;
use freshet_base::clock::ClockRef;

use crate::engine::{Planner, QueryConfig, QueryEngine, session_config};
use crate::error::mapped;
use crate::group_pool::GroupPool;
pub use crate::threads::{Lane, LaneShare, Turns};

/// What the queries of a workload group may take.
#[derive(PartialEq)]
pub struct GroupShare {
    /// Its name, for messages.
    pub name: Arc<str>,
    /// Its part of the memory of queries, from 1 to 100.
    pub memory_percent: u32,
    /// The parallelism of one query; 0: as many as there are threads.
    pub parallel_max: usize,
    /// Its turns on the threads; `None`: its queries run as they come.
    pub lane: Option<Arc<Lane>>,
}

impl GroupShare {
    /// That of a group without limits.
    pub fn whole(name: &Arc<str>) -> Self {
        Self { name: Arc::clone(name), memory_percent: 100, parallel_max: 0, lane: None }
    }
}

impl QueryEngine {
    /// The engine of a workload group, on the same threads and with a part of the memory.
    ///
    /// # Errors
    /// When DataFusion refuses its environment.
    pub fn of_group(&self, share: &GroupShare) -> Result<Self> {
        let state = &self.planner.state;
        let mut builder = SessionStateBuilder::new_from_existing(state.clone());
        if share.memory_percent < 100 {
            let all = &state.runtime_env().memory_pool;
            let bytes = self.config.memory_bytes;
            let pool = GroupPool::new(&share.name, share.memory_percent, all, bytes);
            let pool: Arc<dyn MemoryPool> = Arc::new(pool);
            let runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env());
            let runtime = runtime.with_memory_pool(pool).build_arc().map_err(mapped)?;
            builder = builder.with_runtime_env(runtime);
        }
        if share.parallel_max > 0 {
            let threads = self.config.threads.min(share.parallel_max);
            let config = QueryConfig { threads, ..self.config.clone() };
            builder = builder.with_config(session_config(&config));
        }
        let state = builder.build();
        let task = state.task_ctx();
        let planner = Arc::new(Planner { state, task });
        let threads = self.threads.within(share.lane.clone());
        Ok(Self { planner, threads, config: self.config.clone() })
    }

    /// Turns on its threads, for lanes of groups.
    pub fn turns(&self, clock: ClockRef) -> Arc<Turns> {
        self.threads.turns(clock, self.config.threads)
    }
}
