//! The MySQL client/server protocol as a codec without I/O.
//!
//! What it is: packet framing ([`PacketReader`], [`PacketWriter`]), the handshake and its two
//! password plugins ([`handshake`], [`auth`], [`login`]), every command ([`Command`]), the binary
//! parameters of prepared statements ([`Params`]), replies and result sets in the text and the
//! binary protocol, and the client's side of all that ([`client`]) for tests and benchmarks.
//!
//! What it is not: it owns no socket, task, clock or random source and knows neither SQL nor
//! tables. The owner of the connection does the I/O, so TLS and compression can be added as layers
//! between the socket and [`PacketReader::feed`] or [`PacketWriter::bytes`].
//!
//! Invariants:
//! - No input panics. Malformed bytes give an [`Error`] that names the field.
//! - A packet shorter than 16 MiB - 1 is returned without a copy, and a longer one is joined in the
//!   buffer; nothing larger than the reader's limit is buffered.
//! - A row is written completely or not at all: dropping it before `finish` removes its bytes, and
//!   `finish` asserts that every column was written.
//! - Encoding an OK packet and decoding parameters do not allocate.
//!
//! How to test it: `cargo test -p freshet-wire`. Tests connect the client's and the server's side
//! with each other and compare known packets byte for byte; [`fuzz`] has entry points that take
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

/// The payload of a full frame; a payload of this size or more continues in the next frame.
pub(crate) const FRAME_PAYLOAD_MAX: usize = 0xff_ff_ff;

/// The length of a frame header: three bytes of length, one sequence id.
pub(crate) const FRAME_HEADER_BYTES: usize = 4;
