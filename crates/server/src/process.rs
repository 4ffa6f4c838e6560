//! Who is connected and what they do: `SHOW PROCESSLIST` and KILL.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_base::{Result, err};
use freshet_meta::Account;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Most characters of a statement that the list keeps.
const INFO_CHARS_MAX: usize = 4096;

/// What a connection does, as `Command` of the list says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Activity {
    /// It waits for its client.
    Sleep,
    /// It runs a statement.
    Query,
    /// It logs in.
    Connect,
}

impl Activity {
    /// The word of the list.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "Sleep",
            Self::Query => "Query",
            Self::Connect => "Connect",
        }
    }
}

/// One connection, as others see it.
pub struct Process {
    /// Its id.
    pub id: u32,
    /// `address:port` of the client.
    pub peer: String,
    details: Mutex<Details>,
    activity: AtomicU8,
    /// When the activity began, in microseconds of the clock's monotonic time: a step of the wall
    /// clock makes nobody silent.
    since_micros: AtomicU64,
    killed: AtomicBool,
    /// The server stops: the connection ends when its statement has.
    retired: AtomicBool,
    /// Its transaction was silent for too long.
    rolls_back: AtomicBool,
    /// Whether a transaction is open.
    in_transaction: AtomicBool,
    /// Seconds that it may be silent, and with an open transaction.
    patience_seconds: [AtomicU32; 2],
    /// Wakes the connection when it was killed while it waits for its client.
    waker: AtomicWaker,
    /// Tells the running statement to stop.
    interrupt: Notify,
    /// Whether it was told so.
    interrupted: AtomicBool,
    /// How many statements began.
    statements: AtomicU64,
}

/// What changes seldom.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Who logged in.
    pub account: Option<Account>,
    /// The name that the client gave.
    pub user: String,
    /// The current database.
    pub database: Option<Arc<str>>,
    /// The running statement; empty for none. From its first word about passwords on it is
    /// hidden.
    pub info: String,
    /// What the client said of itself.
    pub attributes: Vec<(String, String)>,
}

impl Process {
    fn new(id: u32, peer: String, now: Duration) -> Self {
        Self {
            id,
            peer,
            details: Mutex::default(),
            activity: AtomicU8::new(Activity::Connect as u8),
            since_micros: AtomicU64::new(micros(now)),
            killed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            rolls_back: AtomicBool::new(false),
            in_transaction: AtomicBool::new(false),
            patience_seconds: [AtomicU32::new(u32::MAX), AtomicU32::new(u32::MAX)],
            waker: AtomicWaker::new(),
            interrupt: Notify::new(),
            interrupted: AtomicBool::new(false),
            statements: AtomicU64::new(0),
        }
    }

    /// What changes seldom, as it is now, without the secrets of a statement.
    pub fn details(&self) -> Details {
        let mut details = self.details.lock().clone();
        hide_secrets(&mut details.info);
        details
    }

    /// Changes what changes seldom.
    pub fn describe(&self, change: impl FnOnce(&mut Details)) {
        change(&mut self.details.lock());
    }

    /// What it does.
    pub fn activity(&self) -> Activity {
        match self.activity.load(Ordering::Relaxed) {
            0 => Activity::Sleep,
            1 => Activity::Query,
            _ => Activity::Connect,
        }
    }

    /// For how many seconds it has done what it does.
    pub fn seconds(&self, now: Duration) -> u64 {
        micros(now).saturating_sub(self.since_micros.load(Ordering::Relaxed)) / 1_000_000
    }

    /// A statement begins.
    pub fn begin(&self, sql: &str, now: Duration) {
        let mut details = self.details.lock();
        details.info.clear();
        details.info.extend(sql.chars().take(INFO_CHARS_MAX));
        drop(details);
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.interrupted.store(self.is_killed(), Ordering::SeqCst);
        self.note(Activity::Query, now);
    }

    /// What tells the running statement from all others, in the log.
    pub fn statement(&self) -> String {
        format!("{}-{}", self.id, self.statements.load(Ordering::Relaxed))
    }

    /// The connection waits for its client again.
    pub fn rest(&self, now: Duration) {
        if self.activity() != Activity::Sleep {
            self.details.lock().info.clear();
        }
        self.note(Activity::Sleep, now);
    }

    /// The activity changes. Cheap: two stores.
    pub fn note(&self, activity: Activity, now: Duration) {
        self.activity.store(activity as u8, Ordering::Relaxed);
        self.since_micros.store(micros(now), Ordering::Relaxed);
    }

    /// Whether the connection is to end.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// Whether the connection is to end when its statement has.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Whether the open transaction is to be rolled back; asks once. Looks at the time again: the
    /// client may have spoken since that was found, and have begun another transaction.
    pub fn takes_roll_back(&self, clock: &dyn Clock) -> bool {
        self.rolls_back.load(Ordering::Relaxed)
            && self.rolls_back.swap(false, Ordering::Relaxed)
            && self.is_transaction_silent(clock.now())
    }

