//! E4: where encoded rows stand. In the blocks of keys, in blocks beside them, or only in the pages
//! of Parquet.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use arrow::array::RecordBatch;
use freshet_base::io::{Fs, Mode, RealFs};
use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::key::KeyCodec;
use freshet_schema::{Column, ColumnType, ColumnsBuilder, RowCells, RowWriter, TableSchema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::basic::Compression;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::WriterProperties;

use crate::blocks::{Block, BlockBuilder};
use crate::{Random, least, nanos_each, setting, timed, timed_on_core};

const KEY_BLOCK_BYTES: usize = 4096;
/// Keys of an upsert, looked up together.
const BATCH_KEYS: usize = 1000;
const READS: usize = 50_000;
const PAGE_READS: usize = 1000;
const COLD_READS: usize = 400;
const BATCH_ROWS: usize = 4096;

/// Rows in the order of their keys, encoded.
struct Table {
    schema: TableSchema,
    keys: Vec<Vec<u8>>,
    rows: Vec<Vec<u8>>,
}

/// The table of sysbench, and one with 80 columns: every other one a number, or a short text.
fn table(columns: usize, rows: usize) -> Table {
    let int = ColumnType::Int { unsigned: false };
    let big = ColumnType::BigInt { unsigned: false };
    let text = |len| ColumnType::VarChar { len };
    let types = match columns {
        4 => vec![int, int, text(120), text(60)],
        _ => (0..columns).map(|at| [big, text(12), int, text(8)][at % 4]).collect(),
    };
    let column = |(at, &ty): (usize, &ColumnType)| Column {
        nullable: false,
        ..Column::new(ColumnId(at as u32 + 1), format!("c{at}"), ty)
    };
    let columns = types.iter().enumerate().map(column).collect();
    let schema = TableSchema::new(SchemaVersion(1), columns, vec![0]);
    let (codec, mut random) = (KeyCodec::of_sort_key(&schema), Random::new());
    let rows = (0..rows as u64).map(|row| encode_row(&types, row * 3, &mut random));
    let rows = rows.collect::<Vec<_>>();
    let key = |row: &Vec<u8>| {
        let mut key = Vec::new();
        codec.put(row, &mut key);
        key
    };
    Table { keys: rows.iter().map(key).collect(), schema, rows }
}

fn encode_row(types: &[ColumnType], key: u64, random: &mut Random) -> Vec<u8> {
    let (mut row, mut cell) = (Vec::new(), Vec::new());
    let mut writer = RowWriter::new(types.len(), &mut row);
    writer.begin_row();
    for (at, ty) in types.iter().enumerate() {
        let number = if at == 0 { key } else { random.below(1 << 22) };
        match *ty {
            ColumnType::VarChar { len } => {
                cell.clear();
                // As sysbench has it: groups of digits.
                let mut digits = String::new();
                while digits.len() < len as usize {
                    digits += &format!("{:011}-", random.below(100_000_000_000));
                }
                freshet_schema::row::put_bytes(&mut cell, &digits.as_bytes()[..len as usize]);
                writer.put_encoded(&cell);
            }
            ColumnType::BigInt { .. } => writer.put_encoded(&number.to_le_bytes()),
            _ => writer.put_encoded(&(number as u32).to_le_bytes()),
        }
    }
    writer.end_row();
    row
}

/// Blocks in a file, and what memory knows of them.
struct Stored {
    file: File,
    /// The first key and row of each block, and where it is.
    blocks: Vec<(Vec<u8>, usize, u64, usize)>,
    lz4: bool,
}

impl Stored {
    fn write(
        path: &Path,
        target: usize,
        lz4: bool,
        rows: &mut dyn Iterator<Item = (&[u8], &[u8])>,
    ) -> Self {
        let (mut out, mut blocks, mut row) = (Vec::new(), Vec::new(), 0);
        let mut builder = BlockBuilder::default();
        let mut first = Vec::new();
        let mut end = |builder: &mut BlockBuilder, first: &[u8], row: &mut usize| {
            let count = builder.len();
            let bytes = builder.finish(lz4);
            blocks.push((first.to_vec(), *row, out.len() as u64, bytes.len()));
            out.extend(bytes);
            *row += count;
        };
        for (key, value) in rows {
            if builder.len() == 0 {
                first = key.to_vec();
            }
            builder.push(key, value);
            if builder.bytes() >= target {
                end(&mut builder, &first, &mut row);
            }
        }
        if builder.len() > 0 {
            end(&mut builder, &first, &mut row);
        }
        std::fs::write(path, &out).unwrap();
        Self { file: File::open(path).unwrap(), blocks, lz4 }
    }

    fn bytes(&self) -> u64 {
        self.blocks.last().map_or(0, |(_, _, at, length)| at + *length as u64)
    }

    fn block(&self, at: usize) -> Block {
        let (_, _, start, length) = self.blocks[at];
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start).unwrap();
        Block::open(bytes, self.lz4)
    }

    /// The block that may hold a key.
    fn of_key(&self, key: &[u8]) -> usize {
        self.blocks.partition_point(|(first, ..)| first.as_slice() <= key) - 1
    }

    fn row_of(&self, key: &[u8]) -> Option<usize> {
        let at = self.of_key(key);
        self.block(at).find(key).map(|row| self.blocks[at].1 + row)
    }

    /// The row numbers of sorted keys, each block read once.
    fn rows_of(&self, keys: &[&[u8]]) -> usize {
        let mut found = 0;
        for keys in keys.chunk_by(|a, b| self.of_key(a) == self.of_key(b)) {
            let block = self.block(self.of_key(keys[0]));
            found += keys.iter().filter(|key| block.find(key).is_some()).count();
        }
        found
    }

    fn row_by_key(&self, key: &[u8]) -> Option<Vec<u8>> {
        let block = self.block(self.of_key(key));
        block.find(key).map(|at| block.value(at).to_vec())
    }

    /// A row that stands by itself, with its checksum, in another file.
    fn row_in(&self, rows: &File, key: &[u8]) -> Option<Vec<u8>> {
        let block = self.block(self.of_key(key));
        let (at, length) = block.value(block.find(key)?).split_at(4);
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let mut bytes = vec![0; number(length) as usize];
        rows.read_exact_at(&mut bytes, number(at).into()).unwrap();
        let row = bytes.split_off(4);
        assert_eq!(number(&bytes), crc_fast::crc32_iscsi(&row));
        Some(row)
    }

    fn row_by_number(&self, row: usize) -> Vec<u8> {
        let at = self.blocks.partition_point(|(_, first, ..)| *first <= row) - 1;
        self.block(at).value(row - self.blocks[at].1).to_vec()
    }
}

