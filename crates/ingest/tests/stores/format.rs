//! The contents of a store after a restart, and rejection of stores in unsupported formats.
//!
//! `tests/formats/N.tar.gz` contains a data directory in format N. To add one when a format is
//! released: `cargo run -p freshet-ingest --example write_store` prints the path of a new store;
//! pack it with `tar -czf N.tar.gz -C PATH .`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use arrow::array::Array;
use freshet_ingest::Engine;
use freshet_ingest::check::check;
use freshet_schema::GroupCommitMode;
use freshet_storage::delta::Freshness;
use futures::executor::block_on;

use crate::common::{ALTERED_AT, SLOW_HASH, Store, account, batches, fill, insert, rows_of};

fn holds_what_was_filled(store: &Store) {
    let report = check(&store.config(), &store.world()).unwrap();
    assert_eq!(report.findings, []);
    let engine = store.open();
    let rows = |name: &str| {
        let table = engine.target("d", name).unwrap().id();
        rows_of(&engine, table, Freshness::Committed)
    };
    assert_eq!(rows("trickle"), [(1, 10), (2, 20)]);
    assert_eq!(rows("emptied"), [(3, 30)]);
    let filed = rows("filed");
    assert_eq!(filed.len(), 250 * 2_000);
    assert!(filed.iter().all(|(a, b)| *b == -a));
    holds_a_user_and_an_added_column(&engine);
    insert(&engine, "filed", GroupCommitMode::Off, &[(1, 1)]);
    store.stop(engine);
}

fn holds_a_user_and_an_added_column(engine: &Engine) {
    let catalog = engine.catalog();
    let user = catalog.user(&account()).unwrap();
    assert_eq!(user.auth.sha2_slow.as_deref(), Some(SLOW_HASH));
    let table = engine.target("d", "altered").unwrap();
    assert_eq!(table.schema().columns[2].before.as_deref(), Some(ALTERED_AT));
    let snapshot = engine.snapshot(Freshness::Committed).table(table.id()).unwrap().unwrap();
    assert_eq!(snapshot.rows(), 1);
    let shown = batches(&snapshot).iter().map(|batch| batch.column(2).null_count()).sum::<usize>();
    assert_eq!(shown, 0, "rows of before show the time of the ALTER");
}

#[test]
fn stores_of_unreleased_formats_are_refused_by_name_and_left_alone() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let mut refused = BTreeSet::new();
    for entry in std::fs::read_dir(formats).unwrap() {
        let archive = entry.unwrap().path();
        let store = Store::small();
        let target = store.config().data_dir;
        std::fs::create_dir_all(&target).unwrap();
        let tar = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&target).status();
        assert!(tar.unwrap().success(), "{}", archive.display());
        let name = archive.file_name().unwrap().to_str().unwrap();
        let format = name.strip_suffix(".tar.gz").unwrap().parse::<u32>().unwrap();
        for _ in 0..2 {
            let error = block_on(Engine::open(store.config(), store.world())).err().unwrap();
            let told = error.to_string();
            assert!(told.contains(&format!("format {format}, which")), "{told}");
        }
        refused.insert(format);
    }
    assert_eq!(refused, BTreeSet::from([1, 2, 3]));
}

#[test]
fn a_store_holds_what_was_filled_in_over_a_crash() {
    let store = Store::small();
    fill(&store);
    holds_what_was_filled(&store);
}
