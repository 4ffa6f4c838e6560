//! The client's side of the protocol, for benchmarks and tests: login, commands, replies. Like the
//! server's side it does no I/O: read packets with a [`PacketReader`](crate::PacketReader) and send
//! the bytes of the [`PacketWriter`](crate::PacketWriter).

mod command;
mod login;
mod outcome;
mod reply;

pub use login::{Login, LoginStep, PasswordEncryption};
pub use outcome::{Encoding, Outcome, Outcomes, Rows, Value};
pub use reply::{
    BinaryCells, ErrReply, OkReply, PreparedReply, ServerPacket, TextCells, result_end,
};
