//! Parameters of prepared statements, in MySQL's binary protocol.

use freshet_base::{Error, Result, bail, err};
use freshet_schema::Literal;
use freshet_schema::value::{
    Encoding, LocalDateTime, put_date_time, put_f64, put_i64, put_i128, put_text, temporal,
};

use super::{Fault, RowEncoder};

/// The bit of a parameter's type that marks unsigned integers.
const UNSIGNED: u16 = 0x8000;

/// The parameters of one execution.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    /// A bitmap with a bit per parameter, lowest first; 1 means NULL.
    nulls: &'a [u8],
    /// MySQL type codes, with bit 15 set for unsigned.
    types: &'a [u16],
    /// The values of parameters that are neither NULL nor sent as long data.
    values: &'a [u8],
    /// Data from COM_STMT_SEND_LONG_DATA; empty, or one entry per parameter.
    long_data: &'a [Option<Vec<u8>>],
}

impl<'a> Params<'a> {
    /// Parses what follows the fixed part of COM_STMT_EXECUTE: the NULL bitmap, the flag whether
    /// types follow, the types, and the values. `types` keeps the types between executions of a
    /// statement.
    pub fn parse(
        count: usize,
        block: &'a [u8],
        types: &'a mut Vec<u16>,
        long_data: &'a [Option<Vec<u8>>],
    ) -> Result<Self> {
        let cut = || err!(PacketMalformed, "the parameters of COM_STMT_EXECUTE end too early");
        if count == 0 {
            return Ok(Self { nulls: &[], types: &[], values: &[], long_data });
        }
        let (nulls, rest) = block.split_at_checked(count.div_ceil(8)).ok_or_else(cut)?;
        let (&bound, mut values) = rest.split_first().ok_or_else(cut)?;
        if bound != 0 {
            let (sent, rest) = values.split_at_checked(2 * count).ok_or_else(cut)?;
            let (pairs, _) = sent.as_chunks();
            types.clear();
            types.extend(pairs.iter().map(|pair| u16::from_le_bytes(*pair)));
            values = rest;
        }
        if types.len() != count {
            bail!(WrongArguments, "the types of {count} parameters were never sent");
        }
        Ok(Self { nulls, types, values, long_data })
    }

    /// The number of parameters.
    pub fn count(&self) -> usize {
        self.types.len()
    }
}

/// Reads parameters in order.
pub(super) struct ParamReader<'a> {
    params: Params<'a>,
    rest: &'a [u8],
    at: usize,
    broken: Option<&'static str>,
}

impl<'a> ParamReader<'a> {
    pub(super) fn new(params: Params<'a>) -> Self {
        Self { params, rest: params.values, at: 0, broken: None }
    }

    /// The error in the parameter block itself, if that is why a parameter could not be read.
    pub(super) fn broken(&self) -> Option<Error> {
        let why = self.broken?;
        Some(err!(PacketMalformed, "parameter {} of COM_STMT_EXECUTE {why}", self.at))
    }

    /// Writes the next parameter as the next value of the row.
    #[inline]
    pub(super) fn put_next(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
        let at = self.at;
        self.at += 1;
        let Some(&ty) = self.params.types.get(at) else {
            return self.fail("does not exist");
        };
        if self.params.nulls[at >> 3] >> (at & 7) & 1 == 1 {
            return encoder.put_null();
        }
        if let Some(Some(data)) = self.params.long_data.get(at) {
            return put_string(encoder, data);
        }
        let unsigned = ty & UNSIGNED != 0;
        macro_rules! int {
            ($signed:ty, $unsigned:ty) => {{
                let Some((bytes, rest)) = self.rest.split_first_chunk() else {
                    return self.fail("is cut off");
                };
                self.rest = rest;
                let value = <$signed>::from_le_bytes(*bytes);
                let value = if unsigned { i64::from(value as $unsigned) } else { i64::from(value) };
                put_int(encoder, value)
            }};
        }
        match ty & 0xff {
            0x01 => int!(i8, u8),
            0x02 | 0x0d => int!(i16, u16),
            0x03 | 0x09 => int!(i32, u32),
            0x08 => self.put_big(unsigned, encoder),
            0x04 => self.put_float(|bytes: [u8; 4]| f32::from_le_bytes(bytes).into(), encoder),
            0x05 => self.put_float(f64::from_le_bytes, encoder),
            0x07 | 0x0a | 0x0c => self.put_datetime(encoder),
            0x0b => self.put_time(encoder),
            0x06 => encoder.put_null(),
            _ => match take_lenenc(&mut self.rest) {
                Some(text) => put_string(encoder, text),
                None => self.fail("is cut off"),
            },
        }
    }

