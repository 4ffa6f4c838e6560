//! The parts of records, from untrusted bytes.

use freshet_base::{DbId, Lsn, Result, TabletId, TxnId, Version, err};
use freshet_meta::CleanedLabels;

/// Reads numbers and slices from the start of untrusted bytes.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let split = self.0.split_at_checked(len);
        let (head, rest) = split.ok_or_else(|| err!(Corruption, "a log record ends too early"))?;
        self.0 = rest;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("take gives the length asked for"))
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn version(&mut self) -> Result<Option<Version>> {
        let number = self.u64()?;
        Ok((number > 0).then_some(Version(number)))
    }

    pub fn labels(&mut self, db: DbId) -> Result<CleanedLabels> {
        let (below, count) = (Lsn(self.u64()?), self.u32()?);
        let kept = (0..count).map(|_| self.u64().map(TxnId)).collect::<Result<_>>()?;
        let label = std::str::from_utf8(self.0)
            .map_err(|_| err!(Corruption, "a label in the log is no text"))?;
        let label = (!label.is_empty()).then(|| label.to_owned());
        Ok(CleanedLabels { db, label, below, kept })
    }

    pub fn tablets(&mut self) -> Result<Vec<TabletId>> {
        let count = self.u32()? as usize;
        let ids = self.take(count.saturating_mul(8))?.chunks_exact(8);
        let id = |id: &[u8]| u64::from_le_bytes(id.try_into().expect("chunks have 8 bytes"));
        Ok(ids.map(|bytes| TabletId(id(bytes))).collect())
    }
}
