//! Thrift's compact protocol, in which the ends of Parquet files are written: into a tree of
//! values, and back.

/// The most that lies within each other.
const DEPTH_MAX: usize = 32;
const TYPE_STRUCT: u8 = 12;

/// A value of any type.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Bool(bool),
    Byte(u8),
    I16(i64),
    I32(i64),
    I64(i64),
    Double([u8; 8]),
    Bytes(Vec<u8>),
    /// A list or a set, with its type, and that of its elements.
    List(u8, u8, Vec<Value>),
    /// With the types of keys and values in one byte.
    Map(u8, Vec<(Value, Value)>),
    Struct(Vec<Field>),
}

/// A field of a structure.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    pub id: i16,
    pub value: Value,
}

impl Value {
    /// A list of structures.
    pub fn structs(values: Vec<Self>) -> Self {
        Self::List(9, TYPE_STRUCT, values)
    }

    pub fn into_list(self) -> Option<Vec<Self>> {
        if let Self::List(_, _, values) = self { Some(values) } else { None }
    }

    pub fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(_, _, values) = self { Some(values) } else { None }
    }

    pub fn as_fields(&self) -> Option<&[Field]> {
        if let Self::Struct(fields) = self { Some(fields) } else { None }
    }

    /// A number of any width.
    pub fn as_number(&self) -> Option<i64> {
        match self {
            Self::I16(number) | Self::I32(number) | Self::I64(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<String> {
        match self {
            Self::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        }
    }

    const fn type_of(&self) -> u8 {
        match self {
            Self::Bool(true) => 1,
            Self::Bool(false) => 2,
            Self::Byte(_) => 3,
            Self::I16(_) => 4,
            Self::I32(_) => 5,
            Self::I64(_) => 6,
            Self::Double(_) => 7,
            Self::Bytes(_) => 8,
            Self::List(ty, ..) => *ty,
            Self::Map(..) => 11,
            Self::Struct(_) => TYPE_STRUCT,
        }
    }
}

/// The field of this id.
pub fn find(fields: &[Field], id: i16) -> Option<&Value> {
    fields.iter().find(|field| field.id == id).map(|field| &field.value)
}

/// Takes a field out.
pub fn take(fields: &mut Vec<Field>, id: i16) -> Option<Value> {
    let at = fields.iter().position(|field| field.id == id)?;
    Some(fields.remove(at).value)
}

/// Sets a field, which stands in the order of ids.
pub fn put(fields: &mut Vec<Field>, id: i16, value: Value) {
    take(fields, id);
    let at = fields.partition_point(|field| field.id < id);
    fields.insert(at, Field { id, value });
}

/// Reads a structure that takes all of `bytes`; `None` if it is damaged.
pub fn decode(bytes: &[u8]) -> Option<Vec<Field>> {
    let mut reader = Reader(bytes);
    let fields = reader.fields(0)?;
    reader.0.is_empty().then_some(fields)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.unsigned()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    fn fields(&mut self, depth: usize) -> Option<Vec<Field>> {
        let (mut fields, mut last) = (Vec::new(), 0_i16);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(fields);
            }
            let id = match head >> 4 {
                0 => i16::try_from(self.signed()?).ok()?,
                delta => last.checked_add(i16::from(delta))?,
            };
            let value = match head & 0x0f {
                1 => Value::Bool(true),
                2 => Value::Bool(false),
                ty => self.value(ty, depth)?,
            };
            last = id;
            fields.push(Field { id, value });
        }
    }

    fn value(&mut self, ty: u8, depth: usize) -> Option<Value> {
        if depth == DEPTH_MAX {
            return None;
        }
        Some(match ty {
            // As elements: the fields of structures have their value in their type.
            1 | 2 => Value::Bool(self.byte()? == 1),
            3 => Value::Byte(self.byte()?),
            4 => Value::I16(self.signed()?),
            5 => Value::I32(self.signed()?),
            6 => Value::I64(self.signed()?),
            7 => {
                let (bytes, rest) = self.0.split_first_chunk::<8>()?;
                self.0 = rest;
                Value::Double(*bytes)
            }
            8 => Value::Bytes(self.bytes()?),
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.unsigned()?,
                    count => u64::from(count),
                };
                let element = head & 0x0f;
                let values = (0..count).map(|_| self.value(element, depth + 1));
                Value::List(ty, element, values.collect::<Option<_>>()?)
            }
            11 => {
                let count = self.unsigned()?;
                let types = if count > 0 { self.byte()? } else { 0 };
                let pair = |_| {
                    let key = self.value(types >> 4, depth + 1)?;
                    Some((key, self.value(types & 0x0f, depth + 1)?))
                };
                Value::Map(types, (0..count).map(pair).collect::<Option<_>>()?)
            }
            TYPE_STRUCT => Value::Struct(self.fields(depth + 1)?),
            _ => return None,
        })
    }
}

