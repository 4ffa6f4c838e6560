//! Passwords: scrambled responses, stored hashes, verification.

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::sha256crypt;

pub const SCRAMBLE_BYTES: usize = 20;

/// The longest password, as in MySQL. The time of the slow hash grows with its square.
pub const PASSWORD_BYTES_MAX: usize = 256;

/// The random challenge of a login, which makes each response valid only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scramble([u8; SCRAMBLE_BYTES]);

impl Scramble {
    /// A scramble from random bytes. Clients treat it as zero-terminated text, so each byte is
    /// mapped to ASCII without zero and without `$`, which separates the parts of stored hashes.
    pub fn from_random(random: [u8; SCRAMBLE_BYTES]) -> Self {
        Self(random.map(|byte| match byte & 0x7f {
            0 | b'$' => (byte & 0x7f) + 1,
            text => text,
        }))
    }

    /// A scramble received from a server.
    pub(crate) fn received(bytes: [u8; SCRAMBLE_BYTES]) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8; SCRAMBLE_BYTES] {
        &self.0
    }
}

/// An authentication plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthPlugin {
    /// `mysql_native_password`, supported by clients up to MySQL 8.
    Native,
    /// `caching_sha2_password`, the default since MySQL 8.
    CachingSha2,
}

impl AuthPlugin {
    /// The name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
        }
    }

    pub fn from_name(name: impl AsRef<[u8]>) -> Option<Self> {
        let name = name.as_ref();
        [Self::Native, Self::CachingSha2].into_iter().find(|p| p.name().as_bytes() == name)
    }
}

/// What the server stores to verify a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// The empty password, and the plugin that clients are asked to use.
    Empty(AuthPlugin),
    /// No password matches. For unknown users: the exchange is the same as for existing ones.
    Never(AuthPlugin),
    /// SHA1(SHA1(password)).
    Native([u8; 20]),
    /// SHA256(SHA256(password)): a login takes one round trip.
    Sha2Fast([u8; 32]),
    /// A salted slow hash: the first login sends the password itself, over RSA or TLS, from which
    /// the server derives a [`Credential::Sha2Fast`] to keep in memory.
    Sha2Slow(SlowHash),
    /// Both: a right password is verified by the fast hash. A wrong one goes through the slow hash,
    /// as if there had been no login before, so that its duration does not reveal earlier logins.
    Sha2Cached(SlowHash, [u8; 32]),
    /// Either of two passwords: that of the account and, behind it, the one before. The plugin is
    /// that of the first.
    Either(Box<Credential>, Box<Credential>),
}

/// The fast hash of a password that was proven by this slow one, to be kept in memory only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastHash {
    pub of: SlowHash,
    pub fast: [u8; 32],
}

impl Credential {
    /// The credential of `password` for `mysql_native_password`.
    pub fn native(password: &[u8]) -> Self {
        match password {
            [] => Self::Empty(AuthPlugin::Native),
            _ => Self::Native(sha1(&[&sha1(&[password])])),
        }
    }

    /// The fast credential of `password` for `caching_sha2_password`.
    pub fn sha2_fast(password: &[u8]) -> Self {
        match password {
            [] => Self::Empty(AuthPlugin::CachingSha2),
            _ => Self::Sha2Fast(sha2_twice(password)),
        }
    }

    /// The plugin that this credential belongs to.
    pub fn plugin(&self) -> AuthPlugin {
        match self {
            Self::Empty(plugin) | Self::Never(plugin) => *plugin,
            Self::Native(_) => AuthPlugin::Native,
            Self::Sha2Fast(_) | Self::Sha2Slow(_) | Self::Sha2Cached(..) => AuthPlugin::CachingSha2,
            Self::Either(first, _) => first.plugin(),
        }
    }

