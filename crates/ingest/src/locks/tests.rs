use std::time::Duration;

use freshet_base::clock::SystemClock;
use freshet_base::{ErrorCode, TableId};
use futures::FutureExt;
use futures::executor::block_on;

use super::*;

const OF: (TableId, usize) = (TableId(7), PRIMARY);

fn rows(keys: &[&str]) -> KeyedRows {
    KeyedRows::of_keys(keys.iter().map(|key| key.as_bytes()))
}

/// Holds keys, which have to be free or its own; an error where it would have to wait.
fn hold(owner: &LockOwner, hold: Hold, keys: &[&str]) -> Result<()> {
    let clock = SystemClock::new();
    let deadline = Deadline::after(&clock, Duration::ZERO);
    block_on(owner.hold(hold, OF, &rows(keys), &clock, deadline))
}

fn code(done: Result<()>) -> Option<ErrorCode> {
    done.err().map(|error| error.code())
}

fn owners<const N: usize>(all: &Arc<KeyLocks>) -> [LockOwner; N] {
    std::array::from_fn(|_| LockOwner::new(all, 0))
}

#[test]
fn who_shares_a_key_does_not_wait_and_who_wants_it_alone_waits_for_all() {
    let all = Arc::new(KeyLocks::default());
    let [first, second, writer] = owners(&all);
    hold(&first, Hold::Shared, &["a"]).unwrap();
    hold(&second, Hold::Shared, &["a", "b"]).unwrap();
    assert!(all.others_hold(OF, &rows(&["a"]), Some(&first)));
    assert_eq!(code(hold(&writer, Hold::Alone, &["a"])), Some(ErrorCode::LockWaitTimeout));
    drop(first);
    assert!(!all.others_hold(OF, &rows(&["a"]), Some(&second)));
    assert!(!writer.lock_free(Hold::Alone, OF, b"a").unwrap());
    drop(second);
    hold(&writer, Hold::Alone, &["a", "b"]).unwrap();
    let [reader] = owners(&all);
    assert!(!reader.lock_free(Hold::Shared, OF, b"a").unwrap());
    drop(writer);
    assert_eq!(all.held(), 0);
}

#[test]
fn a_share_becomes_a_lock_once_the_others_are_gone() {
    let all = Arc::new(KeyLocks::default());
    let [first, second, third] = owners(&all);
    hold(&first, Hold::Shared, &["a"]).unwrap();
    hold(&first, Hold::Alone, &["a"]).unwrap();
    assert!(!second.lock_free(Hold::Shared, OF, b"a").unwrap());
    drop(first);
    hold(&second, Hold::Shared, &["a"]).unwrap();
    hold(&third, Hold::Shared, &["a"]).unwrap();
    let clock = SystemClock::new();
    let deadline = Deadline::after(&clock, Duration::from_secs(60));
    let wanted = rows(&["a"]);
    let mut becomes = Box::pin(second.lock(OF, &wanted, &clock, deadline));
    assert!(becomes.as_mut().now_or_never().is_none());
    // Both would wait for the share of the other.
    assert_eq!(code(hold(&third, Hold::Alone, &["a"])), Some(ErrorCode::Deadlock));
    drop(third);
    block_on(becomes).unwrap();
    assert!(!owners::<1>(&all)[0].lock_free(Hold::Shared, OF, b"a").unwrap());
    drop(second);
    assert_eq!(all.held(), 0);
}

#[test]
fn who_shares_does_not_pass_by_a_writer_that_waits() {
    let all = Arc::new(KeyLocks::default());
    let [reader, writer, late, later] = owners(&all);
    hold(&reader, Hold::Shared, &["a"]).unwrap();
    let clock = SystemClock::new();
    let deadline = Deadline::after(&clock, Duration::from_secs(60));
    let wanted = rows(&["a"]);
    let mut writes = Box::pin(writer.lock(OF, &wanted, &clock, deadline));
    assert!(writes.as_mut().now_or_never().is_none());
    let mut reads = Box::pin(late.hold(Hold::Shared, OF, &wanted, &clock, deadline));
    let mut too = Box::pin(later.hold(Hold::Shared, OF, &wanted, &clock, deadline));
    assert!(reads.as_mut().now_or_never().is_none());
    assert!(too.as_mut().now_or_never().is_none());
    // The writer gives up: those behind it share the key at once.
    drop(writes);
    assert!(reads.as_mut().now_or_never().is_some());
    assert!(too.as_mut().now_or_never().is_some());
    drop((reads, too));
    drop((reader, late, later));
    assert_eq!(all.held(), 0);
}

