//! A session that adds a column to a table and drops it again, in a loop during writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::table::Table;
use crate::target::Target;

/// The time between two changes.
const PAUSE: Duration = Duration::from_millis(50);

/// The changes of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Altered {
    pub count: u64,
    /// The duration of the longest one.
    pub max_ms: f64,
}

/// A thread that changes a table until it is stopped.
pub struct Alterer {
    done: Arc<AtomicBool>,
    thread: JoinHandle<Result<Altered, String>>,
}

impl Alterer {
    /// Starts a thread with a connection of its own.
    pub fn start(target: &Target, table: &Table) -> Result<Self, String> {
        let done = Arc::new(AtomicBool::new(false));
        let (session, name, until) =
            (Session::open(target)?, table.name.clone(), Arc::clone(&done));
        Ok(Self { done, thread: std::thread::spawn(move || alter(session, &name, &until)) })
    }

    /// Waits for the last change; a refused one is an error.
    pub fn stop(self) -> Result<Altered, String> {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the thread that alters panicked")?
    }
}

fn alter(mut session: Session, table: &str, done: &AtomicBool) -> Result<Altered, String> {
    let clock = SystemClock::new();
    let mut altered = Altered::default();
    let changes = [
        format!("ALTER TABLE {table} ADD COLUMN more INT NULL"),
        format!("ALTER TABLE {table} DROP COLUMN more"),
    ];
    for change in changes.iter().cycle() {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let start = clock.now();
        session.query(change)?;
        altered.count += 1;
        altered.max_ms = altered.max_ms.max((clock.now() - start).as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    Ok(altered)
}
