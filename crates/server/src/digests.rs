//! What `performance_schema` tells of statements: how often those ran that differ in values alone,
//! for how long, and with what result.
//!
//! A statement is counted when its answer is ready. What is not in its time: the wait for the sync
//! of the log that several answers share, and for a client that does not read.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_query::digest::{READ_BYTES_MAX, beginning_of, hash_of};
use freshet_query::system::Cell;
use parking_lot::{Mutex, RwLock};

use crate::counters::Count;
use crate::process::{hide_secrets, secret_at};

/// Digests that are kept, of about 3 KiB each; statements of others are counted together, as in
/// MySQL.
pub const DIGESTS_MAX: usize = 4000;
/// The parts of a count among which connections are divided, so that few wait for each other.
const SHARDS: usize = 8;
/// Characters of the slowest statement of a digest that are kept, as in MySQL.
const SAMPLE_CHARS_MAX: usize = 1024;
/// Digests that a session keeps in mind.
const KNOWN_MAX: usize = 64;
/// Shapes that are longer are kept in mind by their hashes.
const SHAPE_BYTES_MAX: usize = 512;
/// Columns of the table whose numbers are not gathered: of locks, of rows that are read, of sorts,
/// of indexes, of memory.
const NOT_GATHERED: usize = 18;

/// A statement that ended.
pub struct Asked<'a> {
    pub sql: &'a [u8],
    /// What statements of one digest have in common, if that is known without reading them: one
    /// shape has one digest.
    pub shape: Option<&'a [u8]>,
    /// Those of VALUES, of which the shape says nothing.
    pub rows: Rows,
}

/// What a digest says of rows of VALUES.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    One,
    Several,
    /// They were not read to their end.
    Cut,
}

impl Rows {
    /// Of so many rows in a statement of this length.
    pub fn of(count: usize, sql_bytes: usize) -> Self {
        match count {
            _ if sql_bytes > READ_BYTES_MAX => Self::Cut,
            ..=1 => Self::One,
            _ => Self::Several,
        }
    }
}

impl<'a> Asked<'a> {
    /// One that has a shape.
    pub fn of(sql: &'a [u8], shape: &'a [u8]) -> Self {
        Self { sql, shape: Some(shape), rows: Rows::One }
    }

    /// One that has to be read.
    pub fn unknown(sql: &'a [u8]) -> Self {
        Self { sql, shape: None, rows: Rows::One }
    }
}

/// A shape that is kept in mind.
#[derive(PartialEq, Eq)]
enum Shape {
    Text(Box<[u8]>),
    /// The length of a long one, and its hash.
    Hash(usize, u64),
}

impl Shape {
    fn of(shape: &[u8]) -> Self {
        match shape.len() {
            ..=SHAPE_BYTES_MAX => Self::Text(shape.into()),
            length => Self::Hash(length, hash(shape)),
        }
    }

    fn is(&self, shape: &[u8], hashed: u64) -> bool {
        match self {
            Self::Text(text) => **text == *shape,
            Self::Hash(length, known) => *length == shape.len() && *known == hashed,
        }
    }
}

/// The hash of a shape; of what is behind that a digest depends on the length alone.
fn hash(shape: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&shape[..shape.len().min(READ_BYTES_MAX)]);
    hasher.finish()
}

/// What a statement did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It changed so many rows, or none because it is no query.
    Changed(u64),
    /// It answered with so many rows.
    Sent(u64),
    Failed,
}

/// What is added to the figures of a digest.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Of the monotonic clock, as is `ended`.
    pub began: Duration,
    pub ended: Duration,
    pub outcome: Outcome,
    pub warnings: u64,
}

