//! The MySQL client/server protocol as a codec: bytes in, frames out; frames in, bytes out.
//!
//! What it is: packet framing ([`PacketReader`], [`PacketWriter`]), the handshake and its two
//! password plugins ([`handshake`], [`auth`], [`login`]), every command ([`Command`]), the binary
//! parameters of prepared statements ([`Params`]), replies and result sets in the text and the
//! binary protocol, and the client's half of all that ([`client`]) for tests and benchmarks.
//!
//! What it is not: it owns no socket, task, clock or source of chance and knows neither SQL nor
//! tables. Whoever owns the connection moves the bytes, so TLS and compression fit underneath as
//! layers that change bytes before [`PacketReader::feed`] and after [`PacketWriter::bytes`].
//!
//! Invariants:
//! - No input panics. Malformed bytes give an [`Error`] that says what was wrong.
//! - A packet is handed out without a copy when it is shorter than 16 MiB - 1, and joined in place
//!   otherwise; nothing larger than the limit of the reader is ever kept.
//! - A row leaves the writer whole or not at all: a row dropped before `finish` takes its bytes
//!   back, and `finish` asserts that every column was written.
//! - Encoding an OK packet and decoding parameters allocate nothing.
//!
//! How to test it: `cargo test -p freshet-wire`. Client and server halves are played against each
//! other, known packets are compared byte for byte, and [`fuzz`] holds the entry points that take
//! arbitrary bytes.

pub mod auth;
pub mod client;
mod column;
mod command;
mod cursor;
mod encode;
mod error;
pub mod flags;
pub mod fuzz;
pub mod handshake;
pub mod login;
mod packet;
mod params;
mod response;
mod result;
mod row;
mod sha256crypt;
mod temporal;
mod types;
mod writer;

pub use column::ColumnDefinition;
pub use command::{ChangeUser, Command, Execute};
pub use error::{Error, Result};
pub use flags::{Capabilities, ColumnFlags, StatusFlags};
pub use packet::{PAYLOAD_BYTES_MAX_DEFAULT, Packet, PacketReader};
pub use params::{LongData, Param, ParamType, Params};
pub use response::{OkPacket, StateChange};
pub use result::Prepared;
pub use row::{BinaryRow, TextRow};
pub use temporal::{Date, DateTime, Time};
pub use types::{Collation, ColumnType};
pub use writer::PacketWriter;

/// Bytes of payload that fit one frame; a payload of this size or more continues in the next.
pub(crate) const FRAME_PAYLOAD_MAX: usize = 0xff_ff_ff;

/// Bytes of a frame header: three of length, one sequence id.
pub(crate) const FRAME_HEADER_BYTES: usize = 4;
