//! Bad rows, and what a run says and exits with.

use std::process::Command;

use crate::{World, ended};

#[test]
fn a_dry_run_shows_the_first_bad_line() {
    let mut world = World::new();
    let good = "1,\"a\nb\",2026-01-02\n2,c,\\N\n";
    let file = world.write("good.csv", good);
    let said = world.run(&["load", "-t", "t", &file, "--dry-run"], 0);
    assert!(said.contains("2 rows are good"), "{said}");
    let file = world.write("bad.csv", format!("{good}3,d,tomorrow\nx,e,\\N\n"));
    let said = world.run(&["load", "-t", "t", &file, "--dry-run"], 3);
    assert!(said.contains("bad.csv:4: column 'at':"), "{said}");
    assert!(said.contains("3,d,tomorrow\n2 of 4 rows are bad"), "{said}");
    let file = world.write("short.csv", "1,a\n");
    let said = world.run(&["load", "-t", "t", &file, "--dry-run"], 3);
    assert!(said.contains("short.csv:1: it has 2 fields instead of 3"), "{said}");
    let file = world.write("bad.json", "{\"id\":1}\n{\"id\":2,\"at\":\"no\"}\n");
    let said = world.run(&["load", "-t", "t", &file, "--dry-run"], 3);
    assert!(said.contains("bad.json:2: column 'at':"), "{said}");
    assert!(world.rows().is_empty());
}

#[test]
fn bad_rows_are_shown_with_their_line_and_load_nothing_of_their_block() {
    let mut world = World::new();
    let file = world.write("bad.csv", "1,\"a\nb\",\\N\n2,c,\\N\nx,d,\\N\n");
    let said = world.run(&["load", "-t", "t", &file], 3);
    assert!(said.contains("bad.csv:4: ") && said.contains("x,d,"), "{said}");
    // As JSON, because of the escape.
    let file = world.write("bad.tsv", "1\ta\\tb\t\\N\n2\tc\ttomorrow\n");
    let said = world.run(&["load", "-t", "t", &file], 3);
    assert!(said.contains("bad.tsv:2: ") && said.contains("tomorrow"), "{said}");
    assert!(world.rows().is_empty());
}

#[test]
fn as_many_rows_may_be_bad_as_options_say() {
    let mut world = World::new();
    let file = world.write("some.csv", "1,a,\\N\nx,b,\\N\n3,c,\\N\n4,d\n");
    let bad = world.path("bad.txt");
    let said = world.run(
        &["load", "-t", "t", &file, "--max-errors", "2", "--bad-rows", bad.to_str().unwrap()],
        0,
    );
    assert!(said.contains("2 rows in") && said.contains("2 bad ones"), "{said}");
    assert_eq!(world.rows().len(), 2);
    let bad = std::fs::read_to_string(bad).unwrap();
    let lines = bad.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 2, "{bad}");
    assert!(lines[0].contains("some.csv:2: ") && lines[1].contains("some.csv:4: "), "{bad}");
    world.clear();
    world.run(&["load", "-t", "t", &file, "--again", "--max-errors", "1"], 3);
    world.clear();
    world.run(&["load", "-t", "t", &file, "--again", "--max-filter-ratio", "0.5"], 0);
    assert_eq!(world.rows().len(), 2);
}

#[test]
fn exit_codes_tell_why() {
    let mut world = World::new();
    let file = world.write("rows.csv", "1,a,\\N\n");
    world.run(&["load", "-t", "t"], 2);
    let said = world.run(&["load", "-t", "t", &file, "--columns", "id,nam,at"], 2);
    assert!(said.contains("a column 'nam', which bulk.t does not have"), "{said}");
    let said = world.run(&["load", "-t", "t", &file, "--columns", "name"], 2);
    assert!(said.contains("does not name the column 'id'"), "{said}");
    world.run(&["load", "-t", "t", &file, "--option", "label=mine"], 2);
    let said = world.run(&["load", "-t", "nowhere", &file], 1);
    assert!(said.contains("there is no table bulk.nowhere"), "{said}");
    let said = world.run(&["load", "-t", "t", "missing.csv"], 1);
    assert!(said.contains("missing.csv"), "{said}");
    let said = world.run(&["load", "-t", "t", &file, "-u", "nobody"], 1);
    assert!(said.contains("1045"), "{said}");
    let mut alone = Command::new(crate::FRESHET);
    let alone = alone.args(["load", "-P", "1", "-D", "bulk", "-t", "t", &file]).output().unwrap();
    let said = ended(&alone, 1);
    assert!(said.contains("127.0.0.1:1: "), "{said}");
    assert!(world.rows().is_empty());
    world.run(&["load", "-t", "t", &file], 0);
    let said = world.run(&["load", "-t", "t", &file, "--columns", "id,name,@at"], 2);
    assert!(said.contains("were loaded with other options"), "{said}");
}
