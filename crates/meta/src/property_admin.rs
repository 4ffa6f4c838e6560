//! How the properties of an account are set and shown.

use freshet_base::{Result, bail, err};

use crate::user::User;
use crate::user_properties::UserProperties;
use crate::workload::{ALL_GROUPS, NORMAL_GROUP};

/// Largest value of a number; so many are never reached.
const NUMBER_MAX: u32 = i32::MAX as u32;
/// A year.
const SECONDS_MAX: u32 = 31_536_000;
const PARALLEL_MAX: u32 = 1024;

impl User {
    /// Sets a property.
    ///
    /// # Errors
    /// 1210 for an unknown property or a wrong value, 1235 for a property that has no meaning here.
    pub(crate) fn with_property(mut self, name: &str, value: &str) -> Result<Self> {
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        let number = |max: u32| match value {
            "-1" => Ok(0),
            _ => value.parse().ok().filter(|number: &u32| *number <= max).ok_or_else(|| {
                err!(
                    WrongArguments,
                    "the property '{name}' of an account is a number up to {max}, 0 or -1 for no \
                     limit; '{value}' is not"
                )
            }),
        };
        let properties = &mut self.properties;
        match name.as_str() {
            "default_workload_group" => {
                properties.group = Some(value.to_owned()).filter(|group| !group.is_empty());
            }
            "max_user_connections" => self.options.limits.connections = number(NUMBER_MAX)?,
            "max_query_instances" => properties.queries_max = number(NUMBER_MAX)?,
            "max_stream_loads" => properties.loads_max = number(NUMBER_MAX)?,
            "query_timeout" => properties.query_seconds_max = number(SECONDS_MAX)?,
            "insert_timeout" => properties.insert_seconds_max = number(SECONDS_MAX)?,
            "parallel_fragment_exec_instance_num" => {
                properties.parallel_max = number(PARALLEL_MAX)?;
            }
            "exec_mem_limit"
            | "cpu_resource_limit"
            | "resource_tags"
            | "sql_block_rules"
            | "compute_group"
            | "default_compute_group"
            | "enable_prefer_cached_rowset" => bail!(
                NotSupported,
                "This version of Freshet doesn't yet support '{name}' of an account; limit its \
                 memory and threads by a workload group"
            ),
            _ => bail!(
                WrongArguments,
                "an account has no property '{name}'; it has default_workload_group, \
                 max_user_connections, max_query_instances, max_stream_loads, query_timeout, \
                 insert_timeout and parallel_fragment_exec_instance_num"
            ),
        }
        Ok(self)
    }

    /// The properties and their values, ordered by name.
    pub fn show_properties(&self) -> Vec<(&'static str, String)> {
        let UserProperties { group, queries_max, loads_max, .. } = &self.properties;
        let group = group.as_deref().unwrap_or(NORMAL_GROUP);
        vec![
            ("default_workload_group", group.to_owned()),
            ("insert_timeout", self.properties.insert_seconds_max.to_string()),
            ("max_query_instances", queries_max.to_string()),
            ("max_stream_loads", loads_max.to_string()),
            ("max_user_connections", self.options.limits.connections.to_string()),
            ("parallel_fragment_exec_instance_num", self.properties.parallel_max.to_string()),
            ("query_timeout", self.properties.query_seconds_max.to_string()),
        ]
    }

    /// Whether a workload group was granted to it, not by way of a role.
    pub(crate) fn is_granted_group(&self, name: &str) -> bool {
        let is_it = |group: &String| group == name || group == ALL_GROUPS;
        self.groups.iter().any(is_it)
    }
}