    /// How long it may be silent, and how long with an open transaction.
    pub fn set_patience(&self, idle: Duration, in_transaction: Duration) {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        self.patience_seconds[0].store(seconds(idle), Ordering::Relaxed);
        self.patience_seconds[1].store(seconds(in_transaction), Ordering::Relaxed);
    }

    /// Whether a transaction is open.
    pub fn set_in_transaction(&self, open: bool) {
        self.in_transaction.store(open, Ordering::Relaxed);
    }

    /// Ends what has been silent for too long.
    pub fn check_patience(&self, now: Duration) {
        if self.activity() != Activity::Sleep {
            return;
        }
        if self.seconds(now) > self.patience_seconds(0) {
            self.kill(true);
        } else if self.is_transaction_silent(now) {
            self.rolls_back.store(true, Ordering::Relaxed);
            self.waker.wake();
        }
    }

    fn is_transaction_silent(&self, now: Duration) -> bool {
        self.in_transaction.load(Ordering::Relaxed) && self.seconds(now) > self.patience_seconds(1)
    }

    fn patience_seconds(&self, at: usize) -> u64 {
        self.patience_seconds[at].load(Ordering::Relaxed).into()
    }

    /// Lets the connection end when its statement has.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Says who is to be woken when the connection is killed.
    pub fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Resolves when the connection is to end at once.
    pub async fn killed(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.is_killed() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Resolves when the running statement is to stop, whenever it was told so.
    pub async fn interrupted(&self) {
        let mut told = std::pin::pin!(self.interrupt.notified());
        // Who is told between the look and the wait is told.
        told.as_mut().enable();
        if !self.interrupted.load(Ordering::SeqCst) && !self.is_killed() {
            told.await;
        }
    }

    /// Ends the running statement, and the connection with it if `whole`.
    pub fn kill(&self, whole: bool) {
        if whole {
            self.killed.store(true, Ordering::Relaxed);
            self.waker.wake();
        }
        if whole || self.activity() == Activity::Query {
            self.interrupted.store(true, Ordering::SeqCst);
            self.interrupt.notify_waiters();
        }
    }
}

/// Words behind which a statement may hold a password.
const SECRET_WORDS: [&str; 2] = ["IDENTIFIED", "PASSWORD"];
/// What stands for all that follows such a word.
const HIDDEN: &str = " <secret>";

/// Cuts a text behind its first word about passwords. Where a secret ends depends on the mode of
/// the session and on what the text was cut to, so nothing behind the word is shown.
fn hide_secrets(text: &mut String) {
    let upper = text.to_ascii_uppercase();
    let ends = SECRET_WORDS.iter().filter_map(|word| upper.find(word).map(|at| at + word.len()));
    if let Some(end) = ends.min() {
        text.truncate(end);
        text.push_str(HIDDEN);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// All connections.
pub struct Processes {
    all: Mutex<BTreeMap<u32, Arc<Process>>>,
    next: AtomicU32,
}

impl Default for Processes {
    fn default() -> Self {
        Self { all: Mutex::default(), next: AtomicU32::new(1) }
    }
}

impl Processes {
    /// Lists a new connection.
    pub fn register(self: &Arc<Self>, peer: String, now: Duration) -> Registration {
        let mut all = self.all.lock();
        let mut id = self.next.fetch_add(1, Ordering::Relaxed);
        while id == 0 || id == u32::MAX || all.contains_key(&id) {
            id = self.next.fetch_add(1, Ordering::Relaxed);
        }
        let process = Arc::new(Process::new(id, peer, now));
        all.insert(id, Arc::clone(&process));
        Registration { processes: Arc::clone(self), process }
    }

    /// All connections, by id.
    pub fn list(&self) -> Vec<Arc<Process>> {
        self.all.lock().values().cloned().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// The connection of this id.
    ///
    /// # Errors
    /// 1094 where there is none.
    pub fn require(&self, id: u64) -> Result<Arc<Process>> {
        let found = u32::try_from(id).ok().and_then(|id| self.all.lock().get(&id).cloned());
        found.ok_or_else(|| err!(UnknownThread, "Unknown thread id: {id}"))
    }
}

/// The place of a connection in the list; dropped, it is gone from there.
pub struct Registration {
    processes: Arc<Processes>,
    /// The connection.
    pub process: Arc<Process>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.processes.all.lock().remove(&self.process.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_behind_a_word_about_passwords() {
        let shown = |sql: &str| {
            let process = Process::new(1, String::new(), Duration::ZERO);
            process.begin(sql, Duration::ZERO);
            process.details().info
        };
        assert_eq!(shown("SELECT 1"), "SELECT 1");
        assert_eq!(
            shown("SELECT SLEEP(9); CREATE USER u identified BY 'x\\'y'; SELECT 'z'"),
            "SELECT SLEEP(9); CREATE USER u identified <secret>"
        );
        assert_eq!(shown("SET PASSWORD FOR u = 'x'"), "SET PASSWORD <secret>");
        assert_eq!(shown("SET PASSWORD = PASSWORD('IDENTIFIED x')"), "SET PASSWORD <secret>");
        assert_eq!(
            shown("/*! ALTER USER u IDENTIFIED*/ AS 0x41"),
            "/*! ALTER USER u IDENTIFIED <secret>"
        );
    }
}
