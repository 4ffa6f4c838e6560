//! How old rows are that delete their key, in tables with a sequence column (RFC 0047).
//!
//! The delete sign of such a row says it. A load writes 1: the age is not known. The first merge
//! that reads the row writes in its place the period of the clock in which it did, as a negative
//! number. Periods are counted modulo [`PERIODS`], and half of them lie ahead: a clock that goes
//! back a little makes no row old.

use std::time::Duration;

use crate::row::{RowCells, RowWriter};
use crate::table::TableSchema;

/// How many periods are told apart: as many as a TINYINT has negative values, but for two.
const PERIODS: i64 = 126;

/// A moment, in the periods of the age that rows which delete may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeleteClock {
    /// Below [`PERIODS`].
    period: i64,
}

impl DeleteClock {
    /// `now_micros` in periods of `keep`; `None` where that is zero: rows are kept for ever.
    pub fn at(now_micros: i64, keep: Duration) -> Option<Self> {
        let keep_micros = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        let period = now_micros.checked_div_euclid(keep_micros)?;
        Some(Self { period: period.rem_euclid(PERIODS) })
    }

    /// The sign of a row that deletes, with the moment if it has none.
    pub fn dated(self, sign: i8) -> i8 {
        if sign <= 0 {
            return sign;
        }
        i8::try_from(-1 - self.period).expect("a period is below the greatest TINYINT")
    }

    /// Whether a whole period has passed since a row that deletes got this sign.
    pub fn is_old(self, sign: i8) -> bool {
        if sign >= 0 {
            return false;
        }
        let since = (self.period - (-1 - i64::from(sign))).rem_euclid(PERIODS);
        (2..=PERIODS / 2).contains(&since)
    }
}

/// A row that deletes its key and is old enough to be forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forgotten {
    pub key: Box<[u8]>,
    /// The cell of its sequence column, encoded; `None` is NULL.
    pub sequence: Option<Box<[u8]>>,
    /// Its delete sign, which is negative.
    pub sign: i8,
}

impl TableSchema {
    /// Appends the row that lets a row be forgotten: a removal of its key (keys.md K24) that has
    /// its values in the sequence column and in the delete sign. `removal` is the row of its key
    /// alone.
    ///
    /// # Panics
    /// When the schema has no sequence column.
    pub fn put_forgotten(&self, removal: &[u8], row: &Forgotten, out: &mut Vec<u8>) {
        let sign = self.delete_sign().expect("deleted rows are kept beside a sequence");
        let sequence = self.sequence.and_then(|by| self.position_of(by));
        let cells = RowCells::new(self);
        let mut writer = RowWriter::new(self.columns.len(), out);
        writer.begin_row();
        for at in 0..sign {
            let cell = match Some(at) == sequence {
                true => row.sequence.as_deref(),
                false => cells.encoded(removal, at),
            };
            match cell {
                Some(cell) => writer.put_encoded(cell),
                None => writer.put_null(),
            }
        }
        writer.put_encoded(&row.sign.to_le_bytes());
        writer.end_row();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn day(at: i64) -> DeleteClock {
        DeleteClock::at(at * DAY.as_micros() as i64 + 5, DAY).expect("a day is a period")
    }

    #[test]
    fn a_row_is_old_when_a_whole_period_has_passed() {
        for first in [0, 1, 125, 126, 20_000, -3] {
            let sign = day(first).dated(1);
            assert!(sign < 0);
            let is_old = |after: i64| day(first + after).is_old(sign);
            assert_eq!([0, 1, 2, 3, 63].map(is_old), [false, false, true, true, true]);
            // A clock that went back, and a row that no merge has read for long.
            assert_eq!([-1, -20, 64, 125].map(is_old), [false; 4]);
        }
    }

    #[test]
    fn only_rows_that_delete_and_have_no_moment_get_one() {
        assert_eq!(day(4).dated(0), 0);
        assert_eq!(day(4).dated(-7), -7);
        assert_eq!(day(4).dated(1), -5);
        assert_eq!(day(4).dated(127), -5);
        assert!(!day(4).is_old(0) && !day(4).is_old(1));
        assert_eq!(DeleteClock::at(77, Duration::ZERO), None);
    }
}
