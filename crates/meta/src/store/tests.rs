use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use freshet_base::io::{Fs, FsRef, RealFs};
use freshet_testkit::{Faults, SimFs};
use proptest::prelude::*;

use super::*;

const PATH: &str = "/d/meta.redb";
const ROOM_BYTES: u64 = 128 << 20;

fn disk() -> SimFs {
    let fs = SimFs::default();
    fs.make_dir(Path::new("/d")).unwrap();
    fs
}

fn put(key: &str, value: &str) -> Batch {
    Batch { put: vec![(key.to_owned(), value.as_bytes().to_vec())], ..Batch::default() }
}

fn get(store: &dyn MetaStore, key: &str) -> Option<String> {
    store.get(key).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

fn never() -> OnFatal {
    Arc::new(|why| panic!("fatal: {why}"))
}

fn open(fs: &SimFs) -> RedbStore {
    let fs: FsRef = Arc::new(fs.clone());
    RedbStore::open(fs, PATH, never()).unwrap()
}

fn check_store(store: &dyn MetaStore) {
    let mut batch = put("/a/1", "one");
    batch.append(put("/a/2", "two"));
    batch.append(put("/b/1", "three"));
    store.commit(batch).unwrap();
    let keys = store.scan("/a/").unwrap().into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(keys, ["/a/1", "/a/2"]);

    let mut conflicting = put("/a/1", "changed");
    conflicting.delete.push("/a/2".to_owned());
    conflicting.expect.push(("/b/1".to_owned(), None));
    assert!(
        matches!(store.commit(conflicting.clone()), Err(StoreError::Conflict(key)) if key == "/b/1")
    );
    assert_eq!(get(store, "/a/1").as_deref(), Some("one"));
    assert_eq!(get(store, "/a/2").as_deref(), Some("two"));

    // Batches committed together succeed or fail independently, and see the effects of earlier
    // ones.
    let mut after = put("/c", "seen");
    after.expect.push(("/b/1".to_owned(), Some(b"four".to_vec())));
    let results = store.commit_all(&[conflicting, put("/b/1", "four"), after]);
    assert!(results[0].is_err() && results[1].is_ok() && results[2].is_ok());
    assert_eq!(get(store, "/c").as_deref(), Some("seen"));
    store
        .commit(Batch { delete: vec!["/a/1".into(), "/none".into()], ..Batch::default() })
        .unwrap();
    assert_eq!(get(store, "/a/1"), None);
}

#[test]
fn stores_apply_batches_whole_or_not_at_all() {
    check_store(&MemStore::new());
    check_store(&open(&disk()));
}

#[test]
fn a_store_on_the_file_system_of_the_machine_opens_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("meta.redb");
    let fs: FsRef = Arc::new(RealFs);
    let store = RedbStore::open(fs.clone(), path.clone(), never()).unwrap();
    store.commit(put("/a", "b")).unwrap();
    drop(store);
    let store = RedbStore::open(fs, path, never()).unwrap();
    assert_eq!(get(&store, "/a").as_deref(), Some("b"));
}

#[test]
#[allow(clippy::disallowed_methods)]
fn commits_of_many_threads_all_get_their_own_answer() {
    let store = Arc::new(open(&disk()));
    let threads = [0, 1, 2, 3].map(|thread| {
        let store = store.clone();
        std::thread::spawn(move || {
            for n in 0..50 {
                let key = format!("/{thread}/{n}");
                let mut batch = put(&key, "x");
                batch.expect.push((key.clone(), None));
                store.commit(batch.clone()).unwrap();
                assert!(matches!(store.commit(batch), Err(StoreError::Conflict(_))));
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(store.scan("/").unwrap().len(), 200);
}

#[test]
fn a_full_disk_is_an_error_and_the_store_goes_on() {
    let fs = disk();
    let store = open(&fs);
    store.commit(put("/kept", "yes")).unwrap();
    fs.set_capacity_bytes(fs.used_bytes());
    let large = "x".repeat(1 << 20);
    let mut refused = None;
    for n in 0..64 {
        if let Err(error) = store.commit(put(&format!("/large/{n}"), &large)) {
            refused = Some((n, error));
            break;
        }
    }
    let (n, error) = refused.expect("the disk is full");
    assert!(matches!(error, StoreError::DiskFull(_)), "{error}");
    assert_eq!(get(&store, "/kept").as_deref(), Some("yes"));
    assert_eq!(get(&store, &format!("/large/{n}")), None);
    // Small changes fit into the file, and once there is space, large ones succeed again.
    store.commit(put("/small", "fits")).unwrap();
    fs.set_capacity_bytes(ROOM_BYTES);
    store.commit(put(&format!("/large/{n}"), &large)).unwrap();
    drop(store);
    let store = open(&fs);
    assert_eq!(get(&store, "/small").as_deref(), Some("fits"));
    assert_eq!(get(&store, &format!("/large/{n}")).map(|text| text.len()), Some(1 << 20));
}

#[test]
fn a_failed_sync_is_fatal() {
    let fs = disk();
    let fatal = Arc::new(AtomicBool::new(false));
    let told = fatal.clone();
    let on_fatal: OnFatal = Arc::new(move |_| told.store(true, Ordering::Relaxed));
    let store = RedbStore::open(Arc::new(fs.clone()), PATH, on_fatal).unwrap();
    store.commit(put("/a", "b")).unwrap();
    assert!(!fatal.load(Ordering::Relaxed));
    fs.set_faults(Faults { failing_syncs: 1, ..Faults::default() });
    assert!(store.commit(put("/a", "c")).is_err());
    assert!(fatal.load(Ordering::Relaxed));
}

#[test]
fn a_file_that_is_no_database_is_named() {
    let fs = disk();
    let fs: FsRef = Arc::new(fs);
    fs.write_atomic(Path::new(PATH), &[7; 10_000]).unwrap();
    let error = RedbStore::open(fs, PATH, never()).unwrap_err();
    assert!(error.to_string().contains(PATH), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Power fails in the middle of a commit. The store then contains all earlier commits, and
    /// either all or nothing of that one, whichever sectors survive.
    #[test]
    fn what_was_committed_survives_a_power_cut(
        sizes in prop::collection::vec(0usize..20_000, 1..30),
        crash_in_calls in 1u64..400,
        seed in any::<u64>(),
    ) {
        let fs = disk();
        let store = RedbStore::open(Arc::new(fs.clone()), PATH, Arc::new(|_| {})).unwrap();
        fs.set_faults(Faults { crash_in_calls, ..Faults::default() });
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        for (n, size) in sizes.iter().enumerate() {
            let (key, value) = (format!("/{:02}", n % 7), "v".repeat(*size) + &n.to_string());
            before = after.clone();
            after.insert(key.clone(), value.clone().into_bytes());
            if store.commit(put(&key, &value)).is_err() {
                break;
            }
            before.clone_from(&after);
        }
        let reopened = open(&fs.after_power_cut(seed));
        let stands = reopened.scan("/").unwrap().into_iter().collect::<BTreeMap<_, _>>();
        prop_assert!(stands == after || stands == before);
        reopened.commit(put("/again", "works")).unwrap();
    }
}