    /// Checks a plaintext password, from HTTP Basic authentication or the full exchange; a
    /// [`Credential::Sha2Slow`] computes thousands of hashes.
    pub fn accepts_password(&self, password: &[u8]) -> bool {
        match self {
            Self::Empty(_) => password.is_empty(),
            Self::Never(_) => false,
            Self::Native(stored) => same(stored, &sha1(&[&sha1(&[password])])),
            Self::Sha2Fast(stored) => same(stored, &sha2_twice(password)),
            Self::Sha2Slow(slow) => slow.accepts(password),
            Self::Sha2Cached(slow, fast) => {
                Self::Sha2Fast(*fast).accepts_password(password) || slow.accepts(password)
            }
            Self::Either(..) => self.proven_by(password).is_some(),
        }
    }

    /// The credential that this password matches: this one, or one of its two.
    pub fn proven_by(&self, password: &[u8]) -> Option<&Self> {
        match self {
            Self::Either(first, second) => {
                first.proven_by(password).or_else(|| second.proven_by(password))
            }
            one => one.accepts_password(password).then_some(one),
        }
    }

    /// What to keep of a password that has proven this credential, so that its slow hash need not
    /// be computed again.
    pub fn fast_hash(&self, password: &[u8]) -> Option<FastHash> {
        match self {
            Self::Sha2Slow(slow) => Some(FastHash { of: slow.clone(), fast: sha2_twice(password) }),
            _ => None,
        }
    }

    /// As [`Self::accepts_password`], but `None` where a slow hash would be needed.
    pub fn accepts_quickly(&self, password: &[u8]) -> Option<bool> {
        match self {
            Self::Sha2Slow(_) => None,
            Self::Sha2Cached(_, fast) => {
                Self::Sha2Fast(*fast).accepts_password(password).then_some(true)
            }
            Self::Either(first, second) => {
                match (first.accepts_quickly(password), second.accepts_quickly(password)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                }
            }
            quick => Some(quick.accepts_password(password)),
        }
    }

    /// A credential of the same kind that no password matches. `draw` gives random numbers.
    #[must_use]
    pub fn decoy(&self, draw: &mut dyn FnMut() -> u64) -> Self {
        let mut bytes = [0; 32];
        let mut fill = |bytes: &mut [u8]| {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&draw().to_le_bytes()[..chunk.len()]);
            }
        };
        match self {
            Self::Empty(plugin) | Self::Never(plugin) => Self::Never(*plugin),
            Self::Native(_) => {
                let mut stored = [0; 20];
                fill(&mut stored);
                Self::Native(stored)
            }
            Self::Sha2Fast(_) => {
                fill(&mut bytes);
                Self::Sha2Fast(bytes)
            }
            Self::Sha2Slow(slow) | Self::Sha2Cached(slow, _) => {
                let (mut salt, mut digest) = (slow.salt, slow.digest);
                fill(&mut salt);
                fill(&mut digest);
                Self::Sha2Slow(SlowHash { thousand_rounds: slow.thousand_rounds, salt, digest })
            }
            Self::Either(first, second) => {
                let first = first.decoy(draw);
                Self::Either(Box::new(first), Box::new(second.decoy(draw)))
            }
        }
    }

    /// Checks a response to this scramble. Always false for a [`Credential::Sha2Slow`], which
    /// cannot verify responses.
    pub fn accepts_response(&self, scramble: &Scramble, response: &[u8]) -> bool {
        match self {
            Self::Empty(_) => response.is_empty(),
            Self::Never(_) | Self::Sha2Slow(_) => false,
            Self::Native(stored) => native_accepts(stored, scramble, response),
            Self::Sha2Fast(stored) | Self::Sha2Cached(_, stored) => {
                sha2_accepts(stored, scramble, response)
            }
            Self::Either(first, second) => {
                first.accepts_response(scramble, response)
                    || second.accepts_response(scramble, response)
            }
        }
    }
}

/// A salted slow hash, in MySQL's stored form: `$A$005$` + salt + digest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlowHash {
    thousand_rounds: u16,
    salt: [u8; SCRAMBLE_BYTES],
    digest: [u8; sha256crypt::DIGEST_BYTES],
}

impl SlowHash {
    /// MySQL's default number of rounds, in thousands.
    pub const THOUSAND_ROUNDS: u16 = 5;

