use super::*;
use crate::test::{meta, rowset, spec};

fn table(meta: &Meta, name: &str) -> (TableId, TabletId) {
    meta.create_database("d", true).unwrap();
    let table = meta.create_table("d", &spec(name), false).unwrap().object;
    (table.id, table.tablets().next().unwrap())
}

fn publish(table: TableId, from: u64, to: u64, rowsets: Vec<RowsetMeta>) -> Publish {
    Publish { table, from: Lsn(from), to: Lsn(to), version: Version(to + 1), rowsets }
}

#[test]
fn a_flush_applies_only_where_the_table_stands() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    let first = publish(id, 0, 10, vec![rowset(1, tablet, 3, 10)]);
    assert_eq!(meta.publish(&first).unwrap(), PublishOutcome::Applied(()));
    // Retried after its answer was lost, or planned from an old place.
    assert_eq!(meta.publish(&first).unwrap(), PublishOutcome::Stale { stands: Lsn(10) });
    let gap = publish(id, 11, 20, vec![]);
    assert_eq!(meta.publish(&gap).unwrap(), PublishOutcome::Stale { stands: Lsn(10) });
    let gone = publish(TableId(999), 0, 10, vec![]);
    assert_eq!(meta.publish(&gone).unwrap(), PublishOutcome::Gone);
    assert_eq!(meta.rowsets(tablet).unwrap(), [rowset(1, tablet, 3, 10)]);
    let flushed = meta.flushed(id).unwrap().unwrap();
    assert_eq!((flushed.lsn, flushed.version), (Lsn(10), Version(11)));
}

#[test]
fn flushes_published_together_stand_each_for_itself() {
    let meta = meta();
    let ((a, in_a), (b, in_b)) = (table(&meta, "a"), table(&meta, "b"));
    let outcomes = meta.publish_all(&[
        publish(a, 5, 9, vec![rowset(1, in_a, 6, 9)]),
        publish(b, 0, 9, vec![rowset(2, in_b, 1, 9)]),
    ]);
    let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap()).collect::<Vec<_>>();
    assert_eq!(outcomes, [PublishOutcome::Stale { stands: Lsn(0) }, PublishOutcome::Applied(())]);
    assert!(meta.rowsets(in_a).unwrap().is_empty());
    let tables = meta.tables_on_open().unwrap();
    assert_eq!(tables.len(), 2);
    assert_eq!(tables[1].rowsets, [rowset(2, in_b, 1, 9)]);
    assert_eq!(tables[1].flushed.lsn, Lsn(9));
}

#[test]
#[should_panic(expected = "writes rows of that range")]
fn a_flush_with_rows_of_another_range_is_a_broken_invariant() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    let _ = meta.publish(&publish(id, 0, 10, vec![rowset(1, tablet, 3, 11)]));
}

#[test]
fn a_compaction_replaces_adjacent_rowsets_or_nothing() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    let parts = [(1, 1, 5), (2, 6, 8), (3, 9, 9)].map(|(n, from, to)| rowset(n, tablet, from, to));
    meta.publish(&publish(id, 0, 9, parts.to_vec())).unwrap();
    let merged = rowset(9, tablet, 1, 8);
    let replace = |old: &[RowsetMeta], new: &RowsetMeta| {
        meta.replace_rowsets(id, tablet, old, std::slice::from_ref(new)).unwrap()
    };
    assert!(!replace(&[parts[0].clone(), parts[2].clone()], &rowset(9, tablet, 1, 9)));
    assert!(replace(&parts[..2], &merged));
    assert!(!replace(&parts[..2], &rowset(10, tablet, 1, 8)), "its inputs are gone");
    assert_eq!(meta.rowsets(tablet).unwrap(), [merged, parts[2].clone()]);
    // A flush is not disturbed by a compaction before it.
    let next = publish(id, 9, 12, vec![rowset(4, tablet, 10, 12)]);
    assert_eq!(meta.publish(&next).unwrap(), PublishOutcome::Applied(()));
}

#[test]
fn a_truncate_swaps_tablets_where_the_table_stands() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    meta.publish(&publish(id, 0, 9, vec![rowset(1, tablet, 1, 9)])).unwrap();
    let partition = meta.catalog().table_by_id(id).unwrap().partitions[0].id;
    let truncate = Truncate {
        table: id,
        from: Lsn(9),
        to: Lsn(20),
        version: Version(12),
        incarnations: vec![(partition, Incarnation(2))],
    };
    let PublishOutcome::Applied(truncated) = meta.truncate(&truncate).unwrap() else {
        panic!("the table stands at 9")
    };
    assert_eq!(truncated.old_tablets, [tablet]);
    let new = truncated.table.tablets().next().unwrap();
    assert_ne!(new, tablet);
    assert_eq!(meta.catalog().table_by_id(id), Some(&truncated.table));
    assert_eq!(truncated.table.partitions[0].incarnation, Incarnation(2));
    assert!(meta.rowsets(tablet).unwrap().is_empty());
    // Retried, it does not remove what was flushed after it.
    meta.publish(&publish(id, 20, 30, vec![rowset(2, new, 21, 30)])).unwrap();
    assert_eq!(meta.truncate(&truncate).unwrap(), PublishOutcome::Stale { stands: Lsn(30) });
    assert_eq!(meta.rowsets(new).unwrap().len(), 1);
    // A flush of the dead incarnation that comes late finds the table elsewhere.
    let late = publish(id, 9, 19, vec![rowset(3, tablet, 10, 19)]);
    assert_eq!(meta.publish(&late).unwrap(), PublishOutcome::Stale { stands: Lsn(30) });
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_drop_between_flushes_and_compactions_leaves_no_rowset() {
    let meta = Arc::new(meta());
    for round in 0..20 {
        let (id, tablet) = table(&meta, &format!("t{round}"));
        let writer = meta.clone();
        let thread = std::thread::spawn(move || {
            for n in 1.. {
                let one = rowset(2 * n, tablet, n, n);
                let flush = publish(id, n - 1, n, vec![one.clone()]);
                if writer.publish(&flush).unwrap() == PublishOutcome::Gone {
                    return;
                }
                let merged = rowset(2 * n + 1, tablet, n, n);
                writer.replace_rowsets(id, tablet, &[one], &[merged]).unwrap();
            }
        });
        while meta.rowsets(tablet).unwrap().len() < 5 {
            std::thread::yield_now();
        }
        meta.drop_table(id).unwrap();
        thread.join().unwrap();
        assert!(meta.rowsets(tablet).unwrap().is_empty());
    }
}
