//! Rows of a result as JSON.

use arrow::datatypes::DataType;
use freshet_base::{Result, bail};
use freshet_query::RecordBatch;
use freshet_query::evaluation::Memory;
use freshet_query::result::{Cells, ResultColumn, ResultType};
use serde_json::{Value, json};

/// The largest answer. It is complete before it is sent.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// An answer that is being written.
pub(super) struct Rows<'a> {
    text: Vec<u8>,
    memory: &'a mut Memory,
    accounted_bytes: usize,
    has_rows: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(memory: &'a mut Memory) -> Self {
        let text = br#"{"msg":"success","code":0,"data":{"type":"result_set","data":["#.to_vec();
        Self { text, memory, accounted_bytes: 0, has_rows: false }
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// 1153 when the answer is too large, 1038 without memory for it.
    pub(super) fn put(&mut self, columns: &[ResultColumn], batch: &RecordBatch) -> Result<()> {
        let cells = Cells::of(batch, columns)?;
        for row in 0..batch.num_rows() {
            self.text.extend_from_slice(if self.has_rows { b",[" } else { b"[" });
            self.has_rows = true;
            for (at, cells) in cells.iter().enumerate() {
                if at > 0 {
                    self.text.push(b',');
                }
                put_cell(&mut self.text, cells, row);
            }
            self.text.push(b']');
            self.account()?;
        }
        Ok(())
    }

    fn account(&mut self) -> Result<()> {
        if self.text.len() > ANSWER_BYTES_MAX {
            bail!(
                PacketTooLarge,
                "the result has more than {ANSWER_BYTES_MAX} bytes, the most that is answered over \
                 HTTP; add a LIMIT, or read it by the MySQL protocol"
            );
        }
        let more = self.text.len() - self.accounted_bytes;
        self.accounted_bytes = self.text.len();
        self.memory.grow(more)
    }

    /// Ends a result.
    pub(super) fn end(&mut self, columns: &[ResultColumn]) {
        let described =
            |column: &ResultColumn| json!({ "name": column.name, "type": named(column) });
        let columns = columns.iter().map(described).collect::<Vec<Value>>();
        let end = format!("],\"meta\":{},\"status\":{{}}", Value::from(columns));
        self.text.extend_from_slice(end.as_bytes());
    }

    /// Answers a statement that has no result.
    pub(super) fn end_without(&mut self, status: &Value) {
        let data = r#""data":{"type":"exec_status""#;
        let all = format!("{{\"msg\":\"success\",\"code\":0,{data},\"status\":{status}");
        self.text = all.into_bytes();
    }

    pub(super) fn into_text(self) -> Vec<u8> {
        self.text
    }
}

/// Writes a value: numbers as such, anything else as text.
fn put_cell(out: &mut Vec<u8>, cells: &Cells, row: usize) {
    if cells.is_null(row) {
        out.extend_from_slice(b"null");
        return;
    }
    match cells {
        Cells::Bool(_)
        | Cells::Int(_)
        | Cells::UInt(_)
        | Cells::Float(_)
        | Cells::Double(..)
        | Cells::Decimal(..)
        | Cells::Large(..) => cells.text(row, out),
        // A number of JSON begins with no zeros, as the text of a year may.
        Cells::Year(values) | Cells::Bits(values, _) => {
            out.extend_from_slice(values.value(row).to_string().as_bytes());
        }
        Cells::Text(values) => put_text(out, values.value(row)),
        Cells::Null
        | Cells::Sketch(_)
        | Cells::Date(_)
        | Cells::DateTime(..)
        | Cells::Time(..)
        | Cells::Bytes(_) => {
            let mut text = Vec::new();
            cells.text(row, &mut text);
            let text = String::from_utf8(text).unwrap_or_else(|error| hex(error.as_bytes()));
            put_text(out, &text);
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("every text is one of JSON");
}

/// Bytes that are no text, as a literal of them.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = "0x".to_owned();
    for byte in bytes {
        write!(text, "{byte:02X}").expect("a String takes all text");
    }
    text
}

/// The type of a column, as Doris names it.
fn named(column: &ResultColumn) -> &'static str {
    match &column.nested {
        Some(DataType::List(_)) => return "ARRAY",
        Some(DataType::Map(..)) => return "MAP",
        Some(_) => return "STRUCT",
        None => {}
    }
    match column.ty {
        ResultType::Tiny => "TINYINT",
        ResultType::Short => "SMALLINT",
        ResultType::Int24 | ResultType::Long => "INT",
        ResultType::LongLong | ResultType::Bit => "BIGINT",
        ResultType::Float => "FLOAT",
        ResultType::Double => "DOUBLE",
        ResultType::Null => "NULL_TYPE",
        ResultType::Date => "DATE",
        ResultType::Time => "TIME",
        ResultType::DateTime | ResultType::Timestamp => "DATETIME",
        ResultType::Year => "SMALLINT",
        ResultType::Json => "JSON",
        ResultType::Decimal => "DECIMAL",
        ResultType::String => "CHAR",
        ResultType::Blob | ResultType::VarString => "VARCHAR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::UInt64Array;

    #[test]
    fn a_year_is_a_number_of_json() {
        let cells = Cells::Year(UInt64Array::from(vec![0, 2026]));
        let mut out = Vec::new();
        put_cell(&mut out, &cells, 0);
        out.push(b' ');
        put_cell(&mut out, &cells, 1);
        assert_eq!(out, b"0 2026");
    }
}
