//! JSON documents in MySQL's normal form: keys ordered by length, then by bytes; of duplicate keys
//! the last wins; a blank after each comma and colon.

use serde_json::Value;

use super::bad::{BadJson, BadValue};
use crate::TEXT_BYTES_MAX;
use crate::row::{Put, put_bytes};

pub(super) fn put(text: &[u8], out: &mut Vec<u8>) -> Result<Put, BadValue> {
    let value: Value = serde_json::from_slice(text).map_err(|error| describe(text, &error))?;
    let mut normal = Vec::with_capacity(text.len() + text.len() / 8);
    write(&value, &mut normal);
    let limit = TEXT_BYTES_MAX as usize;
    if normal.len() > limit {
        return Err(BadValue::too_long(normal.len(), limit));
    }
    put_bytes(out, &normal);
    Ok(Put::Value)
}

fn describe(text: &[u8], error: &serde_json::Error) -> BadValue {
    let lines = text.split(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
    let before = lines.map(|line| line.len() + 1).sum::<usize>();
    let full = error.to_string();
    let reason = full.split(" at line ").next().unwrap_or(&full).to_owned();
    BadValue::NotJson(Box::new(BadJson { at: before + error.column().saturating_sub(1), reason }))
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(values) => {
            out.push(b'[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                write(value, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| (key.len(), *key));
            out.push(b'{');
            for (at, (key, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                write_scalar(key, out);
                out.extend_from_slice(b": ");
                write(value, out);
            }
            out.push(b'}');
        }
        scalar => write_scalar(scalar, out),
    }
}

fn write_scalar<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("scalars serialize, and a Vec takes every byte");
}
