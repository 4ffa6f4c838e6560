//! The MySQL protocol: sockets, logins, commands, results.

pub mod client;
pub mod conn;
pub mod cursor;
pub mod dispatch;
pub mod listener;
pub mod login;
pub mod prepared;
pub mod results;
pub mod socket;
pub mod text;
