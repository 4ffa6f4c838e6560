//! The file system of the operating system.
// The one module that may use `std::fs`.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FlockOperation, OFlags};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::{DIRECT_ALIGN_BYTES, Entry, File, FileRef, Fs, Mode, write_parts};

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Files that are written at once go past the page cache from this size on, where the file system
/// can do that: copying a page into the cache, and freeing it, costs more than writing it.
const DIRECT_BYTES_MIN: usize = 1 << 20;
/// How much of such a file is written at a time.
const DIRECT_PIECE_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Default, Debug)]
pub struct RealFs;

struct RealFile {
    file: fs::File,
    /// Set where the file system refused O_DIRECT: each write is followed by a sync.
    sync_each_write: bool,
}

impl RealFs {
    fn open_direct(path: &Path) -> io::Result<RealFile> {
        let flags = OFlags::DIRECT | OFlags::DSYNC;
        let direct = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path);
        match direct {
            Ok(file) => Ok(RealFile { file, sync_each_write: false }),
            // tmpfs and some network file systems refuse O_DIRECT.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
                Ok(RealFile { file, sync_each_write: true })
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a file whose writes go past the page cache; `InvalidInput` where the file system
    /// refuses that.
    fn create_direct(path: &Path) -> io::Result<fs::File> {
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(OFlags::DIRECT.bits().cast_signed())
            .open(path)
    }
}

/// Writes all of a new file of `len_bytes`, which takes aligned writes alone.
fn write_direct(file: &fs::File, parts: &[&[u8]], len_bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; DIRECT_PIECE_BYTES + DIRECT_ALIGN_BYTES];
    let start = buffer.as_ptr().align_offset(DIRECT_ALIGN_BYTES);
    assert!(start <= DIRECT_ALIGN_BYTES, "an aligned start lies within the slack");
    let piece = &mut buffer[start..start + DIRECT_PIECE_BYTES];
    let (mut filled, mut at) = (0, 0);
    for mut part in parts.iter().copied() {
        while !part.is_empty() {
            let count = part.len().min(piece.len() - filled);
            piece[filled..filled + count].copy_from_slice(&part[..count]);
            (filled, part) = (filled + count, &part[count..]);
            if filled == piece.len() {
                file.write_all_at(piece, at)?;
                (filled, at) = (0, at + filled as u64);
            }
        }
    }
    let end = filled.next_multiple_of(DIRECT_ALIGN_BYTES);
    piece[filled..end].fill(0);
    file.write_all_at(&piece[..end], at)?;
    file.set_len(len_bytes as u64)?;
    // With its length.
    file.sync_all()
}

impl Fs for RealFs {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<FileRef> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        let file = match mode {
            Mode::Read => options.open(path)?,
            Mode::Write => options.write(true).open(path)?,
            Mode::CreateNew => options.write(true).create_new(true).open(path)?,
            Mode::Direct => return Ok(Arc::new(Self::open_direct(path)?)),
        };
        Ok(Arc::new(RealFile { file, sync_each_write: false }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let is_dir = metadata.is_dir();
            let len_bytes = if is_dir { 0 } else { metadata.len() };
            entries.push(Entry { path: entry.path(), is_dir, len_bytes });
        }
        entries.sort();
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn is_regular(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn close(&self, path: &Path) -> io::Result<bool> {
        let mode = fs::metadata(path)?.permissions().mode();
        let is_open = mode & OTHERS != 0;
        if is_open {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS))?;
        }
        Ok(is_open)
    }

    fn write_new(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let len_bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if len_bytes >= DIRECT_BYTES_MIN {
            let direct = Self::create_direct(path);
            let written = direct.and_then(|file| write_direct(&file, parts, len_bytes));
            match written {
                // The file system takes none, or blocks of another size. A file that it has refused
                // to open may be there all the same, with its name alone.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    match fs::remove_file(path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
                done => return done,
            }
        }
        write_parts(&*self.open(path, Mode::CreateNew)?, parts)
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }
}

