//! Model test: random statements on both stores give the same metadata, before and after a reopen
//! and a power failure.

use std::path::Path;
use std::sync::Arc;

use freshet_base::io::Fs;
use freshet_base::{Lsn, Version};
use freshet_schema::Collation;
use freshet_testkit::SimFs;
use proptest::prelude::*;

use crate::test::{INT, begin, rowset, spec};
use crate::{
    Account, AuthData, Catalog, ColumnPlace, ColumnSpec, GrantObject, MemStore, Meta, MetaStore,
    Privilege, Privileges, Publish, RedbStore, Replacement, SchemaChange, StoredTable,
};

#[derive(Clone, Debug)]
enum Step {
    CreateDatabase(u8),
    CollateDatabase(u8, bool),
    DropDatabase(u8),
    CreateTable(u8, u8),
    DropTable(u8, u8),
    Rename(u8, u8, u8),
    AddColumn(u8, u8, u8),
    DropColumn(u8, u8, u8),
    Flush { db: u8, table: u8, rows: bool, stale: bool },
    Compact(u8, u8),
    Truncate(u8, u8),
    SetInterval(u8, u8, u16),
    CreateUser(u8),
    Grant(u8, u8),
    DropUser(u8),
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    let (db, table, column) = (0u8..2, 0u8..3, 0u8..4);
    let place = || (db.clone(), table.clone());
    prop_oneof![
        2 => db.clone().prop_map(Step::CreateDatabase),
        1 => db.clone().prop_map(Step::DropDatabase),
        1 => (db.clone(), any::<bool>()).prop_map(|(d, bin)| Step::CollateDatabase(d, bin)),
        6 => place().prop_map(|(d, t)| Step::CreateTable(d, t)),
        1 => place().prop_map(|(d, t)| Step::DropTable(d, t)),
        1 => (place(), table.clone()).prop_map(|((d, t), to)| Step::Rename(d, t, to)),
        3 => (place(), column.clone()).prop_map(|((d, t), c)| Step::AddColumn(d, t, c)),
        2 => (place(), column.clone()).prop_map(|((d, t), c)| Step::DropColumn(d, t, c)),
        8 => (place(), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|((db, table), rows, stale)| Step::Flush { db, table, rows, stale }),
        3 => place().prop_map(|(d, t)| Step::Compact(d, t)),
        2 => place().prop_map(|(d, t)| Step::Truncate(d, t)),
        1 => (place(), any::<u16>()).prop_map(|((d, t), ms)| Step::SetInterval(d, t, ms)),
        1 => db.clone().prop_map(Step::CreateUser),
        1 => (db.clone(), table.clone()).prop_map(|(u, t)| Step::Grant(u, t)),
        1 => db.clone().prop_map(Step::DropUser),
        1 => Just(Step::Checkpoint),
    ]
}

fn open_redb(fs: &SimFs) -> Meta {
    let on_fatal = Arc::new(|why: &str| panic!("fatal: {why}"));
    let store = RedbStore::open(Arc::new(fs.clone()), "/d/meta.redb", on_fatal).unwrap();
    begin(Arc::new(store))
}

/// All that a start reads, without ids that are only reserved.
fn state(meta: &Meta) -> (Arc<Catalog>, Vec<StoredTable>) {
    (meta.catalog(), meta.fold().tables())
}

/// Performs a step about users.
fn on_users(meta: &Meta, step: &Step) -> freshet_base::Result<String> {
    meta.change_users(|users| match step {
        Step::CreateUser(user) => {
            let auth = AuthData { native: Some([*user; 20]), ..AuthData::default() };
            let made = users.create_user(&Account::root(), &account(*user), auth, false);
            made.map(|_| "made".to_owned())
        }
        Step::Grant(user, table) => {
            let select = Privileges::NONE.with(Privilege::Select);
            let object = GrantObject::Table("d0".to_owned(), format!("t{table}"));
            users.grant(&account(*user), select, &object).map(|()| "granted".to_owned())
        }
        Step::DropUser(user) => {
            let dropped = users.drop_user(&Account::root(), &account(*user), true);
            dropped.map(|was| was.to_string())
        }
        other => unreachable!("{other:?} is about no user"),
    })
}

