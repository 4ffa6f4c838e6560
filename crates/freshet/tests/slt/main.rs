//! Runs the files of `tests/slt` over the MySQL protocol against the real binary, each in a new
//! database. `tests/slt/mysql` has what MySQL answers, too; `tests/slt/freshet` what is specific to
//! Freshet.
//!
//! `SLT_SERVER=HOST:PORT` uses another server instead, `SLT_ONLY=text` runs only files whose path
//! contains the text, `SLT_WRITE=1` updates the files with the actual answers. Deviations of
//! Freshet from MySQL are marked `skipif freshet`.

#![allow(clippy::disallowed_methods, reason = "a test reads its files and its environment itself")]

mod client;
mod server;

use std::path::{Path, PathBuf};

use client::{Client, Failure};
use server::Server;
use sqllogictest::{DefaultColumnType, MakeConnection, Runner};

const FOLDERS: [&str; 2] = ["mysql", "freshet"];

#[test]
fn every_file_answers_as_written() {
    let other = std::env::var("SLT_SERVER").ok();
    let engine = if other.is_none() { "freshet" } else { "other" };
    let server = other.is_none().then(Server::start);
    let address = other.unwrap_or_else(|| server.as_ref().expect("started").address.clone());
    let files = files();
    let mut failures = Vec::new();
    for file in &files {
        if let Err(failure) = run(&address, engine, file) {
            failures.push(failure);
        }
    }
    println!("{} files", files.len());
    assert!(failures.is_empty(), "{} files:\n\n{}", failures.len(), failures.join("\n\n"));
}

fn files() -> Vec<PathBuf> {
    let only = std::env::var("SLT_ONLY").unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let folder = |name| std::fs::read_dir(root.join(name)).expect("a folder of files");
    let paths = FOLDERS.into_iter().flat_map(folder).map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.to_string_lossy().contains(&only)).collect();
    files.sort();
    assert!(!files.is_empty(), "no file");
    files
}

fn run(address: &str, engine: &'static str, file: &Path) -> Result<(), String> {
    let name = file.file_stem().expect("a name").to_string_lossy();
    let database = format!("slt_{}", name.replace('-', "_"));
    let at = |failure: Failure| format!("{}: {failure}", file.display());
    let mut admin = Client::open(address, None, engine).map_err(at)?;
    admin.execute(&format!("DROP DATABASE IF EXISTS {database}")).map_err(at)?;
    admin.execute(&format!("CREATE DATABASE {database}")).map_err(at)?;
    let mut runner = Runner::new(|| async { Client::open(address, Some(&database), engine) });
    runner.with_column_validator(same_classes);
    let result = match std::env::var("SLT_WRITE") {
        Ok(_) => write(&mut runner, file),
        Err(_) => runner.run_file(file).map_err(|error| error.to_string()),
    };
    runner.shutdown();
    admin.execute(&format!("DROP DATABASE IF EXISTS {database}")).map_err(at)?;
    result
}

/// Types match by class; `?` in a file matches any.
#[allow(clippy::ptr_arg, reason = "the type of a validator is given")]
fn same_classes(actual: &Vec<DefaultColumnType>, expected: &Vec<DefaultColumnType>) -> bool {
    let any = DefaultColumnType::Any;
    actual.len() == expected.len()
        && actual.iter().zip(expected).all(|(a, e)| a == e || *a == any || *e == any)
}

fn write<M: MakeConnection<Conn = Client>>(
    runner: &mut Runner<Client, M>,
    file: &Path,
) -> Result<(), String> {
    let written = runner.update_test_file(
        file,
        " ",
        sqllogictest::default_validator,
        sqllogictest::default_normalizer,
        sqllogictest::strict_column_validator,
    );
    futures::executor::block_on(written).map_err(|error| error.to_string())
}
