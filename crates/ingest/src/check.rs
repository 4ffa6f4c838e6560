//! Offline checking and repair of a store: `freshet check` and `freshet repair`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use freshet_base::{Error, Lsn, Result, TableId, Term, bail, err};
use freshet_meta::{AcceptedHole, Catalog, LogSecret, StoredTable};
use freshet_schema::row;
pub use freshet_storage::recover::Finding;
use freshet_storage::recover::{StoredMarks, open_table};
use freshet_storage::segment::SegmentAccess;
use freshet_storage::side;
use freshet_storage::view::TabletFiles;
use freshet_wal::{Corruption, Hole, Scan, ScanError, TermFile};

use crate::config::EngineConfig;
use crate::disk::Disk;
use crate::layout::TERM_FILE;
use crate::log_dirs::{BadDir, DirFault};
use crate::record::{self, Body, Record};
use crate::stopped::{StoppedStore, damaged};
use crate::world::World;

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Number of tables in metadata.
    pub tables: usize,
    /// Number of rowsets in metadata.
    pub rowsets: usize,
    /// Total size of data files.
    pub data_bytes: u64,
    /// Number of log records.
    pub log_records: u64,
    /// Violated invariants and damage.
    pub findings: Vec<Finding>,
}

/// Verifies all checksums and the invariants between log, metadata and files of a stopped store.
///
/// # Errors
/// When another server uses the store, or metadata cannot be read at all.
pub fn check(config: &EngineConfig, world: &World) -> Result<Report> {
    let store = StoppedStore::open(config, world)?;
    let mut report = Report::default();
    report.findings.extend(side_finding(&store));
    if let TermFile::OneBlock(_) = store.term {
        let file = config.data_dir.join(TERM_FILE);
        let what = "one of its two blocks is damaged; the next start writes it again".to_owned();
        report.findings.push(Finding { file, offset: None, what });
    }
    let bad_dirs = store.bad_log_dirs()?;
    if !bad_dirs.is_empty() {
        let finding = |bad: &BadDir| Finding {
            file: bad.dir.path.clone(),
            offset: None,
            what: bad.to_string(),
        };
        report.findings.extend(bad_dirs.iter().map(finding));
        check_files(&store, &mut report)?;
        return Ok(report);
    }
    match store.scan() {
        Ok(scan) => {
            let bad = store.bad_term_file(scan.highest_term);
            let finding = |(file, what)| Finding { file, offset: None, what };
            report.findings.extend(bad.map(finding));
            if let Err(lost) = store.settle(&scan) {
                let (file, what) = (PathBuf::from("log"), lost.error.to_string());
                report.findings.push(Finding { file, offset: None, what });
            }
            check_log(&store, &scan, &mut report);
        }
        Err(error) => report.findings.push(log_finding(&error)),
    }
    check_files(&store, &mut report)?;
    Ok(report)
}

fn check_files(store: &StoppedStore, report: &mut Report) -> Result<()> {
    let segments = SegmentAccess::of_files(&store.fs);
    for stored in &store.meta.fold().tables() {
        report.tables += 1;
        report.rowsets += stored.rowsets.len();
        report.data_bytes += stored.rowsets.iter().map(|rowset| rowset.bytes()).sum::<u64>();
        let (tablets, findings) =
            open_table(&store.fs, &segments, &store.data, &stored.table, stored.rowsets.clone())?;
        let missing = findings.iter().map(|finding| finding.file.clone()).collect::<BTreeSet<_>>();
        let read = freshet_storage::check::check(&tablets);
        let read = read.into_iter().filter(|finding| !missing.contains(&finding.file));
        report.findings.extend(findings.into_iter().chain(read));
        if let Err(error) = check_marks(store, stored, &tablets) {
            report.findings.push(Finding::from(error));
        }
    }
    Ok(())
}

/// Reads the mark files of a keyed table, and compares them with the segments that they are of.
fn check_marks(
    store: &StoppedStore,
    stored: &StoredTable,
    tablets: &[TabletFiles],
) -> freshet_storage::Result<()> {
    let table = stored.table.id;
    let marks = StoredMarks::read(&*store.fs, &store.data, table, &stored.marks)?;
    let mut rowsets = tablets.iter().flat_map(|tablet| &tablet.rowsets);
    rowsets.try_for_each(|rowset| marks.of(rowset, stored.flushed.lsn).map(drop))
}

fn side_finding(store: &StoppedStore) -> Option<Finding> {
    let file = store.side_file()?;
    let error = side::check(&*store.fs, &file).err()?;
    Some(Finding { file, offset: None, what: error.to_string() })
}

