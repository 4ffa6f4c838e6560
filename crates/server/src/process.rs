//! The process list: connections and what they run (`SHOW PROCESSLIST`, KILL).

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

/// The number of characters of a statement that the list keeps.
const INFO_CHARS_MAX: usize = 4096;

/// The `Command` column of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Activity {
    /// Waiting for the client.
    Sleep,
    /// Running a statement.
    Query,
    /// Logging in.
    Connect,
}

impl Activity {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "Sleep",
            Self::Query => "Query",
            Self::Connect => "Connect",
        }
    }
}

/// Flags of the open transaction.
const ONE_SNAPSHOT: u8 = 1;
const READS_ONLY: u8 = 2;

/// What others may know of an open transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShownTransaction {
    /// In microseconds since 1970 UTC.
    pub began_micros: i64,
    pub repeatable_read: bool,
    pub read_only: bool,
}

/// A connection in the process list.
pub struct Process {
    pub id: u32,
    /// `address:port` of the client.
    pub peer: String,
    details: Mutex<Details>,
    activity: AtomicU8,
    /// When the activity began, in microseconds of the monotonic clock: a step of the wall clock
    /// must not trigger idle timeouts.
    since_micros: AtomicU64,
    killed: AtomicBool,
    /// The server is shutting down: the connection ends after its current statement.
    retired: AtomicBool,
    /// The open transaction exceeded its idle timeout.
    rolls_back: AtomicBool,
    /// When the open transaction began, in microseconds since 1970 UTC; 0 if none is open.
    transaction_micros: AtomicU64,
    /// Whether it reads one snapshot, and whether it only reads: [`ONE_SNAPSHOT`], [`READS_ONLY`].
    transaction_kind: AtomicU8,
    /// The idle timeouts in seconds, without and with an open transaction.
    timeout_seconds: [AtomicU32; 2],
    /// Wakes the connection when it is killed while waiting for its client.
    waker: AtomicWaker,
    /// Notified when the running statement shall stop.
    interrupt: Notify,
    /// Whether the running statement shall stop.
    interrupted: AtomicBool,
    /// Statements begun so far.
    statements: AtomicU64,
}

