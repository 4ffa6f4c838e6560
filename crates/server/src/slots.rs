//! Connection slots: limits per server, address and account, and eviction of unauthenticated
//! connections.
//!
//! A connection is unauthenticated until its client has logged in. When a slot is needed, the
//! oldest unauthenticated connection is closed, so opening connections without logging in does not
//! block other clients. After the login the slot counts towards the client's address and account
//! and is not evicted any more. A few slots above the limits are reserved for administrators, like
//! MySQL's extra connection.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use freshet_base::{Error, Result, bail, err};
use freshet_meta::{Account, UserLimits};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Slots above the limits, for administrators only.
pub const ADMIN_SLOTS: usize = 4;
/// Unauthenticated connections above the limits, because one may be an administrator's.
pub const UNAUTHENTICATED_SLOTS: usize = 64;

/// The numbers of connection slots of one protocol.
#[derive(Clone, Copy, Debug)]
pub struct SlotLimits {
    pub all: usize,
    /// Per address.
    pub of_address: usize,
    /// Per account; `None`: no separate limit.
    pub of_account: Option<usize>,
    /// What MAX_USER_CONNECTIONS says of this account, and of administrators, too.
    pub own: Option<usize>,
    /// Additional unauthenticated connections.
    pub unauthenticated: usize,
    /// Additional connections of administrators.
    pub admins: usize,
}

/// The connections that an account may have by its own limits.
pub fn own_connections(limits: &UserLimits) -> Option<usize> {
    Some(limits.connections as usize).filter(|max| *max > 0)
}

/// The default limit of one address or account: three quarters of all, so that others always have
/// some.
pub const fn share_of(all: usize) -> usize {
    let share = all - all / 4;
    if share == all && all > 1 { all - 1 } else { share }
}

/// The connection slots of one protocol.
#[derive(Default)]
pub struct ConnectionSlots {
    used: Mutex<UsedSlots>,
    /// Notified when the last slot is released.
    emptied: Notify,
}

#[derive(Default)]
struct UsedSlots {
    /// By order of arrival.
    unauthenticated: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
    logged_in: usize,
    logged_in_by_address: HashMap<IpAddr, usize>,
    logged_in_by_account: HashMap<Account, usize>,
    unauthenticated_by_address: HashMap<IpAddr, usize>,
    last: u64,
}

/// A connection slot, released on drop.
pub struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    address: IpAddr,
    number: u64,
    /// Set after the login.
    account: Option<Account>,
    evict: Arc<Notify>,
}

impl ConnectionSlots {
    /// A slot for a new connection; the oldest unauthenticated connection may be closed for it.
    ///
    /// # Errors
    /// 1040 when no connection can be closed.
    pub fn enter(self: &Arc<Self>, address: IpAddr, limits: &SlotLimits) -> Result<ConnectionSlot> {
        let address = network(address);
        let mut used = self.used.lock();
        let unauthenticated = count(&used.unauthenticated_by_address, &address);
        let of_address = unauthenticated + count(&used.logged_in_by_address, &address);
        if of_address >= limits.of_address + limits.unauthenticated {
            if unauthenticated == 0 {
                return Err(address_full(address, limits));
            }
            used.evict_oldest_where(|from| from == address);
        }
        if used.logged_in + used.unauthenticated.len() >= limits.all + limits.unauthenticated {
            if used.unauthenticated.is_empty() {
                return Err(full());
            }
            used.evict_oldest_where(|_| true);
        }
        used.last += 1;
        let (number, evict) = (used.last, Arc::new(Notify::new()));
        used.unauthenticated.insert(number, (address, Arc::clone(&evict)));
        *used.unauthenticated_by_address.entry(address).or_default() += 1;
        Ok(ConnectionSlot { slots: Arc::clone(self), address, number, account: None, evict })
    }

    /// Closes the oldest unauthenticated connection, to free a file descriptor.
    pub fn evict_oldest(&self) {
        self.used.lock().evict_oldest_where(|_| true);
    }

    /// Resolves when all slots are free.
    pub async fn emptied(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.used.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }
}

impl UsedSlots {
    fn is_empty(&self) -> bool {
        self.logged_in + self.unauthenticated.len() == 0
    }

    /// Evicts the oldest unauthenticated connection for whose address `is_one` holds; its slot is
    /// free at once.
    fn evict_oldest_where(&mut self, is_one: impl Fn(IpAddr) -> bool) {
        let first = self.unauthenticated.iter().find(|(_, (address, _))| is_one(*address));
        let Some(number) = first.map(|(number, _)| *number) else { return };
        if let Some((_, evict)) = self.remove_unauthenticated(number) {
            evict.notify_one();
        }
    }

    fn remove_unauthenticated(&mut self, number: u64) -> Option<(IpAddr, Arc<Notify>)> {
        let left = self.unauthenticated.remove(&number)?;
        take_one(&mut self.unauthenticated_by_address, &left.0);
        Some(left)
    }

    fn check_own(&self, account: &Account, limits: &SlotLimits) -> Result<()> {
        let used = count(&self.logged_in_by_account, account);
        match limits.own.filter(|max| used >= *max) {
            Some(max) => bail!(
                UserLimit,
                "User '{}' has exceeded the 'max_user_connections' resource (current value: {max})",
                account.name
            ),
            None => Ok(()),
        }
    }

