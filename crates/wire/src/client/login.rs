//! The client's side of authentication.

use crate::auth::{
    AuthPlugin, SCRAMBLE_BYTES, Scramble, native_response, obfuscate, sha2_response,
};
use crate::cursor::{Cursor, utf8};
use crate::handshake::{AUTH_SWITCH_HEADER, ClientHello, Greeting, LoginAnswer};
use crate::response::{ERR_HEADER, OK_HEADER};
use crate::{Capabilities, Collation, Error, PAYLOAD_BYTES_MAX_DEFAULT, PacketWriter, Result};

use super::{ErrReply, OkReply};

const MORE_DATA_HEADER: u8 = 0x01;
const FAST_ACCEPTED: u8 = 0x03;
const FULL_REQUIRED: &[u8] = &[0x04];
const KEY_REQUEST: u8 = 0x02;

/// Encrypts the second argument with RSAES-OAEP (SHA-1) under the public key in PEM.
pub type PasswordEncryption = fn(&str, &[u8]) -> Option<Vec<u8>>;

/// What to do after a packet from the server was processed.
#[derive(Debug, PartialEq, Eq)]
pub enum LoginStep<'p> {
    /// Send the written bytes and read the next packet.
    Send,
    /// Read the next packet.
    Wait,
    Done(OkReply<'p>),
    Refused(ErrReply<'p>),
}

/// The login of a user.
#[derive(Debug)]
pub struct Login<'a> {
    pub user: &'a str,
    /// Empty for none.
    pub password: &'a str,
    pub database: Option<&'a str>,
    /// The client's capabilities; those that the server lacks are not used.
    pub capabilities: Capabilities,
    /// Connection attributes.
    pub attributes: &'a [(&'a str, &'a str)],
    /// Whether the connection cannot be eavesdropped, so that the password may be sent in
    /// plaintext.
    pub transport_secure: bool,
    /// How to encrypt the password otherwise.
    pub encryption: Option<PasswordEncryption>,
    plugin: AuthPlugin,
    scramble: Scramble,
    greeted: bool,
}

impl<'a> Login<'a> {
    /// A login with all capabilities of this codec.
    pub fn new(user: &'a str, password: &'a str, database: Option<&'a str>) -> Self {
        Self {
            user,
            password,
            database,
            capabilities: Capabilities::SERVER,
            attributes: &[],
            transport_secure: false,
            encryption: None,
            plugin: AuthPlugin::Native,
            scramble: Scramble::received([0; SCRAMBLE_BYTES]),
            greeted: false,
        }
    }

    /// Answers the greeting with the request for TLS, which names the same capabilities as the
    /// login behind it: servers go by the first that they read. The connection is encrypted from
    /// then on, and the login answers the greeting again, as the packet after this one. False, and
    /// nothing is written, if the server does not offer TLS.
    ///
    /// # Errors
    /// For a malformed greeting.
    pub fn request_tls(&mut self, writer: &mut PacketWriter, greeting: &[u8]) -> Result<bool> {
        let greeting = Greeting::parse(greeting)?;
        if !greeting.capabilities.contains(Capabilities::SSL) {
            return Ok(false);
        }
        self.capabilities = self.capabilities.with(Capabilities::SSL);
        self.transport_secure = true;
        let hello = self.hello(&greeting);
        writer.packet(|out| PacketWriter::hello(&hello, out));
        Ok(true)
    }

    /// What it tells the server of itself.
    fn hello(&self, greeting: &Greeting<'_>) -> ClientHello {
        let wanted = self.capabilities.set(Capabilities::CONNECT_WITH_DB, self.database.is_some());
        ClientHello {
            capabilities: wanted & greeting.capabilities,
            packet_bytes_max: PAYLOAD_BYTES_MAX_DEFAULT as u32,
            collation: Collation::UTF8MB4_GENERAL_CI,
        }
    }

    /// Processes a packet from the server, starting with the greeting. Set `writer` to the packet's
    /// [`reply_sequence`](crate::Packet::reply_sequence) before.
    pub fn on_packet<'p>(
        &mut self,
        writer: &mut PacketWriter,
        payload: &'p [u8],
    ) -> Result<LoginStep<'p>> {
        match payload {
            [ERR_HEADER, ..] => Ok(LoginStep::Refused(ErrReply::parse(payload)?)),
            _ if !self.greeted => self.answer(writer, &Greeting::parse(payload)?),
            [OK_HEADER, ..] => Ok(LoginStep::Done(OkReply::parse(payload, writer.capabilities())?)),
            [AUTH_SWITCH_HEADER, request @ ..] => self.switch(writer, request),
            [MORE_DATA_HEADER, FAST_ACCEPTED] => Ok(LoginStep::Wait),
            [MORE_DATA_HEADER, data @ ..] => self.show_password(writer, data),
            _ => Err(Error::BadHandshake { what: "an unknown packet during authentication" }),
        }
    }

    fn answer(
        &mut self,
        writer: &mut PacketWriter,
        greeting: &Greeting<'_>,
    ) -> Result<LoginStep<'static>> {
        self.greeted = true;
        self.plugin = greeting.plugin;
        self.scramble = greeting.scramble;
        let hello = self.hello(greeting);
        writer.set_capabilities(hello.capabilities);
        writer.login(&LoginAnswer {
            hello,
            user: self.user,
            auth_response: &self.response(),
            database: self.database,
            plugin: self.plugin,
            attributes: self.attributes,
        });
        Ok(LoginStep::Send)
    }

    fn switch(&mut self, writer: &mut PacketWriter, request: &[u8]) -> Result<LoginStep<'static>> {
        let mut cursor = Cursor::new(request);
        self.plugin = AuthPlugin::from_name(cursor.nul_bytes("plugin name without end")?)
            .ok_or(Error::BadHandshake { what: "an unknown authentication plugin" })?;
        self.scramble = Scramble::received(cursor.array("scramble cut short")?);
        let response = self.response();
        writer.packet(|out| out.extend_from_slice(&response));
        Ok(LoginStep::Send)
    }

    fn response(&self) -> Vec<u8> {
        match self.plugin {
            AuthPlugin::Native => native_response(self.password.as_bytes(), &self.scramble),
            AuthPlugin::CachingSha2 => sha2_response(self.password.as_bytes(), &self.scramble),
        }
    }

    /// The full exchange of `caching_sha2_password`: the server requests the password, and may send
    /// its public key.
    fn show_password(&self, writer: &mut PacketWriter, data: &[u8]) -> Result<LoginStep<'static>> {
        let mut password = self.password.as_bytes().to_vec();
        password.push(0);
        let answer = match data {
            FULL_REQUIRED if self.transport_secure => password,
            FULL_REQUIRED => vec![KEY_REQUEST],
            key => {
                let key = utf8(key, "public key not UTF-8")?;
                let hidden = obfuscate(&password, &self.scramble);
                self.encryption
                    .and_then(|encrypt| encrypt(key, &hidden))
                    .ok_or(Error::BadHandshake { what: "the password cannot be encrypted" })?
            }
        };
        writer.packet(|out| out.extend_from_slice(&answer));
        Ok(LoginStep::Send)
    }
}
