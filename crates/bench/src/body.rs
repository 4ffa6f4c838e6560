//! The forms in which Freshet takes the rows of a body: CSV, computed, compressed, Parquet, and CSV
//! that is committed by a second request.

use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int16Array, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use flate2::Compression as GzLevel;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::encode;
use crate::rows::{Cell, Row};
use crate::table::{Kind, Table};

/// A form of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    Csv,
    /// CSV of `httplogs` with a computed column and a condition that all rows meet.
    Mapped,
    Gz,
    Zstd,
    Lz4,
    /// With dictionaries and Snappy, as most writers have it.
    Parquet,
    /// CSV, prepared and then committed.
    TwoPhases,
}

impl FromStr for BodyForm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "csv" => Self::Csv,
            "mapped" => Self::Mapped,
            "gz" => Self::Gz,
            "zstd" => Self::Zstd,
            "lz4" => Self::Lz4,
            "parquet" => Self::Parquet,
            "2pc" => Self::TwoPhases,
            _ => return Err(format!("unknown form `{name}` of bodies")),
        })
    }
}

impl BodyForm {
    /// What Stream Load is told, besides the separator of CSV.
    pub fn headers(self) -> &'static str {
        match self {
            Self::Csv => "format: csv\r\n",
            Self::Mapped => {
                "format: csv\r\ncolumns: ts,clientip,request,status,tmp,size=tmp+1\r\n\
                 where: size > 1\r\n"
            }
            Self::Gz => "format: csv\r\ncompress_type: gz\r\n",
            Self::Zstd => "format: csv\r\ncompress_type: zstd\r\n",
            Self::Lz4 => "format: csv\r\ncompress_type: lz4\r\n",
            Self::Parquet => "format: parquet\r\n",
            Self::TwoPhases => "format: csv\r\ntwo_phase_commit: true\r\n",
        }
    }

    /// The body with these rows.
    pub fn body(self, table: &Table, rows: &[Row]) -> Vec<u8> {
        let csv = || encode::csv(rows, ',').into_bytes();
        let packed = match self {
            Self::Csv | Self::Mapped | Self::TwoPhases => Ok(csv()),
            Self::Gz => gz(&csv()),
            Self::Zstd => zstd::encode_all(&csv()[..], 0),
            Self::Lz4 => lz4(&csv()),
            Self::Parquet => parquet(table, rows).map_err(std::io::Error::other),
        };
        packed.expect("a buffer takes every write")
    }
}

fn gz(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), GzLevel::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn lz4(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// A Parquet file of a table of numbers, texts and times.
fn parquet(table: &Table, rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let arrays = table.columns.iter().enumerate().map(|(column, (name, kind))| {
        let cells: Vec<&Cell> = rows.iter().map(|row| &row[column]).collect();
        (*name, array(*kind, &cells))
    });
    let batch = RecordBatch::try_from_iter(arrays)?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}

fn array(kind: Kind, cells: &[&Cell]) -> ArrayRef {
    let ints = cells.iter().map(|cell| match cell {
        Cell::Int(value) => *value,
        other => encode::micros_of(other).map_or(0, u64::cast_signed),
    });
    match kind {
        Kind::SmallInt => Arc::new(Int16Array::from_iter_values(ints.map(|value| value as i16))),
        Kind::Int => Arc::new(Int32Array::from_iter_values(ints.map(|value| value as i32))),
        Kind::DateTime => Arc::new(TimestampMicrosecondArray::from_iter_values(ints)),
        _ => Arc::new(StringArray::from_iter_values(cells.iter().map(|cell| encode::plain(cell)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Source;
    use crate::table::httplogs;

    #[test]
    fn compressed_bodies_are_smaller_and_a_file_is_parquet() {
        let rows = Source::Httplogs.rows(1000);
        let bytes = |form: BodyForm| form.body(&httplogs(), &rows);
        let csv = bytes(BodyForm::Csv);
        assert_eq!(bytes(BodyForm::TwoPhases), csv);
        for form in [BodyForm::Gz, BodyForm::Zstd, BodyForm::Lz4, BodyForm::Parquet] {
            assert!(bytes(form).len() < csv.len() * 2 / 3, "{form:?}");
        }
        let file = bytes(BodyForm::Parquet);
        assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
        assert_eq!(zstd::decode_all(&bytes(BodyForm::Zstd)[..]).unwrap(), csv);
    }
}
