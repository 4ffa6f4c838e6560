//! Parameters of clients with another character set than UTF-8.

use freshet_base::Charset;

use crate::cursor::Cursor;
use crate::encode::put_lenenc_bytes;
use crate::params::{LongData, ParamType, UNBOUND, UNSIGNED, read_head, read_value};
use crate::{Error, Execute, Result};

/// The parameters of a COM_STMT_EXECUTE with all texts in UTF-8, and with their types.
#[derive(Debug)]
pub struct DecodedParams {
    block: Vec<u8>,
}

impl DecodedParams {
    /// Those of `execute`, whose texts are in this character set, for a statement that has `count`
    /// of them; `types` and `long_data` as in [`Params::new`](crate::Params::new), the latter is
    /// decoded, too.
    pub fn new(
        execute: &Execute<'_>,
        count: usize,
        types: &mut Vec<ParamType>,
        (charset, long_data): (Charset, &mut LongData),
    ) -> Result<Self> {
        let mut scratch = Vec::new();
        let mut cursor = Cursor::new(execute.plain_block(count, &mut scratch)?);
        let nulls = read_head(&mut cursor, count, false, types)?;
        if types.len() < count {
            return Err(Error::WrongArguments { what: UNBOUND });
        }
        long_data.decode(types, charset)?;
        let mut block = nulls.to_vec();
        if count > 0 {
            block.push(1);
        }
        for kind in &types[..count] {
            let sign = if kind.unsigned { UNSIGNED } else { 0 };
            block.extend_from_slice(&[kind.column_type.code(), sign]);
        }
        for (index, kind) in types[..count].iter().enumerate() {
            let is_null = (nulls[index / 8] >> (index % 8)) & 1 == 1;
            if is_null || long_data.get(index).is_some() {
                continue;
            }
            if kind.is_text() {
                let bytes = cursor.lenenc_bytes("text parameter cut short")?;
                let parameter = index as u16;
                let text = charset.decode(bytes).ok_or(Error::NotText { parameter })?;
                put_lenenc_bytes(&mut block, text.as_bytes());
            } else {
                let before = cursor.peek();
                read_value(&mut cursor, *kind)?;
                block.extend_from_slice(&before[..before.len() - cursor.peek().len()]);
            }
        }
        Ok(Self { block })
    }

    /// The execution with these parameters.
    pub fn execute<'a>(&'a self, execute: &Execute<'_>) -> Execute<'a> {
        Execute { named: false, counted: false, block: &self.block, ..*execute }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capabilities, ColumnType, Command, Param, Params};

    /// A COM_STMT_EXECUTE of two parameters of these types.
    fn payload(types: [u8; 2], values: &[u8]) -> Vec<u8> {
        let mut payload = b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01".to_vec();
        payload.extend_from_slice(&[types[0], 0, types[1], 0]);
        payload.extend_from_slice(values);
        payload
    }

    fn decoded(payload: &[u8], long_data: &mut LongData) -> Result<Vec<Option<Vec<u8>>>> {
        let Command::Execute(execute) = Command::parse(payload, Capabilities::PROTOCOL_41)? else {
            panic!("another command")
        };
        let (mut types, charset) = (Vec::new(), Charset::of_client("latin1").unwrap());
        let params = DecodedParams::new(&execute, 2, &mut types, (charset, long_data))?;
        let execute = params.execute(&execute);
        let mut types = Vec::new();
        let read = Params::new(&execute, 2, &mut types, long_data)?;
        read.map(|param| match param? {
            Param::Bytes(bytes) => Ok(Some(bytes.to_vec())),
            _ => Ok(None),
        })
        .collect()
    }

    #[test]
    fn texts_are_decoded_and_bytes_are_not() {
        let (text, blob) = (ColumnType::VarString.code(), ColumnType::Blob.code());
        let sent = payload([text, blob], b"\x02a\xe9\x01\xe9");
        let values = decoded(&sent, &mut LongData::default()).unwrap();
        assert_eq!(values, [Some("a\u{e9}".as_bytes().to_vec()), Some(vec![0xe9])]);
        let sent = payload([ColumnType::Long.code(), text], b"\x01\0\0\0\x01\xe9");
        let values = decoded(&sent, &mut LongData::default()).unwrap();
        assert_eq!(values, [None, Some("\u{e9}".as_bytes().to_vec())]);
    }

    #[test]
    fn long_texts_are_decoded_when_their_types_are_known() {
        let (text, blob) = (ColumnType::String.code(), ColumnType::LongBlob.code());
        let mut long = LongData::default();
        long.append(0, b"\xe9", 100);
        long.append(1, b"\xe9", 100);
        let values = decoded(&payload([text, blob], b""), &mut long).unwrap();
        assert_eq!(values, [Some("\u{e9}".as_bytes().to_vec()), Some(vec![0xe9])]);
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        let text = ColumnType::VarString.code();
        assert!(decoded(&payload([text, text], b"\x05a"), &mut LongData::default()).is_err());
    }
}
