//! The binary parameters of prepared statements.

use crate::cursor::Cursor;
use crate::{ColumnType, Date, DateTime, Error, Execute, Result, Time};

/// The type of a parameter, as the client bound it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamType {
    pub column_type: ColumnType,
    pub unsigned: bool,
}

const UNSIGNED: u8 = 0x80;
/// The approximate memory of a long parameter besides its bytes.
const LONG_VALUE_BYTES: usize = 64;

/// The maximum number of parameters: the prepare reply counts them in 16 bits.
const PARAMETERS_MAX: usize = 0xffff;

/// A parameter value, borrowed from the packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Param<'a> {
    Null,
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    UInt(u64),
    Float(f32),
    Double(f64),
    /// DECIMAL, as the text that the client sent.
    Decimal(&'a [u8]),
    /// Text and bytes.
    Bytes(&'a [u8]),
    Date(Date),
    /// DATETIME or TIMESTAMP.
    DateTime(DateTime),
    Time(Time),
}

/// Parameters sent before the execute, in parts, by COM_STMT_SEND_LONG_DATA.
///
/// That command has no reply, so [`Params::new`] reports its errors.
#[derive(Debug, Default)]
pub struct LongData {
    /// By parameter index, sorted.
    values: Vec<(u16, Vec<u8>)>,
    bytes: usize,
    refused: Option<Error>,
}

impl LongData {
    /// Appends to a parameter, unless all parts together exceed `bytes_max`.
    pub fn append(&mut self, parameter: u16, piece: &[u8], bytes_max: usize) {
        if self.bytes + piece.len() > bytes_max {
            self.refused = Some(Error::LongDataTooLarge { parameter, bytes_max });
            return;
        }
        self.bytes += piece.len();
        match self.values.binary_search_by_key(&parameter, |(number, _)| *number) {
            Ok(at) => self.values[at].1.extend_from_slice(piece),
            Err(at) => self.values.insert(at, (parameter, piece.to_vec())),
        }
    }

    /// The memory in use, for the server's accounting.
    pub fn bytes(&self) -> usize {
        self.bytes + self.values.len() * LONG_VALUE_BYTES
    }

    /// An upper bound of [`Self::bytes`] after appending `piece_bytes` more.
    pub fn bytes_with(&self, piece_bytes: usize) -> usize {
        self.bytes() + piece_bytes + LONG_VALUE_BYTES
    }

    /// Discards everything: after each execute and COM_STMT_RESET.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether nothing was received.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.refused.is_none()
    }

    /// The values by index, for a statement of `count` parameters.
    pub fn pieces(&self, count: usize) -> Result<Vec<Option<Vec<u8>>>> {
        self.check(count)?;
        let mut pieces = vec![None; count];
        for (number, bytes) in &self.values {
            pieces[usize::from(*number)] = Some(bytes.clone());
        }
        Ok(pieces)
    }

    #[inline]
    fn get(&self, parameter: usize) -> Option<&[u8]> {
        if self.values.is_empty() {
            return None;
        }
        let at = self.values.binary_search_by_key(&parameter, |(number, _)| usize::from(*number));
        at.ok().map(|at| self.values[at].1.as_slice())
    }

    /// The first error, for a statement of `count` parameters.
    fn check(&self, count: usize) -> Result<()> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        match self.values.last() {
            Some((last, _)) if usize::from(*last) >= count => Err(Error::WrongArguments {
                what: "COM_STMT_SEND_LONG_DATA: the statement has fewer parameters",
            }),
            _ => Ok(()),
        }
    }
}

/// Iterates over the parameters of an execute in order, without allocating.
#[derive(Debug, Clone)]
pub struct Params<'a> {
    cursor: Cursor<'a>,
    nulls: &'a [u8],
    types: &'a [ParamType],
    long_data: &'a LongData,
    index: usize,
}

