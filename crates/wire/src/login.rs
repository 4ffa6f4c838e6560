//! The server's side of authentication, from the first answer of a client to yes or no.

use crate::PacketWriter;
use crate::auth::{AuthPlugin, Credential, Scramble, obfuscate};

const MORE_DATA_HEADER: u8 = 0x01;
const FAST_ACCEPTED: u8 = 0x03;
const FULL_REQUIRED: u8 = 0x04;
const KEY_REQUEST: u8 = 0x02;

/// The RSA key of the server, by which clients without TLS encrypt their password.
pub trait PasswordKey {
    /// The public key as PEM (`-----BEGIN PUBLIC KEY-----`).
    fn public_key_pem(&self) -> &str;
    /// Decrypts what was encrypted with RSAES-OAEP on SHA-1; `None` if that fails.
    fn decrypt(&self, ciphertext: &[u8]) -> Option<Vec<u8>>;
}

/// What has to happen after a step of the exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthStep {
    /// Send what was written, read the next packet and hand it to [`Authenticator::advance`].
    Continue,
    /// The password is right: answer with an OK packet.
    Accepted {
        /// The [`Credential::Sha2Fast`] that a full exchange taught; keep it in memory only.
        learned: Option<Credential>,
    },
    /// The password is wrong: answer with error 1045 and close.
    Rejected {
        /// Whether the client gave a password at all, as the message of 1045 says.
        password_given: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The answer to the greeting or to an AuthSwitchRequest comes next.
    Response,
    /// The password itself comes next, or the wish for the key to encrypt it with.
    Password,
    /// Yes or no has been said.
    Decided,
}

/// One exchange: of a new connection, or of a COM_CHANGE_USER.
#[derive(Debug)]
pub struct Authenticator {
    credential: Credential,
    scramble: Scramble,
    transport_secure: bool,
    stage: Stage,
}

impl Authenticator {
    /// An exchange about `credential`. `scramble` is the one of the greeting; `transport_secure`
    /// says whether nobody can read along (TLS, a Unix socket, the machine itself).
    pub fn new(credential: Credential, scramble: Scramble, transport_secure: bool) -> Self {
        Self { credential, scramble, transport_secure, stage: Stage::Response }
    }

    /// Judges the authentication response that came with the login request.
    ///
    /// `plugin` is the name that the client gave; without one it used `mysql_native_password`.
    pub fn begin(
        &mut self,
        writer: &mut PacketWriter,
        plugin: Option<&str>,
        response: &[u8],
    ) -> AuthStep {
        let plugin = plugin.unwrap_or(AuthPlugin::Native.name());
        let nothing_to_prove =
            matches!(self.credential, Credential::Empty(_)) && is_empty_password(response);
        if nothing_to_prove || plugin == self.credential.plugin().name() {
            self.judge_response(writer, response)
        } else {
            self.switch(writer)
        }
    }

    /// Asks the client to answer under the plugin and scramble of this exchange, whatever it said
    /// before. The way to begin a COM_CHANGE_USER, with a new scramble.
    pub fn switch(&mut self, writer: &mut PacketWriter) -> AuthStep {
        writer.auth_switch(self.credential.plugin(), &self.scramble);
        AuthStep::Continue
    }

    /// Takes the packet that followed an [`AuthStep::Continue`]. `key` may be absent: then clients
    /// without TLS can only pass without the full exchange.
    pub fn advance(
        &mut self,
        writer: &mut PacketWriter,
        payload: &[u8],
        key: Option<&dyn PasswordKey>,
    ) -> AuthStep {
        match self.stage {
            Stage::Response => self.judge_response(writer, payload),
            Stage::Password => self.take_password(writer, payload, key),
            Stage::Decided => self.decide(false, true),
        }
    }

    fn judge_response(&mut self, writer: &mut PacketWriter, response: &[u8]) -> AuthStep {
        if is_empty_password(response) {
            return self.decide(matches!(self.credential, Credential::Empty(_)), false);
        }
        let accepted = self.credential.accepts_response(&self.scramble, response);
        match (self.credential.plugin(), accepted) {
            (AuthPlugin::Native, _) => {}
            (AuthPlugin::CachingSha2, true) => more_data(writer, &[FAST_ACCEPTED]),
            // Wrong passwords and unknown users take the same way as those that only the slow
            // hash can judge, so that nobody learns from outside who has logged in before.
            (AuthPlugin::CachingSha2, false) => {
                more_data(writer, &[FULL_REQUIRED]);
                self.stage = Stage::Password;
                return AuthStep::Continue;
            }
        }
        self.decide(accepted, true)
    }

    fn take_password(
        &mut self,
        writer: &mut PacketWriter,
        payload: &[u8],
        key: Option<&dyn PasswordKey>,
    ) -> AuthStep {
        if let (Some(key), [KEY_REQUEST]) = (key, payload) {
            more_data(writer, key.public_key_pem().as_bytes());
            return AuthStep::Continue;
        }
        // Clients judge by themselves whether somebody could read along, so where nobody can,
        // either form may come.
        match key.and_then(|key| key.decrypt(payload)) {
            Some(hidden) => self.judge_password(&obfuscate(&hidden, &self.scramble)),
            None if self.transport_secure => self.judge_password(payload),
            None => self.decide(false, true),
        }
    }

    fn judge_password(&mut self, password_and_zero: &[u8]) -> AuthStep {
        let password = password_and_zero.strip_suffix(&[0]).unwrap_or(password_and_zero);
        match self.credential.accepts_password(password) {
            true => {
                self.stage = Stage::Decided;
                AuthStep::Accepted { learned: Some(Credential::sha2_fast(password)) }
            }
            false => self.decide(false, true),
        }
    }

    fn decide(&mut self, accepted: bool, password_given: bool) -> AuthStep {
        self.stage = Stage::Decided;
        match accepted {
            true => AuthStep::Accepted { learned: None },
            false => AuthStep::Rejected { password_given },
        }
    }
}

/// Clients say "no password" by no byte or by a zero byte, depending on plugin and library.
fn is_empty_password(response: &[u8]) -> bool {
    matches!(response, [] | [0])
}

fn more_data(writer: &mut PacketWriter, data: &[u8]) {
    writer.packet(|out| {
        out.push(MORE_DATA_HEADER);
        out.extend_from_slice(data);
    });
}
