use super::*;
use crate::test::TestClock;

const DB: DbId = DbId(1);

fn book(clock: &Arc<TestClock>, limits: LabelLimits) -> Arc<LabelBook> {
    let store = crate::store::MemStore::new();
    Arc::new(LabelBook::load(&store, limits, clock.clone()).unwrap())
}

fn new(book: &Arc<LabelBook>, label: &str) -> Claim {
    match book.claim(DB, label, LabelKind::Statement, None).unwrap() {
        ClaimOutcome::New(claim) => claim,
        ClaimOutcome::Used(used) => panic!("{used:?}"),
    }
}

fn used(book: &Arc<LabelBook>, label: &str) -> UsedLabel {
    match book.claim(DB, label, LabelKind::Statement, None).unwrap() {
        ClaimOutcome::Used(used) => used,
        ClaimOutcome::New(claim) => panic!("{claim:?} is free"),
    }
}

#[test]
fn a_label_names_one_load_until_it_is_given_back() {
    let book = book(&Arc::default(), LabelLimits::default());
    let claim = new(&book, "a");
    claim.set_txn(TxnId(7));
    let running = used(&book, "a");
    assert_eq!(
        (running.state, running.txn, running.lsn),
        (LabelState::Running, Some(TxnId(7)), None)
    );
    drop(claim);
    new(&book, "a").appended(TxnId(8), Lsn(40));
    let visible = used(&book, "a");
    assert_eq!(visible.lsn, Some(Lsn(40)));
    let error = Error::from(visible);
    assert_eq!(
        error.message(),
        "Label [a] has already been used, relate to txn [8], status [VISIBLE]."
    );
    // Another database has labels of its own.
    assert!(book.get(DbId(2), "a").is_none());
}

#[test]
fn a_label_that_is_none_is_refused() {
    let book = book(&Arc::default(), LabelLimits::default());
    for label in ["", "a b", "a/b", "\u{e4}", &"x".repeat(129)] {
        let error = book.claim(DB, label, LabelKind::Statement, None).unwrap_err();
        assert!(error.message().contains("^[-_A-Za-z0-9:]{1,128}$"), "{error}");
    }
    drop(new(&book, &"x".repeat(128)));
}

#[test]
fn labels_are_forgotten_by_age_and_by_number() {
    let clock = Arc::<TestClock>::default();
    let limits = LabelLimits { finished_max: 3, ..LabelLimits::default() };
    let book = book(&clock, limits);
    let streaming = book.claim(DB, "s", LabelKind::Streaming, None).unwrap();
    let ClaimOutcome::New(streaming) = streaming else { panic!("it is free") };
    streaming.appended(TxnId(1), Lsn(1));
    new(&book, "a").appended(TxnId(2), Lsn(2));
    clock.advance(Duration::from_secs(13 * 3600));
    drop(new(&book, "s"));
    assert_eq!(used(&book, "a").txn, Some(TxnId(2)));
    for n in 0..3 {
        new(&book, &format!("b{n}")).appended(TxnId(10 + n), Lsn(10 + n));
    }
    drop(new(&book, "a"));
    assert_eq!(book.finished(DB).len(), 3);
    clock.advance(Duration::from_secs(4 * 24 * 3600));
    drop(new(&book, "b2"));
    assert!(book.finished(DB).is_empty());
}

#[test]
fn loads_with_labels_are_limited() {
    let book = book(&Arc::default(), LabelLimits { running_max: 1, ..LabelLimits::default() });
    let claim = new(&book, "a");
    let error = book.claim(DB, "b", LabelKind::Statement, None).unwrap_err();
    assert!(error.message().contains("current running txns on db 1 is 1, larger than limit 1"));
    drop(claim);
    drop(new(&book, "b"));
}

#[test]
fn a_commit_saves_labels_up_to_its_lsn_and_removes_forgotten_ones() {
    let clock = Arc::<TestClock>::default();
    let book = book(&clock, LabelLimits { finished_max: 2, ..LabelLimits::default() });
    new(&book, "a").appended(TxnId(1), Lsn(1));
    new(&book, "b").appended(TxnId(2), Lsn(2));
    let saving = book.save(Lsn(1));
    assert_eq!(saving.put.iter().map(|r| r.label.as_str()).collect::<Vec<_>>(), ["a"]);
    book.saved(&saving);
    assert_eq!(book.save(Lsn(2)).put.len(), 1, "what is saved is not saved again");
    // `a` is in the store and is forgotten; `b` was never there.
    new(&book, "c").appended(TxnId(3), Lsn(3));
    new(&book, "d").appended(TxnId(4), Lsn(4));
    let saving = book.save(Lsn(4));
    assert_eq!(saving.delete, [(DB, "a".to_owned())]);
    assert_eq!(saving.put.len(), 2);
    book.saved(&saving);
    assert!(book.save(Lsn(4)).batch().is_empty());
}

#[test]
fn replay_brings_labels_back_and_refuses_none() {
    let book = book(&Arc::default(), LabelLimits::default());
    book.replayed(DB, "a", LabelKind::Statement, TxnId(1), Lsn(5), 0);
    book.replayed(DB, "a", LabelKind::Statement, TxnId(1), Lsn(5), 0);
    assert_eq!(book.finished(DB).len(), 1);
    // A label that was forgotten and used again: the later record counts.
    book.replayed(DB, "a", LabelKind::Statement, TxnId(2), Lsn(6), 0);
    assert_eq!(used(&book, "a").txn, Some(TxnId(2)));
    assert_eq!(book.finished(DB).len(), 1);
}

#[test]
fn a_load_runs_until_its_record_is_durable() {
    let book = book(&Arc::default(), LabelLimits::default());
    new(&book, "a").appended(TxnId(8), Lsn(40));
    let record = book.finished(DB).remove(0);
    assert_eq!(record.state_at(Lsn(39)), LabelState::Running);
    assert_eq!(record.state_at(Lsn(40)), LabelState::Visible);
}
