//! Sessions compared with a model: random texts of several statements, transactions, snapshots,
//! prepared queries over a changing table, clock steps, a blocked log disk, clients that disconnect
//! while they wait.
//!
//! Checked at all times: no byte of an answer that acknowledges a commit is sent while the log disk
//! is blocked; every read sees exactly what was acknowledged before it began and what its own
//! session did; a COMMIT succeeds for all rows of its transaction or for none; the status flags say
//! whether a transaction is open. A failure prints its seed: `SESSIONS_SEED=n` runs only that one,
//! `SESSIONS_SEEDS=n` runs n of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use freshet_wire::StatusFlags;
use freshet_wire::client::{Encoding, Outcome};

use super::common::world::{LogDisk, TestClock};
use super::common::{Client, TestServer, text};

const SEEDS: u64 = 4;
const STEPS: usize = 120;
const SESSIONS: usize = 3;
const LOST: u16 = 1205;
const READ: &str = "select a, b from t order by a";

#[derive(Clone, Debug)]
enum Statement {
    /// Rows with these ids; `InsertKind` selects the code path.
    Insert(Vec<i32>, InsertKind),
    Read,
    /// A query without a table whose answer is sent in pieces.
    Large,
    Begin,
    Commit,
    Rollback,
    Autocommit(bool),
    RepeatableRead(bool),
    AddColumn,
    DropColumn,
    Truncate,
    /// CREATE TABLE .. AS with this number in its name.
    CreateAs(u32),
    Count(u32),
}

#[derive(Clone, Copy, Debug)]
enum InsertKind {
    Literals,
    Expressions,
    Query,
}

impl Statement {
    fn sql(&self) -> String {
        match self {
            Self::Insert(ids, kind) => insert(ids, *kind),
            Self::Read => READ.into(),
            Self::Large => "select repeat('x', 70000)".into(),
            Self::Begin => "begin".into(),
            Self::Commit => "commit".into(),
            Self::Rollback => "rollback".into(),
            Self::Autocommit(on) => format!("set autocommit = {}", u8::from(*on)),
            Self::RepeatableRead(on) => {
                let level = if *on { "repeatable read" } else { "read committed" };
                format!("set session transaction isolation level {level}")
            }
            Self::AddColumn => "alter table t add column c int default '7' after a".into(),
            Self::DropColumn => "alter table t drop column c".into(),
            Self::Truncate => "truncate table t".into(),
            Self::CreateAs(n) => format!("create table u{n} as select a, b from t"),
            Self::Count(n) => format!("select count(*) from u{n}"),
        }
    }
}

fn insert(ids: &[i32], kind: InsertKind) -> String {
    let rows = |row: &dyn Fn(i32) -> String, between| {
        ids.iter().map(|id| row(*id)).collect::<Vec<_>>().join(between)
    };
    let head = "insert into t (a, b)";
    match kind {
        InsertKind::Literals => {
            format!("{head} values {}", rows(&|id| format!("({id}, {})", id * 2), ", "))
        }
        InsertKind::Expressions => {
            format!("{head} values {}", rows(&|id| format!("({id}, {id} * 2)"), ", "))
        }
        InsertKind::Query => {
            format!("{head} {}", rows(&|id| format!("select {id}, {id} + {id}"), " union all "))
        }
    }
}

/// The expected answer.
#[derive(Debug, PartialEq)]
enum Answer {
    Done,
    Lost,
    Rows(Vec<[String; 2]>),
    Count(usize),
    Large,
}

#[derive(Clone, Default)]
struct Transaction {
    rows: Vec<i32>,
    repeatable: bool,
    snapshot: Option<Vec<i32>>,
    implicit: bool,
}

/// What is committed.
#[derive(Clone, Default)]
struct Store {
    rows: Vec<i32>,
    made: Vec<(u32, usize)>,
    /// The states after each commit of the current text.
    states: Vec<Vec<i32>>,
    /// Whether the current text has written to the log.
    logged: bool,
}

impl Store {
    fn commit(&mut self, rows: &[i32]) {
        if !rows.is_empty() {
            self.rows.extend_from_slice(rows);
            self.rows.sort_unstable();
            self.logged = true;
            self.states.push(self.rows.clone());
        }
    }
}

/// The model of a session.
#[derive(Clone, Default)]
struct State {
    no_autocommit: bool,
    repeatable: bool,
    transaction: Option<Transaction>,
    /// It was rolled back by the server, and the client has not ended it; whether it was implicit.
    lost: Option<bool>,
    /// Its timeout has passed; the server may have noticed or not.
    may_be_lost: bool,
}

