//! What SET PROPERTY says of an account, as in Doris.

/// The properties of an account; 0 is none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserProperties {
    /// `default_workload_group`: the group of its sessions, unless they choose another one.
    pub group: Option<String>,
    /// `max_query_instances`: queries that run at once.
    pub queries_max: u32,
    /// `max_stream_loads`: loads over HTTP that run at once.
    pub loads_max: u32,
    /// `query_timeout`: the longest that its sessions may choose.
    pub query_seconds_max: u32,
    /// `insert_timeout`: the longest that its sessions may choose.
    pub insert_seconds_max: u32,
    /// `parallel_fragment_exec_instance_num`: the parallel parts of a query.
    pub parallel_max: u32,
}
