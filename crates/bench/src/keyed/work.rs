//! The statements whose rates are measured.

use clap::ValueEnum;
use freshet_wire::Param;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::TABLE;
use crate::encode::Request;
use crate::session::MysqlSession;

/// Rows of a range, as in sysbench.
const RANGE_ROWS: u64 = 100;
/// Rows of a batch that replaces others.
const UPSERT_ROWS: u64 = 1000;

/// What is done again and again, with keys at random.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Work {
    /// A row.
    Select,
    /// 100 rows in the order of their keys.
    Range,
    /// The sum of a column of 100 rows.
    Sum,
    /// 100 rows in the order of a text.
    Ordered,
    /// The different texts of 100 rows, in order.
    Distinct,
    /// The indexed integer of a row is counted up.
    UpdateIndex,
    /// A text of a row is replaced.
    Update,
    /// A row is removed, and comes back by the next request.
    Delete,
    /// 1000 rows take the place of those with their keys.
    Upsert,
}

impl Work {
    pub fn name(self) -> String {
        self.to_possible_value().expect("none is skipped").get_name().to_owned()
    }

    /// Whether rows come back.
    pub fn reads(self) -> bool {
        matches!(self, Self::Select | Self::Range | Self::Sum | Self::Ordered | Self::Distinct)
    }

    /// Whether prepared, for each way in which it is sent.
    pub fn modes(self) -> &'static [bool] {
        match self {
            Self::Delete | Self::Upsert => &[false],
            _ => &[false, true],
        }
    }

    /// The rows that a request counts for.
    pub fn rows(self) -> u64 {
        if self == Self::Upsert { UPSERT_ROWS } else { 1 }
    }

    /// The text with placeholders.
    pub fn prepared(self) -> String {
        self.text(["?", "?"], "?")
    }

    /// The text for keys from the first to the last.
    fn text(self, [first, last]: [&str; 2], value: &str) -> String {
        let between = format!("FROM {TABLE} WHERE id BETWEEN {first} AND {last}");
        match self {
            Self::Select => format!("SELECT c FROM {TABLE} WHERE id = {first}"),
            Self::Range => format!("SELECT c {between}"),
            Self::Sum => format!("SELECT SUM(k) {between}"),
            Self::Ordered => format!("SELECT c {between} ORDER BY c"),
            Self::Distinct => format!("SELECT DISTINCT c {between} ORDER BY c"),
            Self::UpdateIndex => format!("UPDATE {TABLE} SET k = k + 1 WHERE id = {first}"),
            Self::Update => format!("UPDATE {TABLE} SET c = {value} WHERE id = {first}"),
            Self::Delete => format!("DELETE FROM {TABLE} WHERE id = {first}"),
            Self::Upsert => unreachable!("it has a text of its own"),
        }
    }

    /// A request for each of the keys, of which there are `rows`; `id` is that of a prepared
    /// statement, or 0. In Freshet's own form (`is_own`) an INSERT replaces rows.
    pub fn encode(
        self,
        session: &mut MysqlSession,
        (keys, rows): (&[u64], u64),
        (id, is_own): (u32, bool),
    ) -> Vec<Request> {
        let mut chance = StdRng::seed_from_u64(id.into());
        let writer = session.writer();
        let mut requests = Vec::with_capacity(keys.len());
        let last_of = |key: u64| (key + RANGE_ROWS - 1).min(rows);
        for &key in keys {
            let value = digits(&mut chance, 10);
            writer.clear();
            if id != 0 {
                let (first, last) =
                    (Param::Int(key.cast_signed()), Param::Int(last_of(key).cast_signed()));
                let of_range = [first, last];
                let of_value = [Param::Bytes(value.as_bytes()), first];
                let params: &[Param<'_>] = match self {
                    Self::Update => &of_value,
                    Self::Range | Self::Sum | Self::Ordered | Self::Distinct => &of_range,
                    _ => &of_range[..1],
                };
                writer.command_execute(id, params, true);
                requests.push(Request::fixed(writer.take_bytes(), 1));
                continue;
            }
            let sql = match self {
                Self::Upsert => {
                    let first = key.min(rows.saturating_sub(UPSERT_ROWS) + 1);
                    let values = values(first..first + UPSERT_ROWS, &mut chance, rows);
                    match is_own {
                        true => format!("INSERT INTO {TABLE} VALUES {values}"),
                        false => format!(
                            "INSERT INTO {TABLE} VALUES {values} ON DUPLICATE KEY UPDATE \
                             k = VALUES(k), c = VALUES(c), pad = VALUES(pad)"
                        ),
                    }
                }
                _ => {
                    let bounds = [key.to_string(), last_of(key).to_string()];
                    self.text([&bounds[0], &bounds[1]], &format!("'{value}'"))
                }
            };
            writer.command_query(sql.as_bytes());
            requests.push(Request::fixed(writer.take_bytes(), 1));
            if self == Self::Delete {
                let values = values(key..key + 1, &mut chance, rows);
                let word = if is_own { "INSERT" } else { "REPLACE" };
                let sql = format!("{word} INTO {TABLE} VALUES {values}");
                writer.command_query(sql.as_bytes());
                requests.push(Request::fixed(writer.take_bytes(), 1));
            }
        }
        requests
    }
}

/// Groups of eleven digits, as sysbench fills texts.
fn digits(chance: &mut StdRng, groups: usize) -> String {
    let group = |_| format!("{:011}", chance.random_range(0..100_000_000_000_u64));
    (0..groups).map(group).collect::<Vec<_>>().join("-")
}

/// Rows with these ids behind VALUES.
pub fn values(ids: std::ops::Range<u64>, chance: &mut StdRng, rows: u64) -> String {
    let row = |id| {
        let k = chance.random_range(1..=rows);
        format!("({id},{k},'{}','{}')", digits(chance, 10), digits(chance, 5))
    };
    ids.map(row).collect::<Vec<_>>().join(",")
}