#[test]
fn a_circle_is_found_behind_any_of_those_that_share() {
    let all = Arc::new(KeyLocks::default());
    let [first, second, writer] = owners(&all);
    hold(&writer, Hold::Alone, &["w"]).unwrap();
    hold(&first, Hold::Shared, &["a"]).unwrap();
    hold(&second, Hold::Shared, &["a"]).unwrap();
    let clock = SystemClock::new();
    let deadline = Deadline::after(&clock, Duration::from_secs(60));
    let (a, w) = (rows(&["a"]), rows(&["w"]));
    let mut writes = Box::pin(writer.lock(OF, &a, &clock, deadline));
    assert!(writes.as_mut().now_or_never().is_none());
    assert_eq!(code(hold(&second, Hold::Shared, &["w"])), Some(ErrorCode::Deadlock));
    drop(second);
    assert!(writes.as_mut().now_or_never().is_none());
    let mut waits = Box::pin(first.hold(Hold::Shared, OF, &w, &clock, deadline));
    assert_eq!(code(waits.as_mut().now_or_never().unwrap()), Some(ErrorCode::Deadlock));
    drop(waits);
    drop(first);
    block_on(writes).unwrap();
    drop(writer);
    assert_eq!(all.held(), 0);
}

/// Everything that owners may do, in an order of its own: what they hold is what they were told.
#[test]
fn whatever_owners_do_nobody_holds_beside_one_who_holds_alone() {
    let keys = ["a", "b", "c"];
    for seed in 1..=200_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut dice = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % sides
        };
        let all = Arc::new(KeyLocks::default());
        let mut owners = owners::<4>(&all);
        let mut told = [[None; 3]; 4];
        for _ in 0..100 {
            let (who, at) = (dice(4) as usize, dice(3) as usize);
            if dice(6) == 0 {
                owners[who] = LockOwner::new(&all, 0);
                told[who] = [None; 3];
                continue;
            }
            let wanted = if dice(2) == 0 { Hold::Shared } else { Hold::Alone };
            let others = (0..4).filter(|other| *other != who);
            let mut others = others.filter_map(|other| told[other][at]);
            let may = match wanted {
                Hold::Shared if told[who][at] == Some(Hold::Alone) => true,
                Hold::Shared => others.all(|hold| hold == Hold::Shared),
                Hold::Alone => others.next().is_none(),
            };
            let has = hold(&owners[who], wanted, &[keys[at]]);
            assert_eq!(has.is_ok(), may, "seed {seed}");
            if may && told[who][at] != Some(Hold::Alone) {
                told[who][at] = Some(wanted);
            }
        }
        drop(owners);
        assert_eq!(all.held(), 0, "seed {seed}");
    }
}

#[test]
fn taken_is_what_others_hold_or_wait_for() {
    let all = Arc::new(KeyLocks::default());
    let [reader, writer, other] = owners(&all);
    hold(&reader, Hold::Shared, &["a"]).unwrap();
    hold(&writer, Hold::Alone, &["b"]).unwrap();
    let taken = |owner: &LockOwner, hold| {
        let mut taken = owner.taken(hold, OF);
        taken.sort();
        taken.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<String>()
    };
    assert_eq!(
        (taken(&other, Hold::Alone), taken(&other, Hold::Shared)),
        ("ab".into(), "b".into())
    );
    assert_eq!(
        (taken(&reader, Hold::Alone), taken(&writer, Hold::Alone)),
        ("b".into(), "a".into())
    );
    assert_eq!(other.taken(Hold::Alone, (TableId(8), PRIMARY)), Vec::<Box<[u8]>>::new());
    let (clock, a) = (SystemClock::new(), rows(&["a"]));
    let deadline = Deadline::after(&clock, Duration::from_secs(60));
    let waits = writer.hold(Hold::Alone, OF, &a, &clock, deadline);
    let mut waits = std::pin::pin!(waits);
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(taken(&other, Hold::Shared), "ab", "nobody passes by who waits");
}

#[test]
fn who_waits_for_whom_is_told_by_connections() {
    let all = Arc::new(KeyLocks::default());
    let [first, second, writer] = [11, 12, 13].map(|connection| LockOwner::new(&all, connection));
    hold(&first, Hold::Shared, &["a"]).unwrap();
    hold(&second, Hold::Shared, &["a"]).unwrap();
    assert_eq!(all.waits(), []);
    let clock = SystemClock::new();
    let deadline = Deadline::after(&clock, Duration::from_secs(3600));
    let wanted = rows(&["a"]);
    let mut waiting = Box::pin(writer.hold(Hold::Alone, OF, &wanted, &clock, deadline));
    assert!(waiting.as_mut().now_or_never().is_none());
    let mut told = all.waits();
    told.sort_by_key(|wait| wait.blocking);
    let wait = |blocking| LockWait {
        table: OF.0,
        key: PRIMARY,
        waiting: 13,
        shares: false,
        blocking,
        is_shared: true,
    };
    assert_eq!(told, [wait(11), wait(12)]);
    drop((first, second));
    assert_eq!(all.waits(), []);
    drop(waiting);
    assert_eq!(all.waits(), []);
}
