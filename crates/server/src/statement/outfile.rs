//! SELECT .. INTO OUTFILE: rows as text in a file of the server, in the form that LOAD DATA reads;
//! and INTO DUMPFILE: the bytes of one row.

use freshet_base::{Result, bail};
use freshet_query::Parameter;
use freshet_query::evaluation::Losses;
use freshet_query::parser::IntoFile;
use freshet_query::result::{Cells, ResultColumn, ResultType};
use freshet_query::syntax::Select;
use freshet_schema::FieldFormat;

use super::load::check_charset;
use super::query;
use crate::files::FileWriter;
use crate::reply::{Reply, bounded};
use crate::session::Session;

/// The size at which text is written.
const PART_BYTES: usize = 256 << 10;

/// Runs a SELECT, and writes its rows to a new file.
///
/// # Errors
/// Those of the query; 1227, 1290 and 1086 for the file. No file is left behind then.
pub async fn select(
    session: &mut Session,
    query: &Select,
    file: &IntoFile,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    check_charset(file.charset.as_deref())?;
    let Some(format) = &file.format else {
        return dump(session, query, &file.name, parameters).await;
    };
    if format.delimiter.is_empty() || format.separator.is_empty() && format.enclose.is_none() {
        bail!(NotSupported, "INTO OUTFILE of fields or lines that nothing ends is not supported");
    }
    let (columns, mut rows) = query::run(session, query, parameters, Losses::default()).await?;
    let mut written = FileWriter::create(session, &file.name).await?;
    let texts = columns.iter().map(is_text).collect::<Vec<_>>();
    let (mut out, mut count, mut cell) = (Vec::new(), 0, Vec::new());
    while let Some(batch) = bounded(session, rows.next()).await? {
        let cells = Cells::of(&batch, &columns)?;
        for row in 0..batch.num_rows() {
            put_row(&mut out, format, (&cells, &texts), row, &mut cell);
            if out.len() >= PART_BYTES {
                bounded(session, written.write(std::mem::take(&mut out))).await?;
            }
        }
        count += batch.num_rows() as u64;
    }
    written.write(out).await?;
    session.evaluated(rows.warnings())?;
    written.finish().await?;
    Ok(Reply::Done { affected: count })
}

/// Writes the values of the only row of a SELECT to a new file, one behind the other.
async fn dump(
    session: &mut Session,
    query: &Select,
    name: &str,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let (columns, mut rows) = query::run(session, query, parameters, Losses::default()).await?;
    let mut written = FileWriter::create(session, name).await?;
    let (mut out, mut count) = (Vec::new(), 0);
    while let Some(batch) = bounded(session, rows.next()).await? {
        count += batch.num_rows() as u64;
        if count > 1 {
            bail!(TooManyRows, "Result consisted of more than one row");
        }
        if batch.num_rows() == 1 {
            for cells in Cells::of(&batch, &columns)? {
                // As MySQL has it, NULL is a byte of zero.
                match cells.is_null(0) {
                    true => out.push(0),
                    false => cells.text(0, &mut out),
                }
            }
        }
    }
    written.write(out).await?;
    session.evaluated(rows.warnings())?;
    written.finish().await?;
    Ok(Reply::Done { affected: count })
}

/// Whether OPTIONALLY ENCLOSED BY encloses the values.
fn is_text(column: &ResultColumn) -> bool {
    use ResultType as T;
    !matches!(
        column.ty,
        T::Tiny | T::Short | T::Int24 | T::Long | T::LongLong | T::Float | T::Double | T::Decimal
    )
}

fn put_row(
    out: &mut Vec<u8>,
    format: &FieldFormat,
    (cells, texts): (&[Cells], &[bool]),
    row: usize,
    text: &mut Vec<u8>,
) {
    out.extend_from_slice(&format.starting);
    for (at, (cells, is_text)) in cells.iter().zip(texts).enumerate() {
        if at > 0 {
            out.extend_from_slice(&format.separator);
        }
        if cells.is_null(row) {
            put_null(out, format);
            continue;
        }
        text.clear();
        cells.text(row, text);
        put_field(out, format, *is_text, text);
    }
    out.extend_from_slice(&format.delimiter);
}

fn put_null(out: &mut Vec<u8>, format: &FieldFormat) {
    match format.escape {
        Some(escape) => out.extend([escape, b'N']),
        None => out.extend_from_slice(b"NULL"),
    }
}

/// Writes a value so that it is read as it was: what would end it is escaped.
fn put_field(out: &mut Vec<u8>, format: &FieldFormat, is_text: bool, value: &[u8]) {
    let enclose = format.enclose.filter(|_| is_text || !format.encloses_texts_only);
    let ends = match format.enclose {
        Some(enclose) => Some(enclose),
        None => format.separator.first().copied(),
    };
    let special = [format.escape, ends, format.delimiter.first().copied(), Some(0)];
    out.extend(enclose);
    for byte in value {
        match format.escape {
            Some(escape) if special.contains(&Some(*byte)) => {
                out.extend([escape, if *byte == 0 { b'0' } else { *byte }]);
            }
            _ => out.push(*byte),
        }
    }
    out.extend(enclose);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(format: &FieldFormat, is_text: bool, value: &str) -> String {
        let mut out = Vec::new();
        put_field(&mut out, format, is_text, value.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_would_end_a_field_is_escaped() {
        let format = FieldFormat::default();
        assert_eq!(field(&format, true, "a\tb\\c\nd\0"), "a\\\tb\\\\c\\\nd\\0");
        let separator = b",".to_vec();
        let quoted = FieldFormat { separator, enclose: Some(b'"'), ..FieldFormat::default() };
        assert_eq!(field(&quoted, true, "a,\"b\""), "\"a,\\\"b\\\"\"");
        let optionally = FieldFormat { encloses_texts_only: true, ..quoted };
        assert_eq!(field(&optionally, false, "1"), "1");
        assert_eq!(field(&optionally, true, "1"), "\"1\"");
        let plain = FieldFormat { escape: None, ..FieldFormat::default() };
        assert_eq!(field(&plain, true, "a\\b"), "a\\b");
    }
}
