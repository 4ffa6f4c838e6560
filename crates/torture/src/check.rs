//! Compares a server's tables with the writers' journal.

use std::collections::HashMap;
use std::time::Instant;

use crate::client::{Client, Failure};
use crate::journal::{Cut, Entries, Fate, Load, amount, text};

/// The number of violations that are reported; one bug breaks many rows.
const VIOLATIONS_SHOWN_MAX: usize = 20;

/// The time of the crash as an interval, as exactly as the writers know it: what ended before
/// `from` was before the crash, what began after `to` was after it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub from: Instant,
    pub to: Instant,
}

/// What the journal says about the rows of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Present,
    Absent,
    AllOrNothing,
}

/// The result of a comparison without violations.
pub struct Found {
    /// Whether the rows of each load are there, by its index in the journal.
    pub present: Vec<bool>,
    pub rows: usize,
}

/// Reads `tables` and compares them with `entries`.
///
/// # Errors
/// Rows that are lost, duplicated, partially loaded or unknown; or why the tables cannot be read.
pub fn check(
    client: &mut Client,
    tables: &[&'static str],
    entries: &Entries,
    moment: Moment,
) -> Result<Found, String> {
    let mut counts = HashMap::new();
    let mut violations = Violations::default();
    let mut rows = 0;
    for table in tables {
        let read = read(client, table, &mut violations).map_err(|e| format!("{table}: {e}"))?;
        rows += read.values().map(|count| *count as usize).sum::<usize>();
        counts.insert(*table, read);
    }
    let present = entries
        .loads
        .iter()
        .map(|load| compare(load, &entries.cuts, moment, &mut counts, &mut violations))
        .collect();
    for (table, left) in &counts {
        for id in left.keys() {
            violations.push(format!("{table}: row {id:#x} was never sent"));
        }
    }
    violations.done()?;
    Ok(Found { present, rows })
}

#[derive(Default)]
struct Violations {
    shown: Vec<String>,
    count: usize,
}

impl Violations {
    fn push(&mut self, what: String) {
        self.count += 1;
        if self.shown.len() < VIOLATIONS_SHOWN_MAX {
            self.shown.push(what);
        }
    }

    fn done(self) -> Result<(), String> {
        match self.count {
            0 => Ok(()),
            count => Err(format!("{count} violations\n  {}", self.shown.join("\n  "))),
        }
    }
}

/// How often each id is in a table; a row with wrong values in its other columns is a violation.
fn read(
    client: &mut Client,
    table: &str,
    violations: &mut Violations,
) -> Result<HashMap<u64, u32>, Failure> {
    let mut counts = HashMap::new();
    for row in client.query(&format!("SELECT id, amount, body FROM torture.{table}"))? {
        let id = row[0].parse::<u64>().map_err(|_| Failure::Lost(format!("id {}", row[0])))?;
        if row[1] != amount(id, table).to_string() || row[2] != text(id) {
            violations.push(format!("{table}: row {id:#x} is damaged: {row:?}"));
        }
        *counts.entry(id).or_default() += 1;
    }
    Ok(counts)
}

fn compare(
    load: &Load,
    cuts: &[Cut],
    moment: Moment,
    counts: &mut HashMap<&str, HashMap<u64, u32>>,
    violations: &mut Violations,
) -> bool {
    let (mut found, mut wanted) = (0, 0);
    for table in load.tables {
        let Some(rows) = counts.get_mut(table) else { continue };
        for id in load.ids.clone() {
            wanted += 1;
            match rows.remove(&id) {
                None => {}
                Some(1) => found += 1,
                Some(count) => violations.push(format!("{table}: row {id:#x} {count} times")),
            }
        }
    }
    let expected = expected(load, cuts, moment);
    let holds = match expected {
        Expected::Present => found == wanted,
        Expected::Absent => found == 0,
        Expected::AllOrNothing => found == 0 || found == wanted,
    };
    if !holds {
        let Load { tables, ids, label, fate, .. } = load;
        let ended = load.ended.map(|at| moment.from.saturating_duration_since(at));
        violations.push(format!(
            "{tables:?}: load {ids:x?} {label:?} ({fate:?}, answered {ended:?} before the crash) \
             should be {expected:?}, has {found} of {wanted} rows"
        ));
    }
    found > 0
}

fn expected(load: &Load, cuts: &[Cut], moment: Moment) -> Expected {
    if load.began > moment.to {
        return Expected::Absent;
    }
    let mut expected = match load.fate {
        Fate::Gone => return Expected::Absent,
        Fate::Acked if load.ended.is_some_and(|at| at < moment.from) => Expected::Present,
        Fate::Acked | Fate::Unknown => Expected::AllOrNothing,
    };
    for cut in cuts.iter().filter(|cut| load.tables.contains(&cut.table)) {
        if cut.fate == Fate::Gone || cut.began > moment.to {
            continue;
        }
        let before_cut = load.ended.is_some_and(|at| at < cut.began);
        let cut_is_sure = cut.fate == Fate::Acked && cut.ended.is_some_and(|at| at < moment.from);
        let after_cut = cut.ended.is_some_and(|at| at < load.began);
        if before_cut && cut_is_sure {
            return Expected::Absent;
        }
        if !after_cut {
            expected = Expected::AllOrNothing;
        }
    }
    expected
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_millis(ms)
    }

    fn load(fate: Fate, began: u64, ended: Option<u64>) -> Load {
        let (began, ended) = (at(began), ended.map(at));
        Load { tables: &["t"], ids: 0..2, label: None, fate, began, ended, compared: false }
    }

    fn cut(fate: Fate, began: u64, ended: Option<u64>) -> Cut {
        Cut { table: "t", fate, began: at(began), ended: ended.map(at) }
    }

    fn verdict(load: Load, cuts: &[Cut]) -> Expected {
        expected(&load, cuts, Moment { from: at(100), to: at(110) })
    }

    #[test]
    fn acknowledged_before_the_crash_is_there_and_later_may_be() {
        assert_eq!(verdict(load(Fate::Acked, 1, Some(2)), &[]), Expected::Present);
        assert_eq!(verdict(load(Fate::Acked, 1, Some(105)), &[]), Expected::AllOrNothing);
        assert_eq!(verdict(load(Fate::Acked, 120, Some(130)), &[]), Expected::Absent);
        assert_eq!(verdict(load(Fate::Unknown, 1, None), &[]), Expected::AllOrNothing);
        assert_eq!(verdict(load(Fate::Gone, 1, Some(2)), &[]), Expected::Absent);
    }

    #[test]
    fn a_truncate_takes_what_was_acknowledged_before_it_was_sent() {
        let acked = || load(Fate::Acked, 10, Some(20));
        assert_eq!(verdict(acked(), &[cut(Fate::Acked, 30, Some(40))]), Expected::Absent);
        assert_eq!(verdict(acked(), &[cut(Fate::Acked, 15, Some(40))]), Expected::AllOrNothing);
        assert_eq!(verdict(acked(), &[cut(Fate::Acked, 1, Some(5))]), Expected::Present);
        assert_eq!(verdict(acked(), &[cut(Fate::Unknown, 30, None)]), Expected::AllOrNothing);
        assert_eq!(verdict(acked(), &[cut(Fate::Gone, 30, Some(40))]), Expected::Present);
        assert_eq!(verdict(acked(), &[cut(Fate::Acked, 99, Some(105))]), Expected::AllOrNothing);
        assert_eq!(verdict(acked(), &[cut(Fate::Acked, 120, Some(125))]), Expected::Present);
    }
}
