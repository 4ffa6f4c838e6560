//! What SHOW STATUS counts of connections and statements, since the start of the server.

use std::sync::atomic::{AtomicU64, Ordering};

use freshet_query::parser::CommandKind;

/// A number that only grows.
#[derive(Default, Debug)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts. They are of the MySQL protocol alone.
#[derive(Debug)]
pub struct Counters {
    commands: Vec<Count>,
    /// Bytes of packets, without those of TLS.
    pub received_bytes: Count,
    pub sent_bytes: Count,
    /// Connections that were accepted.
    pub connections: Count,
    /// Connections that ended otherwise than by COM_QUIT.
    pub aborted: Count,
    /// Connections that did not get through their login.
    pub refused: Count,
    /// Connections that found as many others as there may be.
    pub turned_away: Count,
    /// TLS handshakes that were finished.
    pub tls: Count,
    /// The most connections that there were at a time, in the upper half, and when, in seconds
    /// since 1970.
    most: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            commands: CommandKind::ALL.iter().map(|_| Count::default()).collect(),
            received_bytes: Count::default(),
            sent_bytes: Count::default(),
            connections: Count::default(),
            aborted: Count::default(),
            refused: Count::default(),
            turned_away: Count::default(),
            tls: Count::default(),
            most: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// Counts a statement.
    pub fn command(&self, kind: CommandKind) {
        self.commands[kind as usize].add(1);
    }

    /// How many there were of a kind.
    pub fn of(&self, kind: CommandKind) -> u64 {
        self.commands[kind as usize].get()
    }

    /// Counts a connection beside which there are `open` in all.
    pub fn connect(&self, open: usize, now_seconds: u64) {
        self.connections.add(1);
        let now = u32::try_from(now_seconds).unwrap_or(u32::MAX);
        let most = ((open as u64) << 32) | u64::from(now);
        let more = |seen: u64| ((seen >> 32) < open as u64).then_some(most);
        let _ = self.most.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// The most connections at a time, and when there were so many, in seconds since 1970.
    pub fn most_connections(&self) -> (u64, u64) {
        let most = self.most.load(Ordering::Relaxed);
        (most >> 32, most & u64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_of_the_most_connections_is_kept() {
        let counters = Counters::default();
        for (open, now) in [(1, 10), (2, 20), (1, 30), (2, 40)] {
            counters.connect(open, now);
        }
        assert_eq!(counters.most_connections(), (2, 20));
        assert_eq!(counters.connections.get(), 4);
        counters.command(CommandKind::Select);
        assert_eq!((counters.of(CommandKind::Select), counters.of(CommandKind::Insert)), (1, 0));
    }
}
