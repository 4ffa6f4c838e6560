//! The server's side of authentication.

use crate::PacketWriter;
use crate::auth::{AuthPlugin, Credential, FastHash, Scramble, obfuscate};

const MORE_DATA_HEADER: u8 = 0x01;
const FAST_ACCEPTED: u8 = 0x03;
const FULL_REQUIRED: u8 = 0x04;
const KEY_REQUEST: u8 = 0x02;

/// The RSA key with which clients without TLS encrypt their password.
pub trait PasswordKey {
    /// The public key in PEM (`-----BEGIN PUBLIC KEY-----`).
    fn public_key_pem(&self) -> &str;
    /// Decrypts RSAES-OAEP with SHA-1; `None` if that fails.
    fn decrypt(&self, ciphertext: &[u8]) -> Option<Vec<u8>>;
}

/// What to do after a step of the exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthStep {
    /// Send the written bytes, read the next packet and pass it to [`Authenticator::advance`].
    Continue,
    /// The password is right: answer with an OK packet.
    Accepted {
        /// What to keep in memory after a full exchange.
        fast_hash: Option<FastHash>,
    },
    /// The password is wrong: answer with error 1045 and close the connection.
    Rejected {
        /// Whether the client gave a password, for the message of 1045.
        password_given: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Expects the response to the greeting or to an AuthSwitchRequest.
    Response,
    /// Expects the password, or a request for the key to encrypt it with.
    Password,
    /// The exchange has ended.
    Decided,
}

/// One authentication exchange, of a new connection or a COM_CHANGE_USER.
#[derive(Debug)]
pub struct Authenticator {
    credential: Credential,
    scramble: Scramble,
    transport_secure: bool,
    stage: Stage,
}

impl Authenticator {
    /// `scramble` is that of the greeting; `transport_secure` says whether the connection cannot be
    /// eavesdropped (TLS, Unix socket, loopback).
    pub fn new(credential: Credential, scramble: Scramble, transport_secure: bool) -> Self {
        Self { credential, scramble, transport_secure, stage: Stage::Response }
    }

    /// Checks the authentication response of the login request.
    ///
    /// `plugin` is the client's plugin; without one it is `mysql_native_password`.
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

    /// Requests a response with the plugin and scramble of this exchange; for COM_CHANGE_USER, with
    /// a new scramble.
    pub fn switch(&mut self, writer: &mut PacketWriter) -> AuthStep {
        writer.auth_switch(self.credential.plugin(), &self.scramble);
        AuthStep::Continue
    }

    /// Processes the packet after an [`AuthStep::Continue`]. Without a `key`, clients without TLS
    /// can log in only where no full exchange is needed.
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
            // Wrong passwords and unknown users go through the full exchange like users whose fast
            // hash is not cached, so that it cannot be observed who has logged in before.
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
        // Clients decide by themselves whether the connection is secure, so on a secure one the
        // password may come encrypted or in plaintext.
        match key.and_then(|key| key.decrypt(payload)) {
            Some(hidden) => self.judge_password(&obfuscate(&hidden, &self.scramble)),
            None if self.transport_secure => self.judge_password(payload),
            None => self.decide(false, true),
        }
    }

    fn judge_password(&mut self, password_and_zero: &[u8]) -> AuthStep {
        let password = password_and_zero.strip_suffix(&[0]).unwrap_or(password_and_zero);
        match self.credential.proven_by(password) {
            Some(proven) => {
                self.stage = Stage::Decided;
                AuthStep::Accepted { fast_hash: proven.fast_hash(password) }
            }
            None => self.decide(false, true),
        }
    }

    fn decide(&mut self, accepted: bool, password_given: bool) -> AuthStep {
        self.stage = Stage::Decided;
        match accepted {
            true => AuthStep::Accepted { fast_hash: None },
            false => AuthStep::Rejected { password_given },
        }
    }
}

/// Clients send no byte or a zero byte for an empty password, depending on plugin and library.
fn is_empty_password(response: &[u8]) -> bool {
    matches!(response, [] | [0])
}

fn more_data(writer: &mut PacketWriter, data: &[u8]) {
    writer.packet(|out| {
        out.push(MORE_DATA_HEADER);
        out.extend_from_slice(data);
    });
}
