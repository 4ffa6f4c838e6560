//! Decodes JSON bodies of stream loads into rows.

mod array;
mod object;
mod path;

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_schema::Rules;
use serde_json::value::RawValue;

use super::{RowEncoder, SourcePlan, Warnings, Work};
use crate::counter::UsedIds;
use crate::rejects::Rejects;
use array::{ArrayCut, Piece};
use object::ObjectReader;

pub use path::JsonPath;

/// Maximum length of a line or an array element. A document with a root path is buffered
/// completely; the sender's limit applies to it.
pub const LINE_BYTES_MAX: usize = 100 << 20;

/// How objects are found in the body and how their members map to fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JsonFormat {
    /// Whether the document is an array of objects, instead of one object per line.
    pub strip_outer_array: bool,
    /// Whether each line is a document, even with `strip_outer_array`.
    pub read_by_line: bool,
    /// The path of the object or array in each document.
    pub root: JsonPath,
    /// The paths of fields in an object, in the order of the source's fields, of which the last
    /// ones may have none, as those of columns that were added since; empty if members are
    /// matched by name.
    pub paths: Vec<JsonPath>,
    /// Whether numbers are read as text.
    pub num_as_string: bool,
    /// Ends a line; a line feed if empty.
    pub delimiter: Vec<u8>,
}

/// Decodes a body that arrives in pieces of any size.
pub struct JsonDecoder {
    format: JsonFormat,
    source: Arc<SourcePlan>,
    rules: Rules,
    tail: Vec<u8>,
    /// No delimiter begins before this offset in the buffered line.
    searched: usize,
    work: Work,
    array: ArrayCut,
    objects: u64,
    rows: usize,
    rejects: Rejects,
    warnings: Warnings,
    ids: Option<UsedIds>,
    /// For each row, where each has its own, which columns of the table it has.
    given: Vec<bool>,
}

impl JsonDecoder {
    /// A decoder of objects with the fields of `source`.
    pub fn new(format: JsonFormat, source: &Arc<SourcePlan>, rules: &Rules) -> Self {
        Self {
            format,
            source: Arc::clone(source),
            rules: *rules,
            tail: Vec::new(),
            searched: 0,
            work: Work::default(),
            array: ArrayCut::default(),
            objects: 0,
            rows: 0,
            rejects: Rejects::default(),
            warnings: Warnings::default(),
            ids: None,
            given: Vec::new(),
        }
    }