    fn put_big(&mut self, unsigned: bool, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return self.fail("is cut off");
        };
        self.rest = rest;
        let value = i64::from_le_bytes(*bytes);
        if !unsigned || value >= 0 {
            return put_int(encoder, value);
        }
        let value = i128::from(value.cast_unsigned());
        encoder.put(Literal::Int(value), |column, rules, out| put_i128(column, value, rules, out))
    }

    fn put_float<const N: usize>(
        &mut self,
        read: impl Fn([u8; N]) -> f64,
        encoder: &mut RowEncoder<'_>,
    ) -> Result<(), Box<Fault>> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return self.fail("is cut off");
        };
        self.rest = rest;
        let value = read(*bytes);
        encoder.put(Literal::Float(value), |column, rules, out| put_f64(column, value, rules, out))
    }

    /// DATE, DATETIME, TIMESTAMP: a length of 0, 4, 7 or 11, and that many bytes of the fields.
    fn put_datetime(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
        let Some(fields) = self.take_fields::<11>() else {
            return self.fail("is not a date");
        };
        let [y1, y2, month, day, hour, minute, second, micros @ ..] = fields;
        let (year, micros) = (u16::from_le_bytes([y1, y2]), u32::from_le_bytes(micros));
        let days = temporal::days_of(year.into(), month.into(), day.into());
        let in_day = hour < 24 && minute < 60 && second < 60 && micros < 1_000_000;
        let Some(days) = days.filter(|_| in_day) else {
            // Invalid dates are rejected by the same code as invalid text.
            let date = format!("{year:04}-{month:02}-{day:02}");
            let text = format!("{date} {hour:02}:{minute:02}:{second:02}.{micros:06}");
            return put_string(encoder, text.as_bytes());
        };
        let seconds = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
        let micros = seconds * 1_000_000 + i64::from(micros);
        let value = LocalDateTime { days, micros, round_up: false, offset: None };
        encoder.put(Literal::Time(value), |column, rules, out| {
            put_date_time(column, value, rules, out)
        })
    }

    /// TIME: a length of 0, 8 or 12, and that many bytes of sign, days, hours, minutes, seconds and
    /// microseconds.
    fn put_time(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
        let Some(fields) = self.take_fields::<12>() else {
            return self.fail("is not a time");
        };
        let [negative, d1, d2, d3, d4, hour, minute, second, micros @ ..] = fields;
        let days = u32::from_le_bytes([d1, d2, d3, d4]);
        let hours = u64::from(days) * 24 + u64::from(hour);
        let sign = if negative == 0 { "" } else { "-" };
        let micros = u32::from_le_bytes(micros);
        let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
        let text = format!("{sign}{hours:02}:{minute:02}:{second:02}{fraction}");
        put_string(encoder, text.as_bytes())
    }

    /// Reads a length and that many of `N` bytes; the remaining ones are zero.
    fn take_fields<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&length, rest) = self.rest.split_first()?;
        let (sent, rest) = rest.split_at_checked(length.into())?;
        self.rest = rest;
        let mut fields = [0; N];
        fields.get_mut(..sent.len())?.copy_from_slice(sent);
        Some(fields)
    }

    #[cold]
    fn fail(&mut self, why: &'static str) -> Result<(), Box<Fault>> {
        self.broken = Some(why);
        Err(Box::new(Fault::Count { expected: self.params.count() }))
    }
}

#[inline]
fn put_int(encoder: &mut RowEncoder<'_>, value: i64) -> Result<(), Box<Fault>> {
    encoder.put(Literal::Int(value.into()), |column, rules, out| put_i64(column, value, rules, out))
}

#[inline]
fn put_string(encoder: &mut RowEncoder<'_>, text: &[u8]) -> Result<(), Box<Fault>> {
    encoder.put(Literal::Text(text), |column, rules, out| {
        put_text(column, text, Encoding::Unknown, rules, out)
    })
}

/// Consumes a length-encoded string.
#[inline]
fn take_lenenc<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&first, behind) = rest.split_first()?;
    let (length, behind) = match first {
        0..=0xfa => (u64::from(first), behind),
        0xfc => take_length::<2>(behind)?,
        0xfd => take_length::<3>(behind)?,
        0xfe => take_length::<8>(behind)?,
        _ => return None,
    };
    let (text, behind) = behind.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = behind;
    Some(text)
}

fn take_length<const N: usize>(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<N>()?;
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(length);
    Some((u64::from_le_bytes(wide), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_kept_between_executions() {
        let mut types = vec![];
        Params::parse(1, &[0, 1, 1, 0, 5], &mut types, &[]).unwrap();
        let params = Params::parse(1, &[0, 0, 6], &mut types, &[]).unwrap();
        assert_eq!((params.types, params.values), (&[1u16][..], &[6u8][..]));
        assert!(Params::parse(2, &[0, 0], &mut Vec::new(), &[]).is_err());
        assert!(Params::parse(9, &[0], &mut Vec::new(), &[]).is_err());
    }
}
