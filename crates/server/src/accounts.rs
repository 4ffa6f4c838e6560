//! Memory and load slots per account, and their limits.
//!
//! Memory held for a client counts towards its account: incomplete requests ([`RequestMemory`]) and
//! state kept between commands ([`SessionMemory`]). So an account that sends half packets or
//! prepares statements without end runs into its own limit, and other accounts are not affected.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use freshet_base::budget::{Budget, Permit};
use freshet_base::clock::Deadline;
use freshet_base::{ByteSize, Error, Result, Retry, bail, err};
use freshet_ingest::Engine;
use freshet_meta::{Account, UserLimits};
use parking_lot::Mutex;

/// From this number of accounts on, those are looked for that nothing has to be remembered of.
const FORGOTTEN_FROM: usize = 1024;
const HOUR: Duration = Duration::from_secs(3600);
/// The retry time in errors that pass when other requests of the account finish.
const RETRY_AFTER: Duration = Duration::from_millis(400);

/// Limits on memory held for clients.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// Session state (prepared statements, cursors, variables) of all clients.
    pub client_memory: ByteSize,
    /// Session state of one account's clients; `None`: three quarters of `client_memory`.
    pub account_memory: Option<ByteSize>,
    /// Incomplete requests of one account's clients; `None`: half of the write memory.
    pub account_receive_memory: Option<ByteSize>,
}

pub struct Accounts {
    all: Mutex<Usages>,
    kept: Budget,
    kept_bytes_max: u64,
    receiving_bytes_max: u64,
}

/// By account. They are as many as there are clients, and accounts with limits by the hour that did
/// something in it: dropped ones are forgotten, so there are not more than accounts.
struct Usages {
    by_account: HashMap<Account, Arc<AccountUsage>>,
    /// At this number those are removed that are not needed.
    full: usize,
}

/// What the clients of one account use.
pub struct AccountUsage {
    account: Account,
    /// The account's share of session memory.
    kept: Budget,
    /// Session memory of all accounts.
    kept_of_all: Budget,
    /// Memory of incomplete requests; it is also taken from the write memory.
    receiving: Budget,
    /// Stream loads that run.
    loads: AtomicUsize,
    /// Queries that run or wait, of an account with a limit of them.
    queries: AtomicUsize,
    /// What was done in the hour that began with the first of it.
    hour: Mutex<Hour>,
}

/// What is counted by the hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hourly {
    Queries,
    Updates,
    Connections,
}

#[derive(Default)]
struct Hour {
    /// Of the monotonic clock.
    began: Duration,
    queries: u32,
    updates: u32,
    connections: u32,
}

impl Hour {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= HOUR
    }

    /// Whether there is something in it to remember.
    fn counts(&self, now: Duration) -> bool {
        !self.is_over(now) && self.queries.max(self.updates).max(self.connections) > 0
    }
}

/// The right to run one stream load; released on drop.
pub struct LoadSlot(Arc<AccountUsage>);

impl AccountUsage {
    /// Counts one more, unless there is no limit of it.
    ///
    /// # Errors
    /// 1226 at the limit.
    pub fn count(&self, limits: &UserLimits, what: Hourly, now: Duration) -> Result<()> {
        let (max, resource) = match what {
            Hourly::Queries => (limits.queries_per_hour, "max_questions"),
            Hourly::Updates => (limits.updates_per_hour, "max_updates"),
            Hourly::Connections => (limits.connections_per_hour, "max_connections_per_hour"),
        };
        if max == 0 {
            return Ok(());
        }
        let mut hour = self.hour.lock();
        if hour.is_over(now) {
            *hour = Hour { began: now, ..Hour::default() };
        }
        let counted = match what {
            Hourly::Queries => &mut hour.queries,
            Hourly::Updates => &mut hour.updates,
            Hourly::Connections => &mut hour.connections,
        };
        if *counted >= max {
            let left = HOUR.saturating_sub(now.saturating_sub(hour.began));
            bail!(
                UserLimit,
                "User '{}' has exceeded the '{resource}' resource (current value: {max}); it \
                 begins anew in {} minutes",
                self.account.name,
                left.as_secs() / 60 + 1
            );
        }
        *counted += 1;
        Ok(())
    }

