//! Parquet files: cut at their row groups, once through kills, refused where they do not fit.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::World;

const GROUP_ROWS: usize = 100;

fn columns(range: std::ops::Range<i64>) -> Vec<(&'static str, ArrayRef)> {
    let name = |id: i64| (id % 7 > 0).then(|| format!("name {}", id % 50));
    let names = range.clone().map(name).collect::<StringArray>();
    let times = range.clone().map(|id| 1_700_000_000_000_000 + id * 1_000_000);
    vec![
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values(times))),
        ("ID", Arc::new(Int64Array::from_iter_values(range))),
        ("name", Arc::new(names)),
    ]
}

/// A file of row groups of [`GROUP_ROWS`], with all that stands beside them.
fn file(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_bloom_filter_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Page)
        .build();
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    out
}

fn counts(world: &mut World) -> Vec<String> {
    let sql = "SELECT COUNT(*), COUNT(DISTINCT id), SUM(id), COUNT(name), MAX(at) FROM bulk.t";
    world.client.query(sql).unwrap().remove(0)
}

#[test]
fn row_groups_are_blocks() {
    let mut world = World::new();
    let path = world.write("t.parquet", file(columns(0..1050)));
    let expected = ["1050", "1050", "550725", "900", "2023-11-14 22:30:49"];
    for block_size in ["1KiB", "8KiB", "16MiB"] {
        world.run(&["load", &path, "--again", "--block-size", block_size], 0);
        assert_eq!(counts(&mut world), expected, "in blocks of {block_size}");
        world.clear();
    }
    let said = world.run(&["load", &path, "--block-size", "16MiB"], 0);
    assert!(said.contains("was loaded before (1050 rows)"), "{said}");
    assert_eq!(counts(&mut world)[0], "0");
    // Several files, of which the first is there already.
    world.write("t.1.parquet", file(columns(2000..2010)));
    let pattern = world.path("t.*parquet").display().to_string();
    world.run(&["load", "-t", "t", &pattern], 0);
    assert_eq!(counts(&mut world)[0], "10");
}

#[test]
fn a_killed_load_goes_on() {
    let mut world = World::new();
    let path = world.write("t.parquet", file(columns(0..4000)));
    let arguments = ["load", &path, "--block-size", "1KiB", "--rows-per-second", "3000", "-q"];
    for round in 0..4 {
        let mut child = world.start(&arguments);
        std::thread::sleep(std::time::Duration::from_millis(150 + 100 * round));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    world.run(&["load", &path, "--block-size", "1KiB"], 0);
    assert_eq!(counts(&mut world)[..3], ["4000", "4000", "7998000"]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut world = World::new();
    let whole = file(columns(0..250));
    let path = world.write("t.parquet", &whole);
    let said = world.run(&["load", &path, "--transport", "sql"], 2);
    assert!(said.contains("Parquet is for Stream Load"), "{said}");
    let said = world.run(&["load", "-t", "t", "--format", "parquet", "-"], 2);
    assert!(said.contains("standard input cannot be Parquet"), "{said}");
    let said = world.run(&["dump", "--format", "parquet", "t"], 2);
    assert!(said.contains("--format parquet is for load"), "{said}");
    let said = world.run(&["load", &path, "--dry-run"], 0);
    assert!(said.contains("its columns fit") && said.contains("250 rows"), "{said}");
    assert_eq!(counts(&mut world)[0], "0");
    // Columns of other names, some of them, and none that is needed.
    let other = [columns(0..20), vec![("more", Arc::new(Int64Array::from(vec![1; 20])) as _)]];
    let other = world.write("other.parquet", file(other.concat()));
    let said = world.run(&["load", "-t", "t", &other], 2);
    assert!(said.contains("names a column 'more'"), "{said}");
    let said = world.run(&["load", "-t", "t", &other, "--dry-run", "--columns", "name"], 2);
    assert!(said.contains("does not name the column 'id'"), "{said}");
    let said = world.run(&["load", "-t", "t", &other, "--columns", "id,nix"], 2);
    assert!(said.contains("'nix', which the file does not have"), "{said}");
    world.run(&["load", "-t", "t", &other, "--columns", "id,@more,name"], 0);
    assert_eq!(counts(&mut world), ["20", "20", "190", "17", "NULL"]);
    // Not the end of a file, another one,.
    for (text, why) in [
        (&whole[..whole.len() - 1], "its end is damaged"),
        (b"PAR1".as_slice(), "it is too short"),
        (b"PAR1 and a lot of text that is no end PARE", "it is encrypted"),
        (b"id,name\n1,a\n2,b\n3,c\n", "its end is damaged"),
    ] {
        let path = world.write("bad.parquet", text);
        let said = world.run(&["load", "-t", "t", &path], 1);
        assert!(said.contains(why), "{said}");
    }
}