impl<'a> Params<'a> {
    /// The parameters of `execute`, for a statement that has `count` of them.
    ///
    /// `types` belongs to the statement and is initially empty: clients may bind the types at the
    /// first execute only, so they are kept there for later ones.
    pub fn new(
        execute: &Execute<'a>,
        count: usize,
        types: &'a mut Vec<ParamType>,
        long_data: &'a LongData,
    ) -> Result<Self> {
        assert!(count <= PARAMETERS_MAX, "a prepared statement has at most 65,535 parameters");
        long_data.check(count)?;
        let mut cursor = Cursor::new(execute.block);
        let mut sent = count;
        // With parameters the count is sent even if its flag is not set: some clients set the flag
        // only when they send attributes.
        if execute.named && (count > 0 || execute.counted) {
            sent = parameter_count(&mut cursor)?;
            if sent < count {
                return Err(Error::WrongArguments {
                    what: "COM_STMT_EXECUTE: fewer parameters sent than the statement has",
                });
            }
        }
        let nulls = read_head(&mut cursor, sent, execute.named, types)?;
        if types.len() < count {
            return Err(Error::WrongArguments {
                what: "COM_STMT_EXECUTE: the types of the parameters were never bound",
            });
        }
        // Values after the statement's parameters are query attributes.
        Ok(Self { cursor, nulls, types: &types[..count], long_data, index: 0 })
    }

    #[inline]
    fn value(&mut self, index: usize, param_type: ParamType) -> Result<Param<'a>> {
        if let Some(bytes) = self.long_data.get(index) {
            return Ok(Param::Bytes(bytes));
        }
        if self.nulls[index / 8] >> (index % 8) & 1 == 1 {
            return Ok(Param::Null);
        }
        read_value(&mut self.cursor, param_type)
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Result<Param<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.index;
        let param_type = *self.types.get(index)?;
        let value = self.value(index, param_type);
        // The values after a malformed one cannot be located.
        self.index = if value.is_ok() { index + 1 } else { self.types.len() };
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.types.len() - self.index;
        (usize::from(left > 0), Some(left))
    }
}

impl<'a> Execute<'a> {
    /// The parameters in the layout of clients without query attributes: NULL bitmap, flag, types,
    /// values. If there are attributes they are removed, using `scratch`.
    pub fn plain_block<'s>(&self, count: usize, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]>
    where
        'a: 's,
    {
        if !self.named {
            return Ok(self.block);
        }
        let mut cursor = Cursor::new(self.block);
        if count == 0 {
            return Ok(&[]);
        }
        let sent = parameter_count(&mut cursor)?;
        if sent < count {
            return Err(Error::WrongArguments {
                what: "COM_STMT_EXECUTE: fewer parameters sent than the statement has",
            });
        }
        let nulls = cursor.bytes(sent.div_ceil(8), "NULL bitmap of parameters cut short")?;
        let bound = cursor.u8("flag for bound parameters missing")?;
        scratch.clear();
        scratch.extend_from_slice(&nulls[..count.div_ceil(8)]);
        scratch.push(bound);
        for number in 0..if bound == 1 { sent } else { 0 } {
            let param_type = cursor.array::<2>("parameter types cut short")?;
            cursor.lenenc_bytes("parameter name cut short")?;
            if number < count {
                scratch.extend_from_slice(&param_type);
            }
        }
        scratch.extend_from_slice(cursor.rest());
        Ok(scratch)
    }
}

fn parameter_count(cursor: &mut Cursor<'_>) -> Result<usize> {
    const WHAT: &str = "parameter count cut short or larger than 65,535";
    let count = usize::try_from(cursor.lenenc(WHAT)?).unwrap_or(usize::MAX);
    if count > PARAMETERS_MAX { Err(Error::Malformed { what: WHAT }) } else { Ok(count) }
}

