//! The places of connections: how many there are, who may have how many, and who makes room.
//!
//! A connection is unauthenticated until its client has logged in. Where a place is wanted the one
//! that came first has to leave, so whoever opens connections and says nothing keeps nobody out.
//! Once a client is known its place counts for its address and its account, and is its own until
//! it leaves; a few above all limits are for administrators, as MySQL's extra connection.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use freshet_base::{Error, Result, bail, err};
use freshet_meta::Account;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Places above the limits that only administrators have.
pub const ADMIN_PLACES: usize = 4;
/// Unauthenticated connections above the limits: one of them may be an administrator's.
pub const UNAUTHENTICATED_PLACES: usize = 64;

/// How many places of one protocol there are.
#[derive(Clone, Copy, Debug)]
pub struct PlaceLimits {
    /// For all.
    pub all: usize,
    /// For one address.
    pub of_address: usize,
    /// For one account; `None` for no limit of its own.
    pub of_account: Option<usize>,
    /// For unauthenticated connections above these limits.
    pub unauthenticated: usize,
    /// For administrators above these limits.
    pub admins: usize,
}

/// A part of all for one of many: three quarters, so that others always find room.
pub const fn share_of(all: usize) -> usize {
    let share = all - all / 4;
    if share == all && all > 1 { all - 1 } else { share }
}

/// The places of one protocol.
#[derive(Default)]
pub struct Places {
    taken: Mutex<Taken>,
    /// Told whenever the last place is free.
    emptied: Notify,
}

#[derive(Default)]
struct Taken {
    /// By the order in which they came.
    unauthenticated: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
    known: usize,
    known_by_address: HashMap<IpAddr, usize>,
    known_by_account: HashMap<Account, usize>,
    unauthenticated_by_address: HashMap<IpAddr, usize>,
    last: u64,
}

/// A place; dropped, it is free.
pub struct Place {
    places: Arc<Places>,
    address: IpAddr,
    number: u64,
    /// Whose it is, once that is known.
    account: Option<Account>,
    leave: Arc<Notify>,
}

impl Places {
    /// A place for a new connection; another unauthenticated one may have to leave for it.
    ///
    /// # Errors
    /// 1040 where nobody can leave.
    pub fn enter(self: &Arc<Self>, address: IpAddr, limits: &PlaceLimits) -> Result<Place> {
        let address = network(address);
        let mut taken = self.taken.lock();
        let unauthenticated = count(&taken.unauthenticated_by_address, &address);
        let of_address = unauthenticated + count(&taken.known_by_address, &address);
        if of_address >= limits.of_address + limits.unauthenticated {
            if unauthenticated == 0 {
                return Err(address_full(address, limits));
            }
            taken.send_away(|from| from == address);
        }
        if taken.known + taken.unauthenticated.len() >= limits.all + limits.unauthenticated {
            if taken.unauthenticated.is_empty() {
                return Err(full());
            }
            taken.send_away(|_| true);
        }
        taken.last += 1;
        let (number, leave) = (taken.last, Arc::new(Notify::new()));
        taken.unauthenticated.insert(number, (address, Arc::clone(&leave)));
        *taken.unauthenticated_by_address.entry(address).or_default() += 1;
        Ok(Place { places: Arc::clone(self), address, number, account: None, leave })
    }

    /// Closes the unauthenticated connection that came first: descriptors are needed.
    pub fn make_room(&self) {
        self.taken.lock().send_away(|_| true);
    }

    /// Resolves once nobody has a place.
    pub async fn emptied(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.taken.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.known + self.unauthenticated.len() == 0
    }

    /// The first unauthenticated connection that `is_one` holds for has to leave; its place is
    /// free at once.
    fn send_away(&mut self, is_one: impl Fn(IpAddr) -> bool) {
        let first = self.unauthenticated.iter().find(|(_, (address, _))| is_one(*address));
        let Some(number) = first.map(|(number, _)| *number) else { return };
        if let Some((_, leave)) = self.remove_unauthenticated(number) {
            leave.notify_one();
        }
    }

    fn remove_unauthenticated(&mut self, number: u64) -> Option<(IpAddr, Arc<Notify>)> {
        let left = self.unauthenticated.remove(&number)?;
        take_one(&mut self.unauthenticated_by_address, &left.0);
        Some(left)
    }

    fn check_known(
        &self,
        address: IpAddr,
        account: &Account,
        limits: &PlaceLimits,
        is_admin: bool,
    ) -> Result<()> {
        let admins = if is_admin { limits.admins } else { 0 };
        if self.known >= limits.all + admins {
            return Err(full());
        }
        if is_admin {
            return Ok(());
        }
        if limits.of_account.is_some_and(|max| count(&self.known_by_account, account) >= max) {
            bail!(
                UserConnections,
                "User {} already has more than 'max_user_connections' active connections",
                account.name
            );
        }
        if count(&self.known_by_address, &address) >= limits.of_address {
            return Err(address_full(address, limits));
        }
        Ok(())
    }
}

