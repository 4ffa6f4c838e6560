//! Rejected rows and the reasons.

use freshet_schema::Column;

use crate::decode::{Fault, InsertPlan};

/// Maximum number of rejected rows that are described; further ones are only counted.
pub const REJECTS_KEPT_MAX: usize = 1_000;
/// Maximum total size of the descriptions of a load, in bytes.
pub const REJECTS_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reject {
    /// The row number in the source, starting at 1.
    pub row: u64,
    /// The source text, possibly truncated.
    pub line: String,
    /// The column whose value is at fault, if it is one.
    pub column: Option<String>,
    pub reason: String,
}

/// Why a row is rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// The column whose value is at fault, if it is one.
    pub column: Option<String>,
    pub reason: String,
}

impl From<String> for Why {
    fn from(reason: String) -> Self {
        Self { column: None, reason }
    }
}

impl Reject {
    /// The size of what is kept of it, in bytes.
    pub fn bytes(&self) -> usize {
        self.line.len() + self.reason.len() + self.column.as_ref().map_or(0, String::len)
    }
}

/// The rejected rows of a load: all are counted, the first ones are described.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rejects {
    count: u64,
    kept: Vec<Reject>,
    bytes: usize,
}

/// Maximum length of the source text in a description.
const LINE_BYTES_MAX: usize = 1_024;

impl Rejects {
    /// Number of rejected rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How far it is, for [`Self::back_to`].
    pub fn mark(&self) -> (u64, usize, usize) {
        (self.count, self.kept.len(), self.bytes)
    }

    /// Forgets the rows behind a mark.
    pub fn back_to(&mut self, (count, kept, bytes): (u64, usize, usize)) {
        assert!(count <= self.count && kept <= self.kept.len(), "a mark is behind");
        self.kept.truncate(kept);
        (self.count, self.bytes) = (count, bytes);
    }

    /// Whether further rows are only counted.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= REJECTS_KEPT_MAX || self.bytes >= REJECTS_BYTES_MAX
    }

    /// The described rows.
    pub fn kept(&self) -> &[Reject] {
        &self.kept
    }

    /// The described rows, for who keeps them longer.
    pub fn into_kept(self) -> Vec<Reject> {
        self.kept
    }

    /// The reason of the first rejection.
    pub fn first_reason(&self) -> Option<&str> {
        self.kept.first().map(|reject| reject.reason.as_str())
    }

    /// Counts a rejected row, and describes it within the limits.
    pub fn add<W: Into<Why>>(&mut self, row: u64, line: &[u8], why: impl FnOnce() -> W) {
        self.count += 1;
        if self.is_full() {
            return;
        }
        let line = beginning(line);
        let Why { column, reason } = why().into();
        let reject = Reject { row, line, column, reason };
        self.bytes += reject.bytes();
        self.kept.push(reject);
    }

    /// Says what the source of the row is that was rejected last, if it is described.
    pub fn set_line(&mut self, row: u64, line: &[u8]) {
        let last = self.kept.last_mut().filter(|last| last.row == row && last.line.is_empty());
        if let Some(last) = last {
            last.line = beginning(line);
            self.bytes += last.line.len();
        }
    }

    /// Appends the rejects of a later part of the load, which follows `rows_before` rows.
    pub fn append(&mut self, other: Self, rows_before: u64) {
        self.count += other.count;
        for reject in other.kept {
            if self.is_full() {
                return;
            }
            self.bytes += reject.bytes();
            self.kept.push(Reject { row: reject.row + rows_before, ..reject });
        }
        assert!(self.kept.len() <= REJECTS_KEPT_MAX, "few rejected rows are described");
    }

    /// The error log of the load, with one line per described row.
    pub fn log(&self) -> String {
        log_of(&self.kept, self.count)
    }

    /// Whether the fraction of rejected rows exceeds `ratio`; `total` is the number of rows
    /// selected by WHERE.
    pub fn exceed(&self, ratio: f64, total: u64) -> bool {
        // Without division, so that zero rows are not a failure.
        self.count as f64 > ratio * total as f64
    }
}

/// The error log of a load that has rejected so many rows, of which these are described.
pub fn log_of(kept: &[Reject], count: u64) -> String {
    let line =
        |reject: &Reject| format!("Reason: {}. src line [{}]; \n", reject.reason, reject.line);
    let mut log: String = kept.iter().map(line).collect();
    assert!(kept.len() as u64 <= count, "what is kept was counted");
    let more = count - kept.len() as u64;
    if more > 0 {
        log.push_str(&format!("{more} more rows were rejected and are not listed.\n"));
    }
    log
}

fn beginning(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]).into_owned()
}

/// The reason of a fault in the format of the error log, and its column.
pub fn reason(fault: &Fault, plan: &InsertPlan) -> Why {
    let column = |at: usize| -> &Column { plan.column_at(at) };
    let at = match fault {
        Fault::Value { column, .. } | Fault::Missing { column } | Fault::Generated { column } => {
            Some(*column)
        }
        _ => None,
    };
    let reason = match fault {
        Fault::Value { column: at, bad, value } => bad.reason(column(*at), value),
        Fault::Missing { column: at } => {
            format!("column({}) values is null while columns is not nullable", column(*at).name)
        }
        Fault::NoPartition { values } | Fault::NotInPartitions { values } => {
            format!("no partition for this tuple. tuple={values}")
        }
        Fault::Check { message, .. } => message.clone(),
        Fault::Generated { column: at } => {
            format!("column({}) is generated and takes no value", column(*at).name)
        }
        Fault::Count { expected } => format!("the row has not the {expected} values it should"),
    };
    Why { column: at.map(|at| column(at).name.clone()), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_few_are_kept() {
        let mut rejects = Rejects::default();
        for row in 1..=REJECTS_KEPT_MAX as u64 + 5 {
            rejects.add(row, b"a\xff", || "because".to_owned());
        }
        assert_eq!(rejects.count(), REJECTS_KEPT_MAX as u64 + 5);
        assert_eq!(rejects.kept().len(), REJECTS_KEPT_MAX);
        let log = rejects.log();
        assert!(log.starts_with("Reason: because. src line [a\u{fffd}]; \n"));
        assert!(log.ends_with("5 more rows were rejected and are not listed.\n"));
    }

    #[test]
    fn the_last_row_gets_its_line_once() {
        let mut rejects = Rejects::default();
        rejects.set_line(1, b"of no row");
        rejects.add(3, b"", || "r".to_owned());
        rejects.set_line(2, b"of another row");
        rejects.set_line(3, b"(1, 'a')");
        rejects.set_line(3, b"again");
        assert_eq!(rejects.kept()[0].line, "(1, 'a')");
        assert_eq!(rejects.mark(), (1, 1, "(1, 'a')".len() + 1));
    }

    #[test]
    fn the_ratio_may_be_reached_but_not_passed() {
        let mut rejects = Rejects::default();
        assert!(!rejects.exceed(0.0, 0));
        rejects.add(1, b"", String::new);
        assert!(rejects.exceed(0.0, 10));
        assert!(!rejects.exceed(0.1, 10));
        assert!(rejects.exceed(0.1, 9));
    }

    #[test]
    fn parts_count_on() {
        let mut first = Rejects::default();
        first.add(3, b"x", || "r".to_owned());
        let mut second = Rejects::default();
        second.add(2, b"y", || "r".to_owned());
        first.append(second, 10);
        assert_eq!((first.count(), first.kept()[1].row), (2, 12));
    }
}
