//! Columnar bodies of loads: Parquet files and Arrow streams, whole, damaged and hostile.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int8Array, Int64Array, ListBuilder, StringArray,
    Time64MicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::array::{Int32Builder, NullArray, RecordBatch};
use arrow::datatypes::Int8Type;
use arrow::ipc::writer::StreamWriter;
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use freshet_base::{ColumnId, Result, SchemaVersion};
use freshet_ingest::decode::SourcePlan;
use freshet_ingest::decode::columnar::{
    ColumnarFile, ColumnarReader, FileBytes, Next, ParquetFile, stream_schema,
};
use freshet_schema::{
    Collation, Column, ColumnType, ColumnsBuilder, LengthUnit, OnBad, Rules, TableSchema,
    ZeroDates, Zone,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};

fn schema(columns: &[(&str, ColumnType, bool)]) -> Arc<TableSchema> {
    let column = |(at, &(name, ty, nullable)): (usize, &(&str, ColumnType, bool))| Column {
        nullable,
        collation: Collation::Utf8mb4Bin,
        length_unit: LengthUnit::Characters,
        ..Column::new(ColumnId(at as u32), name, ty)
    };
    let columns = columns.iter().enumerate().map(column).collect();
    Arc::new(TableSchema::new(SchemaVersion(1), columns, vec![]))
}

/// Encoded rows as text, one line per row; NULL is `-`.
fn show(schema: &TableSchema, bytes: &[u8], count: usize) -> Vec<String> {
    freshet_schema::row::validate(schema, bytes, count).unwrap();
    let batch = ColumnsBuilder::batch_of(schema, bytes, count);
    let cell = |column: &ArrayRef, row| match column.is_null(row) {
        true => "-".to_owned(),
        false => array_value_to_string(column, row).unwrap(),
    };
    let line =
        |row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join("|");
    (0..count).map(line).collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn file_of(batch: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    out
}

fn stream_of(batches: &[RecordBatch]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new(&mut out, batches[0].schema_ref()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    drop(writer);
    out
}

fn with(compression: Compression) -> WriterProperties {
    WriterProperties::builder().set_compression(compression).build()
}

/// Rows as text, and the reasons of rejected ones.
type Found = (Vec<String>, Vec<String>);

fn drain(
    mut reader: ColumnarReader,
    schema: &TableSchema,
) -> Result<(ColumnarReader, Vec<String>)> {
    let mut rows = Vec::new();
    loop {
        let before = reader.rows();
        let mut out = Vec::new();
        match reader.next_rows()? {
            Next::End => return Ok((reader, rows)),
            Next::Open { bytes } => assert!(bytes <= 1 << 30),
            Next::Rows => reader.step(&mut out)?,
        }
        rows.extend(show(schema, &out, reader.rows() - before));
    }
}

fn found((reader, rows): (ColumnarReader, Vec<String>)) -> Found {
    let (_, rejects, _) = reader.into_rejects();
    (rows, rejects.kept().iter().map(|reject| reject.reason.clone()).collect())
}

fn source(schema: &Arc<TableSchema>, names: Option<&[&str]>, rules: &Rules) -> Arc<SourcePlan> {
    Arc::new(SourcePlan::new(schema, names, 0, rules).unwrap())
}

fn read_file(
    bytes: Vec<u8>,
    schema: &Arc<TableSchema>,
    names: Option<&[&str]>,
    rules: &Rules,
) -> Result<Found> {
    let file = ParquetFile::open(FileBytes::Memory(bytes.into())).map(ColumnarFile::Parquet)?;
    let reader = ColumnarReader::of_file(&file, &source(schema, names, rules), rules, 1 << 30)?;
    drain(reader, schema).map(found)
}

fn read_stream(
    bytes: &[u8],
    schema: &Arc<TableSchema>,
    rules: &Rules,
    step: usize,
) -> Result<Found> {
    let mut reader = ColumnarReader::of_stream(&source(schema, None, rules), rules);
    let mut rows = Vec::new();
    for piece in bytes.chunks(step) {
        reader.feed(piece);
        let (back, more) = drain(reader, schema)?;
        reader = back;
        rows.extend(more);
    }
    reader.end()?;
    Ok(found((reader, rows)))
}

const LAX: Rules = Rules { on_bad: OnBad::Null, zone: Zone::UTC, zero_dates: ZeroDates::Bad };

fn many(rows: i64) -> RecordBatch {
    let texts = (0..rows).map(|row| (row % 7 > 0).then(|| format!("text {}", row % 100)));
    batch(vec![
        ("c", Arc::new(StringArray::from_iter(texts))),
        ("A", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("more", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64)))),
    ])
}

fn two_columns() -> Arc<TableSchema> {
    schema(&[("a", ColumnType::Int { unsigned: false }, false), ("c", ColumnType::Text, true)])
}