    /// A guard of one more query of the account, which may have `max` that run or wait.
    ///
    /// # Errors
    /// 1226 at the limit.
    pub fn begin_query(self: &Arc<Self>, max: u32) -> Result<QueryGuard> {
        let more = |queries: usize| (queries < max as usize).then_some(queries + 1);
        match self.queries.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(QueryGuard(Arc::clone(self))),
            Err(_) => bail!(
                UserLimit,
                "User '{}' has exceeded the 'max_query_instances' resource (current value: {max}); \
                 send the query again when another one has ended",
                self.account.name
            ),
        }
    }

    /// A slot for one more stream load of the account, which may have `loads_max` by the setting or
    /// property of this name.
    ///
    /// # Errors
    /// 1041 when all slots are in use.
    pub fn begin_load(self: &Arc<Self>, loads_max: usize, limit: &str) -> Result<LoadSlot> {
        let more = |loads: usize| (loads < loads_max).then_some(loads + 1);
        match self.loads.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(LoadSlot(Arc::clone(self))),
            Err(loads) => Err(err!(
                OutOfRoom,
                "{loads} loads of {} run already ({limit} is {loads_max}); send it again",
                self.account
            )
            .with_retry(Retry::After(Duration::from_secs(1)))),
        }
    }
}

/// A query that counts for its account until it is dropped.
pub struct QueryGuard(Arc<AccountUsage>);

