//! The MySQL protocol: sockets, logins, commands, results.

pub mod conn;
pub mod desk;
pub mod listener;
pub mod login;
pub mod prepared;
pub mod results;
pub mod text;