/// The part that rarely changes.
#[derive(Clone, Debug, Default)]
pub struct Details {
    pub account: Option<Account>,
    /// The user name that the client gave.
    pub user: String,
    pub database: Option<Arc<str>>,
    /// The running statement; empty if none. Text after the first keyword for passwords is hidden.
    pub info: String,
    /// What the running statement waits for; empty if nothing.
    pub state: String,
    /// Connection attributes sent by the client.
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
            transaction_micros: AtomicU64::new(0),
            transaction_kind: AtomicU8::new(0),
            timeout_seconds: [AtomicU32::new(u32::MAX), AtomicU32::new(u32::MAX)],
            waker: AtomicWaker::new(),
            interrupt: Notify::new(),
            interrupted: AtomicBool::new(false),
            statements: AtomicU64::new(0),
        }
    }

    /// A copy of the details, with passwords hidden.
    pub fn details(&self) -> Details {
        let mut details = self.details.lock().clone();
        hide_secrets(&mut details.info);
        details
    }

    pub fn describe(&self, change: impl FnOnce(&mut Details)) {
        change(&mut self.details.lock());
    }

    pub fn activity(&self) -> Activity {
        match self.activity.load(Ordering::Relaxed) {
            0 => Activity::Sleep,
            1 => Activity::Query,
            _ => Activity::Connect,
        }
    }

    /// Seconds since the activity began.
    pub fn seconds(&self, now: Duration) -> u64 {
        micros(now).saturating_sub(self.since_micros.load(Ordering::Relaxed)) / 1_000_000
    }

    /// Records the begin of a statement.
    pub fn begin(&self, sql: &str, now: Duration) {
        let mut details = self.details.lock();
        details.info.clear();
        details.info.extend(sql.chars().take(INFO_CHARS_MAX));
        drop(details);
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.interrupted.store(self.is_killed(), Ordering::SeqCst);
        self.note(Activity::Query, now);
    }

    /// An id of the running statement for the server's log.
    pub fn statement(&self) -> String {
        format!("{}-{}", self.id, self.statements.load(Ordering::Relaxed))
    }

    /// Records that the connection waits for its client.
    pub fn rest(&self, now: Duration) {
        if self.activity() != Activity::Sleep {
            self.details.lock().info.clear();
        }
        self.note(Activity::Sleep, now);
    }

    /// Sets the activity; costs two atomic stores.
    pub fn note(&self, activity: Activity, now: Duration) {
        self.activity.store(activity as u8, Ordering::Relaxed);
        self.since_micros.store(micros(now), Ordering::Relaxed);
    }

    /// Whether the connection was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// Whether the connection shall end after its current statement.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Whether the open transaction exceeded its idle timeout; resets the flag. Checks the time
    /// again, because the client may have sent a command since and begun another transaction.
    pub fn takes_rollback(&self, clock: &dyn Clock) -> bool {
        self.rolls_back.load(Ordering::Relaxed)
            && self.rolls_back.swap(false, Ordering::Relaxed)
            && self.is_transaction_silent(clock.now())
    }

    /// Sets the idle timeouts, without and with an open transaction.
    pub fn set_idle_timeouts(&self, idle: Duration, in_transaction: Duration) {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        self.timeout_seconds[0].store(seconds(idle), Ordering::Relaxed);
        self.timeout_seconds[1].store(seconds(in_transaction), Ordering::Relaxed);
    }

    /// Records that a transaction was opened at this time, in microseconds since 1970 UTC.
    pub fn begin_transaction(&self, wall_micros: i64, repeatable_read: bool, read_only: bool) {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let kind = flag(repeatable_read, ONE_SNAPSHOT) | flag(read_only, READS_ONLY);
        self.transaction_kind.store(kind, Ordering::Relaxed);
        let micros = u64::try_from(wall_micros).unwrap_or(0).max(1);
        self.transaction_micros.store(micros, Ordering::Relaxed);
    }

    /// Records that no transaction is open.
    pub fn end_transaction(&self) {
        self.transaction_micros.store(0, Ordering::Relaxed);
    }

    /// The open transaction, if there is one.
    pub fn transaction(&self) -> Option<ShownTransaction> {
        let micros = self.transaction_micros.load(Ordering::Relaxed);
        let kind = self.transaction_kind.load(Ordering::Relaxed);
        (micros > 0).then(|| ShownTransaction {
            began_micros: i64::try_from(micros).unwrap_or(i64::MAX),
            repeatable_read: kind & ONE_SNAPSHOT != 0,
            read_only: kind & READS_ONLY != 0,
        })
    }

    /// Kills the connection or has its transaction rolled back if an idle timeout has passed.
    pub fn check_idle_timeouts(&self, now: Duration) {
        if self.activity() != Activity::Sleep {
            return;
        }
        if self.seconds(now) > self.timeout_seconds(0) {
            self.kill(true);
        } else if self.is_transaction_silent(now) {
            self.rolls_back.store(true, Ordering::Relaxed);
            self.waker.wake();
        }
    }

    fn is_transaction_silent(&self, now: Duration) -> bool {
        let is_open = self.transaction_micros.load(Ordering::Relaxed) > 0;
        is_open && self.seconds(now) > self.timeout_seconds(1)
    }

    fn timeout_seconds(&self, at: usize) -> u64 {
        self.timeout_seconds[at].load(Ordering::Relaxed).into()
    }

    /// Has the connection end after its current statement.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Sets the waker to wake when the connection is killed.
    pub fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Resolves when the connection is killed.
    pub async fn killed(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.is_killed() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether the running statement shall stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst) || self.is_killed()
    }

    /// Resolves when the running statement shall stop, also if that was requested before the call.
    pub async fn interrupted(&self) {
        let mut notified = std::pin::pin!(self.interrupt.notified());
        // Registers before looking, so that a notification in between is not missed.
        notified.as_mut().enable();
        if !self.is_interrupted() {
            notified.await;
        }
    }

    /// Stops the running statement, and closes the connection if `whole`.
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

/// Keywords after which a statement may contain a password.
const SECRET_WORDS: [&str; 2] = ["IDENTIFIED", "PASSWORD"];
/// Replaces the text after such a keyword.
const HIDDEN: &str = " <secret>";

/// Cuts text after its first keyword for passwords. Where a password ends depends on the session's
/// SQL mode, and the text may be truncated, so nothing after the keyword is shown.
pub fn hide_secrets(text: &mut String) {
    let upper = text.to_ascii_uppercase();
    let ends = SECRET_WORDS.iter().filter_map(|word| upper.find(word).map(|at| at + word.len()));
    if let Some(end) = ends.min() {
        text.truncate(end);
        text.push_str(HIDDEN);
    }
}

/// Where the first such keyword stands.
pub fn secret_at(text: &str) -> Option<usize> {
    let upper = text.to_ascii_uppercase();
    SECRET_WORDS.iter().filter_map(|word| upper.find(word)).min()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The process list.
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
    /// Adds a new connection.
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

    /// All connections, ordered by id.
    pub fn list(&self) -> Vec<Arc<Process>> {
        self.all.lock().values().cloned().collect()
    }

    pub fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// The connection with this id.
    ///
    /// # Errors
    /// 1094 if there is none.
    pub fn require(&self, id: u64) -> Result<Arc<Process>> {
        let found = u32::try_from(id).ok().and_then(|id| self.all.lock().get(&id).cloned());
        found.ok_or_else(|| err!(UnknownThread, "Unknown thread id: {id}"))
    }
}

/// A connection's entry in the list, removed on drop.
pub struct Registration {
    processes: Arc<Processes>,
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