impl State {
    fn apply(&mut self, statement: &Statement, store: &mut Store) -> Answer {
        match statement {
            Statement::Insert(ids, _) => self.write(ids, store),
            Statement::Read => match self.read(store) {
                Some(rows) => Answer::Rows(rows.iter().map(pair).collect()),
                None => Answer::Lost,
            },
            Statement::Large if self.lost.is_some() => Answer::Lost,
            Statement::Large => Answer::Large,
            Statement::Begin => {
                let answer = self.commit(store);
                if answer == Answer::Done {
                    self.open(false);
                }
                answer
            }
            Statement::Commit => self.commit(store),
            Statement::Rollback => {
                (self.transaction, self.lost) = (None, None);
                Answer::Done
            }
            Statement::Autocommit(on) => {
                self.no_autocommit = !on;
                let implicit = self.transaction.as_ref().is_some_and(|open| open.implicit)
                    || self.lost.unwrap_or(false);
                if *on && implicit { self.commit(store) } else { Answer::Done }
            }
            Statement::RepeatableRead(on) => {
                self.repeatable = *on;
                Answer::Done
            }
            Statement::AddColumn | Statement::DropColumn => {
                self.define(store, |store| store.logged = true)
            }
            Statement::Truncate => self.define(store, |store| {
                store.rows.clear();
                store.logged = true;
            }),
            Statement::CreateAs(n) => self.define(store, |store| {
                store.made.push((*n, store.rows.len()));
                // Truncating an empty table is metadata only.
                store.logged |= !store.rows.is_empty();
            }),
            Statement::Count(n) => match self.read(store) {
                Some(_) => {
                    let made = store.made.iter().find(|(made, _)| made == n);
                    Answer::Count(made.expect("made before").1)
                }
                None => Answer::Lost,
            },
        }
    }

    fn open(&mut self, implicit: bool) {
        let repeatable = self.repeatable;
        self.transaction = Some(Transaction { repeatable, implicit, ..Transaction::default() });
    }

    fn write(&mut self, ids: &[i32], store: &mut Store) -> Answer {
        if self.lost.is_some() {
            return Answer::Lost;
        }
        if self.transaction.is_none() && self.no_autocommit {
            self.open(true);
        }
        match &mut self.transaction {
            Some(open) => open.rows.extend_from_slice(ids),
            None => store.commit(ids),
        }
        Answer::Done
    }

    /// The rows that a read sees; `None` if it must be refused.
    fn read(&mut self, store: &Store) -> Option<Vec<i32>> {
        if self.lost.is_some() {
            return None;
        }
        if self.transaction.is_none() && self.no_autocommit && self.repeatable {
            self.open(true);
        }
        let mut rows = store.rows.clone();
        if let Some(open) = &mut self.transaction {
            if open.repeatable {
                rows = open.snapshot.get_or_insert(rows).clone();
            }
            rows.extend_from_slice(&open.rows);
        }
        rows.sort_unstable();
        Some(rows)
    }

    fn commit(&mut self, store: &mut Store) -> Answer {
        if self.lost.take().is_some() {
            return Answer::Lost;
        }
        if let Some(open) = self.transaction.take() {
            store.commit(&open.rows);
        }
        Answer::Done
    }

    /// DDL commits the open transaction first.
    fn define(&mut self, store: &mut Store, change: impl FnOnce(&mut Store)) -> Answer {
        let answer = self.commit(store);
        if answer == Answer::Done {
            change(store);
        }
        answer
    }

    fn holds(&self) -> bool {
        let holds = |open: &Transaction| !open.rows.is_empty() || open.snapshot.is_some();
        self.transaction.as_ref().is_some_and(holds)
    }
}

