//! Named locks of sessions (GET_LOCK and related functions). They protect nothing in the server;
//! clients use them to coordinate, for example schema migrations. A session's locks are released
//! when it ends.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::clock::{ClockRef, Deadline, until};
use freshet_base::{Result, bail};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The longest name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Locks per session.
const HELD_MAX: usize = 1_000;

#[derive(Default)]
pub struct Locks {
    /// By lower-case name.
    held: Mutex<HashMap<String, Held>>,
    /// Notified whenever a lock is released.
    freed: Notify,
}

struct Held {
    /// The id of the connection.
    by: u32,
    /// How often it was taken; it is free after as many releases.
    times: u64,
}

/// The locks of one session, released on drop.
pub struct SessionLocks {
    all: Arc<Locks>,
    connection: u32,
}

impl SessionLocks {
    pub fn new(all: &Arc<Locks>, connection: u32) -> Self {
        Self { all: Arc::clone(all), connection }
    }

    /// Takes a lock, waiting until `deadline` while another session holds it; false on timeout.
    ///
    /// # Errors
    /// 3057 for an invalid name, 1041 when the session holds too many locks.
    pub async fn get(&self, name: &str, clock: &ClockRef, deadline: Deadline) -> Result<bool> {
        let name = checked(name)?;
        loop {
            let freed = self.all.freed.notified();
            let mut freed = std::pin::pin!(freed);
            // Registers for notifications before looking, so that no release is missed.
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

    /// Releases a lock once; `None` if nobody holds it, else whether this session did.
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

    /// Releases all locks of the session; returns how often they were taken.
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

    /// The id of the connection that holds a lock.
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

/// The validated name in lower case.
fn checked(name: &str) -> Result<String> {
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        bail!(LockName, "Incorrect user-level lock name '{name}'.");
    }
    Ok(name.to_lowercase())
}
