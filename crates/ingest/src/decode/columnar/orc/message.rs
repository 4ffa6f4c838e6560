//! Reads the messages of Protocol Buffers in an ORC file, field by field: what is not looked for
//! takes no memory, and a list is no longer than its bytes.

use freshet_base::Result;

use super::damaged;

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub fn number(self) -> Result<u64> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(damaged("a number is missing")),
        }
    }

    pub fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(damaged("a message is missing")),
        }
    }

    pub fn text(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged("a name is no UTF-8"))
    }

    /// Appends the numbers of a repeated field, which may be packed into one; `out` may have
    /// `most` of them.
    pub fn numbers(self, most: usize, out: &mut Vec<u64>) -> Result<()> {
        let mut push = |number| match out.len() < most {
            true => {
                out.push(number);
                Ok(())
            }
            false => Err(damaged("a list of numbers is too long")),
        };
        let mut rest = match self {
            Self::Number(number) => return push(number),
            Self::Bytes(bytes) => bytes,
        };
        while !rest.is_empty() {
            push(varint(&mut rest)?)?;
        }
        Ok(())
    }
}

/// Calls `each` with the number and value of all fields of a message.
pub fn fields<'a>(
    mut message: &'a [u8],
    mut each: impl FnMut(u64, Field<'a>) -> Result<()>,
) -> Result<()> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut message)?),
            1 => Field::Number(u64::from_le_bytes(take(&mut message)?)),
            2 => {
                let bytes = usize::try_from(varint(&mut message)?).unwrap_or(usize::MAX);
                let (value, rest) = message
                    .split_at_checked(bytes)
                    .ok_or_else(|| damaged("a message is longer than it can be"))?;
                message = rest;
                Field::Bytes(value)
            }
            5 => Field::Number(u32::from_le_bytes(take(&mut message)?).into()),
            _ => return Err(damaged("a field is of no known kind")),
        };
        each(key >> 3, field)?;
    }
    Ok(())
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (value, rest) =
        bytes.split_first_chunk().ok_or_else(|| damaged("a message ends too early"))?;
    *bytes = rest;
    Ok(*value)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(damaged("a number of a message is too long"))
}
