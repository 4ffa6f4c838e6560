//! What is in a file is what is in the table, in every format.

use std::io::Write;
use std::process::Stdio;

use crate::{World, ended};

fn row(cells: [&str; 3]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Rows with everything that separates, quotes, escapes or stands for NULL.
fn expected() -> Vec<Vec<String>> {
    vec![
        row(["1", "plain", "2026-01-02 03:04:05"]),
        row(["2", "NULL", "NULL"]),
        row(["3", "", "NULL"]),
        row(["4", "\\N", "NULL"]),
        row(["5", "a,\"b\"\tc\nd\\e", "NULL"]),
    ]
}

const CSV: &str = "1,plain,2026-01-02 03:04:05\n2,\\N,\\N\n3,,\\N\n4,\"\\N\",\\N\n\
    5,\"a,\"\"b\"\"\tc\nd\\e\",\\N\n";
const TSV: &str = "1\tplain\t2026-01-02 03:04:05\n2\t\\N\t\\N\n3\t\t\\N\n4\t\\\\N\t\\N\n\
    5\ta,\"b\"\\tc\\\nd\\\\e\t\\N\n";
const JSON: &str = "{\"id\":1,\"name\":\"plain\",\"at\":\"2026-01-02 03:04:05\"}\n\
    {\"id\":2}\n{\"id\":3,\"name\":\"\",\"at\":null}\n{\"id\":4,\"name\":\"\\\\N\"}\n\
    {\"id\":5,\"name\":\"a,\\\"b\\\"\\tc\\nd\\\\e\"}\n";

#[test]
fn every_format_gives_the_same_rows() {
    let mut world = World::new();
    for (name, text) in [("a.csv", CSV), ("a.tsv", TSV), ("a.jsonl", JSON)] {
        for block_size in ["16", "16MiB"] {
            let file = world.write(name, text);
            world.run(&["load", "-t", "t", &file, "--again", "--block-size", block_size], 0);
            assert_eq!(world.rows(), expected(), "{name} in blocks of {block_size}");
            world.clear();
        }
    }
}

#[test]
fn dialects_of_csv() {
    let mut world = World::new();
    let text = "\u{feff}at;x;id;name\r\n;1;1;'it''s'\r\n;2;2;''\r\n;3;3;\r\n;4;4;\\N\r\n";
    let file = world.write("semicolon.csv", text);
    let dialect = ["-s", ";", "--enclose", "'", "--null", "", "-header"];
    let columns = ["--columns", "at,@x,id,name"];
    world.run(&[&["load", "-t", "t", &file], &dialect[..], &columns[..]].concat(), 0);
    let rows = [["1", "it's"], ["2", ""], ["3", "NULL"], ["4", "\\N"]];
    let rows = rows.map(|[id, name]| row([id, name, "NULL"]));
    assert_eq!(world.rows(), rows);
    world.clear();
    let file = world.write("escaped.csv", "id,name\n1,\"a\\\"b\"\n2,NULL\n");
    world.run(&["load", "-t", "t", &file, "--escape", "\\", "--null", "NULL", "--header"], 0);
    assert_eq!(world.rows(), [row(["1", "a\"b", "NULL"]), row(["2", "NULL", "NULL"])]);
    world.clear();
    let file = world.write("wide.csv", "1\u{1}a\u{1}\\N##2\u{1}b\u{1}\\N##");
    let dialect = ["-s", "\\x01", "--line-delimiter", "##", "--enclose", ""];
    world.run(&[&["load", "-t", "t", &file], &dialect[..]].concat(), 0);
    assert_eq!(world.rows(), [row(["1", "a", "NULL"]), row(["2", "b", "NULL"])]);
}

#[test]
fn packed_files_patterns_and_standard_input() {
    let mut world = World::new();
    world.write("t.1.csv.zst", zstd("1,a,\\N\n"));
    world.write("t.2.csv.gz", gzip("2,b,\\N\n"));
    world.write("t.3.csv", "3,c,\\N\n");
    let pattern = world.path("t.*.csv*").display().to_string();
    // The name of a file has that of its table.
    world.run(&["load", &pattern], 0);
    world.write("t.4.csv", "4,d,\\N\n");
    // Of the pattern only the new file is loaded.
    world.run(&["load", &pattern], 0);
    let mut tool = world.tool(&["load", "-t", "t", "-", "--format", "csv"]);
    let mut tool = tool.stdin(Stdio::piped()).spawn().unwrap();
    tool.stdin.take().unwrap().write_all(&gzip("5,e,\\N\n")).unwrap();
    ended(&tool.wait_with_output().unwrap(), 0);
    let names = world.rows().into_iter().map(|row| row[1].clone()).collect::<String>();
    assert_eq!(names, "abcde");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(text.as_bytes()).unwrap();
    to.finish().unwrap()
}

fn zstd(text: &str) -> Vec<u8> {
    zstd::encode_all(text.as_bytes(), 1).unwrap()
}
