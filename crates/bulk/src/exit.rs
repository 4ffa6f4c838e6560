//! How a run ends.

use std::fmt;

/// The exit codes of the tool. 2, for options that make no sense, is that of clap, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    /// The server, the network or a file failed. What has arrived is remembered.
    Failed = 1,
    Usage = 2,
    /// Rows were rejected, more than allowed.
    BadRows = 3,
    /// Stopped by a signal. What has arrived is remembered.
    Stopped = 4,
}

/// Why a run ended early, for people to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    pub fn bad_rows(message: impl Into<String>) -> Self {
        Self { exit: Exit::BadRows, message: message.into() }
    }

    pub fn stopped() -> Self {
        Self { exit: Exit::Stopped, message: "stopped by a signal".to_owned() }
    }

    /// Says what was being done, mostly with a file.
    pub fn of(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::failed(format!("{what}: {error}"))
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
