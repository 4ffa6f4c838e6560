//! Parsing the fields of a payload.

use crate::{Error, Result};

/// The unread rest of a payload. Each method takes the name of the field for its error.
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

    /// The rest of the payload.
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

    /// Bytes preceded by a length-encoded length.
    #[inline]
    pub(crate) fn lenenc_bytes(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let count = self.lenenc(what)?;
        let count = usize::try_from(count).map_err(|_| Error::Malformed { what })?;
        self.bytes(count, what)
    }

    /// UTF-8 text preceded by a length-encoded length.
    pub(crate) fn lenenc_str(&mut self, what: &'static str) -> Result<&'a str> {
        utf8(self.lenenc_bytes(what)?, what)
    }

    /// Zero-terminated bytes.
    pub(crate) fn nul_bytes(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(Error::Malformed { what })?;
        let (head, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(head)
    }

    /// Bytes up to a zero byte or the end: some clients omit the last zero byte.
    pub(crate) fn nul_or_rest(&mut self) -> &'a [u8] {
        self.nul_bytes("").unwrap_or_else(|_| self.rest())
    }
}

/// Checks that bytes are UTF-8; the error names the field.
pub(crate) fn utf8<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|_| Error::Malformed { what })
}
