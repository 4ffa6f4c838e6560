//! The pages of `docs/loading`, and that of workload groups, do what they say: their statements
//! and commands are run against the binary, page by page, and the reply to a command has the lines
//! of the `json` behind it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use freshet_torture::client::Client;
use freshet_torture::server::{Server, Setup};

/// The language and the text of each block of code.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let text = lines.by_ref().take_while(|line| *line != "```");
        blocks.push((language, text.collect::<Vec<_>>().join("\n")));
    }
    blocks
}

/// Runs a page in a database of its own; returns the number of its commands.
fn run(name: &str, page: &str, server: &Server) -> usize {
    let mut client = Client::connect(server.mysql_port).unwrap();
    for sql in ["DROP DATABASE IF EXISTS demo", "CREATE DATABASE demo", "USE demo"] {
        client.query(sql).unwrap();
    }
    let (mut reply, mut commands) = (String::new(), 0);
    for (language, text) in blocks(page) {
        match language {
            "sql" => {
                for sql in text.split_inclusive(';').filter(|sql| !sql.trim().is_empty()) {
                    client.query(sql).unwrap_or_else(|error| panic!("{name}: {sql}: {error:?}"));
                }
            }
            "sh" => {
                let address = format!("http://127.0.0.1:{}", server.http_port);
                let mut shell = Command::new("bash");
                shell.arg("-c").arg(&text).env("FRESHET", address);
                let output = shell.output().expect("bash and curl are there");
                reply = String::from_utf8(output.stdout).unwrap();
                commands += 1;
                assert!(output.status.success(), "{name}: {text}: {reply}");
            }
            "json" => {
                for line in text.lines() {
                    assert!(reply.contains(line), "{name}: {line} is not in\n{reply}");
                }
            }
            other => panic!("{name}: a block of '{other}', which is neither sql, sh nor json"),
        }
    }
    commands
}

#[test]
fn the_pages_about_loading_do_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/loading");
    let mut paths: Vec<_> =
        std::fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut commands = 0;
    for path in &paths {
        let name = path.file_name().unwrap().to_string_lossy();
        commands += run(&name, &std::fs::read_to_string(path).unwrap(), &server);
    }
    assert!(commands >= paths.len(), "each page has a command: {commands}");
    let page = "workload-groups.md";
    let path = pages.parent().unwrap().join(page);
    run(page, &std::fs::read_to_string(path).unwrap(), &server);
    server.stop().unwrap();
}
