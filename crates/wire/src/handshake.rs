//! Packets of the connection phase.

use crate::auth::{AuthPlugin, SCRAMBLE_BYTES, Scramble};
use crate::cursor::{Cursor, utf8};
use crate::encode::{put_lenenc, put_lenenc_bytes, put_nul_bytes};
use crate::{Capabilities, Collation, Error, PacketWriter, Result, StatusFlags};

/// The packet size limit before the login, so that unauthenticated clients cannot make the server
/// buffer large packets.
pub const LOGIN_BYTES_MAX: usize = 64 << 10;

const PROTOCOL_VERSION: u8 = 10;
const SSL_REQUEST_BYTES: usize = 32;
const FILLER_BYTES: usize = 23;
const SCRAMBLE_FIRST_PART_BYTES: usize = 8;
pub(crate) const AUTH_SWITCH_HEADER: u8 = 0xfe;

/// The first packet of a connection, sent by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// The version of the server; some clients choose statements by it.
    pub version: &'a str,
    /// The id of the connection, for KILL.
    pub connection_id: u32,
    pub scramble: Scramble,
    pub capabilities: Capabilities,
    /// The default collation; only its low byte is sent.
    pub collation: Collation,
    /// The session's status.
    pub status: StatusFlags,
    /// The plugin that the scramble is for.
    pub plugin: AuthPlugin,
}

impl PacketWriter {
    pub fn greeting(&mut self, greeting: &Greeting<'_>) {
        let [low, high] = split_capabilities(greeting.capabilities);
        let (first, second) = greeting.scramble.bytes().split_at(SCRAMBLE_FIRST_PART_BYTES);
        self.packet(|out| {
            out.push(PROTOCOL_VERSION);
            put_nul_bytes(out, greeting.version.as_bytes());
            out.extend_from_slice(&greeting.connection_id.to_le_bytes());
            put_nul_bytes(out, first);
            out.extend_from_slice(&low.to_le_bytes());
            out.push(greeting.collation.0.to_le_bytes()[0]);
            out.extend_from_slice(&greeting.status.bits().to_le_bytes());
            out.extend_from_slice(&high.to_le_bytes());
            out.push(SCRAMBLE_BYTES as u8 + 1);
            out.extend_from_slice(&[0; 10]);
            put_nul_bytes(out, second);
            put_nul_bytes(out, greeting.plugin.name().as_bytes());
        });
    }

    /// Requests authentication with another plugin or scramble.
    pub fn auth_switch(&mut self, plugin: AuthPlugin, scramble: &Scramble) {
        self.packet(|out| {
            out.push(AUTH_SWITCH_HEADER);
            put_nul_bytes(out, plugin.name().as_bytes());
            put_nul_bytes(out, scramble.bytes());
        });
    }
}

fn split_capabilities(capabilities: Capabilities) -> [u16; 2] {
    [capabilities.bits() as u16, (capabilities.bits() >> 16) as u16]
}

impl<'a> Greeting<'a> {
    /// Parses a greeting.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        const WHAT: &str = "greeting cut short";
        let mut cursor = Cursor::new(payload);
        if cursor.u8(WHAT)? != PROTOCOL_VERSION {
            return Err(Error::BadHandshake { what: "the protocol version is not 10" });
        }
        let version = utf8(cursor.nul_bytes(WHAT)?, "server version not UTF-8")?;
        let connection_id = cursor.u32(WHAT)?;
        let first = cursor.array::<SCRAMBLE_FIRST_PART_BYTES>(WHAT)?;
        cursor.u8(WHAT)?;
        let low = cursor.u16(WHAT)?;
        let collation = Collation(u16::from(cursor.u8(WHAT)?));
        let status = StatusFlags(cursor.u16(WHAT)?);
        let capabilities = Capabilities(u32::from(low) | u32::from(cursor.u16(WHAT)?) << 16);
        cursor.array::<11>(WHAT)?;
        let second = cursor.array::<{ SCRAMBLE_BYTES - SCRAMBLE_FIRST_PART_BYTES }>(WHAT)?;
        cursor.u8(WHAT)?;
        let mut scramble = [0; SCRAMBLE_BYTES];
        scramble[..SCRAMBLE_FIRST_PART_BYTES].copy_from_slice(&first);
        scramble[SCRAMBLE_FIRST_PART_BYTES..].copy_from_slice(&second);
        Ok(Self {
            version,
            connection_id,
            scramble: Scramble::received(scramble),
            capabilities,
            collation,
            status,
            plugin: AuthPlugin::from_name(cursor.nul_or_rest())
                .ok_or(Error::BadHandshake { what: "an unknown authentication plugin" })?,
        })
    }
}