    /// Hashes `password`; `None` if it is longer than [`PASSWORD_BYTES_MAX`]. `salt` comes from
    /// [`Scramble::from_random`].
    pub fn new(password: &[u8], salt: Scramble, thousand_rounds: u16) -> Option<Self> {
        let digest = digest(password, salt.bytes(), thousand_rounds)?;
        Some(Self { thousand_rounds, salt: *salt.bytes(), digest })
    }

    /// Checks a password, which computes thousands of hashes.
    pub fn accepts(&self, password: &[u8]) -> bool {
        let digest = digest(password, &self.salt, self.thousand_rounds);
        digest.is_some_and(|digest| same(&self.digest, &digest))
    }

    /// The stored form, which `CREATE USER .. IDENTIFIED WITH .. AS` accepts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("$A${:03X}$", self.thousand_rounds).into_bytes();
        text.extend_from_slice(&self.salt);
        text.extend_from_slice(&self.digest);
        text
    }

    /// Parses the form of [`SlowHash::to_bytes`].
    pub fn from_bytes(stored: &[u8]) -> Option<Self> {
        let (rounds, rest) = stored.strip_prefix(b"$A$")?.split_first_chunk::<3>()?;
        let (salt, digest) = rest.strip_prefix(b"$")?.split_first_chunk()?;
        let rounds = std::str::from_utf8(rounds).ok()?;
        Some(Self {
            thousand_rounds: u16::from_str_radix(rounds, 16).ok().filter(|count| *count > 0)?,
            salt: *salt,
            digest: digest.try_into().ok()?,
        })
    }
}

fn digest(
    password: &[u8],
    salt: &[u8],
    thousand_rounds: u16,
) -> Option<[u8; sha256crypt::DIGEST_BYTES]> {
    let rounds = u32::from(thousand_rounds) * 1000;
    (password.len() <= PASSWORD_BYTES_MAX).then(|| sha256crypt::hash(password, salt, rounds))
}

/// The client's response under `mysql_native_password`: `SHA1(password) XOR SHA1(scramble +
/// SHA1(SHA1(password)))`, empty for an empty password.
pub fn native_response(password: &[u8], scramble: &Scramble) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = sha1(&[password]);
    xor(&once, &sha1(&[scramble.bytes(), &sha1(&[&once])])).to_vec()
}

/// The client's first response under `caching_sha2_password`: `SHA256(password) XOR
/// SHA256(SHA256(SHA256(password)) + scramble)`, empty for an empty password.
pub fn sha2_response(password: &[u8], scramble: &Scramble) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = sha256(&[password]);
    xor(&once, &sha256(&[&sha256(&[&once]), scramble.bytes()])).to_vec()
}

fn native_accepts(stored: &[u8; 20], scramble: &Scramble, response: &[u8]) -> bool {
    let Ok(response) = response.try_into() else { return false };
    let once = xor(response, &sha1(&[scramble.bytes(), stored]));
    same(stored, &sha1(&[&once]))
}

fn sha2_accepts(stored: &[u8; 32], scramble: &Scramble, response: &[u8]) -> bool {
    let Ok(response) = response.try_into() else { return false };
    let once = xor(response, &sha256(&[stored, scramble.bytes()]));
    same(stored, &sha256(&[&once]))
}

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut hasher = Sha1::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

fn sha2_twice(password: &[u8]) -> [u8; 32] {
    sha256(&[&sha256(&[password])])
}

fn xor<const N: usize>(left: &[u8; N], right: &[u8; N]) -> [u8; N] {
    std::array::from_fn(|i| left[i] ^ right[i])
}

/// Compares in constant time, so that the duration does not reveal a partial match.
fn same<const N: usize>(left: &[u8; N], right: &[u8; N]) -> bool {
    let difference = left.iter().zip(right).fold(0, |seen, (l, r)| seen | (l ^ r));
    std::hint::black_box(difference) == 0
}

/// The plaintext of the RSA encryption: the password and a zero byte, XORed with the scramble.
pub(crate) fn obfuscate(password_and_zero: &[u8], scramble: &Scramble) -> Vec<u8> {
    let pad = scramble.bytes().iter().cycle();
    password_and_zero.iter().zip(pad).map(|(byte, mask)| byte ^ mask).collect()
}

#[cfg(test)]
mod tests;