fn pair(id: &i32) -> [String; 2] {
    [id.to_string(), (id * 2).to_string()]
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

struct Session {
    client: Client,
    prepared: u32,
    state: State,
}

impl Session {
    fn new(server: &TestServer) -> Self {
        let mut client = server.database("d");
        let prepared = client.prepare(READ).unwrap().statement_id;
        Self { client, prepared, state: State::default() }
    }
}

struct Run {
    random: Random,
    server: TestServer,
    clock: Arc<TestClock>,
    disk: Arc<LogDisk>,
    control: Client,
    sessions: Vec<Session>,
    store: Store,
    next_id: i32,
    next_table: u32,
    has_column: bool,
    log: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let (mut clock, mut disk) = (None, None);
        let server = TestServer::in_world(
            |_| {},
            |world| {
                clock = Some(TestClock::install(world));
                disk = Some(LogDisk::install(world));
            },
        );
        let mut control = server.database("d");
        control.run(
            "create table t (a int, b int) duplicate key (a) distributed by hash(a) \
                     buckets 2",
        );
        let sessions = (0..SESSIONS).map(|_| Session::new(&server)).collect();
        Self {
            random: Random(seed),
            server,
            clock: clock.unwrap(),
            disk: disk.unwrap(),
            control,
            sessions,
            store: Store::default(),
            next_id: 1,
            next_table: 0,
            has_column: false,
            log: Vec::new(),
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0 => self.time_passes(),
            1 => {
                let seconds = self.random.below(200_000_000) as i64 - 100_000_000;
                self.log.push(format!("the wall clock is stepped by {seconds} s"));
                self.clock.step_wall(seconds);
            }
            2 => {
                self.log.push("flush".into());
                self.control.run("flush tables t");
            }
            3 => self.disconnect(),
            4..=6 => self.execute(),
            _ => self.send(),
        }
    }

    /// All sessions exceed the idle timeout of transactions.
    fn time_passes(&mut self) {
        self.log.push("time passes".into());
        self.clock.advance(Duration::from_secs(700));
        std::thread::sleep(Duration::from_millis(30));
        for session in &mut self.sessions {
            session.state.may_be_lost |= session.state.holds();
        }
    }

    /// Determines whether the server has noticed that a transaction timed out.
    fn notice_loss(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        if !std::mem::take(&mut session.state.may_be_lost) {
            return;
        }
        if !flags(&session.client.query("set @p = 1")).contains(StatusFlags::IN_TRANSACTION) {
            let open = session.state.transaction.take().expect("it holds something");
            session.state.lost = Some(open.implicit);
        }
    }

    fn text(&mut self, defines: bool) -> Vec<Statement> {
        let count = 1 + self.random.below(4);
        (0..count).flat_map(|_| self.statement(defines)).collect()
    }

    fn statement(&mut self, defines: bool) -> Vec<Statement> {
        let flag = self.random.one_in(2);
        let one = match self.random.below(if defines { 25 } else { 20 }) {
            0..=6 => {
                let count = 1 + self.random.below(3) as i32;
                let ids = (self.next_id..self.next_id + count).collect();
                self.next_id += count;
                let kinds = [InsertKind::Literals, InsertKind::Expressions, InsertKind::Query];
                Statement::Insert(ids, kinds[self.random.below(3)])
            }
            7..=10 => Statement::Read,
            11 => Statement::Large,
            12 | 13 => Statement::Begin,
            14..=16 => Statement::Commit,
            17 => Statement::Rollback,
            18 => Statement::Autocommit(flag),
            19 => Statement::RepeatableRead(flag),
            20 | 21 => {
                self.has_column = !self.has_column;
                if self.has_column { Statement::AddColumn } else { Statement::DropColumn }
            }
            22 => Statement::Truncate,
            _ => {
                self.next_table += 1;
                let n = self.next_table;
                return vec![Statement::CreateAs(n), Statement::Count(n)];
            }
        };
        vec![one]
    }

    /// A session sends a text, sometimes while the log disk is blocked.
    fn send(&mut self) {
        let at = self.random.below(SESSIONS);
        self.notice_loss(at);
        let had_column = self.has_column;
        let text = self.text(true);
        let sql = text.iter().map(Statement::sql).collect::<Vec<_>>().join("; ");
        self.log.push(format!("{at}: {sql}"));
        self.store.logged = false;
        // Answers before the first commit may be sent at once.
        let mut first_logged = false;
        let mut answers = Vec::new();
        for statement in &text {
            let answer = self.sessions[at].state.apply(statement, &mut self.store);
            first_logged |= answers.is_empty() && self.store.logged;
            let ends = answer == Answer::Lost;
            answers.push((statement, answer));
            if ends {
                break;
            }
        }
        let run = answers.iter().filter(|(_, answer)| *answer != Answer::Lost);
        let altered = |one: &&(&Statement, Answer)| {
            matches!(one.0, Statement::AddColumn | Statement::DropColumn)
        };
        self.has_column = had_column ^ (run.filter(altered).count() % 2 == 1);
        let held = self.random.one_in(3).then(|| self.disk.hold());
        let client = &mut self.sessions[at].client;
        client.writer.command_query(sql.as_bytes());
        client.send();
        if let Some(held) = held {
            if first_logged {
                assert!(is_silent(client), "a byte left before the log covered it");
            }
            drop(held);
        }
        let outcomes = client.outcomes(Encoding::Text);
        assert_eq!(outcomes.len(), answers.len(), "{outcomes:?}");
        for ((statement, answer), outcome) in answers.iter().zip(&outcomes) {
            check(statement, answer, outcome);
        }
        if let (Some(outcome), Some((_, answer))) = (outcomes.last(), answers.last())
            && *answer != Answer::Lost
        {
            let open = self.sessions[at].state.transaction.is_some();
            let reported = flags(outcome).contains(StatusFlags::IN_TRANSACTION);
            assert_eq!(reported, open, "the flags say whether a transaction is open");
        }
    }

    /// A session runs its prepared query.
    fn execute(&mut self) {
        let at = self.random.below(SESSIONS);
        self.notice_loss(at);
        self.log.push(format!("{at}: its prepared query"));
        let session = &mut self.sessions[at];
        let answer = session.state.apply(&Statement::Read, &mut self.store);
        let outcome = session.client.execute(session.prepared, &[]);
        check(&Statement::Read, &answer, &outcome);
    }

    /// A client disconnects: while it is idle, or while it waits for the log.
    fn disconnect(&mut self) {
        let at = self.random.below(SESSIONS);
        self.notice_loss(at);
        let mut states = vec![self.store.rows.clone()];
        let held = self.random.one_in(2).then(|| self.disk.hold());
        if held.is_some() {
            let text = self.text(false);
            let sql = text.iter().map(Statement::sql).collect::<Vec<_>>().join("; ");
            self.log.push(format!("{at}: {sql}; and is gone while it waits"));
            let mut store = self.store.clone();
            store.states.clear();
            let state = &mut self.sessions[at].state;
            let lost = |statement| state.apply(statement, &mut store) == Answer::Lost;
            let _ = text.iter().any(lost);
            states.extend(store.states);
            let client = &mut self.sessions[at].client;
            client.writer.command_query(sql.as_bytes());
            client.send();
            let micros = self.random.below(3000) as u64;
            std::thread::sleep(Duration::from_micros(micros));
        } else {
            self.log.push(format!("{at}: is gone"));
        }
        let fresh = Session::new(&self.server);
        drop(std::mem::replace(&mut self.sessions[at], fresh));
        drop(held);
        let began = Instant::now();
        while self.control.texts("show processlist").len() > SESSIONS + 1 {
            assert!(began.elapsed() < Duration::from_secs(60), "its connection stays");
            std::thread::sleep(Duration::from_millis(5));
        }
        // Unacknowledged commits are there up to some point, each of them as a whole.
        let mut seen = self.control.texts(READ);
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let again = self.control.texts(READ);
            if again == seen {
                break;
            }
            seen = again;
        }
        let rows = seen.iter().map(|row| row[0].parse::<i32>().unwrap()).collect::<Vec<_>>();
        assert!(states.contains(&rows), "{rows:?} is none of {states:?}");
        self.store.rows = rows;
    }
}

