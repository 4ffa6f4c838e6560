//! Parquet files: cut between their row groups into smaller files of the same columns, each of
//! which is a block. Of a file only its end, which says where its parts are, is understood here;
//! values are the server's matter.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use crate::split::Block;
use crate::thrift::{Field, Value, decode, encode, find, put, take};

const MAGIC: &[u8; 4] = b"PAR1";
/// Of a file whose end is encrypted.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";
/// The length of the end, and the magic behind it.
const TAIL_BYTES: u64 = 8;
const FOOTER_BYTES_MAX: u64 = 256 << 20;

/// The fields of the structures in a file's end that matter here (parquet.thrift).
mod field {
    pub const FILE_SCHEMA: i16 = 2;
    pub const FILE_ROWS: i16 = 3;
    pub const FILE_GROUPS: i16 = 4;
    pub const ELEMENT_NAME: i16 = 4;
    pub const ELEMENT_CHILDREN: i16 = 5;
    pub const GROUP_CHUNKS: i16 = 1;
    pub const GROUP_ROWS: i16 = 3;
    pub const GROUP_OFFSET: i16 = 5;
    pub const GROUP_ORDINAL: i16 = 7;
    pub const CHUNK_PATH: i16 = 1;
    pub const CHUNK_OFFSET: i16 = 2;
    pub const CHUNK_META: i16 = 3;
    /// Where indexes of pages are, which stand elsewhere in the file.
    pub const CHUNK_INDEXES: [i16; 4] = [4, 5, 6, 7];
    pub const CHUNK_CRYPTO: i16 = 8;
    pub const META_BYTES: i16 = 7;
    pub const META_DATA: i16 = 9;
    pub const META_DICTIONARY: i16 = 11;
    /// An index page and a Bloom filter, which stand elsewhere.
    pub const META_OTHERS: [i16; 3] = [10, 14, 15];
}

/// A Parquet file.
pub struct Parquet {
    file: File,
    /// The end of the file, without row groups.
    head: Vec<Field>,
    columns: Vec<String>,
    blocks: std::vec::IntoIter<Piece>,
}

/// Row groups that stand side by side.
struct Piece {
    range: Range<u64>,
    rows: u64,
    groups: Vec<Value>,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it is no Parquet file: {what}"))
}

impl Parquet {
    /// Reads the end of a file, to be cut into blocks of about `block_bytes`, each of at least a
    /// row group.
    ///
    /// # Errors
    /// When it is no Parquet file, or one that cannot be cut.
    pub fn open(mut file: File, block_bytes: u64) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let mut tail = [0; TAIL_BYTES as usize];
        if len < 2 * TAIL_BYTES {
            return Err(bad("it is too short"));
        }
        file.seek(SeekFrom::Start(len - TAIL_BYTES))?;
        file.read_exact(&mut tail)?;
        let (size, magic) = tail.split_at(4);
        if magic == MAGIC_ENCRYPTED {
            return Err(bad("it is encrypted"));
        }
        let size = u64::from(u32::from_le_bytes([size[0], size[1], size[2], size[3]]));
        if magic != MAGIC || size > (len - TAIL_BYTES).min(FOOTER_BYTES_MAX) {
            return Err(bad("its end is damaged"));
        }
        let footer_at = len - TAIL_BYTES - size;
        let mut footer = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        file.seek(SeekFrom::Start(footer_at))?;
        file.read_exact(&mut footer)?;
        let mut head = decode(&footer).ok_or_else(|| bad("its end is damaged"))?;
        let groups = take(&mut head, field::FILE_GROUPS);
        let groups = groups.and_then(Value::into_list).unwrap_or_default();
        let columns = columns(&head).ok_or_else(|| bad("its columns are damaged"))?;
        let blocks = pieces(groups, footer_at, block_bytes)?.into_iter();
        Ok(Self { file, head, columns, blocks })
    }

    /// The names of its columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many rows are left.
    pub fn rows(&self) -> u64 {
        self.blocks.as_slice().iter().map(|piece| piece.rows).sum()
    }

    /// The next block: a Parquet file itself, with as many lines as it has rows.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next(&mut self) -> io::Result<Option<Block>> {
        let Some(Piece { range, rows, groups }) = self.blocks.next() else { return Ok(None) };
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = vec![0; MAGIC.len() + len];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        self.file.seek(SeekFrom::Start(range.start))?;
        self.file.read_exact(&mut bytes[MAGIC.len()..])?;
        let shift = i64::try_from(range.start).unwrap_or(i64::MAX) - MAGIC.len() as i64;
        let groups = groups.into_iter().map(|group| moved(group, shift));
        let mut end = self.head.clone();
        put(&mut end, field::FILE_ROWS, Value::I64(i64::try_from(rows).unwrap_or(i64::MAX)));
        put(&mut end, field::FILE_GROUPS, Value::structs(groups.collect()));
        let footer = encode(&end);
        let size = u32::try_from(footer.len()).map_err(|_| bad("its end is too long"))?;
        bytes.extend_from_slice(&footer);
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        Ok(Some(Block { offset: range.start, line: 1, lines: rows, bytes }))
    }
}

