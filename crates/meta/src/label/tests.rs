use super::*;
use crate::test::TestClock;

const DB: DbId = DbId(1);

fn book(clock: &Arc<TestClock>, limits: LabelLimits) -> Arc<LabelRegistry> {
    let store = crate::store::MemStore::new();
    let book = LabelRegistry::load(&store, clock.clone()).unwrap();
    book.begin_term(Lsn(1), limits);
    Arc::new(book)
}

/// Appends at the current time of the log's clock.
fn append(claim: Claim, txn: TxnId, lsn: Lsn) {
    let log_micros = claim.book.clock.now_micros();
    claim.appended(txn, lsn, log_micros);
}

fn time(book: &LabelRegistry) -> LabelTime {
    LabelTime { wall_micros: book.wall.wall_micros(), log_micros: book.clock.now_micros() }
}

fn new(book: &Arc<LabelRegistry>, label: &str) -> Claim {
    match book.claim(DB, label, LabelKind::Statement).unwrap() {
        ClaimOutcome::New(claim) => claim,
        ClaimOutcome::Used(used) => panic!("{used:?}"),
    }
}

fn used(book: &Arc<LabelRegistry>, label: &str) -> UsedLabel {
    match book.claim(DB, label, LabelKind::Statement).unwrap() {
        ClaimOutcome::Used(used) => used,
        ClaimOutcome::New(claim) => panic!("{claim:?} is free"),
    }
}

#[test]
fn a_label_names_one_load_until_it_is_given_back() {
    let book = book(&Arc::default(), LabelLimits::default());
    let claim = new(&book, "a");
    let running = used(&book, "a");
    assert_eq!((running.state, running.txn, running.lsn), (LabelState::Running, None, None));
    drop(claim);
    append(new(&book, "a"), TxnId(8), Lsn(40));
    let visible = used(&book, "a");
    assert_eq!(visible.lsn, Some(Lsn(40)));
    let error = Error::from(visible);
    assert_eq!(
        error.message(),
        "Label [a] has already been used, relate to txn [8], status [VISIBLE]."
    );
    // Labels of other databases are independent.
    assert!(book.get(DbId(2), "a").is_none());
}

#[test]
fn a_label_that_is_none_is_refused() {
    let book = book(&Arc::default(), LabelLimits::default());
    for label in ["", "a b", "a/b", "\u{e4}", &"x".repeat(129)] {
        let error = book.claim(DB, label, LabelKind::Statement).unwrap_err();
        assert!(error.message().contains("^[-_A-Za-z0-9:]{1,128}$"), "{error}");
    }
    drop(new(&book, &"x".repeat(128)));
}

