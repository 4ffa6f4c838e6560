//! Workload groups at work: which queries of a group run, and which wait.
//!
//! What a group may take is in metadata; here are the engine of its queries and its queue. They
//! stay the same through ALTER, so that those who wait keep their place.

mod queue;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use freshet_base::Result;
use freshet_base::metrics::Metrics;
use freshet_ingest::Engine;
use freshet_meta::{Catalog, GroupLimits, NORMAL_GROUP, WorkloadGroup, unknown_group};
use freshet_query::engine::QueryEngine;
use freshet_query::groups::{GroupShare, LaneShare, Turns};
use parking_lot::Mutex;

use queue::{Counts, Queue};
pub use queue::{Entry, QuerySlot, Waiting};

/// The workload groups of a server.
pub struct WorkloadGroups {
    /// Of queries without a group.
    base: Arc<QueryEngine>,
    turns: Arc<Turns>,
    metrics: Arc<Metrics>,
    all: ArcSwap<BTreeMap<String, Arc<Group>>>,
    /// Held while the groups are made what the catalog says.
    adopting: Mutex<()>,
}

/// A workload group.
pub struct Group {
    name: Arc<str>,
    id: u64,
    /// Of its next queries.
    query: ArcSwap<QueryEngine>,
    /// What that was made of.
    share: Mutex<GroupShare>,
    queue: Mutex<Queue>,
    counts: Counts,
}

impl WorkloadGroups {
    /// The groups that the catalog has.
    pub fn new(engine: &Engine, base: &Arc<QueryEngine>) -> Self {
        let groups = Self {
            base: Arc::clone(base),
            turns: base.turns(Arc::clone(engine.clock())),
            metrics: Arc::clone(engine.metrics()),
            all: ArcSwap::default(),
            adopting: Mutex::new(()),
        };
        groups.adopt(engine);
        groups
    }

    /// Makes the groups what the catalog says; called after each statement that changes some.
    pub fn adopt(&self, engine: &Engine) {
        // Held until they are published: of two statements the later one publishes last.
        let _one = self.adopting.lock();
        let catalog = engine.catalog();
        let old = self.all.load_full();
        let shares = Shares::of(&catalog);
        // Before a new group of the same name counts its queries.
        let is_gone = |old: &&Arc<Group>| catalog.groups().all(|group| group.id != old.id);
        old.values().filter(is_gone).for_each(|group| group.close());
        let mut all = BTreeMap::new();
        for group in catalog.groups() {
            let share = shares.as_ref().map(|shares| shares.of_group(group));
            let known = old.get(&group.name).filter(|known| known.id == group.id).cloned();
            let known = known.unwrap_or_else(|| self.made(group));
            self.alter(&known, &group.limits, share);
            all.insert(group.name.clone(), known);
        }
        self.all.store(Arc::new(all));
    }

    fn made(&self, group: &WorkloadGroup) -> Arc<Group> {
        let name: Arc<str> = group.name.as_str().into();
        Arc::new(Group {
            counts: Counts::new(&self.metrics, &name),
            share: Mutex::new(GroupShare::whole(&name)),
            name,
            id: group.id,
            query: ArcSwap::new(Arc::clone(&self.base)),
            queue: Mutex::default(),
        })
    }

    fn alter(&self, group: &Arc<Group>, limits: &GroupLimits, share: Option<LaneShare>) {
        group.limit(limits);
        let mut last = group.share.lock();
        if let (Some(lane), Some(share)) = (&last.lane, share) {
            lane.set(share);
        }
        let lane = share.map(|share| {
            let kept = last.lane.as_ref().map(Arc::clone);
            kept.unwrap_or_else(|| self.turns.lane(share))
        });
        let share = GroupShare {
            name: Arc::clone(&group.name),
            memory_percent: limits.memory_percent_max,
            parallel_max: limits.scan_threads as usize,
            lane,
        };
        if share == *last {
            return;
        }
        match self.base.of_group(&share) {
            Ok(engine) => group.query.store(Arc::new(engine)),
            Err(error) => {
                tracing::error!(group = &*group.name, %error, "a group keeps its old limits");
            }
        }
        *last = share;
    }

    /// The group of this name.
    ///
    /// # Errors
    /// 1105 if it does not exist.
    pub fn require(&self, name: &str) -> Result<Arc<Group>> {
        self.all.load().get(name).cloned().ok_or_else(|| unknown_group(name))
    }

    /// The group of accounts without another one.
    pub fn normal(&self) -> Arc<Group> {
        self.require(NORMAL_GROUP).expect("it always exists")
    }
}

impl Group {
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The engine of its next query.
    pub fn query(&self) -> Arc<QueryEngine> {
        self.query.load_full()
    }

    /// The time that its queries had on threads, as far as groups competed for them.
    pub fn busy_ms(&self) -> u64 {
        let busy = self.share.lock().lane.as_ref().map(|lane| lane.busy());
        busy.map_or(0, |busy| u64::try_from(busy.as_millis()).unwrap_or(u64::MAX))
    }
}

/// How groups divide the threads.
struct Shares {
    /// What no group has for itself, of 1.
    rest: f64,
    /// The sum of `cpu_share` of those that share it.
    sum: f64,
}

impl Shares {
    /// `None` if there is nobody to divide them with: then queries run as they come.
    fn of(catalog: &Catalog) -> Option<Self> {
        let is_alone = catalog.groups().count() < 2;
        if is_alone && catalog.groups().all(|group| group.limits.cpu_percent_max == 100) {
            return None;
        }
        let kept = catalog.groups().map(|group| group.limits.cpu_percent_min).sum::<u32>();
        let others = catalog.groups().filter(|group| group.limits.cpu_percent_min == 0);
        Some(Self {
            // Where all is kept for groups the others have what these do not want.
            rest: f64::from(100 - kept.min(99)) / 100.0,
            sum: others.map(|group| f64::from(group.limits.cpu_share)).sum(),
        })
    }

    fn of_group(&self, group: &WorkloadGroup) -> LaneShare {
        let limits = &group.limits;
        let weight = match limits.cpu_percent_min {
            0 => self.rest * f64::from(limits.cpu_share) / self.sum,
            percent => f64::from(percent) / 100.0,
        };
        LaneShare { weight, percent_max: limits.cpu_percent_max }
    }
}