fn check_log(store: &StoppedStore, scan: &Scan, report: &mut Report) {
    let catalog = store.meta.catalog();
    for Hole { first, last } in &scan.without_head {
        let what =
            format!("the head before records {first} to {last} is damaged; they can be read");
        report.findings.push(Finding { file: PathBuf::from("log"), offset: None, what });
    }
    let mut records = scan.records();
    loop {
        match records.next_record() {
            Ok(None) => return,
            Ok(Some(record)) => {
                report.log_records += 1;
                if let Err(error) = check_record(&catalog, &record) {
                    let what = format!("record {}: {error}", record.lsn);
                    let file = PathBuf::from("log");
                    report.findings.push(Finding { file, offset: None, what });
                }
            }
            Err(error) => {
                report.findings.push(log_finding(&error));
                return;
            }
        }
    }
}

/// Checks that a record can be replayed: it decodes, and its rows match the schema it refers to, or
/// its rowsets can be read.
fn check_record(catalog: &Catalog, record: &freshet_wal::Record<'_>) -> Result<()> {
    let Record::Load { parts, .. } = record::decode(record.kind, record.stamp, record.payload)?
    else {
        return Ok(());
    };
    for (_, part) in parts {
        let Some(table) = catalog.table_by_id(part.table) else { continue };
        let Some(schema) = table.history.at(part.schema_version) else {
            // The record of its ALTER was given up, and later ones have told so.
            if part.schema_version < table.schema().version {
                continue;
            }
            bail!(Corruption, "table '{}' never had schema {}", table.name, part.schema_version);
        };
        match part.body {
            Body::Rows(bytes) => row::validate(schema, bytes, part.rows as usize)
                .map_err(|fault| err!(Corruption, "rows of table '{}': {fault}", table.name))?,
            Body::Rowsets(bytes) => drop(record::decode_rowsets(bytes)?),
        }
    }
    Ok(())
}

fn log_finding(error: &ScanError) -> Finding {
    let (file, offset) = match error {
        ScanError::Missing { file }
        | ScanError::WrongLength { file, .. }
        | ScanError::Io { file, .. } => (file.path.clone(), None),
        ScanError::Corruption(corruption) => match &corruption.place {
            Some(place) => (place.file.path.clone(), Some(place.offset)),
            None => (PathBuf::from("log"), None),
        },
    };
    Finding { file, offset, what: error.to_string() }
}

/// Lost data. Only a person who knows the data can accept the loss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// A log directory is unusable.
    LogDir {
        name: String,
        /// The ids of its log files that are lost with it; empty if they can still be read.
        files: Vec<u64>,
        what: String,
    },
    /// A log file listed in metadata is missing or has the wrong length.
    File { id: u64, what: String },
    /// The side file, with unflushed rows of small tables from before the log was recycled, is
    /// unusable.
    SideFile { what: String },
    /// The file with the term, which counts the starts of the store, is unusable.
    TermFile { what: String },
    /// Durable records are unreadable.
    Records {
        first: Lsn,
        last: Lsn,
        /// Position and cause of the damage.
        what: String,
        /// Tables that lose rows, as far as record headers are readable.
        tables: Vec<String>,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogDir { files, what, .. } if files.is_empty() => {
                write!(f, "{what}; accepting it lets the server take the directory as it is")
            }
            Self::LogDir { files, what, .. } => {
                let count = files.len();
                write!(f, "{what}; accepting it gives up the records of {count} log files")
            }
            Self::File { what, .. } => {
                write!(f, "{what}; accepting it gives up the records that stood in it")
            }
            Self::SideFile { what } => write!(
                f,
                "{what}; accepting it gives up the rows that small tables had in it instead of in \
                 files of their own"
            ),
            Self::TermFile { what } => {
                write!(
                    f,
                    "{what}; accepting it counts on from what the log says, and loses nothing"
                )
            }
            Self::Records { first, last, what, tables } => {
                let count = last.get() - first.get() + 1;
                write!(
                    f,
                    "{what}; accepting it gives up {count} records, LSN {first} to {last}, "
                )?;
                f.write_str(&of_tables(tables))
            }
        }
    }
}