fn flags(outcome: &Outcome) -> StatusFlags {
    match outcome {
        Outcome::Ok { status, .. } => *status,
        Outcome::Rows(rows) => rows.status,
        other => panic!("{other:?}"),
    }
}

fn check(statement: &Statement, answer: &Answer, outcome: &Outcome) {
    match (answer, outcome) {
        (Answer::Done, Outcome::Ok { .. }) => {}
        (Answer::Lost, Outcome::Err { errno, .. }) if *errno == LOST => {}
        (Answer::Large, Outcome::Rows(rows)) => assert_eq!(rows.rows.len(), 1),
        (Answer::Count(count), Outcome::Rows(rows)) => {
            assert_eq!(text(&rows.rows[0][0]), count.to_string(), "{statement:?}");
        }
        (Answer::Rows(wanted), Outcome::Rows(rows)) => {
            let cells = |row: &Vec<_>| [text(&row[0]), text(&row[1])];
            let rows = rows.rows.iter().map(cells).collect::<Vec<_>>();
            assert_eq!(rows, *wanted, "{statement:?}");
        }
        _ => panic!("{statement:?} answers {outcome:?} and not {answer:?}"),
    }
}

fn is_silent(client: &mut Client) -> bool {
    client.socket.set_read_timeout(Some(Duration::from_millis(25))).unwrap();
    let read = client.socket.peek(&mut [0]);
    client.socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    assert!(!matches!(read, Ok(0)), "the server is still there");
    read.is_err()
}

#[test]
fn sessions_do_what_a_plain_model_does() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("SESSIONS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SESSIONS_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let mut run = Run::new(seed);
        for step in 0..STEPS {
            let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.step()));
            if stepped.is_err() {
                let log = run.log[run.log.len().saturating_sub(30)..].join("\n  ");
                panic!("seed {seed}, step {step}, behind these:\n  {log}");
            }
        }
    }
}