/// The common beginning of every response to the greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHello {
    /// The client's capabilities; the session uses those that the server has, too.
    pub capabilities: Capabilities,
    /// The largest packet that the client accepts.
    pub packet_bytes_max: u32,
    /// The collation of its text; only the low byte is sent.
    pub collation: Collation,
}

/// The client's response to the greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeResponse<'a> {
    /// Switch to TLS; the login follows in the next packet on the encrypted stream.
    Ssl(ClientHello),
    Login(LoginRequest<'a>),
}

/// A login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginRequest<'a> {
    /// Capabilities and limits of the client.
    pub hello: ClientHello,
    pub user: &'a str,
    /// The client's response to the scramble.
    pub auth_response: &'a [u8],
    pub database: Option<&'a str>,
    /// The plugin of `auth_response`.
    pub plugin: Option<&'a str>,
    /// Connection attributes.
    pub attributes: Attributes<'a>,
}

impl<'a> HandshakeResponse<'a> {
    /// Parses the response to the greeting.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        const WHAT: &str = "handshake response cut short";
        let mut cursor = Cursor::new(payload);
        // The response before 4.1 starts with two bytes of capabilities at the same offset.
        let low = payload.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let low = Capabilities(u32::from(low.ok_or(Error::Malformed { what: WHAT })?));
        if !low.contains(Capabilities::PROTOCOL_41) {
            return Err(Error::BadHandshake { what: "the client is older than MySQL 4.1" });
        }
        let hello = ClientHello {
            capabilities: Capabilities(cursor.u32(WHAT)?),
            packet_bytes_max: cursor.u32(WHAT)?,
            collation: Collation(u16::from(cursor.u8(WHAT)?)),
        };
        cursor.array::<FILLER_BYTES>(WHAT)?;
        let ssl = hello.capabilities.contains(Capabilities::SSL);
        if ssl && payload.len() == SSL_REQUEST_BYTES {
            return Ok(Self::Ssl(hello));
        }
        LoginRequest::parse(hello, cursor).map(Self::Login)
    }
}

impl<'a> LoginRequest<'a> {
    fn parse(hello: ClientHello, mut cursor: Cursor<'a>) -> Result<Self> {
        let has = |flag| hello.capabilities.contains(flag);
        let user = utf8(cursor.nul_bytes("user name without end")?, "user name not UTF-8")?;
        const AUTH: &str = "authentication response cut short";
        let auth_response = if has(Capabilities::PLUGIN_AUTH_LENENC) {
            cursor.lenenc_bytes(AUTH)?
        } else if has(Capabilities::SECURE_CONNECTION) {
            let count = cursor.u8(AUTH)?;
            cursor.bytes(usize::from(count), AUTH)?
        } else {
            cursor.nul_or_rest()
        };
        Ok(Self {
            hello,
            user,
            auth_response,
            database: optional(has(Capabilities::CONNECT_WITH_DB), &mut cursor, DATABASE)?,
            plugin: optional(has(Capabilities::PLUGIN_AUTH), &mut cursor, PLUGIN)?,
            attributes: Attributes::parse(has(Capabilities::CONNECT_ATTRS), &mut cursor)?,
        })
    }
}

