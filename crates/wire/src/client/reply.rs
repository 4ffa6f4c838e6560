//! Parsing replies, one packet at a time.

use crate::cursor::{Cursor, utf8};
use crate::params::read_value;
use crate::response::{EOF_HEADER, ERR_HEADER, LOCAL_INFILE_HEADER, OK_HEADER};
use crate::row::{TEXT_NULL, binary_null_bit, binary_null_bytes};
use crate::{
    Capabilities, ColumnDefinition, ColumnFlags, ColumnType, Error, FRAME_PAYLOAD_MAX, Param,
    ParamType, Result, StatusFlags,
};

/// The maximum length of an EOF packet; a longer one with its header is a row or an OK packet.
const EOF_BYTES_MAX: usize = 9;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OkReply<'a> {
    /// Rows inserted, changed or removed.
    pub affected_rows: u64,
    /// The first generated id, 0 if there is none.
    pub last_insert_id: u64,
    pub status: StatusFlags,
    pub warnings: u16,
    pub info: &'a str,
    /// Encoded changes of session state.
    pub changes: &'a [u8],
}

impl<'a> OkReply<'a> {
    /// Parses an OK packet with either header.
    pub fn parse(payload: &'a [u8], capabilities: Capabilities) -> Result<Self> {
        const WHAT: &str = "OK packet cut short";
        let mut cursor = Cursor::new(payload);
        cursor.u8(WHAT)?;
        let mut ok = Self {
            affected_rows: cursor.lenenc(WHAT)?,
            last_insert_id: cursor.lenenc(WHAT)?,
            status: StatusFlags(cursor.u16(WHAT)?),
            warnings: cursor.u16(WHAT)?,
            ..Self::default()
        };
        if !cursor.is_empty() {
            ok.info = cursor.lenenc_str("info of an OK packet cut short or not UTF-8")?;
        }
        let tracked = capabilities.contains(Capabilities::SESSION_TRACK)
            && ok.status.contains(StatusFlags::SESSION_STATE_CHANGED);
        if tracked {
            ok.changes = cursor.lenenc_bytes("session state cut short")?;
        }
        Ok(ok)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrReply<'a> {
    pub errno: u16,
    /// Empty before the handshake is complete.
    pub sqlstate: &'a str,
    pub message: &'a str,
}

impl<'a> ErrReply<'a> {
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        const WHAT: &str = "ERR packet cut short";
        let mut cursor = Cursor::new(payload);
        cursor.u8(WHAT)?;
        let errno = cursor.u16(WHAT)?;
        let rest = utf8(cursor.rest(), "error message not UTF-8")?;
        let (sqlstate, message) = match rest.strip_prefix('#') {
            Some(rest) => rest.split_at_checked(5).ok_or(Error::Malformed { what: WHAT })?,
            None => ("", rest),
        };
        Ok(Self { errno, sqlstate, message })
    }
}

/// The first packet of a reply to COM_QUERY, COM_STMT_EXECUTE and most other commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerPacket<'a> {
    /// Success without rows.
    Ok(OkReply<'a>),
    Err(ErrReply<'a>),
    /// A result set with this number of columns follows.
    Columns(usize),
    /// The server requests this file from the client.
    LocalInfile(&'a [u8]),
}

impl<'a> ServerPacket<'a> {
    pub fn parse(payload: &'a [u8], capabilities: Capabilities) -> Result<Self> {
        match payload {
            [OK_HEADER, ..] => OkReply::parse(payload, capabilities).map(Self::Ok),
            [ERR_HEADER, ..] => ErrReply::parse(payload).map(Self::Err),
            [LOCAL_INFILE_HEADER, name @ ..] => Ok(Self::LocalInfile(name)),
            _ => {
                let count = Cursor::new(payload).lenenc("column count cut short")?;
                Ok(Self::Columns(count as usize))
            }
        }
    }
}

/// Parses the end of rows or definitions; `None` for any other packet.
pub fn result_end(payload: &[u8], capabilities: Capabilities) -> Result<Option<OkReply<'_>>> {
    if payload.first() != Some(&EOF_HEADER) {
        return Ok(None);
    }
    if capabilities.contains(Capabilities::DEPRECATE_EOF) {
        // A row can begin with this byte, too, but only if its first cell has 16 MiB or more.
        let end = payload.len() < FRAME_PAYLOAD_MAX;
        return end.then(|| OkReply::parse(payload, capabilities)).transpose();
    }
    if payload.len() >= EOF_BYTES_MAX {
        return Ok(None);
    }
    let mut cursor = Cursor::new(&payload[1..]);
    const WHAT: &str = "EOF packet cut short";
    let warnings = cursor.u16(WHAT)?;
    Ok(Some(OkReply { warnings, status: StatusFlags(cursor.u16(WHAT)?), ..OkReply::default() }))
}

/// The first packet of a reply to COM_STMT_PREPARE. `parameters` definitions follow, then
/// `columns` definitions; each list that is not empty ends with an EOF packet unless deprecated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedReply {
    pub statement_id: u32,
    /// The number of result columns, 0 without a result set.
    pub columns: u16,
    /// How many parameters the statement has.
    pub parameters: u16,
    pub warnings: u16,
}

