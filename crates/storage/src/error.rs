//! Errors of this crate.

use std::fmt;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use freshet_base::{ErrorCode, error};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug)]
pub enum Error {
    /// The file system failed; a file is not retried under the same name.
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        source: std::io::Error,
    },
    /// A file is damaged: only this file is refused, all others are served.
    Corruption {
        file: PathBuf,
        /// Offset of the first damaged block in bytes.
        offset: u64,
        /// The violation.
        what: String,
    },
    /// Rows or columns that contradict their schema: a broken invariant of a caller, reported
    /// instead of served.
    Internal(String),
    /// A row that no partition takes: its values.
    NoPartition(String),
}

impl Error {
    pub fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { doing, path: path.to_path_buf(), source }
    }

    /// Damage in `file`, first detected at `offset`.
    pub fn corruption(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corruption { file: file.to_path_buf(), offset, what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, source } => {
                write!(f, "cannot {doing} {}: {source}", path.display())
            }
            Self::Corruption { file, offset, what } => {
                let file = file.display();
                write!(f, "file {file} is damaged at byte {offset}: {what}; ")?;
                f.write_str("only this file is refused, run `freshet check` for the whole store")
            }
            Self::Internal(what) => write!(f, "internal error: {what}"),
            Self::NoPartition(values) => {
                write!(f, "Table has no partition for value {values}; ")?;
                f.write_str("ALTER TABLE .. ADD PARTITION adds one that takes it")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Corruption { .. } | Self::Internal(_) | Self::NoPartition(_) => None,
        }
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<Error> for error::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { doing, path, source } => {
                Self::io(format_args!("{doing} {}", path.display()), source)
            }
            Error::Corruption { .. } => Self::new(ErrorCode::Corruption, error.to_string()),
            Error::Internal(_) => Self::new(ErrorCode::Unknown, error.to_string()),
            Error::NoPartition(_) => Self::new(ErrorCode::NoPartition, error.to_string()),
        }
    }
}
