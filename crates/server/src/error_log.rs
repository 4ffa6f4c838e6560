//! Error logs of stream loads, which list rejected rows: files with limits on age and total size.
//! Clients fetch them without credentials, so their names are unguessable.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::ClockRef;
use freshet_base::io::{FsRef, Mode};
use freshet_base::task::{self, PoolRef};
use freshet_base::{Error, Result, err};
use freshet_ingest::Engine;
use parking_lot::Mutex;

/// The directory of error logs in the data directory.
const DIR: &str = "error_log";
/// The hex digits of the time at the beginning of a name, and of the random number at its end.
const TIME_DIGITS: usize = 16;
const CHANCE_DIGITS: usize = 32;

/// Limits of all error logs together.
#[derive(Clone, Copy, Debug)]
pub struct ErrorLogLimits {
    pub keep: Duration,
    pub bytes_max: u64,
}

/// A stored error log.
struct Kept {
    name: String,
    bytes: u64,
}

/// The stored error logs, oldest first; names sort by time.
#[derive(Default)]
struct Index {
    files: VecDeque<Kept>,
    bytes: u64,
}

pub struct ErrorLog {
    fs: FsRef,
    pool: PoolRef,
    clock: ClockRef,
    dir: PathBuf,
    limits: ErrorLogLimits,
    draw: Arc<dyn Fn() -> u64 + Send + Sync>,
    index: Mutex<Index>,
}

impl ErrorLog {
    /// Opens the directory of error logs, creating it if necessary. `draw` gives random numbers,
    /// which must not be guessable.
    ///
    /// # Errors
    /// When it cannot be created or read.
    pub fn open(
        engine: &Engine,
        limits: ErrorLogLimits,
        draw: Arc<dyn Fn() -> u64 + Send + Sync>,
    ) -> Result<Self> {
        let (fs, dir) = (Arc::clone(engine.fs()), engine.config().data_dir.join(DIR));
        let io = |error| Error::io(format!("open {}", dir.display()), error);
        fs.create_dir_all(&dir).map_err(io)?;
        let mut index = Index::default();
        for entry in fs.list(&dir).map_err(io)? {
            let name = entry.path.file_name().and_then(|name| name.to_str());
            if let Some(name) = name.filter(|name| is_name(name)) {
                index.bytes += entry.len_bytes;
                index.files.push_back(Kept { name: name.to_owned(), bytes: entry.len_bytes });
            }
        }
        let (pool, clock) = (Arc::clone(engine.pool()), Arc::clone(engine.clock()));
        Ok(Self { fs, pool, clock, dir, limits, draw, index: Mutex::new(index) })
    }

    /// Stores `text`; returns its name.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn keep(&self, text: String) -> Result<String> {
        let micros = self.clock.wall_micros().max(0);
        let name = self.new_name(micros);
        let bytes = text.len() as u64;
        let expired = self.add(Kept { name: name.clone(), bytes }, micros);
        let (fs, dir, path) = (Arc::clone(&self.fs), self.dir.clone(), self.dir.join(&name));
        task::run(&*self.pool, move || {
            for name in expired {
                // A file that cannot be removed now is found again at the next start.
                let _ = fs.remove_file(&dir.join(name));
            }
            let file = fs.open(&path, Mode::CreateNew)?;
            file.write_all_at(text.as_bytes(), 0)
        })
        .await
        .map_err(|error| Error::io(format!("write {}", self.dir.display()), error))?;
        Ok(name)
    }

    /// A name that nobody guesses, at this time.
    pub fn new_name(&self, micros: i64) -> String {
        let (high, low) = ((self.draw)(), (self.draw)());
        format!("{micros:0TIME_DIGITS$x}{high:016x}{low:016x}")
    }

    /// Adds a file; returns those that have become too old or exceed the total size.
    fn add(&self, kept: Kept, now_micros: i64) -> Vec<String> {
        let keep_micros = i64::try_from(self.limits.keep.as_micros()).unwrap_or(i64::MAX);
        let oldest = format!("{:0TIME_DIGITS$x}", now_micros.saturating_sub(keep_micros).max(0));
        let mut index = self.index.lock();
        index.bytes += kept.bytes;
        index.files.push_back(kept);
        let mut expired = Vec::new();
        while let Some(first) = index.files.front() {
            let too_old = first.name.as_str() < oldest.as_str();
            if !too_old && (index.bytes <= self.limits.bytes_max || index.files.len() == 1) {
                break;
            }
            let first = index.files.pop_front().expect("the first was just seen");
            index.bytes -= first.bytes;
            expired.push(first.name);
        }
        expired
    }

    /// The content of an error log.
    ///
    /// # Errors
    /// `NoSuchTable`, for its status 404, when there is no such log.
    pub async fn read(&self, name: &str) -> Result<Vec<u8>> {
        let known = is_name(name) && self.index.lock().files.iter().any(|kept| kept.name == name);
        if !known {
            return Err(err!(NoSuchTable, "there is no error log of this name, or no more"));
        }
        let (fs, path) = (Arc::clone(&self.fs), self.dir.join(name));
        let read = task::run(&*self.pool, move || fs.read(&path)).await;
        read.map_err(|error| Error::io("read an error log", error))
    }
}

/// Whether `name` has the form that [`ErrorLog::keep`] generates, which excludes path traversal.
fn is_name(name: &str) -> bool {
    name.len() == TIME_DIGITS + CHANCE_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_base::clock::SystemClock;
    use freshet_base::io::RealFs;
    use freshet_base::task::InlinePool;
    use futures::executor::block_on;

    fn log(dir: PathBuf, bytes_max: u64) -> ErrorLog {
        let seed = std::sync::atomic::AtomicU64::new(7);
        ErrorLog {
            fs: Arc::new(RealFs),
            pool: Arc::new(InlinePool),
            clock: Arc::new(SystemClock::new()),
            dir,
            limits: ErrorLogLimits { keep: Duration::from_secs(60), bytes_max },
            draw: Arc::new(move || seed.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
            index: Mutex::default(),
        }
    }

    #[test]
    fn what_is_kept_is_read_and_the_oldest_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(dir.path().to_owned(), 10);
        let first = block_on(log.keep("123456".to_owned())).unwrap();
        assert_eq!(block_on(log.read(&first)).unwrap(), b"123456");
        let second = block_on(log.keep("abcdef".to_owned())).unwrap();
        assert!(block_on(log.read(&first)).is_err(), "both are more than ten bytes");
        assert_eq!(block_on(log.read(&second)).unwrap(), b"abcdef");
        let old = log.add(Kept { name: "f".repeat(48), bytes: 1 }, i64::MAX);
        assert_eq!(old, [second], "a minute is long over");
    }

    #[test]
    fn nothing_else_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(dir.path().to_owned(), 10);
        for name in ["", "..", "../../etc/passwd", "/etc/passwd", &"0".repeat(48)] {
            assert!(block_on(log.read(name)).is_err(), "{name}");
        }
    }
}
