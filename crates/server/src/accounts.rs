//! What the clients of one account hold of what all share, and how much of it they may hold.
//!
//! Whatever waits for a client counts for its account: what comes in and is not whole yet
//! ([`Receiving`]), and what is kept from one command to the next ([`Kept`]). So one account
//! that sends halves of packets or prepares without end is refused, and no other one is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use freshet_base::budget::{Budget, Permit};
use freshet_base::clock::Deadline;
use freshet_base::{ByteSize, Error, Result, Retry, bail, err};
use freshet_ingest::Engine;
use freshet_meta::Account;
use parking_lot::Mutex;

/// Accounts that nobody uses are forgotten when there are so many.
const FORGOTTEN_FROM: usize = 1024;
/// When to come again where others of the account have to finish first.
const RETRY_AFTER: Duration = Duration::from_millis(400);

/// How much memory may wait for clients.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// Bytes that are kept for all clients between their commands.
    pub client_memory: ByteSize,
    /// The same for the clients of one account; `None` means three quarters of it.
    pub account_memory: Option<ByteSize>,
    /// Bytes of unfinished requests of one account; `None` means half of the memory of writes.
    pub account_receive_memory: Option<ByteSize>,
}

/// All accounts that clients use.
pub struct Accounts {
    all: Mutex<HashMap<Account, Arc<Holdings>>>,
    kept: Budget,
    kept_bytes_max: u64,
    receiving_bytes_max: u64,
}

/// What the clients of one account hold.
pub struct Holdings {
    account: Account,
    /// Of what is kept between commands.
    kept: Budget,
    /// The same of all accounts.
    kept_of_all: Budget,
    /// Of what is coming in; it is memory of writes as well.
    receiving: Budget,
    /// Stream loads.
    loads: AtomicUsize,
}

/// The turn of a stream load; dropped, it is another one's.
pub struct LoadTurn(Arc<Holdings>);

impl Holdings {
    /// A turn for one more stream load of the account, which may have `loads_max`.
    ///
    /// # Errors
    /// 1041.
    pub fn begin_load(self: &Arc<Self>, loads_max: usize) -> Result<LoadTurn> {
        let more = |loads: usize| (loads < loads_max).then_some(loads + 1);
        match self.loads.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(LoadTurn(Arc::clone(self))),
            Err(loads) => Err(err!(
                OutOfRoom,
                "{loads} loads of {} run already (account_stream_loads_max); send it again",
                self.account
            )
            .with_retry(Retry::After(Duration::from_secs(1)))),
        }
    }
}

