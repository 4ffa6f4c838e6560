//! At a start, applies the metadata records above the checkpoint.

use std::path::PathBuf;

use freshet_base::{Error, ErrorCode, Lsn, Result, err};
use freshet_meta::{MetaEvent, disk};
use freshet_wal::{Scan, ScanError};

use crate::metadata::events_dir;
use crate::open::StoppedStore;
use crate::record::{self, Kind, MetadataBody, Record};

/// A record with an unreadable event.
pub(crate) struct LostEvent {
    pub lsn: Lsn,
    pub error: Error,
}

impl LostEvent {
    /// Whether the event is lost or damaged, rather than temporarily inaccessible.
    pub fn is_damage(&self) -> bool {
        self.error.code() == ErrorCode::Corruption
    }
}

impl StoppedStore {
    /// Applies metadata records above the checkpoint in memory and returns their event files. Done
    /// before replay, so that rows already in files never enter memory, and a start needs no more
    /// memory than was used before.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn settle(&self, scan: &Scan) -> Result<Vec<(Lsn, PathBuf)>, LostEvent> {
        let mut files = Vec::new();
        let from = self.meta.saved_lsn();
        let mut records = scan.records_above(from);
        loop {
            // The scan has just read it successfully, so this is an I/O error and not damage.
            let of_scan = |error: ScanError| LostEvent {
                lsn: Lsn::ZERO,
                error: Error::new(ErrorCode::Io, error.to_string()).with_source(error),
            };
            let Some(record) = records.next_record().map_err(of_scan)? else { break };
            if record.lsn <= from || record.kind != Kind::Metadata as u8 {
                continue;
            }
            let lost = |error: Error| {
                let error = error.context(format_args!("log record {}", record.lsn));
                LostEvent { lsn: record.lsn, error }
            };
            let (event, file) = self.event(&record).map_err(lost)?;
            files.extend(file.map(|file| (record.lsn, file)));
            self.meta.settle(record.lsn, &event);
        }
        self.meta.settled_to(scan.end.lsn.max(from));
        Ok(files)
    }

    fn event(&self, record: &freshet_wal::Record<'_>) -> Result<(MetaEvent, Option<PathBuf>)> {
        let decoded = record::decode(record.kind, record.stamp, record.payload)?;
        let Record::Metadata(body) = decoded else { unreachable!("its kind says that it is one") };
        let parse = |bytes: &[u8]| {
            disk::decode::<MetaEvent>(bytes)
                .map_err(|error| err!(Corruption, "what it says of files cannot be read: {error}"))
        };
        match body {
            MetadataBody::Inline(bytes) => Ok((parse(bytes)?, None)),
            MetadataBody::File { checksum, name } => {
                let path = events_dir(&self.config.data_dir).join(name);
                let bytes = self.fs.read(&path).map_err(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => {
                        err!(Corruption, "{} is missing", path.display())
                    }
                    _ => Error::io(format_args!("read {}", path.display()), error),
                })?;
                if crc_fast::crc32_iscsi(&bytes) != checksum {
                    return Err(err!(Corruption, "{} is damaged", path.display()));
                }
                Ok((parse(&bytes)?, Some(path)))
            }
        }
    }
}
