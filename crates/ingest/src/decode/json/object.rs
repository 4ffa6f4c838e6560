//! Decodes a JSON object into a row without building a tree.

use std::fmt;

use freshet_schema::value::{Encoding, number, put_i64, put_number, put_short, put_text};
use freshet_schema::{BadValue, Column, DELETE_SIGN, Literal};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::JsonFormat;
use super::path::Key;
use crate::decode::{Fault, RowEncoder, SourcePlan};
use crate::rejects::{Why, reason};

pub(super) struct ObjectReader<'a> {
    source: &'a SourcePlan,
    format: &'a JsonFormat,
}

impl<'a> ObjectReader<'a> {
    pub(super) fn new(source: &'a SourcePlan, format: &'a JsonFormat) -> Self {
        Self { source, format }
    }

    /// Encodes `object` as the row that was begun; the error is the reason to reject it.
    pub(super) fn read(&self, object: &str, encoder: &mut RowEncoder<'_>) -> Result<(), Why> {
        let read = match self.format.paths.is_empty() {
            true => self.read_members(object, encoder)?,
            false => self.read_paths(object, encoder)?,
        };
        read.and_then(|()| encoder.end_partial_row())
            .map_err(|fault| reason(&fault, &self.source.plan))
    }

    /// Matches members to fields by name.
    fn read_members(
        &self,
        object: &str,
        encoder: &mut RowEncoder<'_>,
    ) -> Result<Result<(), Box<Fault>>, String> {
        let mut fault = None;
        let seed = Members { reader: self, encoder, fault: &mut fault };
        let mut deserializer = serde_json::Deserializer::from_str(object);
        if let Err(error) = seed.deserialize(&mut deserializer) {
            return match fault {
                Some(fault) => Ok(Err(fault)),
                None => Err(format!("Parse json data for JsonDoc failed: {error}")),
            };
        }
        match deserializer.end() {
            Ok(()) => Ok(Ok(())),
            Err(_) => Err("Multiple JSON objects in a single line".to_owned()),
        }
    }

    /// Finds each field by its path.
    fn read_paths(
        &self,
        object: &str,
        encoder: &mut RowEncoder<'_>,
    ) -> Result<Result<(), Box<Fault>>, String> {
        if let Err(error) = serde_json::from_str::<&RawValue>(object) {
            return Err(format!("Parse json data for JsonDoc failed: {error}"));
        }
        for (path, field) in self.format.paths.iter().zip(&self.source.fields) {
            if let (Some(position), Some(value)) = (*field, path.select(object)) {
                encoder.seek(position);
                if let Err(fault) = self.put(value, encoder) {
                    return Ok(Err(fault));
                }
            }
        }
        Ok(Ok(()))
    }

    /// The position of the value with this name. `likely` is the index to try first, since members
    /// usually have the same order in all objects.
    fn position(&self, name: &str, likely: &mut usize) -> Option<usize> {
        let names = &self.source.names;
        let is = |known: &String| known.eq_ignore_ascii_case(name);
        let at = match names.get(*likely) {
            Some(known) if is(known) => *likely,
            _ => names.iter().position(is)?,
        };
        *likely = at + 1;
        self.source.fields[at]
    }

    /// Writes the text of a member as the next value.
    fn put(&self, value: &str, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
        let bytes = value.as_bytes();
        let wants_json = encoder.column().is_some_and(|column| column.ty.is_json());
        match bytes.first() {
            _ if wants_json && value != "null" => put_string(value, encoder),
            Some(b'"') => match serde_json::from_str::<Key<'_>>(value) {
                Ok(Key(text)) => put_string(&text, encoder),
                Err(_) => encoder.put(Literal::Text(bytes), |_, _, _| Err(BadValue::NotUtf8)),
            },
            Some(b'n') => encoder.put_null(),
            Some(b't') => put_bool(1, encoder),
            Some(b'f') => put_bool(0, encoder),
            Some(b'{' | b'[') => put_string(value, encoder),
            _ if self.format.num_as_string => put_string(value, encoder),
            _ => {
                encoder.put(Literal::Number(bytes), |column, rules, out| {
                    match number::take_short(bytes) {
                        Some((short, taken)) if taken == bytes.len() && !is_text(column) => {
                            put_short(column, short, bytes, rules, out)
                        }
                        _ => put_number(column, bytes, rules, out),
                    }
                })
            }
        }
    }
}

/// Whether a row of a flexible partial update deletes its key, as its sign says. Beside a sequence
/// column the sign is a column.
fn deletes(sign: &str) -> Result<bool, String> {
    match sign.trim_matches('"') {
        "0" | "false" | "null" => Ok(false),
        "1" | "true" => Ok(true),
        other => Err(format!("{DELETE_SIGN} is 0 or 1, not {other}")),
    }
}

fn is_text(column: &Column) -> bool {
    column.ty.is_text()
}

fn put_string(text: &str, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
    let text = text.as_bytes();
    encoder.put(Literal::Text(text), |column, rules, out| {
        put_text(column, text, Encoding::Utf8, rules, out)
    })
}

fn put_bool(value: i64, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
    encoder.put(Literal::Int(value.into()), |column, rules, out| put_i64(column, value, rules, out))
}

/// Visits the members of an object.
struct Members<'r, 'a, 'e, 'o> {
    reader: &'r ObjectReader<'a>,
    encoder: &'e mut RowEncoder<'o>,
    /// The fault of a member, which the parser's error type cannot carry.
    fault: &'e mut Option<Box<Fault>>,
}

impl<'de> DeserializeSeed<'de> for Members<'_, '_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, '_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut likely = 0;
        while let Some(Key(name)) = map.next_key()? {
            let Some(position) = self.reader.position(&name, &mut likely) else {
                if self.reader.source.plan.is_flexible && name.eq_ignore_ascii_case(DELETE_SIGN) {
                    let value: &RawValue = map.next_value()?;
                    let deletes = deletes(value.get()).map_err(A::Error::custom)?;
                    self.encoder.set_deletes(deletes);
                    continue;
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value: &RawValue = map.next_value()?;
            self.encoder.seek(position);
            if let Err(fault) = self.reader.put(value.get(), self.encoder) {
                *self.fault = Some(fault);
                return Err(A::Error::custom("a value does not fit its column"));
            }
        }
        Ok(())
    }
}
