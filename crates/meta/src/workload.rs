//! Workload groups: what the queries of a team may take together, as Doris has them.

use freshet_base::{Result, bail, err};

/// The group of accounts that have no other one; it always exists.
pub const NORMAL_GROUP: &str = "normal";
/// Stands for all groups in GRANT.
pub const ALL_GROUPS: &str = "%";
/// What Doris shows where there is no limit of queries at once.
pub const UNLIMITED: u32 = i32::MAX as u32;

/// Maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 64;
const SHARE_MAX: u32 = 10_000;
const QUEUE_SIZE_MAX: u32 = 100_000;
/// A day.
const QUEUE_TIMEOUT_MS_MAX: u32 = 24 * 3600 * 1000;
const SCAN_THREADS_MAX: u32 = 1024;

/// A group with its limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadGroup {
    pub id: u64,
    /// Case-sensitive.
    pub name: String,
    pub limits: GroupLimits,
}

/// What the queries of a group may take together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLimits {
    /// `cpu_share`: its weight where groups compete for threads.
    pub cpu_share: u32,
    /// `min_cpu_percent` of the threads, which it gets where groups compete; 0: by its weight.
    pub cpu_percent_min: u32,
    /// `max_cpu_percent` of the threads, from 1 to 100.
    pub cpu_percent_max: u32,
    /// `max_memory_percent` of the memory of queries, from 1 to 100.
    pub memory_percent_max: u32,
    /// `max_concurrency`: queries that run at once; [`UNLIMITED`] is no limit.
    pub concurrency_max: u32,
    /// `max_queue_size`: queries that wait for those.
    pub queue_size_max: u32,
    /// `queue_timeout`: how long they wait, in milliseconds.
    pub queue_timeout_ms: u32,
    /// `scan_thread_num`: the parallel parts of one query; 0: as many as there are threads.
    pub scan_threads: u32,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self {
            cpu_share: 1024,
            cpu_percent_min: 0,
            cpu_percent_max: 100,
            memory_percent_max: 100,
            concurrency_max: UNLIMITED,
            queue_size_max: 0,
            queue_timeout_ms: 0,
            scan_threads: 0,
        }
    }
}

impl WorkloadGroup {
    /// The group `normal` as it is until somebody alters it.
    pub fn normal() -> Self {
        Self { id: 1, name: NORMAL_GROUP.to_owned(), limits: GroupLimits::default() }
    }
}

impl GroupLimits {
    /// With these properties, by their names in Doris.
    ///
    /// # Errors
    /// 1210 for an unknown property or a wrong value, 1235 for a property that has no meaning here.
    pub fn with(self, properties: &[(String, String)]) -> Result<Self> {
        let set = |all: Self, (name, value): &(String, String)| all.with_one(name, value.trim());
        let limits = properties.iter().try_fold(self, set)?;
        if limits.cpu_percent_min > limits.cpu_percent_max {
            bail!(
                WrongArguments,
                "min_cpu_percent ({}) is above max_cpu_percent ({})",
                limits.cpu_percent_min,
                limits.cpu_percent_max
            );
        }
        Ok(limits)
    }

    fn with_one(mut self, name: &str, value: &str) -> Result<Self> {
        let name = name.to_ascii_lowercase();
        let number = |none: u32, min: u32, max: u32| number(&name, value, none, min..=max);
        match name.as_str() {
            "cpu_share" => self.cpu_share = number(1024, 1, SHARE_MAX)?,
            "min_cpu_percent" => self.cpu_percent_min = percent(&name, value, 0, 0)?,
            "max_cpu_percent" | "cpu_hard_limit" => {
                self.cpu_percent_max = percent(&name, value, 100, 1)?;
            }
            "max_memory_percent" | "memory_limit" => {
                self.memory_percent_max = percent(&name, value, 100, 1)?;
            }
            "max_concurrency" => self.concurrency_max = number(UNLIMITED, 1, UNLIMITED)?,
            "max_queue_size" => self.queue_size_max = number(0, 0, QUEUE_SIZE_MAX)?,
            "queue_timeout" => self.queue_timeout_ms = number(0, 0, QUEUE_TIMEOUT_MS_MAX)?,
            "scan_thread_num" => self.scan_threads = number(0, 1, SCAN_THREADS_MAX)?,
            _ => without_meaning(&name, value)?,
        }
        Ok(self)
    }
}