impl Drop for QueryGuard {
    fn drop(&mut self) {
        self.0.queries.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for LoadSlot {
    fn drop(&mut self) {
        self.0.loads.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Accounts {
    /// `write_bytes` is the limit of the write memory.
    pub fn new(limits: &MemoryLimits, write_bytes: u64) -> Arc<Self> {
        let all = limits.client_memory.bytes();
        let or = |limit: Option<ByteSize>, default: u64| limit.map_or(default, ByteSize::bytes);
        Arc::new(Self {
            all: Mutex::new(Usages { by_account: HashMap::new(), full: FORGOTTEN_FROM }),
            kept: Budget::new("client_memory", all),
            kept_bytes_max: or(limits.account_memory, all / 4 * 3).min(all),
            receiving_bytes_max: or(limits.account_receive_memory, write_bytes / 2),
        })
    }

    /// The usage of `account`, created on first use.
    pub fn of(&self, account: &Account, now: Duration) -> Arc<AccountUsage> {
        let mut all = self.all.lock();
        if let Some(usage) = all.by_account.get(account) {
            return Arc::clone(usage);
        }
        if all.by_account.len() >= all.full {
            let is_used = |usage: &Arc<AccountUsage>| Arc::strong_count(usage) > 1;
            all.by_account.retain(|_, usage| is_used(usage) || usage.hour.lock().counts(now));
            // So that few of those who come look through all.
            all.full = FORGOTTEN_FROM.max(2 * all.by_account.len());
        }
        let usage = Arc::new(AccountUsage {
            account: account.clone(),
            kept: Budget::new("account_memory", self.kept_bytes_max),
            kept_of_all: self.kept.clone(),
            receiving: Budget::new("account_receive_memory", self.receiving_bytes_max),
            loads: AtomicUsize::new(0),
            queries: AtomicUsize::new(0),
            hour: Mutex::default(),
        });
        all.by_account.insert(account.clone(), Arc::clone(&usage));
        usage
    }

    /// Forgets what an account did in this hour.
    pub fn forget_hour(&self, account: &Account) {
        if let Some(usage) = self.all.lock().by_account.get(account) {
            *usage.hour.lock() = Hour::default();
        }
    }

    /// Session memory of all clients.
    pub fn kept(&self) -> &Budget {
        &self.kept
    }
}

/// Memory for session state that outlives a command: prepared statements and pieces of their
/// parameters, rows of cursors, variables.
pub struct SessionMemory {
    usage: Arc<AccountUsage>,
    of_account: Permit,
    of_all: Permit,
}

impl SessionMemory {
    /// No memory yet, charged to this account.
    pub fn new(usage: &Arc<AccountUsage>) -> Self {
        Self {
            of_account: usage.kept.acquire_over(0),
            of_all: usage.kept_of_all.acquire_over(0),
            usage: Arc::clone(usage),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.of_account.bytes()
    }

    /// Grows or shrinks to `bytes`.
    ///
    /// # Errors
    /// 1041 at the limit of the account or of all clients; the size is then unchanged.
    pub fn resize(&mut self, bytes: u64) -> Result<()> {
        if let Some(more) = bytes.checked_sub(self.bytes()).filter(|more| *more > 0) {
            let Some(own) = self.usage.kept.try_acquire(more) else {
                return Err(self.refused(more));
            };
            let Some(all) = self.usage.kept_of_all.try_acquire(more) else {
                return Err(self.refused_to_all(more));
            };
            self.of_account.merge(own);
            self.of_all.merge(all);
        }
        self.of_account.shrink_to(bytes);
        self.of_all.shrink_to(bytes);
        Ok(())
    }

    fn refused(&self, more: u64) -> Error {
        let AccountUsage { account, kept, .. } = &*self.usage;
        let (used, limit) = (ByteSize(kept.used_bytes()), ByteSize(kept.limit_bytes()));
        err!(
            OutOfRoom,
            "{} more cannot be kept for the clients of {account}: their prepared statements, \
             parameters sent in pieces, cursors and variables take {used} of {limit} \
             (account_memory); close some",
            ByteSize(more)
        )
    }

    fn refused_to_all(&self, more: u64) -> Error {
        let kept = &self.usage.kept_of_all;
        let (used, limit) = (ByteSize(kept.used_bytes()), ByteSize(kept.limit_bytes()));
        err!(
            OutOfRoom,
            "{} more cannot be kept: prepared statements, parameters sent in pieces, cursors and \
             variables of all clients take {used} of {limit} (client_memory); close some, or \
             retry in a moment",
            ByteSize(more)
        )
        .with_retry(Retry::After(RETRY_AFTER))
    }
}

/// Write memory for an incomplete request.
pub struct RequestMemory {
    usage: Arc<AccountUsage>,
    of_account: Permit,
    of_writes: Permit,
}

impl RequestMemory {
    /// No memory yet, charged to this account.
    pub fn new(usage: &Arc<AccountUsage>, engine: &Engine) -> Self {
        Self {
            of_account: usage.receiving.acquire_over(0),
            of_writes: engine.memory().acquire_over(0),
            usage: Arc::clone(usage),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.of_writes.bytes()
    }

    /// Takes `more` bytes, waiting until `deadline` for others to free them.
    ///
    /// # Errors
    /// 1041 when they are not free in time or exceed the account's limit.
    pub async fn grow(&mut self, more: u64, engine: &Engine, deadline: Deadline) -> Result<()> {
        let limit = self.usage.receiving.limit_bytes();
        let account = &self.usage.account;
        if self.of_account.bytes() + more > limit {
            bail!(
                OutOfRoom,
                "the request needs {} before it is whole, and the clients of {account} may have \
                 {} (account_receive_memory); send it in smaller parts",
                ByteSize(self.of_account.bytes() + more),
                ByteSize(limit)
            );
        }
        let own = self.usage.receiving.acquire(more, &**engine.clock(), deadline).await;
        let own = own.map_err(|_| {
            err!(
                OutOfRoom,
                "unfinished requests of the clients of {account} take {} of {} \
                 (account_receive_memory); retry in a moment",
                ByteSize(self.usage.receiving.used_bytes()),
                ByteSize(limit)
            )
            .with_retry(Retry::After(RETRY_AFTER))
        })?;
        let all = engine.take_memory(more, deadline).await?;
        self.of_account.merge(own);
        self.of_writes.merge(all);
        Ok(())
    }

    /// Grows or shrinks to `bytes`, ignoring the limits: for bytes that were received already.
    pub fn resize_over(&mut self, bytes: u64) {
        self.of_account.resize_over(bytes);
        self.of_writes.resize_over(bytes);
    }

    /// Splits off write memory for bytes that were received completely; they no longer count as an
    /// incomplete request.
    ///
    /// # Panics
    /// When less is held.
    pub fn hand_over(&mut self, bytes: u64) -> Permit {
        self.of_account.shrink_to(self.of_account.bytes() - bytes);
        self.of_writes.split(bytes)
    }
}