/// The first loss that prevents the start of a stopped store; `None` if it can start.
///
/// # Errors
/// When another server uses the store, or a file cannot be read for another reason.
pub fn next_loss(config: &EngineConfig, world: &World) -> Result<Option<Loss>> {
    let store = StoppedStore::open(config, world)?;
    if let Some(finding) = side_finding(&store) {
        return Ok(Some(Loss::SideFile { what: finding.to_string() }));
    }
    if let Some(bad) = store.bad_log_dirs()?.into_iter().next() {
        return lost_dir(bad).map(Some);
    }
    match store.scan() {
        Ok(scan) => {
            if let Some((_, what)) = store.bad_term_file(scan.highest_term) {
                return Ok(Some(Loss::TermFile { what }));
            }
            match store.settle(&scan) {
                Ok(_) => Ok(None),
                Err(lost) if !lost.is_damage() => Err(lost.error),
                Err(lost) => Ok(Some(Loss::Records {
                    first: lost.lsn,
                    last: lost.lsn,
                    what: lost.error.to_string(),
                    tables: Vec::new(),
                })),
            }
        }
        Err(ScanError::Corruption(corruption)) => {
            Ok(Some(lost_records(&store.meta.catalog(), &corruption)))
        }
        Err(error) => match &error {
            ScanError::Missing { file } | ScanError::WrongLength { file, .. } => {
                Ok(Some(Loss::File { id: file.id, what: error.to_string() }))
            }
            ScanError::Io { .. } | ScanError::Corruption(_) => Err(damaged(error)),
        },
    }
}

/// Records in metadata that a person accepted the loss; replay skips what was lost from now on.
///
/// # Errors
/// Those of metadata.
pub fn accept(config: &EngineConfig, world: &World, loss: &Loss) -> Result<()> {
    let disk = Disk::new(world.clone(), config);
    let store = disk.with_ballast(|| StoppedStore::open(config, world))?;
    disk.with_ballast(|| match loss {
        Loss::LogDir { name, files, .. } => {
            give_up_ids(&store, files)?;
            store.meta.remove_log_dir(name, files)
        }
        Loss::File { id, .. } => {
            give_up_ids(&store, &[*id])?;
            store.meta.remove_log_file(*id)
        }
        Loss::SideFile { .. } => store.meta.remove_side_file(),
        Loss::TermFile { .. } => {
            let highest = new_secret(&store, world)?;
            store.write_term(highest)
        }
        Loss::Records { first, last, .. } => {
            new_secret(&store, world)?;
            store.meta.accept_hole(AcceptedHole { first: *first, last: *last })
        }
    })
}

/// Leaves out the ids that records in these log files may have reserved. One reservation at a time
/// is under way, so each was in a batch of its own, and a block of the log holds at most one.
fn give_up_ids(store: &StoppedStore, files: &[u64]) -> Result<()> {
    let lost = store.meta.log_state().files.into_iter().filter(|file| files.contains(&file.id));
    store.meta.give_up_ids(lost.map(|file| file.bytes).sum::<u64>() / freshet_wal::BLOCK_BYTES)
}

/// Prevents given-up records from reappearing: terms after the highest one use a new secret, so
/// that records written earlier under the same term numbers are not taken for theirs. Returns the
/// highest term.
fn new_secret(store: &StoppedStore, world: &World) -> Result<Term> {
    let highest = store.highest_term().map_err(damaged)?;
    let key = [(world.draw)(), (world.draw)()];
    store.meta.add_log_secret(LogSecret { from: highest.next(), key })?;
    Ok(highest)
}

fn lost_dir(bad: BadDir) -> Result<Loss> {
    let what = bad.to_string();
    let files = match bad.fault {
        DirFault::Newer(_) => return Err(bad.into_error()),
        DirFault::Missing | DirFault::Others(_) => bad.dir.files,
        DirFault::Unmarked | DirFault::Unknown(_) => Vec::new(),
    };
    Ok(Loss::LogDir { name: bad.dir.name, files, what })
}

fn of_tables(tables: &[String]) -> String {
    match tables.is_empty() {
        true => "of tables that cannot be told any more".to_owned(),
        false => format!("among them rows of {}", tables.join(", ")),
    }
}

/// The error when a server does not start because of its log, with the tables that lose rows.
pub(crate) fn unreadable(catalog: &Catalog, error: ScanError) -> Error {
    let ScanError::Corruption(corruption) = &error else { return damaged(error) };
    let Loss::Records { what, tables, .. } = lost_records(catalog, corruption) else {
        return damaged(error);
    };
    err!(
        Corruption,
        "{what}, {}. The server does not start on it; `freshet repair --data-dir DIR` shows what \
         would be lost",
        of_tables(&tables)
    )
    .with_source(error)
}

fn lost_records(catalog: &Catalog, corruption: &Corruption) -> Loss {
    let mut ids = BTreeSet::new();
    for damaged in &corruption.damaged {
        ids.extend(record::stamped_tables(damaged.kind, &damaged.stamp));
    }
    let name = |id: &TableId| match catalog.table_by_id(*id) {
        Some(table) => {
            let database = catalog.database_by_id(table.db);
            let database = database.map_or_else(|| "?".to_owned(), |db| db.name.clone());
            format!("'{database}.{}'", table.name)
        }
        None => format!("table {id}, which metadata does not know"),
    };
    Loss::Records {
        first: corruption.hole.first,
        last: corruption.hole.last,
        what: corruption.to_string(),
        tables: ids.iter().map(name).collect(),
    }
}
