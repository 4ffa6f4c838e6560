//! The bytes of workload groups, and of what accounts have of them.

use super::golden::has_bytes;
use crate::{Account, AuthData, GroupLimits, User, UserProperties, WorkloadGroup};

#[test]
fn workload_group() {
    let limits = GroupLimits {
        cpu_share: 1024,
        cpu_percent_min: 1,
        cpu_percent_max: 100,
        memory_percent_max: 50,
        concurrency_max: 3,
        queue_size_max: 4,
        queue_timeout_ms: 5,
        scan_threads: 6,
    };
    let group = WorkloadGroup { id: 2, name: "g".to_owned(), limits };
    has_bytes(&group, "01 0802 120167 188008 2001 2864 3032 3803 4004 4805 5006");
}

#[test]
fn user_properties() {
    let account = Account::anywhere("u");
    let properties = UserProperties {
        group: Some("g".to_owned()),
        queries_max: 1,
        loads_max: 2,
        query_seconds_max: 3,
        insert_seconds_max: 4,
        parallel_max: 5,
    };
    let groups = vec!["g".to_owned()];
    has_bytes(
        &User { properties, groups, ..User::new(account, AuthData::default()) },
        "010a0175120125 620167 6a0d 0a0167 1001 1802 2003 2804 3005",
    );
}