impl File for RealFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let wanted = buffer.len();
        let buffers = &mut [io::IoSliceMut::new(buffer)];
        match preadv2(&self.file, buffers, offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read == wanted),
            // Not in memory, or a file system that cannot tell.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        if self.sync_each_write { self.file.sync_data() } else { Ok(()) }
    }

    fn write_back(&self, offset: u64, len_bytes: u64) {
        let (offset, length) = (offset.cast_signed(), len_bytes.cast_signed());
        let begin = libc::SYNC_FILE_RANGE_WRITE;
        // SAFETY: the call takes no pointers, and the descriptor is open as long as `self` is.
        let _ = unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, length, begin) };
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.file.set_len(len_bytes)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.file.sync_data()?;
        rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_reads_lists_and_removes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = RealFs.open(&path, Mode::CreateNew).unwrap();
        file.write_all_at(b"hello", 3).unwrap();
        file.write_back(0, 8);
        file.sync().unwrap();
        file.drop_cache().unwrap();
        assert_eq!(RealFs.read(&path).unwrap(), b"\0\0\0hello");
        assert!(RealFs.open(&path, Mode::CreateNew).is_err());
        RealFs.write_atomic(&path, b"new").unwrap();
        assert_eq!(RealFs.read(&path).unwrap(), b"new");
        let names = RealFs.list(dir.path()).unwrap();
        assert_eq!(names, vec![Entry { path: path.clone(), is_dir: false, len_bytes: 3 }]);
        RealFs.remove_file(&path).unwrap();
        assert!(!RealFs.exists(&path));
        assert!(RealFs.available_bytes(dir.path()).unwrap() > 0);
    }

    #[test]
    fn what_is_in_the_page_cache_is_read_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = RealFs.open(&path, Mode::CreateNew).unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let mut bytes = vec![0; 5_000];
        // A file system that cannot tell says no; what it says yes to is read.
        if file.read_cached_at(&mut bytes, 5_000).unwrap() {
            assert_eq!(bytes, [7; 5_000]);
        }
        assert!(!file.read_cached_at(&mut bytes, 5_001).unwrap(), "the file ends before");
    }

    #[test]
    fn a_direct_file_takes_aligned_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        RealFs.open(&path, Mode::CreateNew).unwrap().set_len(8192).unwrap();
        let file = RealFs.open(&path, Mode::Direct).unwrap();
        let memory = vec![7u8; 3 * super::super::DIRECT_ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(super::super::DIRECT_ALIGN_BYTES);
        file.write_all_at(&memory[start..start + 4096], 4096).unwrap();
        assert_eq!(RealFs.read(&path).unwrap()[4096..], [7u8; 4096]);
    }

    #[test]
    fn a_file_of_parts_has_all_of_them_whatever_its_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("parts");
        let (piece, page) = (DIRECT_PIECE_BYTES, DIRECT_ALIGN_BYTES);
        let lengths =
            [0, 1, DIRECT_BYTES_MIN - 1, piece, piece + 1, 2 * piece - page, 2 * piece + page + 7];
        for len in lengths {
            let bytes = (0..len).map(|at| (at % 251) as u8).collect::<Vec<_>>();
            let (head, rest) = bytes.split_at(len.min(13));
            RealFs.write_parts_atomic(&path, &[head, &[], rest]).unwrap();
            assert!(RealFs.read(&path).unwrap() == bytes, "{len} bytes");
            assert_eq!(RealFs.list(dir.path()).unwrap().len(), 1, "{len} bytes");
        }
    }

    #[test]
    fn what_is_closed_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        RealFs.open(&path, Mode::CreateNew).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o654)).unwrap();
        assert!(RealFs.close(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!RealFs.close(&path).unwrap());
    }

    #[test]
    fn a_lock_is_held_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let held = RealFs.lock(&path).unwrap();
        let error = RealFs.lock(&path).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        RealFs.lock(&path).unwrap();
    }
}