/// Writes a structure.
pub fn encode(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_fields(&mut bytes, fields);
    bytes
}

fn put_unsigned(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn put_signed(to: &mut Vec<u8>, number: i64) {
    put_unsigned(to, ((number << 1) ^ (number >> 63)) as u64);
}

fn put_fields(to: &mut Vec<u8>, fields: &[Field]) {
    let mut last = 0_i16;
    for Field { id, value } in fields {
        match id.checked_sub(last) {
            Some(delta @ 1..=15) => to.push((delta as u8) << 4 | value.type_of()),
            _ => {
                to.push(value.type_of());
                put_signed(to, i64::from(*id));
            }
        }
        // A truth is in its type.
        if !matches!(value, Value::Bool(_)) {
            put_value(to, value);
        }
        last = *id;
    }
    to.push(0);
}

fn put_value(to: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(is_true) => to.push(if *is_true { 1 } else { 2 }),
        Value::Byte(byte) => to.push(*byte),
        Value::I16(number) | Value::I32(number) | Value::I64(number) => put_signed(to, *number),
        Value::Double(bytes) => to.extend_from_slice(bytes),
        Value::Bytes(bytes) => {
            put_unsigned(to, bytes.len() as u64);
            to.extend_from_slice(bytes);
        }
        Value::List(_, element, values) => {
            match values.len() {
                count @ 0..15 => to.push((count as u8) << 4 | element),
                count => {
                    to.push(0xf0 | element);
                    put_unsigned(to, count as u64);
                }
            }
            values.iter().for_each(|value| put_value(to, value));
        }
        Value::Map(types, pairs) => {
            put_unsigned(to, pairs.len() as u64);
            if !pairs.is_empty() {
                to.push(*types);
            }
            for (key, value) in pairs {
                put_value(to, key);
                put_value(to, value);
            }
        }
        Value::Struct(fields) => put_fields(to, fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Field> {
        let list = |count| Value::List(9, 5, (0..count).map(Value::I32).collect());
        let truths = Value::List(10, 1, vec![Value::Bool(true), Value::Bool(false)]);
        let map = Value::Map(0x86, vec![(Value::Bytes(b"k".to_vec()), Value::I64(-1))]);
        let inner = Value::Struct(vec![Field { id: 300, value: Value::I16(i64::from(i16::MIN)) }]);
        let values = [
            Value::Bool(true),
            Value::Bool(false),
            Value::Byte(9),
            Value::I64(i64::MIN),
            Value::I64(i64::MAX),
            Value::Double([1; 8]),
            Value::Bytes(vec![7; 200]),
            list(3),
            list(20),
            truths,
            map,
            Value::Map(0, Vec::new()),
            inner,
        ];
        (1..).zip(values).map(|(id, value)| Field { id: id * 7, value }).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = encode(&all());
        assert_eq!(decode(&bytes), Some(all()));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "cut at {end}");
        }
        assert_eq!(decode(&[0x1c; 100]), None, "too deep");
        assert_eq!(decode(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f]), None, "a long list");
    }

    #[test]
    fn fields_stand_in_their_order() {
        let mut fields = all();
        put(&mut fields, 8, Value::I32(5));
        put(&mut fields, 8, Value::I32(6));
        assert_eq!(find(&fields, 8).and_then(Value::as_number), Some(6));
        assert!(fields.is_sorted_by_key(|field| field.id));
        assert_eq!(take(&mut fields, 9999), None);
    }
}
