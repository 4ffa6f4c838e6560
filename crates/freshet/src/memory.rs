//! The memory that the process may use: that of the machine, or the limit of its container.

use std::path::Path;

use freshet_base::ByteSize;

/// Assumed if the memory cannot be determined.
const UNKNOWN: ByteSize = ByteSize::gib(2);

/// The memory that the process may use.
pub fn total() -> ByteSize {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
    let machine = read("/proc/meminfo").and_then(|text| of_meminfo(&text));
    let group = read("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&group).into_iter().filter_map(|path| of_limit(&read(&path)?));
    limits.chain(machine).min().unwrap_or(UNKNOWN)
}

/// `MemTotal` of /proc/meminfo.
fn of_meminfo(text: &str) -> Option<ByteSize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(ByteSize::kib(kib))
}

/// Files that may hold the memory limit of the process's control group and its ancestors.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = vec![
        "/sys/fs/cgroup/memory.max".to_owned(),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned(),
    ];
    let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return files;
    };
    let mut path = path.trim_end_matches('/');
    while !path.is_empty() {
        files.push(format!("/sys/fs/cgroup{path}/memory.max"));
        path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    files
}

/// Parses a limit; `max` or an impossibly large number means none.
fn of_limit(text: &str) -> Option<ByteSize> {
    let bytes = text.trim().parse::<u64>().ok()?;
    (bytes > 0 && bytes < 1 << 60).then_some(ByteSize(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_both_kinds_of_control_groups() {
        assert_eq!(of_limit("1073741824\n"), Some(ByteSize::gib(1)));
        assert_eq!(of_limit("max\n"), None);
        assert_eq!(of_limit("9223372036854771712\n"), None);
        let files = limit_files("0::/a/b\n");
        assert!(files.contains(&"/sys/fs/cgroup/a/b/memory.max".to_owned()));
        assert!(files.contains(&"/sys/fs/cgroup/a/memory.max".to_owned()));
        assert_eq!(limit_files("0::/\n").len(), 2);
    }

    #[test]
    fn the_machine_has_memory() {
        let text = "MemTotal:       24576000 kB\nMemFree: 1 kB\n";
        assert_eq!(of_meminfo(text), Some(ByteSize::kib(24_576_000)));
        assert!(total() >= ByteSize::mib(64));
    }
}
