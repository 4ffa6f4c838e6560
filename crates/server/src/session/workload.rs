//! The workload group of a session, and the place of its statement in it.

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_meta::{Actor, Catalog, NORMAL_GROUP};
use freshet_query::engine::QueryEngine;
use freshet_query::session::Value;
use freshet_query::syntax::Select;

use super::Session;
use crate::accounts::QueryGuard;
use crate::process::Process;
use crate::reply::bounded;
use crate::variables;
use crate::workload::{Entry, Group, QuerySlot};

/// Where the queries of a statement run, until it ends.
pub struct Admission {
    query: Arc<QueryEngine>,
    /// Of a statement that reads tables.
    slot: Option<(QuerySlot, Option<QueryGuard>)>,
}

impl Session {
    /// The engine of the running statement.
    pub fn query(&self) -> &Arc<QueryEngine> {
        self.admission.as_ref().map_or(&self.shared.query, |admission| &admission.query)
    }

    /// Lets the statement into its workload group, before its first query. One that reads tables
    /// waits until the group has a slot, which it keeps until it ends.
    ///
    /// # Errors
    /// 1105 for an unknown group, 1227 for one that the account may not use; 1041, 1205 and 1226
    /// where too many queries run; 1317 and 3024.
    pub async fn enter_group(&mut self, reads_tables: bool) -> Result<()> {
        if let Some(admission) = &self.admission
            && (admission.slot.is_some() || !reads_tables)
        {
            return Ok(());
        }
        if !reads_tables {
            // Whoever has lost its group must still be able to choose another one.
            let group = self.group().unwrap_or_else(|_| self.shared.workload.normal());
            self.admission = Some(Admission { query: group.query(), slot: None });
            return Ok(());
        }
        let group = self.group()?;
        let guard = self.count_running()?;
        let slot = match group.enter()? {
            Entry::In(slot) => slot,
            Entry::Wait(waiting) => {
                let _shown = Queued::new(&self.process, &group);
                let slot = bounded(self, waiting.slot(&**self.shared.engine.clock())).await?;
                // Meanwhile the right to it may be gone.
                self.check_may_use(group.name())?;
                slot
            }
        };
        self.admission = Some(Admission { query: group.query(), slot: Some((slot, guard)) });
        Ok(())
    }

    /// As [`Self::enter_group`], for a statement with this query.
    ///
    /// # Errors
    /// As there.
    pub async fn enter_for(&mut self, query: &Select) -> Result<()> {
        self.enter_group(query.reads_stored(self.database.as_deref())).await
    }

    /// Ends what holds for one statement: its hint, and its slot in a group.
    pub fn end_statement(&mut self) {
        self.end_hint();
        self.admission = None;
    }

    /// The group that the session has chosen, or that of its account.
    fn group(&self) -> Result<Arc<Group>> {
        let catalog = self.shared.engine.catalog();
        let name = self.group_name(&catalog);
        self.check_may_use(&name)?;
        self.shared.workload.require(&name)
    }

    fn group_name(&self, catalog: &Catalog) -> String {
        let id = variables::find("workload_group").expect("a variable of the registry");
        match id.of(&self.variables) {
            Value::Text(name) if !name.is_empty() => return name.clone(),
            _ => {}
        }
        let user = catalog.user(&self.client.account);
        let own = user.and_then(|user| user.properties.group.clone());
        own.unwrap_or_else(|| NORMAL_GROUP.to_owned())
    }

    fn check_may_use(&self, name: &str) -> Result<()> {
        let actor: Actor<'_> = self.client.actor();
        if actor.may_use_group(&self.shared.engine.catalog(), name) {
            return Ok(());
        }
        bail!(
            PrivilegeMissing,
            "Access denied; you need (at least one of) the USAGE_PRIV, SUPER privilege(s) on \
             workload group '{name}' for this operation; SET workload_group to another one"
        );
    }

    /// Counts a query of its account, if that has a limit of them.
    fn count_running(&self) -> Result<Option<QueryGuard>> {
        let catalog = self.shared.engine.catalog();
        let user = catalog.user(&self.client.account);
        match user.map_or(0, |user| user.properties.queries_max) {
            0 => Ok(None),
            max => self.usage.begin_query(max).map(Some),
        }
    }

    /// Takes over what the properties of the account say of its variables.
    pub(super) fn adopt_properties(&mut self) {
        let catalog = self.shared.engine.catalog();
        let user = catalog.user(&self.client.account);
        let properties = user.map(|user| user.properties.clone()).unwrap_or_default();
        self.seconds_max = [properties.query_seconds_max, properties.insert_seconds_max];
        let begins = [
            ("query_timeout", properties.query_seconds_max),
            ("insert_timeout", properties.insert_seconds_max),
            ("parallel_fragment_exec_instance_num", properties.parallel_max),
        ];
        for (name, value) in begins.into_iter().filter(|(_, value)| *value > 0) {
            let id = variables::find(name).expect("a variable of the registry");
            id.put(&mut self.variables, Value::Int(value.into()));
        }
    }
}

/// Shows in the process list that a query waits.
struct Queued(Arc<Process>);

impl Queued {
    fn new(process: &Arc<Process>, group: &Group) -> Self {
        let state = format!("Queued in workload group {}", group.name());
        process.describe(|details| details.state = state);
        Self(Arc::clone(process))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.describe(|details| details.state.clear());
    }
}