    fn check_limits(
        &self,
        address: IpAddr,
        account: &Account,
        limits: &SlotLimits,
        is_admin: bool,
    ) -> Result<()> {
        let admins = if is_admin { limits.admins } else { 0 };
        if self.logged_in >= limits.all + admins {
            return Err(full());
        }
        self.check_own(account, limits)?;
        if is_admin {
            return Ok(());
        }
        if limits.of_account.is_some_and(|max| count(&self.logged_in_by_account, account) >= max) {
            bail!(
                UserConnections,
                "User {} already has more than 'max_user_connections' active connections",
                account.name
            );
        }
        if count(&self.logged_in_by_address, &address) >= limits.of_address {
            return Err(address_full(address, limits));
        }
        Ok(())
    }
}

impl ConnectionSlot {
    /// Resolves when this connection was evicted; happens only before the login.
    pub fn evicted(&self) -> impl Future<Output = ()> + use<> {
        let evict = Arc::clone(&self.evict);
        async move { evict.notified().await }
    }

    /// Assigns the slot to an account after its login.
    ///
    /// # Errors
    /// 1040, 1203 and 1226 at the limits; the slot is unchanged then.
    pub fn assign(&mut self, account: &Account, limits: &SlotLimits, is_admin: bool) -> Result<()> {
        let mut used = self.slots.used.lock();
        match &self.account {
            None => {
                if !used.unauthenticated.contains_key(&self.number) {
                    return Err(full());
                }
                used.check_limits(self.address, account, limits, is_admin)?;
                used.remove_unauthenticated(self.number);
                used.logged_in += 1;
                *used.logged_in_by_address.entry(self.address).or_default() += 1;
            }
            Some(same) if same == account => return Ok(()),
            Some(other) => {
                let max = limits.of_account.filter(|_| !is_admin).unwrap_or(usize::MAX);
                let others = SlotLimits { all: usize::MAX, of_address: usize::MAX, ..*limits };
                let others = SlotLimits { of_account: Some(max), admins: 0, ..others };
                used.check_limits(self.address, account, &others, false)?;
                take_one(&mut used.logged_in_by_account, other);
            }
        }
        *used.logged_in_by_account.entry(account.clone()).or_default() += 1;
        self.account = Some(account.clone());
        Ok(())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut used = self.slots.used.lock();
        match &self.account {
            None => {
                used.remove_unauthenticated(self.number);
            }
            Some(account) => {
                used.logged_in -= 1;
                take_one(&mut used.logged_in_by_address, &self.address);
                take_one(&mut used.logged_in_by_account, account);
            }
        }
        if used.is_empty() {
            self.slots.emptied.notify_waiters();
        }
    }
}

fn count<K: Eq + Hash>(counts: &HashMap<K, usize>, key: &K) -> usize {
    counts.get(key).copied().unwrap_or(0)
}

fn take_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    let count = counts.get_mut(key).expect("who leaves was counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

/// The address that limits apply to: for IPv6 its /64 network, which a single machine may own.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

fn full() -> Error {
    err!(TooManyConnections, "Too many connections")
}

fn address_full(address: IpAddr, limits: &SlotLimits) -> Error {
    err!(
        TooManyConnections,
        "Too many connections from {address} (max_address_connections is {})",
        limits.of_address
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const LIMITS: SlotLimits = SlotLimits {
        all: 4,
        of_address: 3,
        of_account: Some(2),
        own: None,
        unauthenticated: 2,
        admins: 1,
    };

    fn at(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_first_unauthenticated_connection_leaves_for_the_next() {
        let slots = Arc::new(ConnectionSlots::default());
        let mut held = (0..5).map(|_| slots.enter(at(1), &LIMITS).unwrap()).collect::<Vec<_>>();
        let away = held.iter().map(|slot| slot.evicted().now_or_never().is_some());
        assert!(away.eq([false; 5]));
        let newcomer = slots.enter(at(1), &LIMITS).unwrap();
        assert!(held[0].evicted().now_or_never().is_some());
        assert!(held[0].assign(&Account::anywhere("a"), &LIMITS, true).is_err(), "it was evicted");
        let other = slots.enter(at(2), &LIMITS).unwrap();
        drop((held, newcomer, other));
        assert!(slots.emptied().now_or_never().is_some());
    }

    #[test]
    fn known_clients_stay_within_the_limits_and_administrators_come_in() {
        let slots = Arc::new(ConnectionSlots::default());
        let [a, b, root] = ["a", "b", "root"].map(Account::anywhere);
        let assign = |address: u8, account: &Account, is_admin: bool| {
            let mut slot = slots.enter(at(address), &LIMITS)?;
            slot.assign(account, &LIMITS, is_admin).map(|()| slot)
        };
        let first = assign(1, &a, false).unwrap();
        let second = assign(1, &a, false).unwrap();
        assert_eq!(assign(1, &a, false).err().unwrap().code().errno(), 1203);
        let mut third = assign(1, &b, false).unwrap();
        assert!(third.assign(&a, &LIMITS, false).is_err(), "a has as many as it may");
        let refused = assign(1, &b, false).err().unwrap();
        assert!(refused.message().contains("max_address_connections is 3"), "{refused:?}");
        let fourth = assign(2, &b, false).unwrap();
        assert_eq!(assign(3, &Account::anywhere("c"), false).err().unwrap().code().errno(), 1040);
        let admin = assign(1, &root, true).unwrap();
        assert!(assign(2, &root, true).is_err(), "the reserved slots are limited, too");
        drop((first, second, third, fourth, admin));
        assert!(slots.emptied().now_or_never().is_some());
        assert!(slots.used.lock().logged_in_by_account.is_empty());
    }

    #[test]
    fn a_share_leaves_room_for_others() {
        assert_eq!([1, 2, 3, 4, 4096].map(share_of), [1, 1, 2, 3, 3072]);
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2:3::4"), network("2001:db8:1:2::9"));
        assert_ne!(network("::ffff:10.0.0.1"), network("::ffff:10.0.0.2"));
    }
}