impl PreparedReply {
    /// Parses the first packet of the reply, which must not be an ERR packet.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        const WHAT: &str = "prepare reply cut short";
        let mut cursor = Cursor::new(payload);
        cursor.u8(WHAT)?;
        let statement_id = cursor.u32(WHAT)?;
        let columns = cursor.u16(WHAT)?;
        let parameters = cursor.u16(WHAT)?;
        cursor.u8(WHAT)?;
        Ok(Self { statement_id, columns, parameters, warnings: cursor.u16(WHAT)? })
    }

    /// The number of packets that follow.
    pub fn packets(&self, capabilities: Capabilities) -> usize {
        let end = usize::from(!capabilities.contains(Capabilities::DEPRECATE_EOF));
        let list = |count: u16| if count == 0 { 0 } else { usize::from(count) + end };
        list(self.parameters) + list(self.columns)
    }
}

/// The cells of a row of the text protocol; `None` is NULL.
#[derive(Debug, Clone)]
pub struct TextCells<'a> {
    cursor: Cursor<'a>,
}

impl<'a> TextCells<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(payload) }
    }
}

impl<'a> Iterator for TextCells<'a> {
    type Item = Result<Option<&'a [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut ahead = self.cursor;
        match ahead.u8("").ok()? {
            TEXT_NULL => {
                self.cursor = ahead;
                Some(Ok(None))
            }
            _ => {
                let cell = self.cursor.lenenc_bytes("cell cut short").map(Some);
                if cell.is_err() {
                    self.cursor.rest();
                }
                Some(cell)
            }
        }
    }
}

/// The cells of a row of the binary protocol.
#[derive(Debug, Clone)]
pub struct BinaryCells<'a> {
    cursor: Cursor<'a>,
    nulls: &'a [u8],
    columns: &'a [(ColumnType, ColumnFlags)],
    index: usize,
}

impl<'a> BinaryCells<'a> {
    /// The cells of a row whose columns have these types.
    pub fn new(payload: &'a [u8], columns: &'a [(ColumnType, ColumnFlags)]) -> Result<Self> {
        let mut cursor = Cursor::new(payload);
        cursor.u8("row without header")?;
        let nulls = cursor.bytes(binary_null_bytes(columns.len()), "NULL bitmap cut short")?;
        Ok(Self { cursor, nulls, columns, index: 0 })
    }
}

impl<'a> Iterator for BinaryCells<'a> {
    type Item = Result<Param<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (column_type, flags) = *self.columns.get(self.index)?;
        let (byte, mask) = binary_null_bit(self.index);
        let value = if self.nulls[byte] & mask != 0 {
            Ok(Param::Null)
        } else {
            let unsigned = flags.contains(ColumnFlags::UNSIGNED);
            read_value(&mut self.cursor, ParamType { column_type, unsigned })
        };
        self.index = if value.is_ok() { self.index + 1 } else { self.columns.len() };
        Some(value)
    }
}

/// The type and flags of a column definition, for [`BinaryCells`].
pub(super) fn cell_type(definition: &ColumnDefinition<'_>) -> (ColumnType, ColumnFlags) {
    (definition.column_type, definition.flags)
}