/// Reads rows by key and keys in batches, in memory and from the device.
struct Ways<'a> {
    paths: [&'a Path; 2],
    table: &'a Table,
    order: &'a [usize],
}

impl Ways<'_> {
    fn evict(&self) {
        for path in self.paths.into_iter().filter(|path| path.exists()) {
            RealFs.open(path, Mode::Write).unwrap().drop_cache().unwrap();
        }
    }

    fn report(
        &self,
        name: &str,
        write: Duration,
        bytes: u64,
        reads: usize,
        read: &dyn Fn(&[u8]) -> Vec<u8>,
        rows_of: &dyn Fn(&[&[u8]]) -> usize,
    ) {
        let read_all = |order: &[usize]| {
            for &row in order {
                assert_eq!(black_box(read(&self.table.keys[row])), self.table.rows[row]);
            }
        };
        let micros = |time, count| nanos_each(time, count) / 1e3;
        let order = &self.order[..reads];
        let warm = least(|| timed_on_core(|| read_all(order)).0);
        let batches = |order: &[usize]| {
            let mut keys =
                order.iter().map(|&row| self.table.keys[row].as_slice()).collect::<Vec<_>>();
            keys.chunks_mut(BATCH_KEYS).for_each(<[_]>::sort_unstable);
            let found = keys.chunks(BATCH_KEYS).map(rows_of).sum::<usize>();
            assert_eq!(found, order.len());
        };
        let order = &self.order[..READS];
        let upserts = least(|| timed_on_core(|| batches(order)).0);
        self.evict();
        let cold = timed(|| read_all(&self.order[READS..][..COLD_READS])).0;
        self.evict();
        let cold_upserts = timed(|| batches(&self.order[READS + COLD_READS..][..BATCH_KEYS])).0;
        let (warm, cold) = (micros(warm, reads), micros(cold, COLD_READS));
        let (upserts, cold_upserts) = (micros(upserts, READS), micros(cold_upserts, BATCH_KEYS));
        let rows = self.table.rows.len();
        println!(
            "{name:34} {:6.1} bytes, {:5.0} ns to write; read {warm:7.2} us, cold {cold:5.0}; \
             upsert {upserts:5.2} us, cold {cold_upserts:5.0}",
            bytes as f64 / rows as f64,
            nanos_each(write, rows),
        );
    }
}

fn pages(path: &Path, table: &Table, rows: usize) -> (Duration, u64) {
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(rows)
        .set_write_batch_size(rows)
        .set_max_row_group_row_count(Some(128 << 10))
        .build();
    let batches: Vec<RecordBatch> = table
        .rows
        .chunks(BATCH_ROWS)
        .map(|rows| {
            let mut builder = ColumnsBuilder::new(&table.schema, rows.len());
            rows.iter().for_each(|row| builder.append(row, 1));
            builder.finish()
        })
        .collect();
    let (time, ()) = timed(|| {
        let file = File::create(path).unwrap();
        let schema = table.schema.arrow().clone();
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.close().unwrap();
    });
    (time, std::fs::metadata(path).unwrap().len())
}

/// Reads one row by its number, all columns, with a footer that is in memory.
fn page_row(
    path: &Path,
    footer: &ArrowReaderMetadata,
    schema: &TableSchema,
    row: usize,
) -> Vec<u8> {
    let groups = footer.metadata().row_groups();
    let rows = groups[0].num_rows() as usize;
    let (group, row) = (row / rows, row % rows);
    let selection = RowSelection::from(vec![RowSelector::skip(row), RowSelector::select(1)]);
    let file = File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone())
        .with_row_groups(vec![group])
        .with_row_selection(selection)
        .with_batch_size(1)
        .build()
        .unwrap();
    let batch = reader.into_iter().next().unwrap().unwrap();
    let mut out = Vec::new();
    freshet_schema::encode(&batch, schema, &mut out);
    out
}

