use freshet_base::{ColumnId, Lsn, PartitionId};
use freshet_meta::LabelKind;
use freshet_schema::{
    Column, ColumnType, Partition, PartitionBy, PartitionMethod, PartitionValues,
};
use proptest::prelude::*;

use super::*;

fn part(payload: &mut Vec<u8>, table: u64, rowsets: bool, rows: u32, bytes: &[u8]) {
    let at = payload.len();
    payload.resize(at + PART_HEAD_BYTES, 0);
    payload.extend_from_slice(bytes);
    let len = u32::try_from(bytes.len()).unwrap();
    let head = &mut payload[at..at + PART_HEAD_BYTES];
    let (table, schema_version, removals) = (TableId(table), SchemaVersion(3), rows / 2);
    PartHead { table, rowsets, schema_version, rows, removals, len }.write(head);
}

fn stamp_of(table: u64, ends_with: Option<Version>) -> PartStamp {
    PartStamp {
        table: TableId(table),
        partition: PartitionId(table + 1),
        incarnation: Incarnation(2),
        txn: TxnId(77),
        ends_with,
        ended: Some(TxnId(table)).filter(|txn| txn.get() % 2 == 1),
    }
}

fn signed_label() -> SignedLabel<'static> {
    let (db, kind, text) = (DbId(4), LabelKind::Statement, "overwritten");
    SignedLabel { label: Label { db, kind, wall_micros: 17, known: None, text }, txn: TxnId(12) }
}

#[test]
fn a_load_of_two_tables_with_a_label_comes_back() {
    let mut payload = Vec::new();
    part(&mut payload, 5, false, 2, b"rows");
    part(&mut payload, 6, true, 9, b"rowsets");
    let kind = LabelKind::Streaming;
    let my_label =
        Label { db: DbId(4), kind, wall_micros: 17, known: Some(TxnId(6)), text: "my_label" };
    write_label(&mut payload, &my_label);
    let mut stamp = 2u16.to_le_bytes().to_vec();
    let stamps = [stamp_of(5, None), stamp_of(6, Some(Version(8)))];
    for part in &stamps {
        write_part_stamp(&mut stamp, part);
    }
    assert_eq!(stamped_tables(1, &stamp), [TableId(5), TableId(6)]);
    let Record::Load { parts, label } = decode(1, &stamp, &payload).unwrap() else { panic!() };
    assert_eq!(label, Some(my_label));
    assert_eq!(parts[0].0, stamps[0]);
    assert_eq!(parts[0].1.body, Body::Rows(b"rows"));
    assert_eq!(parts[1].0, stamps[1]);
    assert_eq!(parts[1].1.body, Body::Rowsets(b"rowsets"));
    assert_eq!((parts[1].1.rows, parts[1].1.schema_version), (9, SchemaVersion(3)));
    assert_eq!((parts[0].1.removals, parts[1].1.removals), (1, 4));
}

/// One of each kind.
fn bodies() -> Vec<BarrierBody> {
    let column = Column::new(ColumnId(1), "a", ColumnType::Text);
    let schema = TableSchema::new(SchemaVersion(5), vec![column], Vec::new());
    let tablets = vec![vec![TabletId(8), TabletId(9)]];
    let by = PartitionBy {
        method: PartitionMethod::List,
        columns: vec![ColumnId(1)],
        function: None,
        computed: None,
        has_columns_word: false,
        auto: None,
    };
    let partition = Partition {
        id: PartitionId(3),
        name: "p".to_owned(),
        incarnation: Incarnation(1),
        tablets: vec![TabletId(8)],
        values: Some(PartitionValues::List(vec![vec![vec![0]]])),
    };
    let (partitions, removed) = (vec![partition.clone()], vec![partition]);
    let change = Repartition { removed, ..Repartition::of(by, partitions) };
    let (rests_micros, forgotten) = (Some(12), vec![PartitionId(2)]);
    let resting = Repartition { rests_micros, forgotten, ..change.clone() };
    vec![
        BarrierBody::Truncate(tablets.clone()),
        BarrierBody::Empty(tablets),
        BarrierBody::Alter(Arc::new(schema)),
        BarrierBody::Divide(vec![change]),
        BarrierBody::Divide(vec![resting]),
        BarrierBody::Drop,
    ]
}

#[test]
fn ends_and_barriers_come_back() {
    let end = EndStamp { table: TableId(1), txn: TxnId(2), version: Version(3), reason: 1 };
    let mut stamp = Vec::new();
    write_end_stamp(&mut stamp, &end);
    assert_eq!(decode(2, &stamp, &[]).unwrap(), Record::GroupEnd(end));

    let barrier = BarrierStamp {
        table: TableId(1),
        incarnation: Incarnation(4),
        schema_version: SchemaVersion(5),
        ended: Some(TxnId(6)),
        version: Version(7),
    };
    let mut stamp = 1u16.to_le_bytes().to_vec();
    write_barrier_stamp(&mut stamp, &barrier);
    assert_eq!(stamped_tables(3, &stamp), [TableId(1)]);
    let overwritten = signed_label();
    for body in bodies() {
        let payload = body.encode();
        for label in [None, Some(overwritten)] {
            let signed = label.map_or(payload.clone(), |label| labelled(&label, &payload));
            let (body, tables) = (body.clone(), vec![barrier]);
            let expected = Record::Barrier { body, tables, label };
            assert_eq!(decode(3, &stamp, &signed).unwrap(), expected);
        }
    }
    assert!(decode(3, &stamp, &[1, 2, 0, 0, 0, 8]).is_err(), "it ends too early");

    let mut stamp = Vec::new();
    write_database_stamp(&mut stamp, DbId(9));
    assert_eq!(decode(5, &stamp, &[]).unwrap(), Record::DatabaseDrop(DbId(9)));

    for label in [None, Some("l-1".to_owned())] {
        let (below, kept) = (Lsn(300), vec![TxnId(7), TxnId(8)]);
        let cleaned = CleanedLabels { db: DbId(9), label, below, kept };
        let payload = labels_payload(&cleaned);
        assert_eq!(decode(8, &stamp, &payload).unwrap(), Record::Labels(cleaned));
    }
    assert!(decode(8, &stamp, &[0; 11]).is_err(), "it ends too early");

    let file = MetadataBody::File { checksum: 77, name: "7.event" };
    for body in [MetadataBody::Inline(b"event"), file] {
        let (payload, label) = (metadata_payload(body), Some(signed_label()));
        let plain = Record::Metadata { body, label: None };
        assert_eq!(decode(6, &[], &payload).unwrap(), plain);
        let signed = labelled(&signed_label(), &payload);
        assert_eq!(decode(6, &[], &signed).unwrap(), Record::Metadata { body, label });
        assert_eq!(signed[0], 9, "what older servers refuse");
        assert!(decode(6, &[], &signed[..30]).is_err(), "it ends too early");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(
        kind in 0u8..8,
        stamp in proptest::collection::vec(any::<u8>(), 0..80),
        payload in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let _ = decode(kind, &stamp, &payload);
    }
}
