//! Statistics of a run, and its report.

use std::collections::BTreeMap;

use crate::answer::Difference;
use crate::found::Found;
use crate::known;

/// Maximum number of differences shown per cause.
const SHOWN_MAX: usize = 2;

/// Statistics of a run.
#[derive(Default, Debug)]
pub struct Tally {
    /// Number of compared statements.
    pub compared: u64,
    /// Number of statements rejected by both servers with the same error.
    pub refused: u64,
    /// Number of checks without another server.
    pub own: u64,
    /// Known differences by reason and entry.
    pub known: BTreeMap<&'static str, BTreeMap<Entry, Examples>>,
    /// Other differences by cause.
    pub found: BTreeMap<(Difference, String), Vec<Found>>,
}

/// The patterns of a known difference: statement, result of Freshet, result of MariaDB.
type Entry = (&'static str, &'static str, &'static str);

/// How often a known difference occurred, and its first occurrence.
#[derive(Debug)]
pub struct Examples {
    count: u64,
    first: Found,
}

impl Tally {
    /// Adds the statistics of another part of the run.
    pub fn append(&mut self, other: Self) {
        self.compared += other.compared;
        self.refused += other.refused;
        self.own += other.own;
        for (reason, entries) in other.known {
            let all = self.known.entry(reason).or_default();
            for (entry, Examples { count, first }) in entries {
                all.entry(entry).or_insert(Examples { count: 0, first }).count += count;
            }
        }
        for (cause, found) in other.found {
            self.found.entry(cause).or_default().extend(found);
        }
    }

    /// A line that shows the progress.
    pub fn progress(&self, seconds: u64) -> String {
        format!(
            "{} statements, {seconds} s, {} known differences, {} others of {} causes",
            self.compared,
            self.explained(),
            self.unexplained(),
            self.found.len(),
        )
    }

    /// Adds a difference by its reason or cause.
    pub fn add(&mut self, found: Found) {
        match known::find(&found) {
            Some(known) => {
                let entry = (known.shape, known.ours, known.theirs);
                let entries = self.known.entry(known.reason).or_default();
                entries.entry(entry).or_insert(Examples { count: 0, first: found }).count += 1;
            }
            None => {
                let cause = found.cause();
                self.found.entry((found.difference, cause)).or_default().push(found);
            }
        }
    }

    /// Counts a check without another server, and adds its difference, if any.
    pub fn checked(&mut self, found: Option<Found>) {
        self.own += 1;
        if let Some(found) = found {
            self.add(found);
        }
    }

    fn explained(&self) -> u64 {
        self.known.values().flatten().map(|(_, examples)| examples.count).sum()
    }

    /// Number of differences without a known reason.
    pub fn unexplained(&self) -> usize {
        self.found.values().map(Vec::len).sum()
    }

    /// Number of lost connections and contradictory results of Freshet.
    pub fn broken(&self) -> usize {
        let broken = |found: &&Found| found.own || found.difference == Difference::Lost;
        self.found.values().flatten().filter(broken).count()
    }

    /// Prints known differences by reason, optionally with an example for each entry, then other
    /// differences by cause, the most frequent first.
    pub fn print(&self, examples_shown: bool) {
        for (reason, entries) in &self.known {
            let count: u64 = entries.values().map(|examples| examples.count).sum();
            println!("{count:6} known: {reason}");
            for ((shape, ours, theirs), examples) in entries.iter().filter(|_| examples_shown) {
                println!("  {:6} x {shape} | {ours} | {theirs}", examples.count);
                println!("{}", examples.first);
            }
        }
        let mut causes: Vec<_> = self.found.iter().collect();
        causes.sort_by_key(|(_, found)| std::cmp::Reverse(found.len()));
        for ((difference, shape), found) in causes {
            println!("\n{} x {difference}: {shape}", found.len());
            for found in found.iter().take(SHOWN_MAX) {
                println!("{found}");
            }
            if found.len() > SHOWN_MAX {
                let numbers =
                    found.iter().skip(SHOWN_MAX).map(|found| format!(" #{}", found.number));
                println!("  and{}", numbers.collect::<String>());
            }
        }
        println!(
            "\n{} statements compared, {} of them refused by both, {} checks of our own, \
             {} known differences, {} others of {} causes",
            self.compared,
            self.refused,
            self.own,
            self.explained(),
            self.unexplained(),
            self.found.len(),
        );
    }
}
