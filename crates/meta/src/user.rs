//! Accounts, authentication data and grants.

use std::net::Ipv4Addr;

use freshet_base::{Result, bail};

use crate::privilege::Privileges;
use crate::user_options::UserOptions;
use crate::user_properties::UserProperties;

/// An account with a host pattern, such as `'app'@'10.%'`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Account {
    /// The case-sensitive user name.
    pub name: String,
    /// The host pattern: `%` matches any characters, `_` a single one.
    pub host: String,
}

impl Account {
    /// The account with this name and the host pattern `%`.
    pub fn anywhere(name: impl Into<String>) -> Self {
        Self { name: name.into(), host: "%".to_owned() }
    }

    /// The account that has all privileges and cannot be dropped.
    pub fn root() -> Self {
        Self::anywhere("root")
    }

    /// `name`@`host`, as SHOW GRANTS and CURRENT_ROLE() print it.
    pub fn quoted(&self) -> String {
        let quoted = |text: &str| text.replace('`', "``");
        format!("`{}`@`{}`", quoted(&self.name), quoted(&self.host))
    }

    /// Whether a client at `host` may use it: one that matches the pattern, or that is in the
    /// network of an address with a mask, as in `10.0.0.0/255.0.0.0` and `10.0.0.0/8`.
    pub fn matches_host(&self, host: &str) -> bool {
        if let Some((address, mask)) = network(&self.host) {
            return host.parse::<Ipv4Addr>().is_ok_and(|host| host.to_bits() & mask == address);
        }
        like(self.host.to_ascii_lowercase().as_bytes(), host.to_ascii_lowercase().as_bytes())
    }

    /// Higher for more specific patterns.
    pub(crate) fn host_weight(&self) -> (bool, usize) {
        if let Some((_, mask)) = network(&self.host) {
            // Below addresses, and above all patterns, which are shorter.
            return (false, 256 + mask.count_ones() as usize);
        }
        let literal = self.host.find(['%', '_']);
        (literal.is_none(), literal.unwrap_or(self.host.len()))
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}'@'{}'", self.name, self.host)
    }
}

/// The address and the mask of a host that is a network.
fn network(host: &str) -> Option<(u32, u32)> {
    let (address, mask) = host.split_once('/')?;
    let address = address.parse::<Ipv4Addr>().ok()?.to_bits();
    let mask = match mask.parse::<u32>() {
        Ok(bits @ 0..=32) => u32::MAX.checked_shl(32 - bits).unwrap_or(0),
        Ok(_) => return None,
        Err(_) => mask.parse::<Ipv4Addr>().ok()?.to_bits(),
    };
    Some((address, mask))
}

/// Whether `text` matches a pattern with `%` and `_`, in time at most proportional to the product
/// of both lengths.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'%') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'_' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((percent, from)) = retry else { return false };
                retry = Some((percent, from + 1));
                p = percent + 1;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'%')
}

/// How the connection of an account must be encrypted (REQUIRE).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsRequirement {
    /// It need not be.
    #[default]
    None,
    /// By TLS.
    Ssl,
    /// By TLS, with a certificate of the client that the server trusts.
    X509,
}

/// What a client must show to use an account. Without hashes its password is empty.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct AuthData {
    /// SHA1(SHA1(password)), for `mysql_native_password`.
    pub native: Option<[u8; 20]>,
    /// The slow, salted hash for `caching_sha2_password`, in MySQL's format: `$A$005$`, salt,
    /// digest.
    pub sha2_slow: Option<String>,
    pub tls: TlsRequirement,
    /// When the password was set, in seconds since 1970; 0 where that is not known.
    pub changed_seconds: u64,
}

impl AuthData {
    pub fn is_empty_password(&self) -> bool {
        self.native.is_none() && self.sha2_slow.is_none()
    }
}

/// Omits hashes, to keep them out of logs.
impl std::fmt::Debug for AuthData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuthData(empty password: {})", self.is_empty_password())
    }
}

/// The object of a grant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GrantObject {
    /// `*.*`.
    Server,
    /// `d.*`, whether or not the database exists.
    Database(String),
    /// `d.t`, whether or not the table exists.
    Table(String, String),
    /// A column of `d.t`, as the table calls it.
    Column(String, String, String),
}

impl GrantObject {
    /// Whether it is a column of this table.
    pub(crate) fn is_column_of(&self, database: &str, table: &str) -> bool {
        matches!(self, Self::Column(db, name, _) if db == database && name == table)
    }
}

