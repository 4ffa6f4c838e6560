//! The client's half of the protocol, for benchmarks and tests: it logs in, writes commands and
//! reads replies. Like the server's half it moves no bytes itself: read packets by a
//! [`PacketReader`](crate::PacketReader) and send what the
//! [`PacketWriter`](crate::PacketWriter) holds.

mod command;
mod login;
mod outcome;
mod reply;

pub use login::{Login, LoginStep, PasswordEncryption};
pub use outcome::{Encoding, Outcome, Outcomes, Rows, Value};
pub use reply::{BinaryCells, ErrReply, OkReply, PreparedReply, Reply, TextCells, result_end};
