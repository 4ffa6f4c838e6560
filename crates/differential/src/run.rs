//! The run: rounds of tables, statements over them, what differs, and the report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use freshet_torture::client::{Client, Failure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::answer::{Answer, Difference};
use crate::insert::Insert;
use crate::known;
use crate::own;
use crate::query::Query;
use crate::table::{TABLES, Table};

/// Statements of one round, over the same tables.
const ROUND: u64 = 200;
/// Statements that are tried to make one that differs smaller.
const SMALLER_TRIED_MAX: u32 = 250;
/// Differences of one cause that are shown.
const SHOWN_MAX: usize = 2;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port of the server that is tried.
    pub freshet: u16,
    /// Port of the server to compare with; without it only what needs none is checked.
    pub mariadb: Option<u16>,
    /// Decides what chance decides.
    pub seed: u64,
    /// Numbers of the statements.
    pub numbers: BTreeSet<u64>,
    /// When to end at the latest.
    pub time: Duration,
    /// How many ask at the same time, each over databases of its own.
    pub workers: u64,
}

/// A statement that differs, as small as it was made.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its number.
    pub number: u64,
    /// In what.
    pub difference: Difference,
    /// What it is made of.
    pub shape: String,
    /// The statement.
    pub sql: String,
    /// Our answer.
    pub ours: String,
    /// The other.
    pub theirs: String,
    /// Whether both answers are our own.
    pub own: bool,
}

impl Found {
    /// What it is sorted by: the words of an error, or what the statement is made of.
    fn cause(&self) -> String {
        match (self.difference, self.ours.strip_prefix("error ")) {
            (Difference::Refused, Some(error)) => words(error),
            _ => self.shape.clone(),
        }
    }
}

/// An error without the names, types and numbers that it quotes.
fn words(error: &str) -> String {
    let unquoted = error.split(['\'', '"', '`']).step_by(2).collect::<Vec<_>>().join("..");
    let letters = unquoted.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
    letters.take(12).collect::<Vec<_>>().join(" ")
}

/// What a run came to.
#[derive(Default, Debug)]
pub struct Tally {
    /// Statements compared.
    pub compared: u64,
    /// Of them, refused by both.
    pub refused: u64,
    /// Checks without another server.
    pub own: u64,
    /// Known differences, by reason.
    pub known: BTreeMap<&'static str, u64>,
    /// All others, by cause.
    pub found: BTreeMap<(Difference, String), Vec<Found>>,
}

/// The two servers.
pub struct Servers {
    freshet: u16,
    database: String,
    ours: Client,
    theirs: Option<Client>,
}

/// A statement that can be made smaller.
enum Case {
    Query(Query),
    Insert(Insert),
}

impl Servers {
    fn connect(options: &Options, worker: u64) -> Result<Self, Failure> {
        let database = format!("differential_{worker}");
        let mut ours = Client::connect(options.freshet)?;
        prepare_ours(&mut ours, &database)?;
        let theirs = options.mariadb.map(Client::connect).transpose()?;
        let mut servers = Self { freshet: options.freshet, database, ours, theirs };
        if let Some(theirs) = &mut servers.theirs {
            theirs.query(&format!("CREATE OR REPLACE DATABASE {}", servers.database))?;
            theirs.query(&format!("USE {}", servers.database))?;
            theirs.query("SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin, time_zone = '+00:00'")?;
            // MySQL rounds fractions of seconds; and without the last, as MySQL's default.
            theirs.query(
                "SET sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,\
                 NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION,TIME_ROUND_FRACTIONAL'",
            )?;
        }
        Ok(servers)
    }

    /// Our answer. After a lost connection there is a new one.
    pub fn ours(&mut self, sql: &str) -> Answer {
        let answer = Answer::from(self.ours.outcome(sql));
        self.restored(answer)
    }

    /// Our answer to a prepared statement.
    pub fn prepared(&mut self, sql: &str, parameters: &[String]) -> Answer {
        let answer = Answer::from(own::prepared(&mut self.ours, sql, parameters));
        self.restored(answer)
    }

    fn restored(&mut self, answer: Answer) -> Answer {
        if let Answer::Lost(_) = answer
            && let Ok(mut client) = Client::connect(self.freshet)
            && prepare_ours(&mut client, &self.database).is_ok()
        {
            self.ours = client;
        }
        answer
    }

    fn both(&mut self, sql: &str) -> Option<(Answer, Answer)> {
        let theirs = Answer::from(self.theirs.as_mut()?.outcome(sql));
        Some((self.ours(sql), theirs))
    }

    /// Runs a statement on both, which must take it.
    fn must(&mut self, sql: &str) -> Result<(), String> {
        let refused = |name: &str, e| format!("{name} does not take `{sql}`: {e}");
        self.ours.query(sql).map_err(|e| refused("freshet", e))?;
        match &mut self.theirs {
            Some(theirs) => theirs.query(sql).map(drop).map_err(|e| refused("mariadb", e)),
            None => Ok(()),
        }
    }
}