impl std::fmt::Display for GrantObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = |name: &str| name.replace('`', "``");
        match self {
            Self::Server => f.write_str("*.*"),
            Self::Database(database) => write!(f, "`{}`.*", quoted(database)),
            Self::Table(database, table) | Self::Column(database, table, _) => {
                write!(f, "`{}`.`{}`", quoted(database), quoted(table))
            }
        }
    }
}

/// Privileges on one object, identified by name: as in MySQL, a grant survives a DROP of its table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    pub object: GrantObject,
    pub privileges: Privileges,
}

/// A role that was granted to an account, or to another role.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GrantedRole {
    pub role: Account,
    /// WITH ADMIN OPTION: it may be granted on.
    pub admin: bool,
}

/// The most passwords that are remembered of an account: each costs a slow hash where another one
/// is set.
const PAST_PASSWORDS_MAX: usize = 100;

/// Which passwords an account must not have again: the last `count`, and those that were set at
/// `since_seconds` or later, in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remembered {
    pub count: u32,
    pub since_seconds: Option<u64>,
}

/// What becomes of the second password of an account that gets a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SecondPassword {
    #[default]
    Kept,
    /// It is the one before the new one.
    Replaced,
    Discarded,
}

/// An account with its authentication data and grants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    pub account: Account,
    pub auth: AuthData,
    /// The password before, while it opens the account as well (RETAIN CURRENT PASSWORD).
    pub second: Option<AuthData>,
    /// Passwords that it had and must not have again, newest first.
    pub past: Vec<AuthData>,
    /// Whether nobody can log in as it, as it is a role.
    pub locked: bool,
    /// One entry per object, ordered by object.
    pub grants: Vec<Grant>,
    /// One entry per role, ordered by role.
    pub roles: Vec<GrantedRole>,
    /// The roles that are active behind a login, ordered; some may not be granted any more.
    pub default_roles: Vec<Account>,
    pub options: UserOptions,
    /// COMMENT and ATTRIBUTE: a JSON object.
    pub attributes: Option<String>,
    pub properties: UserProperties,
    /// The workload groups that were granted to it, ordered; `%` stands for all of them.
    pub groups: Vec<String>,
}

impl User {
    /// A user without privileges.
    pub fn new(account: Account, auth: AuthData) -> Self {
        Self {
            account,
            auth,
            second: None,
            past: Vec::new(),
            locked: false,
            grants: Vec::new(),
            roles: Vec::new(),
            default_roles: Vec::new(),
            options: UserOptions::default(),
            attributes: None,
            properties: UserProperties::default(),
            groups: Vec::new(),
        }
    }

    /// The passwords that it must not have again, newest first, with the present one.
    pub fn remembered(&self, remembered: Remembered) -> impl Iterator<Item = &AuthData> {
        let known = std::iter::once(&self.auth).chain(&self.past);
        let known = known.filter(|auth| !auth.is_empty_password());
        let is_remembered = move |(at, auth): &(u32, &AuthData)| {
            let is_young = |since| auth.changed_seconds >= since;
            *at < remembered.count || remembered.since_seconds.is_some_and(is_young)
        };
        (0..).zip(known).filter(is_remembered).map(|(_, auth)| auth).take(PAST_PASSWORDS_MAX)
    }

    /// Its second password behind a change of the first to `new`.
    ///
    /// # Errors
    /// 3878 and 3895 where the first is to be retained, and it or `new` is empty.
    pub(crate) fn second_behind(
        &self,
        new: &AuthData,
        how: SecondPassword,
    ) -> Result<Option<AuthData>> {
        let Account { name, host } = &self.account;
        match how {
            SecondPassword::Replaced if self.auth.is_empty_password() => bail!(
                SecondPasswordEmpty,
                "Empty password can not be retained as second password for user '{name}'@'{host}'."
            ),
            SecondPassword::Replaced if new.is_empty_password() => bail!(
                PasswordNotRetained,
                "Current password can not be retained for user '{name}'@'{host}' because new \
                 password is empty."
            ),
            SecondPassword::Replaced => {
                Ok(Some(AuthData { tls: TlsRequirement::None, ..self.auth.clone() }))
            }
            // Otherwise it would be the only one of an account that is to have none.
            SecondPassword::Kept if new.is_empty_password() => Ok(None),
            SecondPassword::Kept => Ok(self.second.clone()),
            SecondPassword::Discarded => Ok(None),
        }
    }

    /// Whether its password must be changed before anything else.
    pub fn is_expired(&self, now_seconds: u64) -> bool {
        let lifetime = u64::from(self.options.lifetime_days) * 24 * 3600;
        let is_old = self.auth.changed_seconds.saturating_add(lifetime) <= now_seconds;
        self.options.is_expired || lifetime > 0 && is_old
    }

