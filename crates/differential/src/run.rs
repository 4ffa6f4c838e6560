//! The main loop: rounds of tables, statements over them, simplification, and the report.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::answer::Answer;
use crate::found::Found;
use crate::insert::Insert;
use crate::own;
use crate::query::Query;
use crate::servers::Servers;
use crate::table::{TABLES, Table};
use crate::tally::Tally;

/// Number of statements per round, which use the same tables.
const ROUND: u64 = 200;
/// Maximum number of attempts to simplify a statement.
const SMALLER_TRIED_MAX: u32 = 250;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port of Freshet.
    pub freshet: u16,
    /// Port of MariaDB; without it only checks that need no other server are run.
    pub mariadb: Option<u16>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Numbers of the statements to run.
    pub numbers: BTreeSet<u64>,
    /// Maximum duration.
    pub time: Duration,
    /// Number of concurrent workers, each with its own databases.
    pub workers: u64,
}

/// A statement that can be simplified.
enum Case {
    Query(Query),
    Insert(Insert),
}

/// Runs all statements.
///
/// # Errors
/// When a server is unavailable, or the tables of a round cannot be created.
pub fn run(options: &Options) -> Result<Tally, String> {
    let began = Instant::now();
    let all = Mutex::new(Tally::default());
    let worker = |worker| {
        let mut servers =
            Servers::connect(options.freshet, options.mariadb, format!("differential_{worker}"))
                .map_err(|e| e.to_string())?;
        let rounds = options.numbers.iter().map(|number| number / ROUND).collect::<BTreeSet<_>>();
        for round in rounds.into_iter().filter(|round| round % options.workers == worker) {
            let tally = rounded(options, round, began, &mut servers)?;
            for found in tally.found.values().flatten() {
                println!("{found}");
            }
            let mut all = all.lock().expect("no worker panics");
            all.append(tally);
            println!("{}", all.progress(began.elapsed().as_secs()));
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

/// Runs the statements of one round.
fn rounded(
    options: &Options,
    at: u64,
    began: Instant,
    servers: &mut Servers,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut round = Round::begin(options.seed, at, servers)?;
    let (first, half) = (at * ROUND, at * ROUND + ROUND / 2);
    // Flushed after each half, so that statements of the second one read rows from files.
    for part in [first..half, half..first + ROUND] {
        let numbers = options.numbers.range(part);
        for number in numbers.take_while(|_| began.elapsed() < options.time) {
            round.statement(*number, servers, &mut tally);
        }
        round.flush(servers, &mut tally)?;
    }
    Ok(tally)
}

/// The state of a round of statements over the same tables.
struct Round {
    seed: u64,
    tables: Vec<Table>,
    inserts: Table,
    id: u64,
    /// Queries with their results, to be repeated after a flush.
    asked: Vec<(u64, Query, Answer)>,
}

impl Round {
    /// Creates the tables of a round. In every third round, some rows are flushed immediately.
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

    /// Flushes the tables in Freshet, and repeats earlier queries to compare their results.
    fn flush(&mut self, servers: &mut Servers, tally: &mut Tally) -> Result<(), String> {
        for table in &self.tables {
            servers.must_ours(&format!("FLUSH TABLES {}", table.name))?;
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

    /// Runs a statement on both servers; if the results differ, simplifies it while they differ in
    /// the same way.
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

    /// The results of both servers; for an INSERT, the stored row or the error.
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
