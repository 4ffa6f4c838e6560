//! Files of the server that statements read and write: those of one directory, which the setting
//! `secure_file_priv` names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use freshet_base::io::{FileRef, Fs, FsRef, Mode};
use freshet_base::task::{self, PoolRef};
use freshet_base::{Error, Result, bail, err};
use freshet_meta::{Object, Privilege};

use crate::session::Session;

/// The size of the parts in which a file is read.
const PART_BYTES: u64 = 256 << 10;

/// A file that is read from its beginning to its end.
pub struct FileReader {
    file: FileRef,
    pool: PoolRef,
    name: String,
    at: u64,
    len_bytes: u64,
}

impl FileReader {
    /// Opens the file that a statement of the session names.
    ///
    /// # Errors
    /// 1227 without the FILE privilege, 1290 outside of the directory, 29 for no such file.
    pub async fn open(session: &Session, name: &str) -> Result<Self> {
        let dir = directory(session)?;
        let engine = &session.shared.engine;
        let (fs, pool, path) =
            (Arc::clone(engine.fs()), Arc::clone(engine.pool()), name.to_owned());
        let opened = task::run(&*pool, move || {
            let path = inside(&*fs, &dir, Path::new(&path), false)?;
            if !fs.is_regular(&path) {
                bail!(FileNotFound, "File '{}' is not a regular file", path.display());
            }
            let file = fs.open(&path, Mode::Read).map_err(|error| not_found(&path, &error))?;
            let len_bytes = file.len_bytes().map_err(|error| not_found(&path, &error))?;
            Ok((file, len_bytes))
        });
        let (file, len_bytes) = opened.await?;
        Ok(Self { file, pool: Arc::clone(engine.pool()), name: name.to_owned(), at: 0, len_bytes })
    }

    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The next part, or `None` at the end. What is added to the file meanwhile is not read.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let (at, count) = (self.at, PART_BYTES.min(self.len_bytes - self.at));
        if count == 0 {
            return Ok(None);
        }
        let file = Arc::clone(&self.file);
        let read = task::run(&*self.pool, move || {
            let mut part = vec![0; count as usize];
            file.read_exact_at(&mut part, at).map(|()| part)
        });
        let read = read.await;
        let part = read.map_err(|error| Error::io(format_args!("read {}", self.name), error))?;
        self.at += count;
        Ok(Some(part))
    }
}

/// A new file, which is removed again unless it is finished.
pub struct FileWriter {
    file: FileRef,
    fs: FsRef,
    pool: PoolRef,
    path: PathBuf,
    at: u64,
    is_finished: bool,
}

impl FileWriter {
    /// Creates the file that a statement of the session names.
    ///
    /// # Errors
    /// 1227 without the FILE privilege, 1290 outside of the directory, 1086 for a file that exists.
    pub async fn create(session: &Session, name: &str) -> Result<Self> {
        let dir = directory(session)?;
        let engine = &session.shared.engine;
        let (fs, pool, name) =
            (Arc::clone(engine.fs()), Arc::clone(engine.pool()), name.to_owned());
        task::run(&*engine.pool().clone(), move || {
            let name = Path::new(&name);
            let (Some(parent), Some(last)) = (name.parent(), name.file_name()) else {
                return Err(outside());
            };
            let path = inside(&*fs, &dir, parent, true)?.join(last);
            let file = fs.open(&path, Mode::CreateNew).map_err(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    err!(FileExists, "File '{}' already exists", path.display())
                }
                _ => Error::io(format_args!("create {}", path.display()), error),
            })?;
            Ok(Self { file, fs, pool, path, at: 0, is_finished: false })
        })
        .await
    }

    /// Appends a part.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn write(&mut self, part: Vec<u8>) -> Result<()> {
        let (file, at, bytes) = (Arc::clone(&self.file), self.at, part.len() as u64);
        let written = task::run(&*self.pool, move || file.write_all_at(&part, at)).await;
        written.map_err(|error| Error::io(format_args!("write {}", self.path.display()), error))?;
        self.at += bytes;
        Ok(())
    }

    /// Makes the file durable and keeps it.
    ///
    /// # Errors
    /// When it cannot be synced.
    pub async fn finish(mut self) -> Result<()> {
        let file = Arc::clone(&self.file);
        let synced = task::run(&*self.pool, move || file.sync()).await;
        synced.map_err(|error| Error::io(format_args!("sync {}", self.path.display()), error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            // Its statement has failed, and says why.
            let _ = self.fs.remove_file(&self.path);
        }
    }
}

/// The directory, as the session may use it.
fn directory(session: &Session) -> Result<Arc<PathBuf>> {
    // An administrator may have got all privileges before there was FILE.
    if session.authorize(Privilege::Super, Object::Server).is_err() {
        session.authorize(Privilege::File, Object::Server)?;
    }
    let dir = session.shared.settings.file_dir.clone();
    dir.map(Arc::new).ok_or_else(outside)
}

/// The path of what exists in the directory, without symbolic links, which might lead out of it.
/// The directory itself is one such path if `is_dir`.
fn inside(fs: &dyn Fs, dir: &Path, name: &Path, is_dir: bool) -> Result<PathBuf> {
    let dir = fs.canonical(dir).map_err(|error| not_found(dir, &error))?;
    if !name.is_absolute() {
        return Err(outside());
    }
    let is_in = |path: &Path| path.starts_with(&dir);
    // What is outside is not looked for, so that nobody can ask what there is.
    let above = if is_dir { Some(name) } else { name.parent() };
    if !above.is_some_and(|above| fs.canonical(above).is_ok_and(|above| is_in(&above))) {
        return Err(outside());
    }
    let path = fs.canonical(name).map_err(|error| not_found(name, &error))?;
    if is_in(&path) { Ok(path) } else { Err(outside()) }
}

fn outside() -> Error {
    err!(
        OptionPrevents,
        "The MySQL server is running with the --secure-file-priv option so it cannot execute this \
         statement"
    )
}

fn not_found(path: &Path, error: &std::io::Error) -> Error {
    err!(FileNotFound, "File '{}' not found ({error})", path.display())
}
