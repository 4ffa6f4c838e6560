//! Reading the fields of a payload from front to back.

use crate::{Error, Result};

/// The unread rest of a payload. Every method names the field, so that an error can.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything that is left; the cursor is empty afterwards.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Error::Malformed { what })?;
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize, what: &'static str) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Error::Malformed { what })?;
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// A length-encoded integer: one byte up to 250, else a prefix and 2, 3 or 8 bytes.
    #[inline]
    pub(crate) fn lenenc(&mut self, what: &'static str) -> Result<u64> {
        match self.u8(what)? {
            short @ 0..=0xfa => Ok(u64::from(short)),
            0xfc => self.u16(what).map(u64::from),
            0xfd => {
                let [a, b, c] = self.array(what)?;
                Ok(u64::from(u32::from_le_bytes([a, b, c, 0])))
            }
            0xfe => self.array(what).map(u64::from_le_bytes),
            0xfb | 0xff => Err(Error::Malformed { what }),
        }
    }

    /// Bytes preceded by their length-encoded length.
    #[inline]
    pub(crate) fn lenenc_bytes(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let count = self.lenenc(what)?;
        let count = usize::try_from(count).map_err(|_| Error::Malformed { what })?;
        self.bytes(count, what)
    }

    /// Text preceded by its length-encoded length.
    pub(crate) fn lenenc_str(&mut self, what: &'static str) -> Result<&'a str> {
        utf8(self.lenenc_bytes(what)?, what)
    }

    /// Bytes up to a zero byte, which is skipped.
    pub(crate) fn nul_bytes(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(Error::Malformed { what })?;
        let (head, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(head)
    }

    /// Bytes up to a zero byte or to the end: some clients leave the last zero byte out.
    pub(crate) fn nul_or_rest(&mut self) -> &'a [u8] {
        self.nul_bytes("").unwrap_or_else(|_| self.rest())
    }
}

/// The bytes as text, or an error that names the field.
pub(crate) fn utf8<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|_| Error::Malformed { what })
}