    /// Decodes `bytes` and appends accepted rows to `out`. A document with a root path is decoded
    /// only by [`Self::finish`].
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if !self.by_line() {
            self.keep(bytes)?;
            return self.feed_array(out);
        }
        let mut bytes = bytes;
        if !self.tail.is_empty() {
            let end = match self.delimiter() {
                [byte] => memchr::memchr(*byte, bytes).map_or(bytes.len(), |at| at + 1),
                _ => bytes.len(),
            };
            self.keep(&bytes[..end])?;
            bytes = &bytes[end..];
            let mut tail = std::mem::take(&mut self.tail);
            let taken =
                self.decode(out, |decoder, encoder| decoder.lines(&tail, false, encoder))?;
            tail.drain(..taken);
            self.tail = tail;
            // The line is still incomplete, so all of its new bytes were consumed.
            if !self.tail.is_empty() {
                return self.keep(bytes);
            }
        }
        let taken = self.decode(out, |decoder, encoder| decoder.lines(bytes, false, encoder))?;
        self.keep(&bytes[taken..])
    }

    /// Decodes the remaining input.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let tail = std::mem::take(&mut self.tail);
        if self.by_line() {
            self.decode(out, |decoder, encoder| decoder.lines(&tail, true, encoder))?;
        } else if self.is_whole() {
            self.decode(out, |decoder, encoder| decoder.document(&tail, encoder))?;
        } else if !self.array.is_complete() || !tail.is_empty() {
            self.reject(&tail, || "Parse json data failed: the array does not end".to_owned());
        }
        Ok(())
    }

    /// Decodes the complete array elements that have arrived so far.
    fn feed_array(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        let mut tail = std::mem::take(&mut self.tail);
        let taken = self.decode(out, |decoder, encoder| decoder.elements(&tail, encoder))?;
        tail.drain(..taken);
        self.tail = tail;
        Ok(())
    }

    /// Number of buffered bytes.
    pub fn waiting_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Number of rows appended.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of objects seen, accepted or rejected.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// The ids in the rows so far.
    pub fn ids(&self) -> Option<UsedIds> {
        self.ids
    }

    /// For each row, where each has its own, which columns of the table it has.
    pub fn take_given(&mut self) -> Vec<bool> {
        std::mem::take(&mut self.given)
    }

    /// The rejected rows, and the warnings about adjusted values.
    pub fn into_rejects(self) -> (Rejects, Warnings) {
        (self.rejects, self.warnings)
    }

    fn by_line(&self) -> bool {
        self.format.read_by_line || !self.format.strip_outer_array
    }

    /// Whether the document is buffered until its end, because its array is nested or it is not an
    /// array.
    fn is_whole(&self) -> bool {
        !self.format.root.is_empty() || self.array.is_other()
    }

    fn delimiter(&self) -> &[u8] {
        if self.format.delimiter.is_empty() { b"\n" } else { &self.format.delimiter }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<()> {
        let has_root = !self.by_line() && !self.format.root.is_empty();
        if !has_root && self.tail.len() + bytes.len() > LINE_BYTES_MAX {
            let (what, check) = match self.by_line() {
                true => ("a line of JSON", "line_delimiter"),
                false => ("an element of the JSON array", "the quotes and braces of the body"),
            };
            bail!(TooLong, "{what} is longer than {LINE_BYTES_MAX} bytes; check {check}");
        }
        self.tail.extend_from_slice(bytes);
        Ok(())
    }

    /// Calls `decode` with an encoder that appends to `out`.
    fn decode<T>(
        &mut self,
        out: &mut Vec<u8>,
        decode: impl FnOnce(&mut Self, &mut RowEncoder<'_>) -> T,
    ) -> Result<T> {
        let (source, rules) = (self.source.clone(), self.rules);
        let encoder = RowEncoder::scattered(&source.plan, &rules, out);
        let mut encoder = encoder.counting_from(self.rows as u64 + 1);
        let decoded = decode(self, &mut encoder);
        let encoded = encoder.finish()?;
        self.rows += encoded.rows;
        self.warnings.append(encoded.warnings);
        self.ids = UsedIds::join(self.ids, encoded.ids);
        self.given.extend(encoded.given);
        Ok(decoded)
    }

    /// Decodes the complete lines at the start of `bytes` and returns their length.
    fn lines(&mut self, bytes: &[u8], last: bool, encoder: &mut RowEncoder<'_>) -> usize {
        let delimiter = memchr::memmem::Finder::new(self.delimiter()).into_owned();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let from = std::mem::take(&mut self.searched).min(rest.len());
            let found = delimiter.find(&rest[from..]);
            self.work.add(found.unwrap_or(rest.len() - from));
            let (line, taken) = match found.map(|found| from + found) {
                Some(end) => (&rest[..end], end + delimiter.needle().len()),
                None if last => (rest, rest.len()),
                None => {
                    self.searched = (rest.len() + 1).saturating_sub(delimiter.needle().len());
                    break;
                }
            };
            at += taken;
            let line = line.trim_ascii();
            if !line.is_empty() {
                self.document(line, encoder);
            }
        }
        at
    }

    /// Decodes the complete elements at the start of `bytes` and returns the number of consumed
    /// bytes.
    fn elements(&mut self, bytes: &[u8], encoder: &mut RowEncoder<'_>) -> usize {
        let mut at = 0;
        loop {
            let (passed, piece) = self.array.next(&bytes[at..]);
            at += passed;
            match piece {
                Piece::More | Piece::Other => return at,
                Piece::Broken(why) => {
                    let reason = || format!("Parse json data failed: {why}");
                    self.reject(&bytes[at..], reason);
                }
                Piece::Element(length) => {
                    self.element(&bytes[at..at + length], encoder);
                    at += length + 1;
                }
            }
        }
    }

    fn element(&mut self, element: &[u8], encoder: &mut RowEncoder<'_>) {
        match serde_json::from_slice::<&RawValue>(element) {
            Ok(object) => self.objects_of(std::iter::once(object.get()), encoder),
            Err(error) => self.reject(element, || format!("Parse json data failed: {error}")),
        }
    }

    /// Decodes a document: an object or an array of objects.
    fn document(&mut self, document: &[u8], encoder: &mut RowEncoder<'_>) {
        let Ok(text) = std::str::from_utf8(document) else {
            return self.reject(document, || "the JSON is not UTF-8".to_owned());
        };
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return;
        }
        let Some(root) = self.format.root.select(text) else {
            return self.reject(document, || "json_root is not in the document".to_owned());
        };
        match (self.format.strip_outer_array, root.as_bytes().first()) {
            (false, Some(b'[')) => self.reject(document, || {
                "JSON data is an array, `strip_outer_array` must be TRUE".to_owned()
            }),
            (true, Some(b'[')) => match serde_json::from_str::<Vec<&RawValue>>(root) {
                Ok(objects) => self.objects_of(objects.iter().map(|object| object.get()), encoder),
                Err(error) => self.reject(document, || format!("Parse json data failed: {error}")),
            },
            (true, _) => self.reject(document, || {
                "JSON data is not an array, `strip_outer_array` must be FALSE".to_owned()
            }),
            (false, _) => self.objects_of(std::iter::once(root), encoder),
        }
    }

    fn objects_of<'t>(
        &mut self,
        objects: impl Iterator<Item = &'t str>,
        encoder: &mut RowEncoder<'_>,
    ) {
        let reader = ObjectReader::new(&self.source, &self.format);
        for object in objects {
            self.objects += 1;
            encoder.begin_row();
            if let Err(reason) = reader.read(object, encoder) {
                encoder.abort_row();
                self.rejects.add(self.objects, object.as_bytes(), || reason);
            }
        }
    }

    fn reject(&mut self, document: &[u8], reason: impl FnOnce() -> String) {
        self.objects += 1;
        self.rejects.add(self.objects, document, reason);
    }
}

#[cfg(test)]
mod tests;
