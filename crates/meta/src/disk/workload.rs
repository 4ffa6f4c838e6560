//! Workload groups, and the properties of accounts.

use prost::Message;

use super::{OnDisk, Unreadable, ensure};
use crate::user_properties::UserProperties;
use crate::workload::{GroupLimits, WorkloadGroup};

#[derive(Clone, PartialEq, Message)]
pub struct WorkloadGroupForm {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint32, tag = "3")]
    cpu_share: u32,
    #[prost(uint32, tag = "4")]
    cpu_percent_min: u32,
    #[prost(uint32, tag = "5")]
    cpu_percent_max: u32,
    #[prost(uint32, tag = "6")]
    memory_percent_max: u32,
    #[prost(uint32, tag = "7")]
    concurrency_max: u32,
    #[prost(uint32, tag = "8")]
    queue_size_max: u32,
    #[prost(uint32, tag = "9")]
    queue_timeout_ms: u32,
    #[prost(uint32, tag = "10")]
    scan_threads: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct UserPropertiesForm {
    #[prost(string, optional, tag = "1")]
    group: Option<String>,
    #[prost(uint32, tag = "2")]
    queries_max: u32,
    #[prost(uint32, tag = "3")]
    loads_max: u32,
    #[prost(uint32, tag = "4")]
    query_seconds_max: u32,
    #[prost(uint32, tag = "5")]
    insert_seconds_max: u32,
    #[prost(uint32, tag = "6")]
    parallel_max: u32,
}

impl OnDisk for WorkloadGroup {
    type Form = WorkloadGroupForm;

    fn form(&self) -> WorkloadGroupForm {
        let limits = self.limits;
        WorkloadGroupForm {
            id: self.id,
            name: self.name.clone(),
            cpu_share: limits.cpu_share,
            cpu_percent_min: limits.cpu_percent_min,
            cpu_percent_max: limits.cpu_percent_max,
            memory_percent_max: limits.memory_percent_max,
            concurrency_max: limits.concurrency_max,
            queue_size_max: limits.queue_size_max,
            queue_timeout_ms: limits.queue_timeout_ms,
            scan_threads: limits.scan_threads,
        }
    }

    fn from_form(form: WorkloadGroupForm) -> Result<Self, Unreadable> {
        let percents = [form.cpu_percent_max, form.memory_percent_max];
        ensure(
            percents.iter().all(|percent| (1..=100).contains(percent))
                && form.cpu_percent_min <= form.cpu_percent_max
                && form.cpu_share > 0
                && form.concurrency_max > 0,
            "a workload group has limits that none can have",
        )?;
        Ok(Self {
            id: form.id,
            name: form.name,
            limits: GroupLimits {
                cpu_share: form.cpu_share,
                cpu_percent_min: form.cpu_percent_min,
                cpu_percent_max: form.cpu_percent_max,
                memory_percent_max: form.memory_percent_max,
                concurrency_max: form.concurrency_max,
                queue_size_max: form.queue_size_max,
                queue_timeout_ms: form.queue_timeout_ms,
                scan_threads: form.scan_threads,
            },
        })
    }
}

impl OnDisk for UserProperties {
    type Form = UserPropertiesForm;

    fn form(&self) -> UserPropertiesForm {
        UserPropertiesForm {
            group: self.group.clone(),
            queries_max: self.queries_max,
            loads_max: self.loads_max,
            query_seconds_max: self.query_seconds_max,
            insert_seconds_max: self.insert_seconds_max,
            parallel_max: self.parallel_max,
        }
    }

    fn from_form(form: UserPropertiesForm) -> Result<Self, Unreadable> {
        Ok(Self {
            group: form.group,
            queries_max: form.queries_max,
            loads_max: form.loads_max,
            query_seconds_max: form.query_seconds_max,
            insert_seconds_max: form.insert_seconds_max,
            parallel_max: form.parallel_max,
        })
    }
}