impl Place {
    /// Resolves when the connection has to leave for another one; only an unauthenticated one does.
    pub fn sent_away(&self) -> impl Future<Output = ()> + use<> {
        let leave = Arc::clone(&self.leave);
        async move { leave.notified().await }
    }

    /// From now on it is the place of a client of `account`.
    ///
    /// # Errors
    /// 1040 and 1203; nothing changes then.
    pub fn settle(
        &mut self,
        account: &Account,
        limits: &PlaceLimits,
        is_admin: bool,
    ) -> Result<()> {
        let mut taken = self.places.taken.lock();
        match &self.account {
            None => {
                if !taken.unauthenticated.contains_key(&self.number) {
                    return Err(full());
                }
                taken.check_known(self.address, account, limits, is_admin)?;
                taken.remove_unauthenticated(self.number);
                taken.known += 1;
                *taken.known_by_address.entry(self.address).or_default() += 1;
            }
            Some(same) if same == account => return Ok(()),
            Some(other) => {
                let max = limits.of_account.filter(|_| !is_admin).unwrap_or(usize::MAX);
                let others = PlaceLimits { all: usize::MAX, of_address: usize::MAX, ..*limits };
                let others = PlaceLimits { of_account: Some(max), admins: 0, ..others };
                taken.check_known(self.address, account, &others, false)?;
                take_one(&mut taken.known_by_account, other);
            }
        }
        *taken.known_by_account.entry(account.clone()).or_default() += 1;
        self.account = Some(account.clone());
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        match &self.account {
            None => {
                taken.remove_unauthenticated(self.number);
            }
            Some(account) => {
                taken.known -= 1;
                take_one(&mut taken.known_by_address, &self.address);
                take_one(&mut taken.known_by_account, account);
            }
        }
        if taken.is_empty() {
            self.places.emptied.notify_waiters();
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

/// What counts as one address: of IPv6 the network, all of which one machine may have.
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

fn address_full(address: IpAddr, limits: &PlaceLimits) -> Error {
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

    const LIMITS: PlaceLimits =
        PlaceLimits { all: 4, of_address: 3, of_account: Some(2), unauthenticated: 2, admins: 1 };

    fn at(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_first_unauthenticated_connection_leaves_for_the_next() {
        let places = Arc::new(Places::default());
        let mut held = (0..5).map(|_| places.enter(at(1), &LIMITS).unwrap()).collect::<Vec<_>>();
        let away = held.iter().map(|place| place.sent_away().now_or_never().is_some());
        assert!(away.eq([false; 5]));
        let newcomer = places.enter(at(1), &LIMITS).unwrap();
        assert!(held[0].sent_away().now_or_never().is_some());
        assert!(held[0].settle(&Account::anywhere("a"), &LIMITS, true).is_err(), "it had to go");
        let other = places.enter(at(2), &LIMITS).unwrap();
        drop((held, newcomer, other));
        assert!(places.emptied().now_or_never().is_some());
    }

    #[test]
    fn known_clients_stay_within_the_limits_and_administrators_come_in() {
        let places = Arc::new(Places::default());
        let [a, b, root] = ["a", "b", "root"].map(Account::anywhere);
        let settle = |address: u8, account: &Account, is_admin: bool| {
            let mut place = places.enter(at(address), &LIMITS)?;
            place.settle(account, &LIMITS, is_admin).map(|()| place)
        };
        let first = settle(1, &a, false).unwrap();
        let second = settle(1, &a, false).unwrap();
        assert_eq!(settle(1, &a, false).err().unwrap().code().errno(), 1203);
        let mut third = settle(1, &b, false).unwrap();
        assert!(third.settle(&a, &LIMITS, false).is_err(), "a has as many as it may");
        let refused = settle(1, &b, false).err().unwrap();
        assert!(refused.message().contains("max_address_connections is 3"), "{refused:?}");
        let fourth = settle(2, &b, false).unwrap();
        assert_eq!(settle(3, &Account::anywhere("c"), false).err().unwrap().code().errno(), 1040);
        let admin = settle(1, &root, true).unwrap();
        assert!(settle(2, &root, true).is_err(), "their places have an end, too");
        drop((first, second, third, fourth, admin));
        assert!(places.emptied().now_or_never().is_some());
        assert!(places.taken.lock().known_by_account.is_empty());
    }

    #[test]
    fn a_share_leaves_room_for_others() {
        assert_eq!([1, 2, 3, 4, 4096].map(share_of), [1, 1, 2, 3, 3072]);
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2:3::4"), network("2001:db8:1:2::9"));
        assert_ne!(network("::ffff:10.0.0.1"), network("::ffff:10.0.0.2"));
    }
}