/// Parses what precedes `count` values: returns the NULL bitmap, and replaces `types` if the client
/// bound them again.
fn read_head<'a>(
    cursor: &mut Cursor<'a>,
    count: usize,
    named: bool,
    types: &mut Vec<ParamType>,
) -> Result<&'a [u8]> {
    if count == 0 {
        return Ok(&[]);
    }
    let nulls = cursor.bytes(count.div_ceil(8), "NULL bitmap of parameters cut short")?;
    if cursor.u8("flag for bound parameters missing")? == 1 {
        types.clear();
        types.reserve(count);
        for _ in 0..count {
            types.push(read_type(cursor)?);
            if named {
                cursor.lenenc_bytes("parameter name cut short")?;
            }
        }
    }
    Ok(nulls)
}

#[inline]
fn read_type(cursor: &mut Cursor<'_>) -> Result<ParamType> {
    let [code, sign] = cursor.array("parameter types cut short")?;
    let column_type = ColumnType::from_code(code)
        .ok_or(Error::Malformed { what: "parameter of an unknown type" })?;
    Ok(ParamType { column_type, unsigned: sign & UNSIGNED != 0 })
}

/// Parses a value that is not NULL.
#[inline]
pub(crate) fn read_value<'a>(cursor: &mut Cursor<'a>, kind: ParamType) -> Result<Param<'a>> {
    const INT: &str = "integer parameter cut short";
    use ColumnType as T;
    Ok(match kind.column_type {
        T::LongLong if kind.unsigned => Param::UInt(u64::from_le_bytes(cursor.array(INT)?)),
        T::LongLong => Param::Int(i64::from_le_bytes(cursor.array(INT)?)),
        T::Long | T::Int24 if kind.unsigned => Param::UInt(u64::from(cursor.u32(INT)?)),
        T::Long | T::Int24 => Param::Int(i64::from(i32::from_le_bytes(cursor.array(INT)?))),
        T::Short | T::Year if kind.unsigned => Param::UInt(u64::from(cursor.u16(INT)?)),
        T::Short | T::Year => Param::Int(i64::from(i16::from_le_bytes(cursor.array(INT)?))),
        T::Tiny if kind.unsigned => Param::UInt(u64::from(cursor.u8(INT)?)),
        T::Tiny => Param::Int(i64::from(i8::from_le_bytes(cursor.array(INT)?))),
        T::Float => Param::Float(f32::from_le_bytes(cursor.array("FLOAT parameter cut short")?)),
        T::Double => Param::Double(f64::from_le_bytes(cursor.array("DOUBLE parameter cut short")?)),
        T::Null => Param::Null,
        T::Date => match DateTime::read(cursor)? {
            (value, 0 | 4) => Param::Date(value.date),
            (value, _) => Param::DateTime(value),
        },
        T::DateTime | T::Timestamp => Param::DateTime(DateTime::read(cursor)?.0),
        T::Time => Param::Time(Time::read(cursor)?),
        T::OldDecimal | T::NewDecimal => {
            Param::Decimal(cursor.lenenc_bytes("DECIMAL parameter cut short")?)
        }
        T::VarChar
        | T::Bit
        | T::Json
        | T::Enum
        | T::Set
        | T::TinyBlob
        | T::MediumBlob
        | T::LongBlob
        | T::Blob
        | T::VarString
        | T::String
        | T::Geometry => Param::Bytes(cursor.lenenc_bytes("text parameter cut short")?),
    })
}

/// Skips the attributes in front of the text of a COM_QUERY, which are there if negotiated.
pub(crate) fn skip_query_attributes(cursor: &mut Cursor<'_>) -> Result<()> {
    let count = parameter_count(cursor)?;
    cursor.lenenc("count of parameter sets cut short")?;
    if count == 0 {
        return Ok(());
    }
    let mut types = Vec::new();
    let nulls = read_head(cursor, count, true, &mut types)?;
    if types.len() != count {
        return Err(Error::Malformed { what: "query attributes without types" });
    }
    for (index, param_type) in types.into_iter().enumerate() {
        if nulls[index / 8] >> (index % 8) & 1 == 0 {
            read_value(cursor, param_type)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