fn expected(rows: i64) -> Vec<String> {
    let text = |row: i64| if row % 7 > 0 { format!("text {}", row % 100) } else { "-".into() };
    (0..rows).map(|row| format!("{row}|{}", text(row))).collect()
}

#[test]
fn columns_are_found_by_name_whatever_the_file_is_like() {
    let (schema, rows) = (two_columns(), expected(20_000));
    let batch = many(20_000);
    let all = [
        with(Compression::UNCOMPRESSED),
        with(Compression::SNAPPY),
        with(Compression::GZIP(Default::default())),
        with(Compression::ZSTD(Default::default())),
        with(Compression::LZ4_RAW),
        WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_compression(Compression::GZIP(Default::default()))
            .set_dictionary_enabled(true)
            .set_data_page_row_count_limit(1000)
            .build(),
        WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::PLAIN)
            .set_max_row_group_row_count(Some(3000))
            .set_data_page_size_limit(512)
            .set_write_batch_size(16)
            .build(),
    ];
    for properties in all {
        let bytes = file_of(&batch, properties);
        let (found, rejects) = read_file(bytes, &schema, None, &LAX).unwrap();
        assert!(found == rows && rejects.is_empty());
    }
    let stream = stream_of(&[many(11), many(0), many(3000)]);
    let all = [expected(11), expected(3000)].concat();
    for step in [1, 13, 1000, 1 << 20] {
        assert!(read_stream(&stream, &schema, &LAX, step).unwrap().0 == all, "by {step}");
    }
}

#[test]
fn values_become_what_their_columns_hold() {
    let texts: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter([Some("x"), None]));
    let all: Vec<(&str, ArrayRef, ColumnType, &str)> = vec![
        ("bool", Arc::new(BooleanArray::from(vec![true, false])), ColumnType::Boolean, "1|0"),
        ("tiny", Arc::new(Int8Array::from(vec![-5, 7])), ColumnType::LargeInt, "-5|7"),
        (
            "big",
            Arc::new(UInt64Array::from(vec![u64::MAX, 1])),
            ColumnType::BigInt { unsigned: true },
            "18446744073709551615|1",
        ),
        ("wide", Arc::new(Int64Array::from(vec![1 << 40, 2])), int(), "-|2"),
        ("float", Arc::new(Float32Array::from(vec![0.1, f32::NAN])), ColumnType::Text, "0.1|-"),
        ("double", Arc::new(Float64Array::from(vec![1.5, -2.4])), int(), "2|-2"),
        ("text", Arc::new(StringArray::from(vec!["12", "x"])), int(), "12|-"),
        (
            "bytes",
            Arc::new(BinaryArray::from_vec(vec![&b"ab"[..], &b"c"[..]])),
            ColumnType::Text,
            "ab|c",
        ),
        (
            "exact",
            Arc::new(decimals(vec![12345, -5], 10, 3)),
            ColumnType::Decimal { precision: 9, scale: 1 },
            "12.3|0.0",
        ),
        (
            "same",
            Arc::new(decimals(vec![12345, -5], 10, 3)),
            ColumnType::Decimal { precision: 12, scale: 3 },
            "12.345|-0.005",
        ),
        ("shown", Arc::new(decimals(vec![12345, -5], 10, 3)), ColumnType::Text, "12.345|-0.005"),
        ("day", Arc::new(Date32Array::from(vec![0, i32::MAX])), ColumnType::Date, "1970-01-01|-"),
        (
            "milli",
            Arc::new(TimestampMillisecondArray::from(vec![1_500, i64::MIN])),
            ColumnType::DateTime { fsp: 3 },
            "1970-01-01T00:00:01.500|-",
        ),
        (
            "nano",
            Arc::new(TimestampNanosecondArray::from(vec![1_999_999_999, -1]).with_timezone("UTC")),
            ColumnType::DateTime { fsp: 0 },
            "1970-01-01T00:00:02|1970-01-01T00:00:00",
        ),
        (
            "clock",
            Arc::new(Time64MicrosecondArray::from(vec![3_600_000_000, 1])),
            ColumnType::Text,
            "01:00:00|00:00:00.000001",
        ),
        ("dictionary", texts, ColumnType::Text, "x|-"),
        ("null", Arc::new(NullArray::new(2)), ColumnType::Text, "-|-"),
    ];
    for (name, array, ty, shown) in all {
        let schema = schema(&[(name, ty, true)]);
        let stream = stream_of(&[batch(vec![(name, array)])]);
        let (rows, rejects) = read_stream(&stream, &schema, &LAX, 1 << 20).unwrap();
        assert_eq!((rows.join("|"), rejects.len()), (shown.to_owned(), 0), "{name}");
    }
}

