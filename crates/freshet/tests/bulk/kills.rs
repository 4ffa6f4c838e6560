//! Whatever is killed, the same command again leaves every row once.

use std::fmt::Write;
use std::io::Write as _;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use freshet_torture::client::Client;
use rustix::process::{Pid, Signal, kill_process};

use crate::{World, ended};

const ROWS: i64 = 60_000;
/// A few hundred blocks.
const BLOCK: &str = "8KiB";

/// Rows of which some have line ends in their quotes.
fn rows() -> String {
    let mut text = String::new();
    for id in 0..ROWS {
        let name = if id % 7 == 0 { "\"two\nlines, \"\"quoted\"\"\"" } else { "plain" };
        writeln!(text, "{id},{name} {id},2026-01-02 03:04:05").unwrap();
    }
    text
}

#[track_caller]
fn check_all_once(client: &mut Client) {
    assert_eq!(client.number("SELECT COUNT(*) FROM bulk.t").unwrap(), ROWS);
    assert_eq!(client.number("SELECT COUNT(DISTINCT id) FROM bulk.t").unwrap(), ROWS);
    let two_lines = "SELECT COUNT(*) FROM bulk.t WHERE name LIKE 'two\nlines, \"quoted\" %'";
    assert_eq!(client.number(two_lines).unwrap(), (ROWS + 6) / 7);
}

fn count(client: &mut Client) -> i64 {
    client.number("SELECT COUNT(*) FROM bulk.t").unwrap()
}

#[test]
fn a_killed_tool_goes_on_where_it_was() {
    let mut world = World::new();
    let file = world.write("rows.csv", rows());
    let slow = ["--block-size", BLOCK, "--rows-per-second", "20000"];
    let arguments = [&["load", "-t", "t", &file], &slow[..]].concat();
    let mut seen = 0;
    for kill in 0..4 {
        let mut tool = world.start(&arguments);
        while count(&mut world.client) < seen + 3000 {
            assert_eq!(tool.try_wait().unwrap(), None, "it ended by itself in round {kill}");
            sleep(Duration::from_millis(5));
        }
        tool.kill().unwrap();
        tool.wait().unwrap();
        seen = count(&mut world.client);
        assert!(seen < ROWS, "it was killed in the middle");
    }
    let said = world.run(&["load", "-t", "t", &file, "--block-size", BLOCK], 0);
    assert!(said.contains("going on behind"), "{said}");
    check_all_once(&mut world.client);
    let said = world.run(&["load", "-t", "t", &file, "--block-size", BLOCK], 0);
    assert!(said.contains("was loaded before (60000 rows)"), "{said}");
    check_all_once(&mut world.client);
    world.run(&["load", "-t", "t", &file, "--block-size", BLOCK, "--again"], 0);
    assert_eq!(count(&mut world.client), 2 * ROWS);
}

#[test]
fn labels_tell_what_arrived_where_the_history_is_lost() {
    let mut world = World::new();
    let file = world.write("rows.csv", rows());
    let arguments = ["load", "-t", "t", &file, "--block-size", BLOCK];
    let mut tool = world.start(&[&arguments[..], &["--rows-per-second", "30000"]].concat());
    while count(&mut world.client) < 5000 {
        sleep(Duration::from_millis(5));
    }
    tool.kill().unwrap();
    tool.wait().unwrap();
    std::fs::remove_dir_all(world.path("state")).unwrap();
    world.run(&arguments, 0);
    check_all_once(&mut world.client);
}

#[test]
fn a_killed_server_loses_and_doubles_nothing() {
    let mut world = World::new();
    let file = world.write("rows.csv", rows());
    let slow = ["--block-size", BLOCK, "--rows-per-second", "20000", "--retry-for", "1"];
    let arguments = [&["load", "-t", "t", &file], &slow[..]].concat();
    for _ in 0..2 {
        let seen = count(&mut world.client);
        let tool = world.start(&arguments);
        while count(&mut world.client) < seen + 5000 {
            sleep(Duration::from_millis(5));
        }
        world.server.kill();
        let said = ended(&tool.wait_with_output().unwrap(), 1);
        assert!(said.contains("the same command goes on from there"), "{said}");
        // Its ports are others now, so the labels alone tell what has arrived.
        world.server = world.setup.start().unwrap();
        world.client = Client::connect(world.server.mysql_port).unwrap();
    }
    world.run(&["load", "-t", "t", &file, "--block-size", BLOCK], 0);
    check_all_once(&mut world.client);
}

#[test]
fn a_signal_ends_it_between_blocks() {
    let mut world = World::new();
    let file = world.write("rows.csv", rows());
    let arguments = ["load", "-t", "t", &file, "--block-size", BLOCK];
    let tool = world.start(&[&arguments[..], &["--rows-per-second", "20000"]].concat());
    while count(&mut world.client) < 3000 {
        sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_raw(tool.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let said = ended(&tool.wait_with_output().unwrap(), 4);
    assert!(said.contains("stopped by a signal"), "{said}");
    world.run(&arguments, 0);
    check_all_once(&mut world.client);
}

#[test]
fn a_named_stream_can_be_sent_again() {
    let mut world = World::new();
    let rows = rows();
    for part in [rows.len() / 3, rows.len()] {
        let job = ["--job", "nightly", "--format", "csv", "--block-size", BLOCK];
        let mut tool = world.tool(&[&["load", "-t", "t", "-"], &job[..]].concat());
        let mut tool = tool.stdin(Stdio::piped()).spawn().unwrap();
        // The first time the pipe stays open when what was sent has arrived, until the kill.
        let mut pipe = tool.stdin.take().unwrap();
        pipe.write_all(&rows.as_bytes()[..part]).unwrap();
        if part < rows.len() {
            while count(&mut world.client) < 3000 {
                sleep(Duration::from_millis(5));
            }
            tool.kill().unwrap();
            tool.wait().unwrap();
            continue;
        }
        drop(pipe);
        ended(&tool.wait_with_output().unwrap(), 0);
    }
    check_all_once(&mut world.client);
}
