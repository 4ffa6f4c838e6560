//! The keys of a segment.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::budget::Budget;

use super::Segment;
use crate::error::{Error, Result};
use crate::segment::footers::WaitMode;
use crate::segment::key_part::{KeyPart, StoredRow};

impl Segment {
    /// Its keys, if they can be looked up; reads their directory.
    ///
    /// # Errors
    /// Those of [`KeyPart::open`].
    pub async fn keys(&self, wait_mode: WaitMode) -> Result<Option<KeyPart>> {
        let Some(meta) = self.meta.key_part else { return Ok(None) };
        let keys = KeyPart::open(&self.access, &self.path, meta, wait_mode).await?;
        if u64::from(keys.rows()) != self.meta.rows {
            let what = format!("its keys are of {} rows, not of {}", keys.rows(), self.meta.rows);
            return Err(Error::corruption(&self.path, meta.start, what));
        }
        Ok(Some(keys))
    }

    /// Its keys, to look some up: read at the first call and kept, the filter within `memory`.
    ///
    /// # Errors
    /// Those of [`Self::keys`]; [`Error::Corruption`] when it has none.
    pub async fn look_ups(&self, memory: &Budget, wait_mode: WaitMode) -> Result<Arc<KeyPart>> {
        if let Some(keys) = self.keys.get() {
            return Ok(Arc::clone(keys));
        }
        // Who blocks a thread waits for nobody: the other may need that very thread to go on.
        let _one = match wait_mode {
            WaitMode::Awaiting => Some(self.opening.lock().await),
            WaitMode::Blocking => None,
        };
        if let Some(keys) = self.keys.get() {
            return Ok(Arc::clone(keys));
        }
        let keys = self.keys(wait_mode).await?;
        let what = "a segment of a keyed table has no keys";
        let keys = keys.filter(KeyPart::has_keys);
        let mut keys = keys.ok_or_else(|| Error::corruption(&self.path, 0, what))?;
        keys.load_filter_within(memory, wait_mode).await?;
        keys.keep_open();
        Ok(Arc::clone(self.keys.get_or_init(|| Arc::new(keys))))
    }

    /// The keys that [`Self::look_ups`] has opened, if it has.
    pub fn opened_keys(&self) -> Option<&Arc<KeyPart>> {
        self.keys.get()
    }

    /// Its keys, if it has some, without their filter.
    ///
    /// # Errors
    /// Those of [`Self::keys`].
    pub(super) async fn sort_keys(&self, wait_mode: WaitMode) -> Result<Option<Arc<KeyPart>>> {
        if let Some(keys) = self.keys.get() {
            return Ok(Some(Arc::clone(keys)));
        }
        Ok(self.keys(wait_mode).await?.filter(KeyPart::has_keys).map(Arc::new))
    }

    /// The rows that a look-up has found here, encoded with the columns of [`Self::schema`].
    ///
    /// # Errors
    /// Those of [`KeyPart::stored_rows`].
    ///
    /// # Panics
    /// When nothing was looked up.
    pub async fn stored_rows(&self, at: &[StoredRow], wait_mode: WaitMode) -> Result<Vec<Bytes>> {
        let keys = self.keys.get().expect("a row is found by its key");
        keys.stored_rows(at, wait_mode).await
    }
}