impl Ended {
    fn nanos(&self) -> u64 {
        u64::try_from(self.ended.saturating_sub(self.began).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The sums of some statements.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Figures {
    count: u64,
    nanos: u64,
    nanos_min: u64,
    nanos_max: u64,
    errors: u64,
    warnings: u64,
    affected: u64,
    sent: u64,
    /// When the first of them ended, and the last.
    first: Duration,
    last: Duration,
}

impl Figures {
    fn of(ended: &Ended) -> Self {
        let nanos = ended.nanos();
        let (affected, sent, errors) = match ended.outcome {
            Outcome::Changed(rows) => (rows, 0, 0),
            Outcome::Sent(rows) => (0, rows, 0),
            Outcome::Failed => (0, 0, 1),
        };
        Self {
            count: 1,
            nanos,
            nanos_min: nanos,
            nanos_max: nanos,
            errors,
            warnings: ended.warnings,
            affected,
            sent,
            first: ended.ended,
            last: ended.ended,
        }
    }

    fn add(&mut self, more: &Self) {
        if self.count == 0 || more.count == 0 {
            if more.count > 0 {
                *self = *more;
            }
            return;
        }
        self.count += more.count;
        self.nanos = self.nanos.saturating_add(more.nanos);
        self.nanos_min = self.nanos_min.min(more.nanos_min);
        self.nanos_max = self.nanos_max.max(more.nanos_max);
        self.errors += more.errors;
        self.warnings += more.warnings;
        self.affected = self.affected.saturating_add(more.affected);
        self.sent = self.sent.saturating_add(more.sent);
        self.first = self.first.min(more.first);
        self.last = self.last.max(more.last);
    }
}

/// The figures of some connections, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Figures>);

/// The slowest statement of a digest.
#[derive(Clone, Default)]
struct Sample {
    text: String,
    nanos: u64,
    ended: Duration,
}

/// What is known of the statements of a digest.
#[derive(Default)]
struct Digest {
    /// The database that was current.
    database: Option<Arc<str>>,
    /// `None` for what is beyond [`DIGESTS_MAX`].
    text: Option<String>,
    shards: [Shard; SHARDS],
    slowest_nanos: AtomicU64,
    slowest: Mutex<Sample>,
}

impl Digest {
    fn add(&self, connection: u32, ended: &Ended, sql: &[u8]) {
        let figures = Figures::of(ended);
        self.shards[connection as usize % SHARDS].0.lock().add(&figures);
        let is_slowest = figures.nanos > self.slowest_nanos.load(Ordering::Relaxed);
        if !is_slowest || self.text.is_none() {
            return;
        }
        let mut slowest = self.slowest.lock();
        if figures.nanos > slowest.nanos {
            self.slowest_nanos.store(figures.nanos, Ordering::Relaxed);
            let bytes = &sql[..sql.len().min(SAMPLE_CHARS_MAX * 4)];
            let mut text =
                String::from_utf8_lossy(bytes).chars().take(SAMPLE_CHARS_MAX).collect::<String>();
            hide_secrets(&mut text);
            *slowest = Sample { text, nanos: figures.nanos, ended: ended.ended };
        }
    }

    fn figures(&self) -> Figures {
        let mut sum = Figures::default();
        self.shards.iter().for_each(|shard| sum.add(&shard.0.lock()));
        sum
    }
}

/// The current database of the statements, if there is one, and the text of their digest.
type Key = (Option<Arc<str>>, String);

/// The digests of a server.
#[derive(Default)]
pub struct Digests {
    kept: RwLock<HashMap<Key, Arc<Digest>>>,
    /// Of the statements whose digests are not kept.
    others: Arc<Digest>,
    /// How many these were.
    pub lost: Count,
    /// Counts how often all were forgotten.
    generation: AtomicU64,
}

impl Digests {
    /// Forgets all.
    pub fn forget(&self) {
        let mut kept = self.kept.write();
        self.generation.fetch_add(1, Ordering::Release);
        kept.clear();
        self.others.shards.iter().for_each(|shard| *shard.0.lock() = Figures::default());
    }

    fn add(&self, digest: &Digest, connection: u32, ended: &Ended, sql: &[u8]) {
        digest.add(connection, ended, sql);
        if digest.text.is_none() {
            self.lost.add(1);
        }
    }

    fn of(&self, database: Option<&Arc<str>>, sql: &[u8], hides: bool) -> Arc<Digest> {
        let text = text_of(sql, hides);
        let key = (database.cloned(), text);
        {
            // Where it is full, nobody waits for others.
            let kept = self.kept.read();
            let is_full = kept.len() >= DIGESTS_MAX;
            if let Some(digest) = kept.get(&key).or(is_full.then_some(&self.others)) {
                return Arc::clone(digest);
            }
        }
        let mut kept = self.kept.write();
        if let Some(digest) = kept.get(&key) {
            return Arc::clone(digest);
        }
        if kept.len() >= DIGESTS_MAX {
            return Arc::clone(&self.others);
        }
        let (database, text) = key.clone();
        let digest = Arc::new(Digest { database, text: Some(text), ..Digest::default() });
        kept.insert(key, Arc::clone(&digest));
        digest
    }

    /// The rows of `events_statements_summary_by_digest`.
    pub fn rows(&self, clock: &dyn Clock) -> Vec<Vec<Cell>> {
        let mut kept = self.kept.read().values().cloned().collect::<Vec<_>>();
        kept.push(Arc::clone(&self.others));
        let (now, wall_micros) = (clock.now(), clock.wall_micros());
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let at = |time: Duration| Cell::Time(wall_micros - micros(now.saturating_sub(time)));
        let mut rows = Vec::with_capacity(kept.len());
        for digest in &kept {
            let figures = digest.figures();
            if figures.count > 0 {
                rows.push(row(digest, &figures, &at));
            }
        }
        rows
    }
}

fn row(digest: &Digest, figures: &Figures, at: &dyn Fn(Duration) -> Cell) -> Vec<Cell> {
    // In picoseconds, as all times of `performance_schema`.
    let timer = |nanos: u64| Cell::from(nanos.saturating_mul(1000));
    let text = digest.text.as_deref();
    let mut row = vec![
        digest.database.as_deref().map(str::to_owned).into(),
        text.map(hash_of).into(),
        text.map(str::to_owned).into(),
        figures.count.into(),
        timer(figures.nanos),
        timer(figures.nanos_min),
        timer(figures.nanos / figures.count),
        timer(figures.nanos_max),
        Cell::Int(0),
        figures.errors.into(),
        figures.warnings.into(),
        figures.affected.into(),
        figures.sent.into(),
    ];
    row.extend(std::iter::repeat_n(Cell::Int(0), NOT_GATHERED));
    row.extend([at(figures.first), at(figures.last)]);
    // There are no histograms.
    row.extend([const { Cell::Null }; 3]);
    let sample = digest.slowest.lock().clone();
    match text {
        Some(_) => row.extend([sample.text.into(), at(sample.ended), timer(sample.nanos)]),
        None => row.extend([const { Cell::Null }; 3]),
    }
    row
}

/// The text of a digest. It is read as by default, and so wrongly where backslashes escape nothing
/// (`hides`) or quotes are those of names: of what may be about accounts nothing is shown behind a
/// word for passwords.
fn text_of(sql: &[u8], hides: bool) -> String {
    const OF_ACCOUNTS: [&str; 4] = ["SET ", "CREATE ", "ALTER ", "GRANT "];
    let read = &sql[..sql.len().min(READ_BYTES_MAX)];
    let text = String::from_utf8_lossy(read);
    let digest = beginning_of(&text, read.len() == sql.len());
    let hides = hides || OF_ACCOUNTS.iter().any(|word| digest.starts_with(word));
    match secret_at(&text).filter(|_| hides) {
        Some(at) => beginning_of(&text[..at], false),
        None => digest,
    }
}

/// The digests that a session keeps in mind by the shapes of its statements, the most recent first.
#[derive(Default)]
pub struct KnownDigests {
    generation: u64,
    known: Vec<Known>,
}

struct Known {
    shape: Shape,
    rows: Rows,
    database: Option<Arc<str>>,
    digest: Arc<Digest>,
}

impl KnownDigests {
    /// Counts a statement. `hides` says that backslashes escape nothing.
    pub fn count(
        &mut self,
        (digests, database): (&Digests, Option<&Arc<str>>),
        (connection, hides): (u32, bool),
        asked: &Asked<'_>,
        ended: &Ended,
    ) {
        let generation = digests.generation.load(Ordering::Acquire);
        if self.generation != generation {
            self.known.clear();
            self.generation = generation;
        }
        let hashed = asked.shape.filter(|shape| shape.len() > SHAPE_BYTES_MAX).map_or(0, hash);
        let is_it = |known: &Known| {
            known.rows == asked.rows
                && asked.shape.is_some_and(|shape| known.shape.is(shape, hashed))
                && known.database.as_ref() == database
        };
        if let Some(at) = self.known.iter().position(is_it) {
            // Those that come often move to the front.
            self.known.swap(at, at / 2);
            digests.add(&self.known[at / 2].digest, connection, ended, asked.sql);
            return;
        }
        let digest = digests.of(database, asked.sql, hides);
        digests.add(&digest, connection, ended, asked.sql);
        if let Some(shape) = asked.shape {
            let (shape, rows) = (Shape::of(shape), asked.rows);
            self.known.truncate(KNOWN_MAX - 1);
            let database = database.cloned();
            self.known.insert(0, Known { shape, rows, database, digest });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn count(digests: &Digests, known: &mut KnownDigests, sql: &str, outcome: Outcome, took: u32) {
        let ended = Ended { began: SECOND, ended: SECOND * (took + 1), outcome, warnings: 1 };
        let asked = Asked::of(sql.as_bytes(), b"shape");
        known.count((digests, None), (took, false), &asked, &ended);
    }

    fn of(digests: &Digests, text: &str) -> Figures {
        digests.kept.read()[&(None, text.to_owned())].figures()
    }

    #[test]
    fn statements_that_differ_in_values_are_summed() {
        let (digests, mut known) = (Digests::default(), KnownDigests::default());
        count(&digests, &mut known, "select 1", Outcome::Sent(1), 3);
        count(&digests, &mut known, "select 2", Outcome::Sent(4), 1);
        count(&digests, &mut KnownDigests::default(), "SELECT 7", Outcome::Failed, 5);
        let sum = of(&digests, "SELECT ?");
        assert_eq!((sum.count, sum.errors, sum.warnings, sum.sent), (3, 1, 3, 5));
        let times = [sum.nanos, sum.nanos_min, sum.nanos_max].map(|nanos| nanos / 1_000_000_000);
        assert_eq!(times, [9, 1, 5]);
        assert_eq!((sum.first, sum.last), (SECOND * 2, SECOND * 6));
        let digest = digests.of(None, b"select 8", false);
        assert_eq!(digest.slowest.lock().text, "SELECT 7");
    }

    #[test]
    fn shapes_are_told_apart() {
        let (digests, mut known) = (Digests::default(), KnownDigests::default());
        let ended =
            Ended { began: SECOND, ended: SECOND, outcome: Outcome::Changed(1), warnings: 0 };
        let mut count = |sql: &str, shape: &[u8], rows| {
            let asked = Asked { sql: sql.as_bytes(), shape: Some(shape), rows };
            known.count((&digests, None), (1, false), &asked, &ended);
        };
        let long = vec![b' '; SHAPE_BYTES_MAX + 1];
        let cut = format!("insert t values {}(1)", "(1), ".repeat(READ_BYTES_MAX));
        for _ in 0..2 {
            count("insert t values (1)", b"insert t values", Rows::One);
            count("insert t values (1), (2)", b"insert t values", Rows::Several);
            count(&cut, b"insert t values", Rows::Cut);
            count("select 1", &long, Rows::One);
            count("select a", &long[1..], Rows::One);
        }
        for text in [
            "INSERT `t` VALUES (?)",
            "INSERT `t` VALUES (?) /* , ... */",
            "INSERT `t` VALUES (...) /* , ... */ ...",
            "SELECT ?",
            "SELECT `a`",
        ] {
            assert_eq!(of(&digests, text).count, 2, "{text}");
        }
        assert_eq!(known.known.len(), 5);
    }

    #[test]
    fn what_was_forgotten_begins_anew() {
        let (digests, mut known) = (Digests::default(), KnownDigests::default());
        count(&digests, &mut known, "insert t values (1)", Outcome::Changed(1), 1);
        digests.forget();
        assert!(digests.kept.read().is_empty());
        count(&digests, &mut known, "insert t values (2)", Outcome::Changed(1), 1);
        assert_eq!(of(&digests, "INSERT `t` VALUES (?)").affected, 1);
    }

    #[test]
    fn digests_are_bounded() {
        let digests = Digests::default();
        for at in 0..DIGESTS_MAX + 5 {
            let sql = format!("select c{at}");
            count(&digests, &mut KnownDigests::default(), &sql, Outcome::Sent(1), 1);
        }
        let mut known = KnownDigests::default();
        for _ in 0..2 {
            count(&digests, &mut known, "select more", Outcome::Sent(1), 1);
        }
        assert_eq!(digests.kept.read().len(), DIGESTS_MAX);
        assert_eq!((digests.others.figures().count, digests.lost.get()), (7, 7));
        assert_eq!(known.known.len(), 1);
    }

    #[test]
    fn no_password_is_in_a_text() {
        let text = |sql: &str, hides| text_of(sql.as_bytes(), hides);
        let create = "create user u identified by 'a\\' account lock";
        assert_eq!(text(create, true), "CREATE `user` `u` ...");
        let quoted = "create user \"a\\\"@\"h\" identified by 'x\"pw'";
        for (sql, hides) in [(create, false), (quoted, false), ("set password = 'x'", false)] {
            let text = text(sql, hides);
            assert!(text.ends_with(" ...") && !text.contains("lock"), "{text}");
            assert!(!text.contains("pw"), "{text}");
        }
        assert_eq!(
            text("alter user u --\r it's\n identified by 'pw'", false),
            "ALTER `user` `u` ..."
        );
        assert_eq!(text("select password from t", false), "SELECT `password` FROM `t`");
    }
}
