//! The MySQL protocol: sockets, logins, commands, results.

pub mod client;
pub mod conn;
pub mod cursor;
pub mod dispatch;
pub mod infile;
pub mod listener;
pub mod login;
pub mod prepared;
mod receive;
pub mod results;
pub mod socket;
pub mod text;