fn int() -> ColumnType {
    ColumnType::Int { unsigned: false }
}

fn decimals(values: Vec<i128>, precision: u8, scale: i8) -> Decimal128Array {
    Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap()
}

#[test]
fn rows_are_rejected_alone() {
    let schema = two_columns();
    let rows = batch(vec![("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(1 << 40)])))]);
    let strict = Rules::default();
    let (rows, rejects) =
        read_file(file_of(&rows, with(Compression::SNAPPY)), &schema, Some(&["a"]), &strict)
            .unwrap();
    assert_eq!((rows, rejects.len()), (vec!["1|-".to_owned()], 2), "{rejects:?}");
}

#[test]
fn names_and_types_that_do_not_fit_are_told() {
    let schema = two_columns();
    let mut lists = ListBuilder::new(Int32Builder::new());
    lists.append_value([Some(1)]);
    let lists: ArrayRef = Arc::new(lists.finish());
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let fails = |columns: Vec<(&str, ArrayRef)>, why: &str| {
        let bytes = file_of(&batch(columns), with(Compression::SNAPPY));
        let error = read_file(bytes, &schema, None, &LAX).unwrap_err();
        assert!(error.message().contains(why), "{}", error.message());
    };
    fails(vec![("a", Arc::clone(&one))], "Unknown column 'c' in the body, which has: a");
    let listed =
        file_of(&batch(vec![("a", Arc::clone(&one)), ("c", lists)]), with(Compression::SNAPPY));
    assert_eq!(read_file(listed, &schema, None, &LAX).unwrap().0, ["1|[1]"], "a list has a text");
    let twice = vec![("A", Arc::clone(&one)), ("c", Arc::clone(&one)), ("C", one)];
    let bytes = file_of(&batch(twice), with(Compression::SNAPPY));
    let (rows, _) = read_file(bytes, &schema, None, &LAX).unwrap();
    assert_eq!(rows, ["1|1"], "a name in the same letters comes first");
    let delta = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BYTE_ARRAY)
        .build();
    let texts = batch(vec![("c", Arc::new(StringArray::from(vec!["x"])))]);
    let error = read_file(file_of(&texts, delta), &schema, Some(&["c"]), &LAX).unwrap_err();
    assert!(error.message().contains("DELTA"), "{}", error.message());
}

#[test]
fn damaged_bodies_are_refused() {
    let schema = two_columns();
    let file = file_of(&many(60), with(Compression::GZIP(Default::default())));
    let error = |bytes: &[u8]| read_file(bytes.to_vec(), &schema, None, &LAX).unwrap_err();
    for end in [0, 4, 11, 12, file.len() / 2, file.len() - 1] {
        assert!(error(&file[..end]).message().contains("Parquet file"));
    }
    let stream = stream_of(&[many(60)]);
    // Whatever a byte is changed to: rows or an error, and never the end of the process.
    for at in 0..file.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut changed = file.clone();
            changed[at] ^= mask;
            let _ = read_file(changed, &schema, None, &LAX);
        }
    }
    for at in 0..stream.len().min(1500) {
        for mask in [0x01, 0x80, 0xff] {
            let mut changed = stream.clone();
            changed[at] ^= mask;
            let _ = read_stream(&changed, &schema, &LAX, 1 << 20);
            let _ = stream_schema(&changed);
        }
    }
    for end in [0, 3, 100, stream.len() / 2] {
        read_stream(&stream[..end], &schema, &LAX, 64).unwrap_err();
    }
}

#[test]
fn a_few_bytes_that_stand_for_many_rows_are_read_in_steps() {
    let schema = schema(&[("c", ColumnType::Text, true)]);
    let long = "x".repeat(1 << 19);
    let values = Arc::new(StringArray::from(vec![long.as_str()]));
    let keys = Int8Array::from(vec![0; 300]);
    let texts: ArrayRef = Arc::new(DictionaryArray::new(keys, values));
    let rows = batch(vec![("c", texts)]);
    let file = file_of(&rows, with(Compression::ZSTD(Default::default())));
    assert!(file.len() < 1 << 16, "150 MiB of rows");
    let plan = source(&schema, None, &LAX);
    let file = ParquetFile::open(FileBytes::Memory(Bytes::from(file))).unwrap();
    let file = ColumnarFile::Parquet(file);
    let mut reader = ColumnarReader::of_file(&file, &plan, &LAX, 16 << 20).unwrap();
    for _ in 0..5 {
        let mut out = Vec::new();
        match reader.next_rows().unwrap() {
            Next::Open { bytes } => assert!(bytes < 64 << 20, "{bytes}"),
            Next::Rows => reader.step(&mut out).unwrap(),
            Next::End => panic!("it has more rows"),
        }
        assert!(out.len() <= 4 << 20, "{}", out.len());
    }
}