fn prepare_ours(client: &mut Client, database: &str) -> Result<(), Failure> {
    client.query(&format!("CREATE DATABASE IF NOT EXISTS {database}"))?;
    client.query(&format!("USE {database}"))?;
    client.query("SET NAMES utf8mb4")?;
    client.query("SET time_zone = '+00:00'").map(drop)
}

/// Runs it all.
///
/// # Errors
/// A server is not there, or does not take what every round begins with.
pub fn run(options: &Options) -> Result<Tally, String> {
    let began = Instant::now();
    let all = Mutex::new(Tally::default());
    let worker = |worker| {
        let mut servers = Servers::connect(options, worker).map_err(|e| e.to_string())?;
        let rounds = options.numbers.iter().map(|number| number / ROUND).collect::<BTreeSet<_>>();
        for round in rounds.into_iter().filter(|round| round % options.workers == worker) {
            let tally = rounded(options, round, began, &mut servers)?;
            let mut all = all.lock().expect("no worker panics");
            all.append(tally);
            println!("{}", all.progress(began));
            if began.elapsed() >= options.time {
                break;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let worker = &worker;
        let workers = (0..options.workers).map(|number| scope.spawn(move || worker(number)));
        let workers = workers.collect::<Vec<_>>();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })
    .map_err(|error: String| error)?;
    Ok(all.into_inner().expect("no worker panics"))
}

/// The statements of one round.
fn rounded(
    options: &Options,
    at: u64,
    began: Instant,
    servers: &mut Servers,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut round = Round::begin(options.seed, at, servers)?;
    let (first, half) = (at * ROUND, at * ROUND + ROUND / 2);
    // A flush between the halves, so that rows of the second are read from files.
    for part in [first..half, half..first + ROUND] {
        let numbers = options.numbers.range(part);
        for number in numbers.take_while(|_| began.elapsed() < options.time) {
            round.statement(*number, servers, &mut tally);
        }
        round.flush(servers, &mut tally)?;
    }
    Ok(tally)
}

/// Statements over the same tables.
struct Round {
    seed: u64,
    tables: Vec<Table>,
    inserts: Table,
    id: u64,
    /// Queries with our answers, to be asked again after a flush.
    asked: Vec<(u64, Query, Answer)>,
}

impl Round {
    /// Makes the tables of a round. In every third a part of the rows is flushed at once.
    fn begin(seed: u64, round: u64, servers: &mut Servers) -> Result<Self, String> {
        let mut random = StdRng::seed_from_u64(seed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let table = |at| Table::random(&mut random, format!("t{at}"));
        let tables: Vec<_> = (0..TABLES).map(table).collect();
        let inserts = Table::of_inserts("s".to_owned());
        for table in tables.iter().chain([&inserts]) {
            servers.must(&format!("DROP TABLE IF EXISTS {}", table.name))?;
            servers.must(&table.create())?;
            for fill in table.fill() {
                servers.must(&fill)?;
                if round.is_multiple_of(3) {
                    servers.ours(&format!("FLUSH TABLES {}", table.name));
                }
            }
        }
        Ok(Self { seed, tables, inserts, id: 0, asked: Vec::new() })
    }

    /// Flushes the tables of our server and asks again what was asked before.
    fn flush(&mut self, servers: &mut Servers, tally: &mut Tally) -> Result<(), String> {
        for table in &self.tables {
            servers
                .ours
                .query(&format!("FLUSH TABLES {}", table.name))
                .map_err(|e| e.to_string())?;
        }
        for (number, query, before) in std::mem::take(&mut self.asked) {
            let sql = query.sql();
            let after = servers.ours(&sql);
            tally.own += 1;
            if let Some(difference) = after.differs(&before, query.ordered) {
                let shape = format!("after FLUSH: {}", query.shape());
                let (ours, theirs) = (after.shown(), before.shown());
                tally.add(Found { number, difference, shape, sql, ours, theirs, own: true });
            }
        }
        Ok(())
    }

    fn statement(&mut self, number: u64, servers: &mut Servers, tally: &mut Tally) {
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_mul(0x1_0000_0001) + number);
        if random.random_ratio(1, 6) {
            let case = Case::Insert(Insert::random(&mut random, &self.inserts));
            self.compare(number, case, servers, tally);
            return;
        }
        let query = Query::random(&mut random, &self.tables);
        match random.random_range(0..10) {
            0 => {
                let answer = servers.ours(&query.sql());
                self.asked.push((number, query.clone(), answer));
            }
            1 => tally.checked(own::partition(servers, number, &query)),
            2 | 3 => tally.checked(own::prepared_as_text(servers, number, &query)),
            _ => {}
        }
        self.compare(number, Case::Query(query), servers, tally);
    }

    /// Runs a statement on both servers, and smaller ones while they differ in the same.
    fn compare(&mut self, number: u64, case: Case, servers: &mut Servers, tally: &mut Tally) {
        let Some((ours, theirs)) = self.answers(&case, servers) else { return };
        tally.compared += 1;
        let Some(difference) = ours.differs(&theirs, case.ordered()) else {
            tally.refused += u64::from(matches!(ours, Answer::Refused(..)));
            return;
        };
        let (mut case, mut pair, mut tried) = (case, (ours, theirs), 0);
        while tried < SMALLER_TRIED_MAX {
            let smaller = case.simpler().into_iter().find_map(|smaller| {
                tried += 1;
                let within = tried < SMALLER_TRIED_MAX;
                let pair = within.then(|| self.answers(&smaller, servers)).flatten()?;
                let same = pair.0.differs(&pair.1, smaller.ordered()) == Some(difference);
                same.then_some((smaller, pair))
            });
            match smaller {
                Some((smaller, answers)) => (case, pair) = (smaller, answers),
                None => break,
            }
        }
        let (ours, theirs) = (pair.0.shown(), pair.1.shown());
        let (shape, sql) = (case.shape(), case.sql(self.id));
        tally.add(Found { number, difference, shape, sql, ours, theirs, own: false });
    }

    /// The answers of both servers; of an insert, what it stored, or why it did not.
    fn answers(&mut self, case: &Case, servers: &mut Servers) -> Option<(Answer, Answer)> {
        match case {
            Case::Query(query) => servers.both(&query.sql()),
            Case::Insert(insert) => {
                self.id += 1;
                let (ours, theirs) = servers.both(&insert.sql(self.id))?;
                let (our_row, their_row) = servers.both(&insert.stored(self.id))?;
                let of = |answer, row| if let Answer::Done(_) = answer { row } else { answer };
                Some((of(ours, our_row), of(theirs, their_row)))
            }
        }
    }
}

impl Case {
    fn ordered(&self) -> bool {
        match self {
            Self::Query(query) => query.ordered,
            Self::Insert(_) => false,
        }
    }

    fn shape(&self) -> String {
        match self {
            Self::Query(query) => query.shape(),
            Self::Insert(insert) => insert.shape(),
        }
    }

    fn sql(&self, id: u64) -> String {
        match self {
            Self::Query(query) => query.sql(),
            Self::Insert(insert) => insert.sql(id),
        }
    }

    fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Query(query) => query.simpler().into_iter().map(Self::Query).collect(),
            Self::Insert(insert) => insert.simpler().into_iter().map(Self::Insert).collect(),
        }
    }
}

