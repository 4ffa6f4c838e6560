//! At a start, applies the records above the checkpoint to metadata.

use std::collections::BTreeMap;
use std::path::PathBuf;

use freshet_base::{Error, ErrorCode, Lsn, Result, SchemaVersion, TableId, err};
use freshet_meta::{MetaEvent, disk};
use freshet_wal::{Scan, ScanError};

use crate::layout::events_dir;
use crate::record::{self, MetadataBody, Record};
use crate::stopped::StoppedStore;

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
    /// Applies metadata records and barriers above the checkpoint in memory and returns their event
    /// files. Done before replay, so that rows already in files never enter memory, and a start
    /// needs no more memory than was used before.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn settle(&self, scan: &Scan) -> Result<Vec<(Lsn, PathBuf)>, LostEvent> {
        let mut files = Vec::new();
        let from = self.meta.saved_lsn();
        let has_holes = !self.meta.log_state().holes.is_empty();
        let mut lost_schemas = BTreeMap::new();
        let mut last = from;
        let mut records = scan.records_above(from);
        loop {
            // The scan has just read it successfully, so this is an I/O error and not damage.
            let of_scan = |error: ScanError| LostEvent {
                lsn: Lsn::ZERO,
                error: Error::new(ErrorCode::Io, error.to_string()).with_source(error),
            };
            let Some(record) = records.next_record().map_err(of_scan)? else { break };
            let is_kind = record::settles(record.kind) || has_holes;
            if record.lsn <= from || !is_kind {
                continue;
            }
            assert!(last < record.lsn, "records settle in the order of the log");
            self.skip_lost_ids(last, record.lsn, has_holes);
            last = record.lsn;
            let lost = |error: Error| {
                let error = error.context(format_args!("log record {}", record.lsn));
                LostEvent { lsn: record.lsn, error }
            };
            let decoded = record::decode(record.kind, record.stamp, record.payload);
            match decoded.map_err(lost)? {
                Record::Metadata { body, .. } => {
                    let (event, file) = self.event(body).map_err(lost)?;
                    files.extend(file.map(|file| (record.lsn, file)));
                    self.settle_one(record.lsn, &event, has_holes);
                }
                Record::Barrier { body, tables, .. } => {
                    self.settle_one(record.lsn, &body.event(&tables), has_holes);
                }
                Record::DatabaseDrop(id) => {
                    self.settle_one(record.lsn, &MetaEvent::DropDatabase(id), has_holes);
                }
                Record::Load { parts, .. } => {
                    let parts = parts.iter().map(|(_, part)| (part.table, part.schema_version));
                    self.note_lost_schemas(parts, &mut lost_schemas);
                }
                Record::Term(term) => {
                    self.settle_one(record.lsn, &MetaEvent::Term(term), has_holes);
                }
                // Labels are forgotten where they are replayed.
                Record::GroupEnd(_) | Record::Labels(_) => {}
            }
        }
        self.skip_lost_ids(last, scan.end.lsn.next(), has_holes);
        assert!(last <= scan.end.lsn.max(from), "no record is behind the end of the log");
        self.meta.settled_to(scan.end.lsn.max(from));
        for (table, version) in lost_schemas {
            self.meta.skip_schemas(table, version);
        }
        Ok(files)
    }

    fn settle_one(&self, lsn: Lsn, event: &MetaEvent, has_holes: bool) {
        match has_holes {
            true => self.meta.settle_behind_hole(lsn, event),
            false => drop(self.meta.settle(lsn, event)),
        }
    }

    /// Makes up for reservations in a hole between two records: ids may be in use that only records
    /// given up have reserved.
    fn skip_lost_ids(&self, last: Lsn, next: Lsn, has_holes: bool) {
        let lost_records = next.get().saturating_sub(last.get() + 1);
        if has_holes && lost_records > 0 {
            self.meta.skip_ids(lost_records);
        }
    }

    /// Notes schema versions above the one that a table has here: the record of their ALTER was
    /// given up.
    fn note_lost_schemas(
        &self,
        parts: impl Iterator<Item = (TableId, SchemaVersion)>,
        lost: &mut BTreeMap<TableId, SchemaVersion>,
    ) {
        let catalog = self.meta.catalog();
        for (id, version) in parts {
            let table = catalog.table_by_id(id);
            if table.is_some_and(|table| version > table.schema().version) {
                let newest = lost.entry(id).or_insert(version);
                *newest = version.max(*newest);
            }
        }
    }

    fn event(&self, body: MetadataBody<'_>) -> Result<(MetaEvent, Option<PathBuf>)> {
        let parse = |bytes: &[u8]| {
            disk::decode::<MetaEvent>(bytes).map_err(|error| {
                err!(Corruption, "what it says of a table cannot be read: {error}")
            })
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
