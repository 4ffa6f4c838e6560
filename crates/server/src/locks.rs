//! Locks that sessions take by name: GET_LOCK and its kin. They guard nothing but what clients
//! agree on, such as who of several may migrate a schema, and live no longer than their session.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::clock::{ClockRef, Deadline, until};
use freshet_base::{Result, bail};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Most locks that one session has.
const HELD_MAX: usize = 1_000;

/// All locks of a server.
#[derive(Default)]
pub struct Locks {
    /// Who has which, by lower-case name.
    held: Mutex<HashMap<String, Held>>,
    /// Told whenever one becomes free.
    freed: Notify,
}

struct Held {
    /// The connection.
    by: u32,
    /// It is free when it was released as often as it was taken.
    times: u64,
}

/// The locks of one session; dropped, they are free.
pub struct SessionLocks {
    all: Arc<Locks>,
    connection: u32,
}

impl SessionLocks {
    /// Those of a connection, which has none yet.
    pub fn new(all: &Arc<Locks>, connection: u32) -> Self {
        Self { all: Arc::clone(all), connection }
    }

    /// Takes a lock, waiting until `deadline` for whoever has it; whether it was had in time.
    ///
    /// # Errors
    /// 3057 for what is no name, 1041 for too many.
    pub async fn get(&self, name: &str, clock: &ClockRef, deadline: Deadline) -> Result<bool> {
        let name = checked(name)?;
        loop {
            let freed = self.all.freed.notified();
            let mut freed = std::pin::pin!(freed);
            // What becomes free from here on is heard of.
            freed.as_mut().enable();
            if self.try_get(&name)? {
                return Ok(true);
            }
            if until(&**clock, deadline, freed).await.is_none() {
                return self.try_get(&name);
            }
        }
    }

    fn try_get(&self, name: &str) -> Result<bool> {
        let mut all = self.all.held.lock();
        if let Some(held) = all.get_mut(name) {
            let own = held.by == self.connection;
            held.times += u64::from(own);
            return Ok(own);
        }
        if all.values().filter(|held| held.by == self.connection).count() >= HELD_MAX {
            bail!(OutOfRoom, "a session has at most {HELD_MAX} locks; release some");
        }
        all.insert(name.to_owned(), Held { by: self.connection, times: 1 });
        Ok(true)
    }

    /// Releases a lock once; `None` where nobody has it, else whether this session had.
    ///
    /// # Errors
    /// 3057.
    pub fn release(&self, name: &str) -> Result<Option<bool>> {
        let name = checked(name)?;
        let mut all = self.all.held.lock();
        let Some(held) = all.get_mut(&name) else { return Ok(None) };
        if held.by != self.connection {
            return Ok(Some(false));
        }
        held.times -= 1;
        if held.times == 0 {
            all.remove(&name);
            self.all.freed.notify_waiters();
        }
        Ok(Some(true))
    }

    /// Releases all locks of the session; how often they were taken.
    pub fn release_all(&self) -> u64 {
        let mut released = 0;
        self.all.held.lock().retain(|_, held| {
            let own = held.by == self.connection;
            released += if own { held.times } else { 0 };
            !own
        });
        if released > 0 {
            self.all.freed.notify_waiters();
        }
        released
    }

    /// The connection that has a lock.
    ///
    /// # Errors
    /// 3057.
    pub fn holder(&self, name: &str) -> Result<Option<u32>> {
        let name = checked(name)?;
        Ok(self.all.held.lock().get(&name).map(|held| held.by))
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        self.release_all();
    }
}

/// The name as locks are kept by.
fn checked(name: &str) -> Result<String> {
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        bail!(LockName, "Incorrect user-level lock name '{name}'.");
    }
    Ok(name.to_lowercase())
}