impl Tally {
    fn append(&mut self, other: Self) {
        self.compared += other.compared;
        self.refused += other.refused;
        self.own += other.own;
        for (reason, count) in other.known {
            *self.known.entry(reason).or_default() += count;
        }
        for (cause, found) in other.found {
            self.found.entry(cause).or_default().extend(found);
        }
    }

    fn progress(&self, began: Instant) -> String {
        format!(
            "{} statements, {} s, {} known differences, {} others of {} causes",
            self.compared,
            began.elapsed().as_secs(),
            self.known.values().sum::<u64>(),
            self.unexplained(),
            self.found.len(),
        )
    }

    fn add(&mut self, found: Found) {
        match known::find(&found) {
            Some(known) => *self.known.entry(known.reason).or_default() += 1,
            None => {
                let cause = found.cause();
                self.found.entry((found.difference, cause)).or_default().push(found);
            }
        }
    }

    fn checked(&mut self, found: Option<Found>) {
        self.own += 1;
        if let Some(found) = found {
            self.add(found);
        }
    }

    /// How many differences nobody knows the reason of.
    pub fn unexplained(&self) -> usize {
        self.found.values().map(Vec::len).sum()
    }

    /// How many connections were lost, and answers of our own that contradict each other.
    pub fn broken(&self) -> usize {
        let broken = |found: &&Found| found.own || found.difference == Difference::Lost;
        self.found.values().flatten().filter(broken).count()
    }

    /// Known differences by reason, then all others by cause, the frequent ones first.
    pub fn print(&self) {
        for (reason, count) in &self.known {
            println!("{count:6} known: {reason}");
        }
        let mut causes: Vec<_> = self.found.iter().collect();
        causes.sort_by_key(|(_, found)| std::cmp::Reverse(found.len()));
        for ((difference, shape), found) in causes {
            println!("\n{} x {difference}: {shape}", found.len());
            for found in found.iter().take(SHOWN_MAX) {
                println!("  #{} {}", found.number, found.sql);
                println!("    freshet: {}", found.ours);
                println!("    other:   {}", found.theirs);
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
            self.known.values().sum::<u64>(),
            self.unexplained(),
            self.found.len(),
        );
    }
}
