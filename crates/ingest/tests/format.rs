//! Stores that older versions wrote: every format that was ever on main is read for ever.
//!
//! `tests/formats/N.tar.gz` holds a data directory as format N had it. To add one when a format
//! changes: `cargo run -p freshet-ingest --example write_store` prints where it wrote one; pack
//! it with `tar -czf N.tar.gz -C THERE .`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Store, fill, insert, rows_of};
use freshet_ingest::check::check;
use freshet_schema::GroupCommitMode;
use freshet_storage::delta::Freshness;

fn holds_what_was_filled(store: &Store) {
    let report = check(&store.config(), &store.world()).unwrap();
    assert_eq!(report.findings, []);
    let engine = store.open();
    let rows = |name: &str| {
        let table = engine.resolve("d", name).unwrap().1.id;
        rows_of(&engine, table, Freshness::Committed)
    };
    assert_eq!(rows("trickle"), [(1, 10), (2, 20)]);
    assert_eq!(rows("emptied"), [(3, 30)]);
    let filed = rows("filed");
    assert_eq!(filed.len(), 250 * 2_000);
    assert!(filed.iter().all(|(a, b)| *b == -a));
    insert(&engine, "filed", GroupCommitMode::Off, &[(1, 1)]);
    store.stop(engine);
}

#[test]
fn stores_of_every_format_are_read() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let mut read = 0;
    for entry in std::fs::read_dir(formats).unwrap() {
        let archive = entry.unwrap().path();
        let store = Store::small();
        let target = store.config().data_dir;
        std::fs::create_dir_all(&target).unwrap();
        let tar = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&target).status();
        assert!(tar.unwrap().success(), "{}", archive.display());
        holds_what_was_filled(&store);
        read += 1;
    }
    assert!(read >= 1, "there is a store of the first format");
}

#[test]
fn a_store_of_today_holds_what_the_stores_of_before_hold() {
    let store = Store::small();
    fill(&store);
    holds_what_was_filled(&store);
}
