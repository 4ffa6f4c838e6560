//! Resource usage of a process, from /proc.

use std::fs;
use std::path::Path;

/// Clock ticks per second in `/proc/PID/stat`; constant on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time, memory and disk writes of a process and its children.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu_seconds: f64,
    /// Current memory: private memory of each process, shared memory once.
    pub rss_bytes: u64,
    /// Bytes written to the block device.
    pub written_bytes: u64,
}

impl Usage {
    /// Of `pid` and its children (PostgreSQL has several processes); all zero for pid 0.
    pub fn of(pid: u32) -> Self {
        if pid == 0 {
            return Self::default();
        }
        let mut sum = Self::default();
        let mut shared_bytes = 0;
        for member in family(pid) {
            let base = format!("/proc/{member}");
            let read =
                |name: &str| fs::read_to_string(format!("{base}/{name}")).unwrap_or_default();
            sum.cpu_seconds += cpu_seconds(&read("stat"));
            let status = read("status");
            let kib = |name: &str| field(&status, name) * 1024;
            sum.rss_bytes += kib("RssAnon:");
            shared_bytes = shared_bytes.max(kib("RssFile:") + kib("RssShmem:"));
            sum.written_bytes += field(&read("io"), "write_bytes:");
        }
        sum.rss_bytes += shared_bytes;
        sum
    }

    pub fn own() -> Self {
        Self::of(std::process::id())
    }
}

/// `pid` and its child processes.
fn family(pid: u32) -> Vec<u32> {
    let mut members = vec![pid];
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if after_name(&stat).nth(1).and_then(|text| text.parse().ok()) == Some(pid) {
            members.push(child);
        }
    }
    members
}

/// The fields of `/proc/PID/stat` from the third (the state) on; the second, a name in parentheses,
/// may contain anything.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit(')').next().unwrap_or_default().split_whitespace()
}

/// User and system time of the process and of children that have ended, in seconds.
fn cpu_seconds(stat: &str) -> f64 {
    let ticks = after_name(stat).skip(11).take(4);
    ticks.filter_map(|text| text.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

/// The number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The number of files below a folder.
pub fn files_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path()),
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_any_name() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 25 25 20 0 1 0 5 6 7";
        assert_eq!(after_name(stat).nth(1), Some("1"));
        assert!((cpu_seconds(stat) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::own();
        assert!(usage.rss_bytes > 100 << 10, "{usage:?}");
    }
}