impl Drop for LoadTurn {
    fn drop(&mut self) {
        self.0.loads.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Accounts {
    /// Nobody yet; `write_bytes` is the memory of all writes.
    pub fn new(limits: &MemoryLimits, write_bytes: u64) -> Arc<Self> {
        let all = limits.client_memory.bytes();
        let or = |limit: Option<ByteSize>, default: u64| limit.map_or(default, ByteSize::bytes);
        Arc::new(Self {
            all: Mutex::default(),
            kept: Budget::new("client_memory", all),
            kept_bytes_max: or(limits.account_memory, all / 4 * 3).min(all),
            receiving_bytes_max: or(limits.account_receive_memory, write_bytes / 2),
        })
    }

    /// What the clients of `account` hold.
    pub fn of(&self, account: &Account) -> Arc<Holdings> {
        let mut all = self.all.lock();
        if let Some(holdings) = all.get(account) {
            return Arc::clone(holdings);
        }
        if all.len() >= FORGOTTEN_FROM {
            all.retain(|_, holdings| Arc::strong_count(holdings) > 1);
        }
        let holdings = Arc::new(Holdings {
            account: account.clone(),
            kept: Budget::new("account_memory", self.kept_bytes_max),
            kept_of_all: self.kept.clone(),
            receiving: Budget::new("account_receive_memory", self.receiving_bytes_max),
            loads: AtomicUsize::new(0),
        });
        all.insert(account.clone(), Arc::clone(&holdings));
        holdings
    }

    /// What is kept for all clients.
    pub fn kept(&self) -> &Budget {
        &self.kept
    }
}

/// Memory that is kept for a client from one command to the next: prepared statements and the
/// pieces of their parameters, rows of cursors, variables.
pub struct Kept {
    holdings: Arc<Holdings>,
    of_account: Permit,
    of_all: Permit,
}

impl Kept {
    /// Nothing yet, for a client of this account.
    pub fn nothing(holdings: &Arc<Holdings>) -> Self {
        Self {
            of_account: holdings.kept.acquire_over(0),
            of_all: holdings.kept_of_all.acquire_over(0),
            holdings: Arc::clone(holdings),
        }
    }

    /// How much it is.
    pub fn bytes(&self) -> u64 {
        self.of_account.bytes()
    }

    /// Is exactly `bytes` from now on.
    ///
    /// # Errors
    /// 1041 where the account, or all together, keep too much; it is as it was then.
    pub fn resize(&mut self, bytes: u64) -> Result<()> {
        if let Some(more) = bytes.checked_sub(self.bytes()).filter(|more| *more > 0) {
            let Some(own) = self.holdings.kept.try_acquire(more) else {
                return Err(self.refused(more));
            };
            let Some(all) = self.holdings.kept_of_all.try_acquire(more) else {
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
        let Holdings { account, kept, .. } = &*self.holdings;
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
        let kept = &self.holdings.kept_of_all;
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

/// Memory of writes for what a client is sending.
pub struct Receiving {
    holdings: Arc<Holdings>,
    of_account: Permit,
    of_writes: Permit,
}

impl Receiving {
    /// Nothing yet, for a client of this account.
    pub fn nothing(holdings: &Arc<Holdings>, engine: &Engine) -> Self {
        Self {
            of_account: holdings.receiving.acquire_over(0),
            of_writes: engine.memory().acquire_over(0),
            holdings: Arc::clone(holdings),
        }
    }

    /// How much it is.
    pub fn bytes(&self) -> u64 {
        self.of_writes.bytes()
    }

    /// Takes `more`, waiting until `deadline` where it must.
    ///
    /// # Errors
    /// 1041.
    pub async fn grow(&mut self, more: u64, engine: &Engine, deadline: Deadline) -> Result<()> {
        let limit = self.holdings.receiving.limit_bytes();
        let account = &self.holdings.account;
        if self.of_account.bytes() + more > limit {
            bail!(
                OutOfRoom,
                "the request needs {} before it is whole, and the clients of {account} may have \
                 {} (account_receive_memory); send it in smaller parts",
                ByteSize(self.of_account.bytes() + more),
                ByteSize(limit)
            );
        }
        let own = self.holdings.receiving.acquire(more, &**engine.clock(), deadline).await;
        let own = own.map_err(|_| {
            err!(
                OutOfRoom,
                "unfinished requests of the clients of {account} take {} of {} \
                 (account_receive_memory); retry in a moment",
                ByteSize(self.holdings.receiving.used_bytes()),
                ByteSize(limit)
            )
            .with_retry(Retry::After(RETRY_AFTER))
        })?;
        let all = engine.take_memory(more, deadline).await?;
        self.of_account.merge(own);
        self.of_writes.merge(all);
        Ok(())
    }

    /// Is exactly `bytes` from now on, above the limits if it must: for what is there already.
    pub fn resize_over(&mut self, bytes: u64) {
        self.of_account.resize_over(bytes);
        self.of_writes.resize_over(bytes);
    }

    /// The memory of what has come and no longer waits for the client.
    ///
    /// # Panics
    /// When it is less.
    pub fn hand_over(&mut self, bytes: u64) -> Permit {
        self.of_account.shrink_to(self.of_account.bytes() - bytes);
        self.of_writes.split(bytes)
    }
}
