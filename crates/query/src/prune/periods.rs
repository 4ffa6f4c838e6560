//! The buckets of a range of time in a table that is divided by a part of it (RFC 0062): the range
//! is cut into years, months and days, which the condition keeps or not.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, TimestampMicrosecondArray, UInt64Array};
use arrow::datatypes::DataType;
use freshet_schema::row::{DAYS_MAX, MICROS_PER_DAY, ZERO_DAY};
use freshet_schema::value::temporal::{date_of, days_of};
use freshet_schema::{Column, TimePart};
use freshet_storage::segment::{ColumnBounds, Containers, Prune};

/// The years that are looked at one by one.
const YEARS: std::ops::Range<u32> = 1900..2100;
/// More years that are left are many, and so are their numbers.
const YEARS_MAX: usize = 32;
/// So many months are cut into days.
const MONTHS_MAX: usize = 14;

/// A first and a last day.
type Days = (i32, i32);

/// The numbers of a part that rows may have for which a condition holds; `None` if it does not say
/// or they are many.
pub fn numbers(prune: &dyn Prune, column: &Column, part: TimePart) -> Option<BTreeSet<u64>> {
    if part == TimePart::Second || !prune.columns().contains(&column.id) {
        return None;
    }
    let first = |year: u32| days_of(year, 1, 1).expect("a year has a first day");
    let mut years = YEARS.map(|year| (first(year), first(year + 1) - 1)).collect::<Vec<_>>();
    years.push((ZERO_DAY, first(YEARS.start) - 1));
    years.push((first(YEARS.end), DAYS_MAX));
    let (years, null) = kept(prune, column, &years)?;
    let is_known = |(from, _): &Days| (first(YEARS.start)..first(YEARS.end)).contains(from);
    if years.len() > YEARS_MAX || !years.iter().all(is_known) {
        return None;
    }
    let months = years.iter().flat_map(|days| months_of(*days)).collect::<Vec<_>>();
    let (mut periods, _) = kept(prune, column, &months)?;
    if periods.len() <= MONTHS_MAX {
        let days = periods.iter().flat_map(|(from, to)| (*from..=*to).map(|day| (day, day)));
        periods = kept(prune, column, &days.collect::<Vec<_>>())?.0;
    }
    let days = periods.into_iter().flat_map(|(from, to)| from..=to);
    let mut numbers = days.map(|day| part.number(day, 0)).collect::<BTreeSet<_>>();
    if null {
        // As NULL counts.
        numbers.insert(0);
    }
    Some(numbers)
}

fn months_of((from, to): Days) -> Vec<Days> {
    let (year, ..) = date_of(from);
    let first = |month: u32| days_of(year as u32, month, 1).unwrap_or(to);
    let last = |month: u32| if month == 12 { to } else { first(month + 1) - 1 };
    (1..=12).map(|month| (first(month), last(month))).collect()
}

/// The periods in which the condition may hold, and whether it may for NULL.
fn kept(prune: &dyn Prune, column: &Column, periods: &[Days]) -> Option<(Vec<Days>, bool)> {
    let ends = |bound: fn(&Days, i64) -> i64| -> Option<ArrayRef> {
        let known = periods.iter().map(|days| Some(bound(days, MICROS_PER_DAY)));
        match column.ty.arrow() {
            DataType::Date32 => {
                let days = periods.iter().map(|days| Some(bound(days, 1) as i32));
                Some(Arc::new(days.chain([None]).collect::<Date32Array>()))
            }
            DataType::Timestamp(_, zone) => {
                let moments = known.chain([None]).collect::<TimestampMicrosecondArray>();
                Some(Arc::new(moments.with_timezone_opt(zone)))
            }
            _ => None,
        }
    };
    let null_counts = periods.iter().map(|_| 0).chain([1]);
    let bounds = ColumnBounds {
        min: ends(|(from, _), unit| i64::from(*from) * unit)?,
        // The last microsecond of a day, or the day itself.
        max: ends(|(_, to), unit| (i64::from(*to) + 1) * unit - 1)?,
        null_counts: UInt64Array::from_iter_values(null_counts),
    };
    let containers = Containers::new(vec![1; periods.len() + 1], vec![(column.id, bounds)]);
    let keep = prune.keep(&containers);
    let left = periods.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(days, _)| *days);
    Some((left.collect(), column.nullable && keep[periods.len()]))
}
