//! Sessions that run analytic queries on `lineitem` in a loop during writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use freshet_base::clock::{Clock, SystemClock};

use crate::session::Session;
use crate::target::Target;

/// Queries 1 and 6 of TPC-H, without arithmetic that differs between dialects.
const QUESTIONS: [&str; 2] = [
    "SELECT l_returnflag, l_linestatus, SUM(l_quantity), SUM(l_extendedprice), \
     SUM(l_extendedprice * (1 - l_discount)), AVG(l_quantity), AVG(l_discount), COUNT(*) \
     FROM lineitem WHERE l_shipdate <= '1998-09-02' \
     GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    "SELECT SUM(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= '1994-01-01' \
     AND l_shipdate < '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
];

/// The durations of the queries, in seconds.
#[derive(Default)]
pub struct Answers(Vec<f64>);

impl Answers {
    /// The median duration; 0 if there is none.
    pub fn median_seconds(mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0.get(self.0.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Threads that run queries until they are stopped.
pub struct Questioners {
    done: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Answers, String>>>,
}

impl Questioners {
    /// Starts `count` threads, each with a connection of its own.
    pub fn start(target: &Target, count: usize) -> Result<Self, String> {
        let done = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for question in QUESTIONS.iter().cycle().take(count) {
            let (session, done) = (Session::open(target)?, Arc::clone(&done));
            threads.push(std::thread::spawn(move || ask(session, question, &done)));
        }
        Ok(Self { done, threads })
    }

    /// Waits for the last answers; a failed query is an error.
    pub fn stop(self) -> Result<Answers, String> {
        self.done.store(true, Ordering::Relaxed);
        let mut all = Answers::default();
        for thread in self.threads {
            all.0.extend(thread.join().map_err(|_| "a questioner panicked")??.0);
        }
        Ok(all)
    }
}

fn ask(mut session: Session, question: &str, done: &AtomicBool) -> Result<Answers, String> {
    let clock = SystemClock::new();
    let mut answers = Answers::default();
    while !done.load(Ordering::Relaxed) {
        let start = clock.now();
        session.query(question)?;
        answers.0.push((clock.now() - start).as_secs_f64());
    }
    Ok(answers)
}
