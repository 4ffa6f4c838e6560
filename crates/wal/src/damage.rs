//! What a scan reports: where records are missing, and why a log cannot be read.

use std::fmt;
use std::io;

use freshet_base::Lsn;

use crate::file::LogFile;

/// An inclusive range of LSNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The first missing LSN.
    pub first: Lsn,
    /// The last missing LSN.
    pub last: Lsn,
}

impl Hole {
    /// Whether `lsn` is in it.
    pub fn contains(&self, lsn: Lsn) -> bool {
        (self.first..=self.last).contains(&lsn)
    }

    /// Whether `lsn` is in any of `holes`.
    pub(crate) fn any(holes: &[Self], lsn: Lsn) -> bool {
        holes.iter().any(|hole| hole.contains(lsn))
    }
}

/// A position in a log file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub file: LogFile,
    /// Bytes from the start of the file.
    pub offset: u64,
}

/// A record with a damaged payload and an intact header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRecord {
    pub lsn: Lsn,
    pub kind: u8,
    /// Its stamp, which may identify its tables.
    pub stamp: Vec<u8>,
    pub place: Place,
}

/// Missing durable records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corruption {
    /// The position of the first missing record or, if none of it is readable, the end of the
    /// record before it. `None` if there is no such record.
    pub place: Option<Place>,
    /// The missing LSNs.
    pub hole: Hole,
    /// Missing records with readable headers, at most a thousand.
    pub damaged: Vec<DamagedRecord>,
}

/// Why a log cannot be read.
#[derive(Debug)]
pub enum ScanError {
    /// A file listed in metadata is missing.
    Missing { file: LogFile },
    /// A file does not have the length given in metadata.
    WrongLength {
        file: LogFile,
        /// The actual length.
        len_bytes: u64,
    },
    /// A file cannot be read, or its tail cannot be rewritten.
    Io {
        file: LogFile,
        /// The error of the file system.
        source: io::Error,
    },
    /// Durable records are missing.
    Corruption(Corruption),
}

impl ScanError {
    pub(crate) fn of_io(file: &LogFile, source: io::Error) -> Self {
        let file = file.clone();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { file },
            _ => Self::Io { file, source },
        }
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { file } => {
                write!(f, "log file {} is missing; put it back", file.path.display())
            }
            Self::WrongLength { file, len_bytes } => {
                let (path, expected) = (file.path.display(), file.bytes);
                write!(f, "log file {path} has {len_bytes} bytes instead of {expected}")
            }
            Self::Io { file, source } => {
                write!(f, "log file {} cannot be used: {source}", file.path.display())
            }
            Self::Corruption(corruption) => corruption.fmt(f),
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hole { first, last } = self.hole;
        write!(f, "the log is corrupt: durable records LSN {first} to {last} cannot be read")?;
        if let Some(Place { file, offset }) = &self.place {
            write!(f, ", at or after byte {offset} of {}", file.path.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for ScanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Missing { .. } | Self::WrongLength { .. } | Self::Corruption(_) => None,
        }
    }
}