/// Performs a step; returns the result as text, so that two stores can be compared.
fn apply(meta: &Meta, step: &Step) -> String {
    let name = |db: u8| format!("d{db}");
    let table = |db: &u8, table: &u8| {
        let catalog = meta.catalog();
        catalog.table(&name(*db), &format!("t{table}")).cloned()
    };
    let words = |result: freshet_base::Result<String>| result.unwrap_or_else(|e| e.to_string());
    let alter =
        |table, change| meta.alter(table, &[change]).map(|schema| schema.version.to_string());
    match step {
        Step::CreateDatabase(db) => words(
            meta.create_database(&name(*db), None, None, false)
                .map(|made| made.object.id.to_string()),
        ),
        Step::CollateDatabase(db, bin) => {
            let collation = if *bin { Collation::Utf8mb4Bin } else { Collation::DEFAULT };
            words(meta.collate_database(&name(*db), collation).map(|()| "collated".to_owned()))
        }
        Step::DropDatabase(db) => match meta.catalog().database(&name(*db)) {
            Some(database) => meta.drop_database(database.id).to_string(),
            None => "none".to_owned(),
        },
        Step::CreateTable(db, table) => {
            let made = meta.create_table(&name(*db), &spec(&format!("t{table}")));
            words(made.map(|made| made.id.to_string()))
        }
        Step::DropTable(db, t) => match table(db, t) {
            Some(table) => meta.drop_table(table.id).to_string(),
            None => "none".to_owned(),
        },
        Step::Rename(db, t, to) => match table(db, t) {
            Some(table) => {
                words(meta.rename_table(table.id, &format!("t{to}")).map(|()| "renamed".to_owned()))
            }
            None => "none".to_owned(),
        },
        Step::AddColumn(db, t, c) => {
            let change = SchemaChange::AddColumn {
                column: ColumnSpec::new(format!("c{c}"), INT),
                place: ColumnPlace::Last,
            };
            table(db, t).map_or_else(String::new, |table| words(alter(table.id, change)))
        }
        Step::DropColumn(db, t, c) => {
            let change = SchemaChange::DropColumn { name: format!("c{c}") };
            table(db, t).map_or_else(String::new, |table| words(alter(table.id, change)))
        }
        Step::Flush { db, table: t, rows, stale } => {
            table(db, t).map_or_else(String::new, |table| flush(meta, &table, *rows, *stale))
        }
        Step::Compact(db, t) => table(db, t).map_or_else(String::new, |t| compact(meta, &t)),
        Step::Truncate(db, t) => table(db, t).map_or_else(String::new, |t| truncate(meta, &t)),
        Step::SetInterval(db, t, ms) => table(db, t).map_or_else(String::new, |table| {
            let pairs = [("group_commit_interval_ms".to_owned(), ms.to_string())];
            words(meta.set_properties(table.id, &pairs).map(|()| "set".to_owned()))
        }),
        Step::Checkpoint => words(meta.checkpoint().map(|()| "written".to_owned())),
        Step::CreateUser(_) | Step::Grant(..) | Step::DropUser(_) => words(on_users(meta, step)),
    }
}

fn account(user: u8) -> Account {
    Account::anywhere(format!("u{user}"))
}

fn flush(meta: &Meta, table: &freshet_schema::Table, rows: bool, stale: bool) -> String {
    let stands = meta.flushed(table.id).unwrap();
    let from = if stale { Lsn(stands.lsn.get() + 1) } else { stands.lsn };
    let to = Lsn(from.get() + 3);
    let tablet = table.tablets().next().unwrap();
    let id = meta.ids().rowset().unwrap();
    let rowsets = rows.then(|| rowset(id.get(), tablet, from.get() + 1, to.get()));
    let version = Version(stands.version.get() + 1);
    let rowsets = rowsets.into_iter().collect();
    let schema_version = table.schema().version;
    let publish =
        Publish { table: table.id, from, to, version, schema_version, rowsets, marks: None };
    let outcome = meta.publish(&publish);
    assert_eq!(outcome, !stale);
    outcome.to_string()
}

fn compact(meta: &Meta, table: &freshet_schema::Table) -> String {
    let tablet = table.tablets().next().unwrap();
    let old = meta.rowsets(tablet);
    let (Some(first), Some(last)) = (old.first(), old.last()) else { return "empty".to_owned() };
    let id = meta.ids().rowset().unwrap();
    let merged = rowset(id.get(), tablet, first.lsn_first.get(), last.lsn_last.get());
    let removed = old.iter().map(|rowset| rowset.id).collect();
    let added = merged.clone();
    assert!(meta.replace(&Replacement { table: table.id, tablet, removed, added, marks: None }));
    assert_eq!(meta.rowsets(tablet), [merged]);
    "merged".to_owned()
}

fn truncate(meta: &Meta, table: &freshet_schema::Table) -> String {
    let version = meta.flushed(table.id).unwrap().version;
    format!("{:?}", meta.truncate(table, version))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn both_stores_tell_the_same_before_and_after_a_reopen(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let memory: Arc<dyn MetaStore> = Arc::new(MemStore::new());
        let fs = SimFs::default();
        fs.make_dir(Path::new("/d")).unwrap();
        let (in_memory, in_file) = (begin(memory.clone()), open_redb(&fs));
        for step in &steps {
            prop_assert_eq!(apply(&in_memory, step), apply(&in_file, step), "{:?}", step);
        }
        let before = state(&in_memory);
        prop_assert_eq!(&before, &state(&in_file));
        // Power fails while the file is open: exactly the last checkpoint remains.
        let saved = in_file.saved();
        let after = fs.after_power_cut(1);
        prop_assert_eq!(&(saved.catalog.clone(), saved.tables()), &state(&open_redb(&after)));
        in_file.checkpoint().unwrap();
        in_memory.checkpoint().unwrap();
        let after = fs.after_power_cut(2);
        prop_assert_eq!(&before, &state(&open_redb(&after)));
        prop_assert_eq!(&before, &state(&begin(memory)));
        // Every rowset in the store belongs to a tablet of a table.
        let named = before.1.iter().map(|table| table.rowsets.len()).sum::<usize>();
        prop_assert_eq!(in_file.store.scan("/rowset/").unwrap().len(), named);
    }
}
