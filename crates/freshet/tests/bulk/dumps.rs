//! What was dumped and is loaded again is what there was.

use std::collections::BTreeSet;

use crate::{World, ended};

/// Rows with everything that separates, quotes, escapes or stands for NULL.
const ROWS: &str = r#"(1, 'plain', '2026-01-02 03:04:05'), (2, NULL, NULL), (3, '', NULL),
    (4, '\\N', NULL), (5, 'a,"b"\tc\nd\\e\r', NULL), (6, 'NULL', NULL), (7, '\\', NULL)"#;

fn fill(world: &mut World) -> Vec<Vec<String>> {
    world.client.query(&format!("INSERT INTO bulk.t VALUES {ROWS}")).unwrap();
    let rows = world.rows();
    assert_eq!(rows.len(), 7);
    rows
}

#[test]
fn dumps_are_loaded_back_in_every_format_and_packing() {
    let mut world = World::new();
    let rows = fill(&mut world);
    let formats: [&[&str]; 6] = [
        &["--format", "csv"],
        &["--format", "csv", "--null", "", "--quote", "force", "--header"],
        &["--format", "csv", "-s", ";", "--enclose", "'", "--escape", "\\"],
        &["--format", "tsv"],
        &["--format", "tsv", "--null", "NULL"],
        &["--format", "json"],
    ];
    let packings = ["none", "gzip", "zstd", "lz4", "bzip2"];
    for (at, format) in formats.into_iter().enumerate() {
        let out = world.path(&format!("dump-{at}")).display().to_string();
        let packing = packings[at % packings.len()];
        let options = [&["dump", "t", "-o", &out, "--compression", packing], format].concat();
        world.run(&options, 0);
        world.clear();
        let without = |word: &&&str| **word != "--quote" && **word != "force";
        let format: Vec<_> = format.iter().filter(without).copied().collect();
        world.run(&[&["load", &format!("{out}/t.*")], &format[..]].concat(), 0);
        assert_eq!(world.rows(), rows, "{format:?}");
        let said = world.run(&options, 1);
        assert!(said.contains("exists; --overwrite replaces it"), "{said}");
    }
}

#[test]
fn one_table_goes_to_standard_output_in_part() {
    let mut world = World::new();
    fill(&mut world);
    let part = ["--columns", "name,id", "-w", "id < 4", "--order-by", "id DESC", "--header"];
    let output = world.tool(&[&["dump", "t"], &part[..]].concat()).output().unwrap();
    ended(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "name,id\n,3\n\\N,2\nplain,1\n");
    let said = world.run(&["dump", "t", "-w", "nothing = 1"], 1);
    assert!(said.contains("error 1054"), "{said}");
}

#[test]
fn rows_go_to_several_files() {
    let mut world = World::new();
    let rows = (0..5000).map(|id| format!("({id}, 'x', NULL)")).collect::<Vec<_>>().join(",");
    world.client.query(&format!("INSERT INTO bulk.t VALUES {rows}")).unwrap();
    let cases: [(&[&str], usize, usize); 2] = [(&["-L", "1200"], 5, 1200), (&["-F", "3"], 3, 2000)];
    for (options, files, rows_max) in cases {
        let out = world.path(options[0]).display().to_string();
        world.run(&[&["dump", "-o", &out], options].concat(), 0);
        let mut all = BTreeSet::new();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&out).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.lines().count() <= rows_max, "{}", path.display());
            all.extend(text.lines().map(str::to_owned));
            names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
        names.sort();
        assert_eq!((names.len(), &*names[0]), (files, "t.00001.csv"));
        assert_eq!(all.len(), 5000);
    }
}
