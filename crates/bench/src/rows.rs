//! The rows of the workloads, generated from fixed seeds.

use freshet_wire::{Date, DateTime};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tpchgen::dates::TPCHDate;
use tpchgen::generators::{LineItem, LineItemGenerator};

const SEED: u64 = 0x0066_7265_7368_6574;

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A unique number, stamped into the request just before it is sent.
    Serial,
    /// The same, in no order: a unique number below 2^31.
    Scattered,
    Int(i64),
    /// In hundredths.
    Decimal(i64),
    /// Text without quotes, backslashes or separators.
    Text(String),
    Date(Date),
    DateTime(DateTime),
}

pub type Row = Vec<Cell>;

/// A generator of rows, and so a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Two ints.
    Ints,
    /// TPC-H `lineitem`.
    Lineitem,
    /// sysbench's `sbtest1`.
    Sbtest1,
    /// The same with ids in no order.
    Scattered,
    /// The log of a web server.
    Httplogs,
    /// This many ints.
    Columns(usize),
    /// An int and a text of this many bytes.
    Width(usize),
}

impl Source {
    /// The name in results.
    pub fn name(self) -> String {
        match self {
            Self::Columns(columns) => format!("ints{columns}"),
            Self::Width(bytes) => format!("text{bytes}"),
            named => format!("{named:?}").to_lowercase(),
        }
    }

    /// Generates the first `count` rows.
    pub fn rows(self, count: usize) -> Vec<Row> {
        let mut rng = StdRng::seed_from_u64(SEED);
        match self {
            Self::Ints => (0..count).map(|_| ints(&mut rng)).collect(),
            Self::Lineitem => {
                let generator = LineItemGenerator::new(1.0, 1, 1);
                generator.iter().take(count).map(|item| lineitem(&item)).collect()
            }
            Self::Sbtest1 => (0..count).map(|_| sbtest1(Cell::Serial, &mut rng)).collect(),
            Self::Scattered => (0..count).map(|_| sbtest1(Cell::Scattered, &mut rng)).collect(),
            Self::Httplogs => (0..count).map(|row| httplogs(&mut rng, row)).collect(),
            Self::Columns(columns) => {
                let row = |rng: &mut StdRng| (0..columns).map(|_| int(rng)).collect();
                (0..count).map(|_| row(&mut rng)).collect()
            }
            Self::Width(bytes) => {
                let row = |rng: &mut StdRng| vec![int(rng), Cell::Text(digits(rng, bytes))];
                (0..count).map(|_| row(&mut rng)).collect()
            }
        }
    }
}

fn int(rng: &mut StdRng) -> Cell {
    Cell::Int(rng.random_range(0..1 << 30))
}

/// Random digits, so that the text compresses like digits.
fn digits(rng: &mut StdRng, bytes: usize) -> String {
    (0..bytes).map(|_| char::from(b'0' + rng.random_range(0..10u8))).collect()
}

fn ints(rng: &mut StdRng) -> Row {
    vec![int(rng), int(rng)]
}

pub fn lineitem(item: &LineItem<'_>) -> Row {
    vec![
        Cell::Int(item.l_orderkey),
        Cell::Int(item.l_partkey),
        Cell::Int(item.l_suppkey),
        Cell::Int(i64::from(item.l_linenumber)),
        Cell::Decimal(item.l_quantity * 100),
        Cell::Decimal(item.l_extendedprice.0),
        Cell::Decimal(item.l_discount.0),
        Cell::Decimal(item.l_tax.0),
        Cell::Text(item.l_returnflag.to_owned()),
        Cell::Text(item.l_linestatus.to_owned()),
        Cell::Date(day(item.l_shipdate)),
        Cell::Date(day(item.l_commitdate)),
        Cell::Date(day(item.l_receiptdate)),
        Cell::Text(item.l_shipinstruct.to_owned()),
        Cell::Text(item.l_shipmode.to_owned()),
        Cell::Text(item.l_comment.to_owned()),
    ]
}

fn day(date: TPCHDate) -> Date {
    let (year, month, day) = date.to_ymd();
    // The generator's years count from 1900.
    Date { year: 1900 + year as u16, month: month as u8, day: day as u8 }
}

/// As sysbench fills the table: `c` has ten groups of eleven digits, `pad` five.
fn sbtest1(id: Cell, rng: &mut StdRng) -> Row {
    let k = Cell::Int(rng.random_range(1..=1_000_000));
    vec![id, k, Cell::Text(groups(rng, 10)), Cell::Text(groups(rng, 5))]
}

fn groups(rng: &mut StdRng, count: usize) -> String {
    let group = |_| format!("{:011}", rng.random_range(0..100_000_000_000u64));
    (0..count).map(group).collect::<Vec<_>>().join("-")
}

const FOLDERS: [&str; 8] =
    ["english", "french", "images", "products", "api/v2/items", "search", "static/js", "news"];
const NAMES: [&str; 8] = [
    "competition-overview",
    "season-tickets-and-venues",
    "main-navigation-bar",
    "line-up-of-the-day",
    "frequently-asked-questions",
    "results-by-group",
    "spacer-transparent",
    "latest-announcements",
];
const ENDINGS: [&str; 4] = ["html", "gif", "js", "json"];
/// About 90 percent are 200, as in real logs.
const STATUSES: [i64; 20] = [
    200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 304, 404,
    301,
];

/// Ten rows per second, skewed pages and clients, sizes over four orders of magnitude.
pub fn httplogs(rng: &mut StdRng, row: usize) -> Row {
    let skewed = |rng: &mut StdRng, below: f64| below.powf(rng.random::<f64>()) as i64;
    let client = skewed(rng, 60_000.0);
    let page = skewed(rng, 40_000.0);
    let choose = |list: &'static [&'static str], n: i64| list[n as usize % list.len()];
    let request = format!(
        "GET /{}/{}/{}-{page}.{}?session={:04x} HTTP/1.1",
        choose(&FOLDERS, page),
        choose(&NAMES, page / 5),
        choose(&NAMES, page / 3),
        choose(&ENDINGS, page / 7),
        rng.random::<u16>()
    );
    vec![
        Cell::DateTime(second_of(row / 10)),
        Cell::Text(format!("10.{}.{}.{}", client % 7, client / 250 % 250, client % 250)),
        Cell::Text(request),
        Cell::Int(STATUSES[rng.random_range(0..STATUSES.len())]),
        Cell::Int(100 + skewed(rng, 1_000_000.0)),
    ]
}

/// A time this many seconds into the first 28 days of January 2026, wrapping around.
fn second_of(seconds: usize) -> DateTime {
    DateTime {
        date: Date { year: 2026, month: 1, day: 1 + (seconds / 86_400 % 28) as u8 },
        hour: (seconds / 3_600 % 24) as u8,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micros: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_every_time() {
        for source in [Source::Ints, Source::Lineitem, Source::Sbtest1, Source::Httplogs] {
            assert_eq!(source.rows(20), source.rows(20), "{source:?}");
        }
    }

    #[test]
    fn sysbench_rows_have_the_lengths_of_sysbench() {
        let [_, _, Cell::Text(c), Cell::Text(pad)] = &Source::Sbtest1.rows(1)[0][..] else {
            panic!("four columns")
        };
        assert_eq!((c.len(), pad.len()), (119, 59));
    }
}