pub(crate) const DATABASE: &str = "database name not UTF-8";
pub(crate) const PLUGIN: &str = "authentication plugin name not UTF-8";

/// A zero-terminated name at the end of the packet, whose terminator may be missing; `None` if
/// absent or empty.
pub(crate) fn optional<'a>(
    present: bool,
    cursor: &mut Cursor<'a>,
    what: &'static str,
) -> Result<Option<&'a str>> {
    if !present {
        return Ok(None);
    }
    let name = utf8(cursor.nul_or_rest(), what)?;
    Ok(Some(name).filter(|name| !name.is_empty()))
}

/// Connection attributes: names and values such as `program_name`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    block: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Parses and validates the block, so that iterating cannot fail.
    pub(crate) fn parse(present: bool, cursor: &mut Cursor<'a>) -> Result<Self> {
        const WHAT: &str = "connection attributes cut short";
        if !present || cursor.is_empty() {
            return Ok(Self::default());
        }
        let block = cursor.lenenc_bytes(WHAT)?;
        if block.len() > LOGIN_BYTES_MAX {
            return Err(Error::Malformed { what: "connection attributes of more than 64 KiB" });
        }
        let mut pairs = Cursor::new(block);
        while !pairs.is_empty() {
            pairs.lenenc_bytes(WHAT)?;
            pairs.lenenc_bytes(WHAT)?;
        }
        Ok(Self { block })
    }

    /// Names and values; invalid UTF-8 is replaced.
    pub fn iter(&self) -> impl Iterator<Item = (String, String)> + 'a {
        let mut pairs = Cursor::new(self.block);
        std::iter::from_fn(move || {
            let name = pairs.lenenc_bytes("").ok()?;
            let value = pairs.lenenc_bytes("").ok()?;
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            Some((text(name), text(value)))
        })
    }
}

/// A client's response to a greeting; the counterpart of [`LoginRequest`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoginAnswer<'a> {
    pub(crate) hello: ClientHello,
    pub(crate) user: &'a str,
    pub(crate) auth_response: &'a [u8],
    pub(crate) database: Option<&'a str>,
    pub(crate) plugin: AuthPlugin,
    pub(crate) attributes: &'a [(&'a str, &'a str)],
}

impl PacketWriter {
    pub(crate) fn hello(hello: &ClientHello, out: &mut Vec<u8>) {
        out.extend_from_slice(&hello.capabilities.bits().to_le_bytes());
        out.extend_from_slice(&hello.packet_bytes_max.to_le_bytes());
        out.push(hello.collation.0.to_le_bytes()[0]);
        out.extend_from_slice(&[0; FILLER_BYTES]);
    }

    pub(crate) fn login(&mut self, login: &LoginAnswer<'_>) {
        let has = |flag| login.hello.capabilities.contains(flag);
        self.packet(|out| {
            Self::hello(&login.hello, out);
            put_nul_bytes(out, login.user.as_bytes());
            if has(Capabilities::PLUGIN_AUTH_LENENC) {
                put_lenenc_bytes(out, login.auth_response);
            } else {
                out.push(login.auth_response.len() as u8);
                out.extend_from_slice(login.auth_response);
            }
            if has(Capabilities::CONNECT_WITH_DB) {
                put_nul_bytes(out, login.database.unwrap_or_default().as_bytes());
            }
            if has(Capabilities::PLUGIN_AUTH) {
                put_nul_bytes(out, login.plugin.name().as_bytes());
            }
            if has(Capabilities::CONNECT_ATTRS) {
                put_attributes(login.attributes, out);
            }
        });
    }
}

fn put_attributes(attributes: &[(&str, &str)], out: &mut Vec<u8>) {
    let mut block = Vec::new();
    for (name, value) in attributes {
        put_lenenc_bytes(&mut block, name.as_bytes());
        put_lenenc_bytes(&mut block, value.as_bytes());
    }
    put_lenenc(out, block.len() as u64);
    out.extend_from_slice(&block);
}

#[cfg(test)]
mod tests;