fn streaming(book: &Arc<LabelRegistry>, label: &str, lsn: u64) {
    let ClaimOutcome::New(claim) = book.claim(DB, label, LabelKind::Streaming).unwrap() else {
        panic!("{label} is free")
    };
    append(claim, TxnId(lsn), Lsn(lsn));
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn labels_are_forgotten_by_age() {
    let clock = Arc::<TestClock>::default();
    let book = book(&clock, LabelLimits::default());
    streaming(&book, "s", 1);
    append(new(&book, "a"), TxnId(2), Lsn(2));
    clock.advance(13 * HOUR);
    drop(new(&book, "s"));
    assert_eq!(used(&book, "a").txn, Some(TxnId(2)));
    clock.advance(4 * 24 * HOUR);
    drop(new(&book, "a"));
    assert!(book.finished(DB).is_empty());
}

#[test]
fn no_label_is_forgotten_for_another() {
    let clock = Arc::<TestClock>::default();
    let book = book(&clock, LabelLimits { finished_max: 4, ..LabelLimits::default() });
    for n in 0..3 {
        append(new(&book, &format!("a{n}")), TxnId(n), Lsn(n));
    }
    clock.advance(HOUR);
    // It was added last but expires first.
    streaming(&book, "s", 10);
    for (label, kind) in [("b", LabelKind::Statement), ("t", LabelKind::Streaming)] {
        let error = book.claim(DB, label, kind).unwrap_err();
        assert_eq!((error.code().errno(), error.retry()), (1041, Retry::After(12 * HOUR)));
        let said = error.message();
        assert!(said.contains("labels_max") && said.contains("free in 12h 0m"), "{said}");
    }
    for label in ["a0", "a1", "a2", "s"] {
        used(&book, label);
    }
    // Other databases have their own limit.
    book.claim(DbId(2), "b", LabelKind::Statement).unwrap();
    clock.advance(12 * HOUR);
    append(new(&book, "b"), TxnId(11), Lsn(11));
    used(&book, "a0");
    // Labels of running loads count as well.
    clock.advance(59 * HOUR);
    let running = (0..3).map(|n| new(&book, &format!("c{n}"))).collect::<Vec<_>>();
    assert!(book.claim(DB, "d", LabelKind::Statement).is_err());
    drop(running);
}

#[test]
fn a_clock_that_jumps_makes_no_label_forgotten_in_this_life_or_the_next() {
    let clock = Arc::<TestClock>::default();
    let store = crate::store::MemStore::new();
    let open = || Arc::new(LabelRegistry::load(&store, clock.clone()).unwrap());
    let first = open();
    streaming(&first, "saved", 1);
    let saving = first.save(Lsn(1));
    store.commit(saving.batch()).unwrap();
    first.saved(&saving);
    clock.advance(HOUR);
    let logged = time(&first);
    streaming(&first, "logged", 2);
    for years in [1000, -2000, 500] {
        clock.jump_wall(years * 365 * 24);
        used(&first, "saved");
        used(&first, "logged");
        // The next process knows only what the store and the log contain.
        let next = open();
        next.clock.has_shown(logged.log_micros);
        next.replayed(DB, "logged", LabelKind::Streaming, TxnId(2), Lsn(2), logged);
        used(&next, "saved");
        used(&next, "logged");
        clock.advance(HOUR);
    }
    clock.advance(8 * HOUR);
    drop(new(&first, "saved"));
    used(&first, "logged");
    clock.advance(HOUR);
    drop(new(&first, "logged"));
}

#[test]
fn loads_with_labels_are_limited() {
    let book = book(&Arc::default(), LabelLimits { running_max: 1, ..LabelLimits::default() });
    let claim = new(&book, "a");
    let error = book.claim(DB, "b", LabelKind::Statement).unwrap_err();
    assert!(error.message().contains("current running txns on db 1 is 1, larger than limit 1"));
    drop(claim);
    drop(new(&book, "b"));
}

#[test]
fn a_commit_saves_labels_up_to_its_lsn_and_removes_forgotten_ones() {
    let clock = Arc::<TestClock>::default();
    let book = book(&clock, LabelLimits::default());
    append(new(&book, "a"), TxnId(1), Lsn(1));
    clock.advance(HOUR);
    append(new(&book, "b"), TxnId(2), Lsn(2));
    let saving = book.save(Lsn(1));
    assert_eq!(saving.put.iter().map(|r| r.label.as_str()).collect::<Vec<_>>(), ["a"]);
    book.saved(&saving);
    assert_eq!(book.save(Lsn(2)).put.len(), 1, "what is saved is not saved again");
    // `a` is in the store and has expired.
    clock.advance(71 * HOUR);
    append(new(&book, "c"), TxnId(3), Lsn(3));
    append(new(&book, "d"), TxnId(4), Lsn(4));
    let saving = book.save(Lsn(4));
    assert_eq!(saving.delete, [(DB, "a".to_owned())]);
    assert_eq!(saving.put.len(), 3);
    book.saved(&saving);
    let saving = book.save(Lsn(4));
    assert!(saving.put.is_empty() && saving.delete.is_empty(), "{saving:?}");
}

#[test]
fn replay_brings_labels_back_and_refuses_none() {
    let book = book(&Arc::default(), LabelLimits::default());
    book.replayed(DB, "a", LabelKind::Statement, TxnId(1), Lsn(5), time(&book));
    book.replayed(DB, "a", LabelKind::Statement, TxnId(1), Lsn(5), time(&book));
    assert_eq!(book.finished(DB).len(), 1);
    // If an expired label was used again, the later record counts.
    book.replayed(DB, "a", LabelKind::Statement, TxnId(2), Lsn(6), time(&book));
    assert_eq!(used(&book, "a").txn, Some(TxnId(2)));
    assert_eq!(book.finished(DB).len(), 1);
}

#[test]
fn a_load_runs_until_its_record_is_durable() {
    let book = book(&Arc::default(), LabelLimits::default());
    append(new(&book, "a"), TxnId(8), Lsn(40));
    let record = book.finished(DB).remove(0);
    assert_eq!(record.state_at(Lsn(39)), LabelState::Running);
    assert_eq!(record.state_at(Lsn(40)), LabelState::Visible);
}

#[test]
fn a_label_is_kept_as_the_term_before_it_says() {
    let clock = Arc::<TestClock>::default();
    let store = crate::store::MemStore::new();
    let open = || LabelRegistry::load(&store, clock.clone()).unwrap();
    let limits = |hours: u32| LabelLimits { keep: hours * HOUR, ..LabelLimits::default() };
    let first = open();
    first.begin_term(Lsn(1), limits(1));
    first.begin_term(Lsn(10), limits(5));
    let log_micros = 7;
    let time = LabelTime { wall_micros: 0, log_micros };
    let expire_after = |book: &LabelRegistry| {
        let after = |label: &Arc<LabelRecord>| (label.expires_micros - log_micros) / 3_600_000_000;
        book.finished(DB).iter().map(after).collect::<Vec<_>>()
    };
    let replay = |book: &LabelRegistry, labels: &[u64]| {
        for lsn in labels {
            let label = format!("at-{lsn}");
            book.replayed(DB, &label, LabelKind::Statement, TxnId(*lsn), Lsn(*lsn), time);
        }
    };
    replay(&first, &[5, 15]);
    assert_eq!(expire_after(&first), [1, 5]);
    // The log is used again up to a label of the first term. What stands behind it is read again.
    let saving = first.save(Lsn(5));
    store.commit(saving.batch()).unwrap();
    first.saved(&saving);
    let next = open();
    replay(&next, &[7]);
    next.begin_term(Lsn(10), limits(5));
    replay(&next, &[15]);
    next.begin_term(Lsn(20), limits(9));
    replay(&next, &[25]);
    assert_eq!(expire_after(&next), [1, 1, 5, 9]);
    assert_eq!((first.limits(), next.limits()), (limits(5), limits(9)));
}
