//! Bodies that are needed as a whole: in memory while they are small, else in a file that has no
//! name, so that it goes with its load, however that ends.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::io::{FileRef, Mode};
use freshet_base::{Error, Result, bail, task};
use freshet_ingest::Engine;
use freshet_ingest::decode::columnar::FileBytes;

use super::body::Body;
use super::decode::Bounds;
use super::sink::{Memory, Sink};
use crate::http::Http;

/// Larger bodies go to a file.
const MEMORY_BYTES_MAX: usize = 4 << 20;
/// The directory of such files in the data directory.
const DIR: &str = "spill";
/// A body ends where less than this would be left on the disk.
const DISK_LEFT_BYTES: u64 = 256 << 20;

/// Receives a whole body. Memory is taken from `memory` for what is not in a file.
///
/// # Errors
/// Those of [`Body::next`]; when memory or the disk is full.
pub(super) async fn receive(
    http: &Http,
    body: &mut Body<'_>,
    bounds: Bounds,
    memory: &mut Memory<'_>,
    sink: &mut Sink<'_>,
) -> Result<FileBytes> {
    let mut text = Vec::new();
    let mut file = None::<FileRef>;
    let mut written = 0;
    loop {
        let part = body.next(bounds.limit, bounds.deadline).await?;
        let has_ended = part.is_none();
        let part = part.unwrap_or_default();
        memory.cover(text.len() + part.len()).await?;
        text.extend_from_slice(&part);
        if has_ended && file.is_none() {
            return Ok(FileBytes::Memory(text.into()));
        }
        if text.len() < MEMORY_BYTES_MAX && !has_ended {
            continue;
        }
        let open = match &file {
            Some(open) => Arc::clone(open),
            None => {
                sink.become_large().await?;
                Arc::clone(file.insert(create(&http.engine, http.draw()).await?))
            }
        };
        let bytes = Bytes::from(std::mem::take(&mut text));
        let count = bytes.len() as u64;
        write(&http.engine, open, bytes, written).await?;
        written += count;
        if has_ended {
            let file = file.expect("it was just written to");
            return Ok(FileBytes::Disk { file, bytes: written });
        }
    }
}

/// Creates a file without a name.
async fn create(engine: &Engine, number: u64) -> Result<FileRef> {
    let (fs, dir) = (Arc::clone(engine.fs()), engine.config().data_dir.join(DIR));
    let path = dir.join(format!("body-{number:016x}"));
    let made = task::run(&**engine.pool(), move || {
        fs.create_dir_all(&dir)?;
        let file = fs.open(&path, Mode::CreateNew)?;
        fs.remove_file(&path)?;
        Ok(file)
    });
    made.await.map_err(|error| Error::io("create a file for the body of a load", error))
}

async fn write(engine: &Engine, file: FileRef, bytes: Bytes, at: u64) -> Result<()> {
    let (fs, dir) = (Arc::clone(engine.fs()), engine.config().data_dir.clone());
    let written = task::run(&**engine.pool(), move || {
        let left = fs.available_bytes(&dir)?;
        if left < DISK_LEFT_BYTES + bytes.len() as u64 {
            return Ok(Some(left));
        }
        file.write_all_at(&bytes, at)?;
        Ok(None)
    });
    let failed = |error: std::io::Error| Error::io("write the body of a load to a file", error);
    match written.await.map_err(failed)? {
        None => Ok(()),
        Some(left) => bail!(
            DiskFull,
            "the body of the load does not fit on the disk, which has {left} bytes left"
        ),
    }
}
