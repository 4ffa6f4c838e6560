//! Files without a name: they go with who has them open, however that ends.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::io::{File, FileRef, Mode};
use freshet_base::{Error, Result, bail, task};

use crate::disk;
use crate::engine::Engine;

/// The directory of such files in the data directory.
const DIR: &str = "spill";

/// Creates a file, which has a name of its own at first.
///
/// # Errors
/// When it cannot be created.
pub async fn create(engine: &Engine, name: &str) -> Result<FileRef> {
    let (fs, dir) = (Arc::clone(engine.fs()), engine.config().data_dir.join(DIR));
    let path = dir.join(name);
    let made = task::run(&**engine.pool(), move || {
        fs.create_dir_all(&dir)?;
        let file = fs.open(&path, Mode::CreateNew)?;
        fs.remove_file(&path)?;
        Ok(file)
    });
    made.await.map_err(|error| Error::io("create a file for the rows of a load", error))
}

/// Writes bytes at a place of a file.
///
/// # Errors
/// When the disk is full.
pub async fn write(engine: &Engine, file: FileRef, bytes: Bytes, at: u64) -> Result<()> {
    wait_for_room(engine, bytes.len() as u64).await?;
    let written = task::run(&**engine.pool(), move || file.write_all_at(&bytes, at));
    written.await.map_err(|error| Error::io("write the rows of a load to a file", error))
}

/// Looks whether the disk has room for so many bytes of rows, beside those that are kept back.
/// Where it has not, notes of committed loads are waited for first, which are just going.
///
/// # Errors
/// `DiskFull`.
pub(crate) async fn wait_for_room(engine: &Engine, bytes: u64) -> Result<()> {
    let needed = disk::LEFT_BYTES + bytes;
    if left_bytes(engine).await? >= needed {
        return Ok(());
    }
    engine.prepared.settled().await;
    let left = left_bytes(engine).await?;
    if left < needed {
        bail!(DiskFull, "the load does not fit on the disk, which has {left} bytes left");
    }
    Ok(())
}

async fn left_bytes(engine: &Engine) -> Result<u64> {
    let (fs, dir) = (Arc::clone(engine.fs()), engine.config().data_dir.clone());
    let left = task::run(&**engine.pool(), move || fs.available_bytes(&dir)).await;
    left.map_err(|error| Error::io("look at the room on the disk", error))
}

/// The checksum by which bytes are known again that are written.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Reads bytes at a place of a file: where they begin, and how many they are.
///
/// # Errors
/// When it cannot be read, or has other bytes than were written.
pub async fn read(
    engine: &Engine,
    file: FileRef,
    (at, length): (u64, usize),
    written: u32,
) -> Result<Vec<u8>> {
    let read = move || read_at(&*file, (at, length), written);
    task::run(&**engine.pool(), read).await
}

/// As [`read`], on a thread that may block.
///
/// # Errors
/// Those of [`read`].
pub(crate) fn read_at(
    file: &dyn File,
    (at, length): (u64, usize),
    written: u32,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let read = file.read_exact_at(&mut bytes, at);
    read.map_err(|error| Error::io("read the rows of a load", error))?;
    if checksum(&bytes) != written {
        bail!(
            Corruption,
            "the file with rows of a load or a transaction has other bytes than were written, \
             {length} from byte {at} on; nothing of it is stored"
        );
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use freshet_base::ErrorCode;
    use freshet_base::io::{Fs, RealFs};

    use super::*;

    #[test]
    fn rows_that_changed_on_the_disk_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealFs.open(&dir.path().join("rows"), Mode::CreateNew).unwrap();
        file.write_all_at(b"before some rows", 0).unwrap();
        let read = || read_at(&*file, (7, 9), checksum(b"some rows"));
        assert_eq!(read().unwrap(), b"some rows");
        file.write_all_at(b"R", 12).unwrap();
        let error = read().unwrap_err();
        assert_eq!(error.code(), ErrorCode::Corruption);
        assert!(error.message().contains("9 from byte 7 on"), "{error}");
    }
}