    /// The privileges granted on exactly this object.
    pub fn granted(&self, object: &GrantObject) -> Privileges {
        let found = self.grants.iter().find(|grant| grant.object == *object);
        found.map_or(Privileges::NONE, |grant| grant.privileges)
    }

    /// Whether this role was granted to it, not by way of another role.
    pub fn holds(&self, role: &Account) -> bool {
        self.roles.iter().any(|granted| granted.role == *role)
    }

    /// The same with another name of a role.
    pub(crate) fn with_role_renamed(&self, from: &Account, to: &Account) -> Self {
        let mut user = self.clone();
        let held = user.roles.iter_mut().map(|granted| &mut granted.role);
        for role in held.chain(&mut user.default_roles).filter(|role| *role == from) {
            role.clone_from(to);
        }
        user.roles.sort_by(|a, b| a.role.cmp(&b.role));
        user.default_roles.sort();
        user
    }

    /// The roles that a login makes active.
    pub fn login_roles(&self, all: bool) -> Vec<Account> {
        let held = self.roles.iter().map(|granted| &granted.role);
        held.filter(|role| all || self.default_roles.contains(role)).cloned().collect()
    }

    /// Sets the privileges on this object.
    #[must_use]
    pub(crate) fn with_grant(mut self, object: GrantObject, privileges: Privileges) -> Self {
        self.grants.retain(|grant| grant.object != object);
        if !privileges.is_empty() {
            self.grants.push(Grant { object, privileges });
            self.grants.sort_by(|a, b| a.object.cmp(&b.object));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_patterns_match_as_like_does() {
        let at = |host: &str| Account { name: "u".to_owned(), host: host.to_owned() };
        assert!(at("%").matches_host("10.0.0.7"));
        assert!(at("10.%").matches_host("10.0.0.7"));
        assert!(!at("10.%").matches_host("11.0.0.7"));
        assert!(at("10.0.0._").matches_host("10.0.0.7"));
        assert!(at("%.example.com").matches_host("a.EXAMPLE.com"));
        assert!(!at("%.example.com").matches_host("a.example.org"));
        assert!(at("10.0.0.0/255.255.255.0").matches_host("10.0.0.7"));
        assert!(!at("10.0.0.0/255.255.255.0").matches_host("10.0.1.7"));
        assert!(at("10.0.0.0/8").matches_host("10.255.0.7"));
        assert!(!at("10.0.0.0/8").matches_host("11.0.0.7"));
        assert!(at("0.0.0.0/0").matches_host("11.0.0.7"));
        assert!(!at("10.0.0.0/8").matches_host("localhost"));
        assert!(!at("10.0.0.0/33").matches_host("10.0.0.7"));
        assert!(at("10.0.0.7").host_weight() > at("10.0.0.0/24").host_weight());
        assert!(at("10.0.0.0/24").host_weight() > at("10.0.0.0/8").host_weight());
        assert!(at("10.0.0.0/8").host_weight() > at("10.0.0.%").host_weight());
        assert!(at("10.0.0.7").host_weight() > at("10.%").host_weight());
        assert!(at("10.%").host_weight() > at("%").host_weight());
    }

    #[test]
    fn passwords_are_remembered_by_number_and_by_age() {
        let set_at = |changed_seconds| AuthData {
            native: Some([changed_seconds as u8; 20]),
            changed_seconds,
            ..AuthData::default()
        };
        let mut user = User::new(Account::root(), set_at(50));
        user.past = vec![set_at(40), AuthData::default(), set_at(30), set_at(20)];
        let times = |count, since_seconds| {
            let remembered = user.remembered(Remembered { count, since_seconds });
            remembered.map(|auth| auth.changed_seconds).collect::<Vec<_>>()
        };
        assert!(times(0, None).is_empty());
        assert_eq!(times(3, None), [50, 40, 30], "an empty one is none");
        assert_eq!(times(0, Some(30)), [50, 40, 30]);
        assert_eq!(times(1, Some(45)), [50]);
        assert_eq!(times(2, Some(45)), [50, 40]);
    }

    #[test]
    fn hashes_are_not_printed() {
        let slow = Some("$A$005$salt".to_owned());
        let auth = AuthData { native: Some([171; 20]), sha2_slow: slow, ..AuthData::default() };
        let shown = format!("{auth:?}");
        assert!(!shown.contains("171") && !shown.contains("salt"), "{shown}");
    }
}