fn compare(columns: usize, rows: usize) {
    let table = table(columns, rows);
    let cells = RowCells::new(&table.schema);
    assert_eq!(cells.row_bytes(&table.rows[0]), table.rows[0].len());
    let mut order = (0..rows).collect::<Vec<_>>();
    Random::new().shuffle(&mut order);
    let bytes = table.rows.iter().map(Vec::len).sum::<usize>();
    println!("{rows} rows of {columns} columns, {} bytes as encoded", bytes / rows);
    let dir = tempfile::tempdir_in(std::env::var("DIR").unwrap_or("/var/tmp".into())).unwrap();
    let (path, beside) = (dir.path().join("blocks"), dir.path().join("keys"));
    let ways = Ways { paths: [&path, &beside], table: &table, order: &order };
    let with_keys = |value: bool| {
        let rows = table.rows.iter().map(move |row| if value { row.as_slice() } else { &[] });
        table.keys.iter().map(Vec::as_slice).zip(rows)
    };
    for lz4 in [false, true] {
        let compressed = if lz4 { ", LZ4" } else { "" };
        for kib in [4, 8, 16] {
            let write = || timed(|| Stored::write(&path, kib << 10, lz4, &mut with_keys(true)));
            let time = least(|| write().0);
            let stored = write().1;
            let name = format!("rows in blocks of {kib} KiB{compressed}");
            let read = |key: &[u8]| stored.row_by_key(key).unwrap();
            ways.report(&name, time, stored.bytes(), READS, &read, &|keys| stored.rows_of(keys));
        }
        for kib in [4, 8, 16] {
            let nothing = [].as_slice();
            let mut rows = table.rows.iter().map(|row| (nothing, row.as_slice()));
            let (rows_time, stored) = timed(|| Stored::write(&path, kib << 10, lz4, &mut rows));
            let (keys_time, keys) =
                timed(|| Stored::write(&beside, KEY_BLOCK_BYTES, false, &mut with_keys(false)));
            let name = format!("rows beside, blocks of {kib} KiB{compressed}");
            let read = |key: &[u8]| stored.row_by_number(keys.row_of(key).unwrap());
            let bytes = stored.bytes() + keys.bytes();
            let time = rows_time + keys_time;
            ways.report(&name, time, bytes, READS, &read, &|batch| keys.rows_of(batch));
            if kib == 4 && !lz4 {
                let each = keys.bytes() as f64 / rows_f(&table);
                println!("{:34} {each:6.1} bytes", "  of these, blocks of keys");
            }
        }
    }
    one_by_one(&ways, &path, &beside);
    for page_rows in [512, 4096] {
        let (time, bytes) = pages(&path, &table, page_rows);
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let footer = ArrowReaderMetadata::load(&File::open(&path).unwrap(), options).unwrap();
        let keys = Stored::write(&beside, KEY_BLOCK_BYTES, false, &mut with_keys(false));
        let read = |key: &[u8]| page_row(&path, &footer, &table.schema, keys.row_of(key).unwrap());
        let name = format!("Parquet pages of {page_rows} rows");
        ways.report(&name, time, bytes, PAGE_READS, &read, &|batch| keys.rows_of(batch));
    }
}

/// Rows beside the blocks, each with its own checksum; blocks say where they are.
fn one_by_one(ways: &Ways<'_>, path: &Path, beside: &Path) {
    let table = ways.table;
    let write = || {
        let (mut out, mut places) = (Vec::new(), Vec::new());
        for row in &table.rows {
            let length = (row.len() + 4) as u32;
            places.push([(out.len() as u32).to_le_bytes(), length.to_le_bytes()].concat());
            out.extend(crc_fast::crc32_iscsi(row).to_le_bytes());
            out.extend(row);
        }
        std::fs::write(path, &out).unwrap();
        let mut entries =
            table.keys.iter().map(Vec::as_slice).zip(places.iter().map(Vec::as_slice));
        let keys = Stored::write(beside, KEY_BLOCK_BYTES, false, &mut entries);
        (keys, out.len() as u64)
    };
    let time = least(|| timed(write).0);
    let (keys, row_bytes) = write();
    let each = keys.bytes() as f64 / rows_f(table);
    println!("{:34} {each:6.1} bytes", "blocks of keys and places");
    let rows = File::open(path).unwrap();
    let read = |key: &[u8]| keys.row_in(&rows, key).unwrap();
    let rows_of = |batch: &[&[u8]]| keys.rows_of(batch);
    ways.report("rows beside, one by one", time, row_bytes + keys.bytes(), READS, &read, &rows_of);
}

fn rows_f(table: &Table) -> f64 {
    table.rows.len() as f64
}

pub fn run() {
    let rows = setting("ROWS", 300_000);
    compare(4, rows);
    compare(80, rows / 2);
}