/// A number, or -1 for `none`.
fn number(
    name: &str,
    value: &str,
    none: u32,
    allowed: std::ops::RangeInclusive<u32>,
) -> Result<u32> {
    if value == "-1" {
        return Ok(none);
    }
    value.parse().ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
        err!(
            WrongArguments,
            "the property '{name}' of a workload group is a number from {} to {}, or -1 for its \
             default; '{value}' is not",
            allowed.start(),
            allowed.end()
        )
    })
}

/// A percentage with or without its sign, or -1 for `none`.
fn percent(name: &str, value: &str, none: u32, min: u32) -> Result<u32> {
    let digits = value.strip_suffix('%').unwrap_or(value).trim_end();
    number(name, digits, none, min..=100)
}

/// A property of Doris that asks for nothing where it has its default.
fn without_meaning(name: &str, value: &str) -> Result<()> {
    let (default, why) = match name {
        "enable_memory_overcommit" => ("false", "memory_limit is a limit that always holds"),
        "min_memory_percent" => ("0", "no memory is kept free for a group"),
        "memory_low_watermark" | "memory_high_watermark" => {
            ("-1", "queries spill when the memory of their group is used up")
        }
        "slot_memory_policy" => ("none", "the queries of a group share its memory"),
        "max_remote_scan_thread_num" | "min_remote_scan_thread_num" => {
            ("-1", "all files are local")
        }
        "read_bytes_per_second" | "remote_read_bytes_per_second" => {
            ("-1", "what files are read for is bounded by max_cpu_percent and max_concurrency")
        }
        "tag" | "compute_group" | "cluster" => ("", "there is one server"),
        _ => bail!(
            WrongArguments,
            "a workload group has no property '{name}'; it has cpu_share, min_cpu_percent, \
             max_cpu_percent, memory_limit, max_concurrency, max_queue_size, queue_timeout and \
             scan_thread_num"
        ),
    };
    let value = value.strip_suffix('%').unwrap_or(value);
    if value.eq_ignore_ascii_case(default) {
        return Ok(());
    }
    bail!(
        NotSupported,
        "This version of Freshet doesn't yet support '{name}' of a workload group: {why}"
    );
}

/// Checks the name of a new group.
///
/// # Errors
/// 1210.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let mut chars = name.chars();
    let is_one = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_fit = chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.all(is_one);
    if is_fit && name.len() <= NAME_CHARS_MAX {
        return Ok(());
    }
    bail!(
        WrongArguments,
        "'{name}' is no name of a workload group: it begins with a letter and has up to \
         {NAME_CHARS_MAX} letters, digits, '_' and '-'"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<GroupLimits> {
        GroupLimits::default().with(&[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn properties_have_their_values_of_doris() {
        assert_eq!(with("memory_limit", "30%").unwrap().memory_percent_max, 30);
        assert_eq!(with("MAX_MEMORY_PERCENT", "30").unwrap().memory_percent_max, 30);
        assert_eq!(with("cpu_hard_limit", "10 %").unwrap().cpu_percent_max, 10);
        assert_eq!(with("max_concurrency", "-1").unwrap(), GroupLimits::default());
        assert_eq!(with("max_concurrency", "2147483647").unwrap().concurrency_max, UNLIMITED);
        for (name, value) in [
            ("memory_limit", "0%"),
            ("memory_limit", "101"),
            ("max_concurrency", "0"),
            ("max_concurrency", "two"),
            ("max_queue_size", "-2"),
            ("queue_timeout", "99999999999"),
            ("cpu_share", "0"),
            ("speed", "1"),
        ] {
            assert_eq!(with(name, value).unwrap_err().code().errno(), 1210, "{name} {value}");
        }
    }

    #[test]
    fn what_means_nothing_here_is_refused_by_name() {
        assert_eq!(with("read_bytes_per_second", "-1").unwrap(), GroupLimits::default());
        let refused = with("read_bytes_per_second", "1000").unwrap_err();
        assert_eq!(refused.code().errno(), 1235);
        assert!(refused.message().contains("'read_bytes_per_second'"), "{refused}");
        let both = [("min_cpu_percent", "50"), ("max_cpu_percent", "40")];
        let both = both.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(GroupLimits::default().with(&both).unwrap_err().code().errno(), 1210);
    }
}
