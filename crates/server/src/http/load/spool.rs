//! Bodies that are needed as a whole: in memory while they are small, else in a file.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::Result;
use freshet_base::io::FileRef;
use freshet_ingest::decode::columnar::FileBytes;
use freshet_ingest::spool;

use super::body::Body;
use super::decode::Bounds;
use super::sink::{Memory, Sink};
use super::spooled::body_name;
use crate::http::Http;

/// Larger bodies go to a file.
const MEMORY_BYTES_MAX: usize = 4 << 20;

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
                Arc::clone(file.insert(spool::create(&http.engine, &body_name(http.draw())).await?))
            }
        };
        let bytes = Bytes::from(std::mem::take(&mut text));
        let count = bytes.len() as u64;
        spool::write(&http.engine, open, bytes, written).await?;
        written += count;
        if has_ended {
            let file = file.expect("it was just written to");
            return Ok(FileBytes::Disk { file, bytes: written });
        }
    }
}