/// The names of the columns below the root of the schema.
fn columns(head: &[Field]) -> Option<Vec<String>> {
    let elements = find(head, field::FILE_SCHEMA)?.as_list()?;
    let children = |element: &Value| {
        let children = find(element.as_fields()?, field::ELEMENT_CHILDREN);
        usize::try_from(children.map_or(Some(0), Value::as_number)?).ok()
    };
    let (root, below) = elements.split_first()?;
    let (mut names, mut at) = (Vec::new(), 0);
    for _ in 0..children(root)? {
        let name = find(below.get(at)?.as_fields()?, field::ELEMENT_NAME)?.as_text()?;
        names.push(name);
        // What lies below it follows it.
        let mut left = 1;
        while left > 0 {
            left += children(below.get(at)?)?;
            left -= 1;
            at += 1;
        }
    }
    Some(names)
}

/// Row groups of about `block_bytes` together, whose bytes must lie before `end`.
fn pieces(groups: Vec<Value>, end: u64, block_bytes: u64) -> io::Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    for group in groups {
        let rows = find(group.as_fields().unwrap_or_default(), field::GROUP_ROWS);
        let rows = rows.and_then(Value::as_number).and_then(|rows| u64::try_from(rows).ok());
        let rows = rows.ok_or_else(|| bad("a row group is damaged"))?;
        if rows == 0 {
            continue;
        }
        let range = range_of(&group, end)?;
        let joined = |last: &Piece| {
            last.range.end <= range.start && range.end - last.range.start <= block_bytes
        };
        match pieces.last_mut().filter(|last| joined(last)) {
            Some(last) => {
                last.range.end = range.end;
                last.rows += rows;
                last.groups.push(group);
            }
            None => pieces.push(Piece { range, rows, groups: vec![group] }),
        }
    }
    Ok(pieces)
}

/// Where the bytes of a row group are.
fn range_of(group: &Value, end: u64) -> io::Result<Range<u64>> {
    let damaged = || bad("a row group is damaged");
    let chunks = find(group.as_fields().unwrap_or_default(), field::GROUP_CHUNKS);
    let mut range: Option<Range<u64>> = None;
    for chunk in chunks.and_then(Value::as_list).ok_or_else(damaged)? {
        let chunk = chunk.as_fields().ok_or_else(damaged)?;
        if find(chunk, field::CHUNK_PATH).is_some() {
            return Err(bad("its columns are in other files"));
        }
        if find(chunk, field::CHUNK_CRYPTO).is_some() {
            return Err(bad("a column is encrypted"));
        }
        let meta = find(chunk, field::CHUNK_META).and_then(Value::as_fields);
        let meta = meta.ok_or_else(damaged)?;
        let number = |id| {
            let number = find(meta, id).and_then(Value::as_number);
            number.and_then(|number| u64::try_from(number).ok())
        };
        let data = number(field::META_DATA).ok_or_else(damaged)?;
        let dictionary = number(field::META_DICTIONARY).filter(|at| *at > 0);
        let from = dictionary.map_or(data, |at| at.min(data));
        let bytes = number(field::META_BYTES).ok_or_else(damaged)?;
        let to = from.checked_add(bytes).filter(|to| *to <= end).ok_or_else(damaged)?;
        if from < MAGIC.len() as u64 {
            return Err(damaged());
        }
        range = Some(match range {
            Some(known) => known.start.min(from)..known.end.max(to),
            None => from..to,
        });
    }
    range.ok_or_else(damaged)
}

/// A row group whose bytes stand earlier by `shift`, without what stands elsewhere.
fn moved(group: Value, shift: i64) -> Value {
    let Value::Struct(mut group) = group else { return group };
    take(&mut group, field::GROUP_ORDINAL);
    shift_one(&mut group, field::GROUP_OFFSET, shift);
    let chunks = take(&mut group, field::GROUP_CHUNKS).and_then(Value::into_list);
    let chunks = chunks.unwrap_or_default().into_iter().map(|chunk| {
        let Value::Struct(mut chunk) = chunk else { return chunk };
        for index in field::CHUNK_INDEXES {
            take(&mut chunk, index);
        }
        shift_one(&mut chunk, field::CHUNK_OFFSET, shift);
        if let Some(Value::Struct(mut meta)) = take(&mut chunk, field::CHUNK_META) {
            for other in field::META_OTHERS {
                take(&mut meta, other);
            }
            shift_one(&mut meta, field::META_DATA, shift);
            shift_one(&mut meta, field::META_DICTIONARY, shift);
            put(&mut chunk, field::CHUNK_META, Value::Struct(meta));
        }
        Value::Struct(chunk)
    });
    put(&mut group, field::GROUP_CHUNKS, Value::structs(chunks.collect()));
    Value::Struct(group)
}

/// Moves an offset, if it is there; 0 says that it is not.
fn shift_one(fields: &mut Vec<Field>, id: i16, shift: i64) {
    let offset = find(fields, id).and_then(Value::as_number);
    if let Some(offset) = offset.filter(|offset| *offset > 0) {
        put(fields, id, Value::I64(offset.saturating_sub(shift).max(0)));
    }
}
