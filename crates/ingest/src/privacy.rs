//! Protects the files of a store from other users of the machine: they contain rows and password
//! hashes.
//!
//! Files created by this process are private from the beginning because of the umask set by the
//! binary. Files that an earlier version or a manual copy left accessible are made private at the
//! start.

use std::path::Path;

use freshet_base::io::{Entry, Fs};
use freshet_base::{Error, Result};

use crate::layout::{LOCK_FILE, META_FILE, STORE_FILE, TERM_FILE};
use crate::world::World;

/// All entries of a store's directory.
const OF_A_STORE: [&str; 13] = [
    META_FILE,
    TERM_FILE,
    LOCK_FILE,
    "ballast",
    "ballast.tmp",
    "data",
    "side",
    "events",
    "prepared",
    "wal",
    "spill",
    "error_log",
    "tls",
];

/// Makes the directories of a store and of its log private, with all their contents.
///
/// # Errors
/// When permissions cannot be changed because another user owns the file.
pub(crate) fn close<'a>(world: &World, dirs: impl Iterator<Item = &'a Path>) -> Result<()> {
    let fs = &*world.fs;
    for dir in dirs {
        let closed = close_dir(fs, dir)?;
        if closed > 0 {
            tracing::warn!(
                "other users of this machine could use {closed} files and directories of the \
                 store in {}; they cannot any more",
                dir.display()
            );
        }
    }
    Ok(())
}

/// The contents of a private directory are unreachable for other users, so they are not checked. A
/// directory that also contains other files (`/tmp`, a home directory) is not changed, only the
/// entries that belong to a store.
fn close_dir(fs: &dyn Fs, dir: &Path) -> Result<u64> {
    let entries = list(fs, dir)?;
    let (ours, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_ours);
    let mut closed = 0;
    if others.is_empty() {
        if !fs.close(dir).map_err(|error| failed(dir, error))? {
            return Ok(0);
        }
        closed += 1;
    }
    for entry in ours {
        closed += close_all(fs, &entry)?;
    }
    Ok(closed)
}

fn close_all(fs: &dyn Fs, entry: &Entry) -> Result<u64> {
    let path = &entry.path;
    if !fs.close(path).map_err(|error| failed(path, error))? {
        return Ok(0);
    }
    let mut closed = 1;
    if entry.is_dir {
        for entry in list(fs, path)? {
            closed += close_all(fs, &entry)?;
        }
    }
    Ok(closed)
}

fn is_ours(entry: &Entry) -> bool {
    let name = entry.path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    OF_A_STORE.contains(&name) || name == STORE_FILE || name.ends_with(".log")
}

fn list(fs: &dyn Fs, dir: &Path) -> Result<Vec<Entry>> {
    fs.list(dir).map_err(|error| Error::io(format_args!("read {}", dir.display()), error))
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    let doing = "take from other users of this machine the right to use";
    Error::io(format_args!("{doing} {}", path.display()), error)
}
