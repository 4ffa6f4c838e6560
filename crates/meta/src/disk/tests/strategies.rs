//! Any values of the types that have forms.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{
    BatchIndex, ColumnId, DbId, Incarnation, LogPosition, Lsn, PartitionId, RowsetId,
    SchemaVersion, SegmentId, TableId, TabletId, Term, TxnId, Version,
};
use freshet_schema::{
    AutoPartition, Collation, Column, ColumnType, DeclaredKey, DeclaredKeyKind, DefaultValue,
    Distribution, GlobalIndex, GroupCommitMode, KeyForm, KeyModel, LengthUnit, LobSize, Partition,
    PartitionBy, PartitionExpr, PartitionMethod, PartitionValues, Placement, Properties,
    SchemaHistory, Sequence, SequenceKind, Step, Table, TableForm, TableSchema, TimePart,
};
use imbl::OrdMap;
use proptest::prelude::*;
use proptest::{collection::vec, option, sample::select};

use super::foreign::foreign_change;
use super::policies::policy;
use crate::{
    AcceptedHole, Database, DatabaseMode, Definition, Divide, Flushed, IdEnds, IdKind, KeyPartMeta,
    KeyRange, LabelKind, LabelLimits, LabelRecord, LeftOpen, LogFileRecord, LogSecret, LogState,
    MarkFileMeta, MetaEvent, Moved, NewMarks, NotedPartial, NotedRows, PreparedNote, Publish,
    Replacement, RowsetMeta, SegmentMeta, TermRecord, Truncate,
};

pub(super) fn text() -> impl Strategy<Value = String> {
    "[a-z%\\x00\u{e9}]{0,6}"
}

fn column_type() -> impl Strategy<Value = ColumnType> {
    let digits = (1u8..=38).prop_flat_map(|precision| (Just(precision), 0..=precision));
    let numbers = (any::<bool>(), digits, 0u8..=6, 0u32..=255);
    (0..31, numbers).prop_map(|(kind, (unsigned, (precision, scale), fsp, len))| match kind {
        0 => ColumnType::Boolean,
        1 => ColumnType::TinyInt { unsigned },
        2 => ColumnType::SmallInt { unsigned },
        3 => ColumnType::MediumInt { unsigned },
        4 => ColumnType::Int { unsigned },
        5 => ColumnType::BigInt { unsigned },
        6 => ColumnType::LargeInt,
        7 => ColumnType::Float,
        8 => ColumnType::Double,
        9 => ColumnType::Decimal { precision, scale },
        10 => ColumnType::Date,
        11 => ColumnType::DateTime { fsp },
        12 => ColumnType::Timestamp { fsp },
        13 => ColumnType::Char { len },
        14 => ColumnType::VarChar { len },
        15 => ColumnType::Text,
        16 => ColumnType::VarBinary { len },
        17 => ColumnType::Blob,
        18 => ColumnType::Time { fsp },
        19 => ColumnType::Year,
        22 => ColumnType::Bit { len: scale_of_bits(len) },
        20 => ColumnType::Enum { len },
        21 => ColumnType::Set { len },
        23 => ColumnType::Bitmap,
        24 => ColumnType::Hll,
        25 => ColumnType::Variant,
        26 => ColumnType::Array,
        27 => ColumnType::Map,
        28 => ColumnType::Struct,
        29 => ColumnType::Binary { len },
        _ => ColumnType::Json,
    })
}

fn scale_of_bits(len: u32) -> u8 {
    u8::try_from(len % 64 + 1).expect("it is small")
}

pub(super) fn column() -> impl Strategy<Value = Column> {
    let default = prop_oneof![
        text().prop_map(DefaultValue::Literal),
        text().prop_map(DefaultValue::Bits),
        Just(DefaultValue::CurrentTimestamp),
        Just(DefaultValue::CurrentDate),
        Just(DefaultValue::Expression("UUID()".to_owned())),
    ];
    let collation =
        select(vec![Collation::Binary, Collation::Utf8mb4Bin, Collation::Utf8mb4GeneralCi]);
    let length_unit = select(vec![LengthUnit::Bytes, LengthUnit::Characters]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), collation, length_unit);
    let texts = (text(), text(), option::of(default), option::of(text()), option::of(any::<u64>()));
    (any::<u32>(), column_type(), flags, texts).prop_map(|(id, ty, flags, texts)| {
        let (non_negative, nullable, on_update_now, collation, length_unit) = flags;
        let (name, comment, default, before, auto_increment) = texts;
        let labels = if ty.is_labelled() { vec![name.clone()] } else { Vec::new() };
        let element = Column::new(ColumnId(0), "x", ColumnType::Date);
        let elements = match ty {
            ColumnType::Array => vec![element],
            ColumnType::Map => vec![element.clone(), element],
            ColumnType::Struct => vec![Column { non_negative, ..element }],
            _ => Vec::new(),
        };
        Column {
            labels: labels.into(),
            elements: elements.into(),
            nullable,
            default,
            comment,
            before,
            non_negative,
            collation,
            length_unit,
            auto_increment,
            on_update_now,
            keyed_by_weights: on_update_now,
            lob_size: if nullable { LobSize::Long } else { LobSize::Plain },
            ..Column::new(ColumnId(id), name, ty)
        }
    })
}

pub(super) fn schema(version: u32) -> impl Strategy<Value = TableSchema> {
    vec(column(), 1..5).prop_flat_map(move |columns| {
        let sort_key = vec(0..columns.len(), 0..3);
        (Just(columns), sort_key).prop_map(move |(columns, sort_key)| {
            TableSchema::new(SchemaVersion(version), columns, sort_key)
        })
    })
}

fn history() -> impl Strategy<Value = SchemaHistory> {
    (any::<u32>(), 1u32..4).prop_flat_map(|(first, count)| {
        let first = first.min(u32::MAX - count);
        let versions = (first..first + count).map(|version| schema(version).prop_map(Arc::new));
        let versions = versions.collect::<Vec<_>>();
        versions.prop_map(|versions| SchemaHistory::of(versions).expect("they rise"))
    })
}

fn properties() -> impl Strategy<Value = Properties> {
    let mode = select(vec![GroupCommitMode::Off, GroupCommitMode::Sync, GroupCommitMode::Async]);
    let others = vec((text(), text()), 0..3);
    (any::<(u64, u64, u32)>(), mode, others).prop_map(|(numbers, group_commit_mode, others)| {
        let (group_commit_interval_ms, group_commit_data_bytes, replication_num) = numbers;
        Properties {
            group_commit_interval_ms,
            group_commit_data_bytes,
            group_commit_mode,
            replication_num,
            others,
        }
    })
}

fn partition() -> impl Strategy<Value = Partition> {
    (any::<(u64, u32)>(), text(), vec(any::<u64>(), 1..4)).prop_map(
        |((id, incarnation), name, tablets)| Partition {
            id: PartitionId(id),
            name,
            incarnation: Incarnation(incarnation),
            tablets: tablets.into_iter().map(TabletId).collect(),
            values: None,
        },
    )
}

/// The partitions of one table: alike in incarnation and what divides them.
fn divide() -> impl Strategy<Value = Divide> {
    (any::<u64>(), divided_partitions(), any::<Option<i64>>(), vec(any::<u64>(), 0..3)).prop_map(
        |(table, partitions, rests_micros, forgotten)| Divide {
            table: TableId(table),
            partitions,
            rests_micros,
            forgotten: forgotten.into_iter().map(PartitionId).collect(),
        },
    )
}

fn divided_partitions() -> impl Strategy<Value = Vec<Partition>> {
    let key = || vec(vec(any::<u8>(), 0..4), 0..3);
    let range = (option::of(key()), key())
        .prop_map(|(lower, upper)| PartitionValues::Range { lower, upper });
    let list = (vec(key(), 0..3), any::<bool>()).prop_map(|(keys, others)| match others {
        true => PartitionValues::Others(keys),
        false => PartitionValues::List(keys),
    });
    let one = || (any::<u64>(), text(), vec(any::<u64>(), 1..4));
    let partitions = prop_oneof![vec((one(), range), 1..4), vec((one(), list), 1..4)];
    (partition(), partitions).prop_map(|(alike, partitions)| {
        let divided = |((id, name, tablets), values): ((u64, String, Vec<u64>), _)| Partition {
            id: PartitionId(id),
            name,
            tablets: tablets.into_iter().map(TabletId).collect(),
            values: Some(values),
            ..alike.clone()
        };
        partitions.into_iter().map(divided).collect()
    })
}

fn keys(columns: Vec<ColumnId>) -> impl Strategy<Value = (Vec<DeclaredKey>, Distribution)> {
    use DeclaredKeyKind::{Index, InvisibleIndex, Primary, UniqueHint};
    let kinds = [Primary, UniqueHint, Index, InvisibleIndex];
    let computed = (select(columns.clone()), text(), any::<i64>(), any::<bool>());
    let computed = computed.prop_map(|(id, text, number, nullable)| {
        let (of, big) = (ColumnType::Year, ColumnType::BigInt { unsigned: false });
        let steps = vec![Step::Value, Step::Number(number), Step::Modulo];
        let numbers = Column::new(id, "c", big);
        Distribution::Computed(Box::new(PartitionExpr { text, steps, of, nullable, numbers }))
    });
    let named = vec(select(columns), 0..3);
    // An empty clause is none.
    let clause = (text(), named.clone())
        .prop_map(|(text, columns)| Placement { text: format!("p{text}"), columns });
    let global = (any::<bool>(), named.clone(), option::of(clause)).prop_map(
        |(clustered, covering, placement)| GlobalIndex { clustered, covering, placement },
    );
    let first = named.clone().prop_map(|ids| ids.into_iter().zip(1..).collect());
    let form = (any::<bool>(), named.clone(), first)
        .prop_map(|(is_btree, descending, first)| KeyForm { is_btree, descending, first });
    let key = (select(kinds.to_vec()), [text(), text()], named.clone(), option::of(global), form);
    let key = key.prop_map(|(kind, [name, comment], columns, global, form)| DeclaredKey {
        kind,
        name,
        columns,
        comment,
        global,
        form,
    });
    let part = option::of(select(TimePart::ALL.to_vec()));
    let parts = named.clone().prop_flat_map(move |ids| {
        let parts = vec(part.clone(), ids.len());
        parts.prop_map(move |parts| ids.iter().copied().zip(parts).collect())
    });
    let (hash, parts) = (named.prop_map(Distribution::Hash), parts.prop_map(Distribution::Parts));
    (vec(key, 0..3), prop_oneof![hash, parts, computed, Just(Distribution::Random)])
}

pub(super) fn table() -> impl Strategy<Value = Table> {
    let of_history = history().prop_flat_map(|history| {
        let columns = &history.current().columns;
        let (ids, count) = (columns.iter().map(|column| column.id).collect(), columns.len());
        (Just(history), keys(ids), 0..=count)
    });
    let numbers = any::<(u64, u64, u32, i64)>();
    let flags = (any::<bool>(), any::<bool>(), select(vec![TableForm::Olap, TableForm::MySql]));
    let parts = (partition(), properties(), text(), text());
    (of_history, numbers, flags, parts).prop_map(|(of_history, numbers, flags, parts)| {
        let (history, (declared_keys, distribution), key_columns) = of_history;
        let (id, db, next_column, created_micros) = numbers;
        let (buckets_auto, unlisted, form) = flags;
        let (partition, properties, name, comment) = parts;
        let collation = match (form, created_micros % 2 == 0) {
            (TableForm::Olap, _) => Collation::Binary,
            (TableForm::MySql, true) => Collation::Utf8mb4Bin,
            (TableForm::MySql, false) => Collation::Utf8mb40900AiCi,
        };
        let placement = (created_micros % 3 == 0).then(|| Placement {
            text: "SINGLE".to_owned(),
            columns: declared_keys.iter().flat_map(|key| key.columns.clone()).collect(),
        });
        let sort_key = history.current().sort_key.iter().copied();
        let may_be_unique = key_columns > 0 && sort_key.eq(0..key_columns);
        let key_model = match may_be_unique && created_micros % 2 == 0 {
            true => KeyModel::Unique,
            false => KeyModel::Duplicate,
        };
        // Divided, for some, by the first column.
        let first = history.current().columns.first().map(|column| column.id);
        let first = first.filter(|_| created_micros % 5 == 0);
        let partition_by = first.map(|first| divided_by(first, created_micros));
        let is_temporary = unlisted && partition_by.is_some() && id % 3 == 0;
        let range = PartitionValues::Range { lower: None, upper: vec![vec![1, 2]] };
        let partition = Partition { values: partition_by.as_ref().map(|_| range), ..partition };
        Table {
            id: TableId(id),
            db: DbId(db),
            name,
            form,
            collation,
            key_model,
            key_columns,
            declared_keys,
            history,
            next_column: ColumnId(next_column),
            partition_by,
            buckets: partition.buckets() + u32::from(created_micros % 7 == 0),
            partitions: vec![partition],
            distribution,
            buckets_auto,
            properties,
            comment,
            created_micros,
            unlisted,
            dropped_micros: (unlisted && id % 2 == 0).then_some(created_micros),
            temporary_of: is_temporary.then_some(TableId(id ^ 1)),
            placement,
            sequence: None,
            policies: Vec::new(),
            foreign_keys: Vec::new(),
        }
    })
}

fn divided_by(column: ColumnId, seed: i64) -> PartitionBy {
    let week = AutoPartition::Period(freshet_schema::TimeUnit::Week);
    PartitionBy {
        method: PartitionMethod::Range,
        columns: vec![column],
        function: None,
        computed: None,
        has_columns_word: seed % 2 == 0,
        auto: (seed % 3 == 0).then_some(week),
    }
}

fn sequence() -> impl Strategy<Value = Sequence> {
    use SequenceKind::{Group, New, Simple, Time};
    let kinds = select(vec![New, Group, Simple, Time]);
    let numbers = (1u64..100, 1u64..100, 100u64..1 << 62, 1u64..1000);
    (kinds, numbers, any::<bool>()).prop_map(|(kind, (start, increment, max, base), cycle)| {
        Sequence { kind, start, increment, max, cycle, base, first: start }
    })
}

fn segments() -> impl Strategy<Value = Vec<SegmentMeta>> {
    let sizes = (0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40, any::<u32>());
    let keys = any::<(u64, u64)>().prop_map(|(a, b)| KeyRange { min: a.min(b), max: a.max(b) });
    let part = option::of((0u64..1 << 40, any::<u32>(), any::<u32>()));
    let segment = (1u32..1000, text(), sizes, keys, part, any::<bool>());
    vec(segment, 0..4).prop_map(|segments| {
        let mut id = 0;
        let segments = segments.into_iter().map(|(step, file, sizes, keys, part, removes)| {
            let (rows, data_bytes, footer_bytes, footer_checksum) = sizes;
            let key_part = part.map(|(block_bytes, directory_bytes, directory_checksum)| {
                let bytes = block_bytes + u64::from(directory_bytes);
                KeyPartMeta { start: data_bytes, bytes, directory_bytes, directory_checksum }
            });
            id += step;
            let key_bytes = key_part.map_or(0, |part| part.bytes);
            let (id, bytes) = (SegmentId(id), data_bytes + key_bytes + footer_bytes);
            SegmentMeta {
                id,
                file,
                rows,
                bytes,
                data_bytes,
                key_part,
                footer_checksum,
                keys,
                removes,
            }
        });
        segments.collect()
    })
}

/// A rowset of records in `from + 1..=to`.
fn rowset_within(from: u64, to: u64) -> impl Strategy<Value = RowsetMeta> {
    let lsns = (from + 1..=to).prop_flat_map(move |first| (Just(first), first..=to));
    (any::<(u64, u64, u32)>(), lsns, segments()).prop_map(|(ids, lsns, segments)| RowsetMeta {
        id: RowsetId(ids.0),
        tablet: TabletId(ids.1),
        lsn_first: Lsn(lsns.0),
        lsn_last: Lsn(lsns.1),
        schema_version: SchemaVersion(ids.2),
        rows: segments.iter().map(|segment| segment.rows).sum(),
        segments,
    })
}

pub(super) fn rowset() -> impl Strategy<Value = RowsetMeta> {
    rowset_within(0, u64::MAX)
}

pub(super) fn flushed() -> impl Strategy<Value = Flushed> {
    any::<(u64, u64, u64)>().prop_map(|(a, version, b)| Flushed {
        lsn: Lsn(a.min(b)),
        version: Version(version),
        version_lsn: Lsn(a.max(b)),
    })
}

fn publish() -> impl Strategy<Value = Publish> {
    let range = (0u64..1 << 50, 1u64..1 << 50);
    range.prop_flat_map(|(from, length)| {
        let to = from + length;
        let rowsets = vec(rowset_within(from, to), 0..4);
        let marks = option::of((mark_file(from, to), any::<bool>()));
        let parts = (any::<(u64, u64, u32)>(), rowsets, marks);
        parts.prop_map(move |(numbers, rowsets, marks)| Publish {
            table: TableId(numbers.0),
            from: Lsn(from),
            to: Lsn(to),
            version: Version(numbers.1),
            schema_version: SchemaVersion(numbers.2),
            rowsets,
            marks: marks.map(|(file, is_whole)| NewMarks { file, is_whole }),
        })
    })
}

fn mark_file(from: u64, to: u64) -> impl Strategy<Value = MarkFileMeta> {
    any::<(u64, u64, u32, u64)>().prop_map(move |(number, bytes, head_checksum, marks)| {
        let lsns = (Lsn(from), Lsn(to));
        MarkFileMeta { number: RowsetId(number), lsns, bytes, head_checksum, marks }
    })
}

fn replacement() -> impl Strategy<Value = Replacement> {
    let parts = (any::<u64>(), rowset(), vec(any::<u64>(), 1..5), option::of(mark_file(3, 9)));
    parts.prop_map(|(table, mut added, removed, marks)| {
        added.id = RowsetId(added.id.get() | 1);
        // The inputs have even ids, so none is that of the new rowset.
        let removed = removed.into_iter().map(|id| RowsetId(id & !1)).collect();
        Replacement { table: TableId(table), tablet: added.tablet, removed, added, marks }
    })
}

pub(super) fn event() -> impl Strategy<Value = MetaEvent> {
    let ids = || vec(any::<u64>(), 0..4);
    let change = prop_oneof![
        text().prop_map(Definition::Name),
        Just(Definition::Listed),
        any::<i64>().prop_map(|at_micros| Definition::Dropped { at_micros }),
        text().prop_map(Definition::Recovered),
        properties().prop_map(Definition::Properties),
        text().prop_map(Definition::Comment),
        Just(Definition::Collation(Collation::Utf8mb4UnicodeCi)),
        any::<bool>().prop_map(|auto| Definition::Buckets { count: 7, auto }),
        schema(7).prop_map(|schema| Definition::Schema(Arc::new(schema))),
        sequence().prop_map(Definition::Sequence),
        (keys(vec![ColumnId(1), ColumnId(7)]), foreign_change())
            .prop_map(|((keys, _), foreign)| Definition::Keys(keys, foreign)),
        divided_partitions().prop_map(Definition::Partitions),
        vec(policy(), 0..3).prop_map(Definition::Policies),
    ];
    let truncate = (any::<u64>(), any::<u64>(), any::<u32>(), ids());
    let truncate = truncate.prop_map(|(table, version, incarnation, tablets)| Truncate {
        table: TableId(table),
        version: Version(version),
        incarnation: Incarnation(incarnation),
        tablets: tablets.into_iter().map(TabletId).collect(),
        keeps_counter: table % 2 == 0,
    });
    prop_oneof![
        publish().prop_map(MetaEvent::Publish),
        replacement().prop_map(MetaEvent::Replace),
        table().prop_map(|table| MetaEvent::Create(Arc::new(table))),
        (any::<u64>(), change)
            .prop_map(|(table, change)| MetaEvent::Define { table: TableId(table), change }),
        vec((any::<u64>().prop_map(TableId), text()), 0..3).prop_map(MetaEvent::Rename),
        vec((any::<(u64, u64)>(), text()), 0..3).prop_map(|moved| {
            let moved = moved.into_iter().map(|((table, database), name)| Moved {
                table: TableId(table),
                database: DbId(database),
                name,
            });
            MetaEvent::Move(moved.collect())
        }),
        any::<(u64, i64)>().prop_map(|(id, at_micros)| {
            MetaEvent::BinDatabase { database: DbId(id), at_micros }
        }),
        (any::<u64>(), text())
            .prop_map(|(id, name)| { MetaEvent::RecoverDatabase { database: DbId(id), name } }),
        vec(divide(), 0..3).prop_map(MetaEvent::Divide),
        any::<(u64, u64)>()
            .prop_map(|(old, new)| MetaEvent::Exchange { old: TableId(old), new: TableId(new) }),
        vec(truncate, 0..3).prop_map(MetaEvent::Truncate),
        ids().prop_map(|ids| MetaEvent::Drop(ids.into_iter().map(TableId).collect())),
        any::<u64>().prop_map(|id| MetaEvent::DropDatabase(DbId(id))),
        id_ends().prop_map(MetaEvent::Reserve),
        term().prop_map(MetaEvent::Term),
        any::<(u64, u64)>()
            .prop_map(|(table, end)| MetaEvent::Counter { table: TableId(table), end }),
    ]
}

fn id_ends() -> impl Strategy<Value = IdEnds> {
    any::<[u64; 6]>().prop_map(|ends| {
        let ends = IdKind::ALL.into_iter().zip(ends);
        ends.fold(IdEnds::default(), |all, (kind, end)| all.with(kind, end))
    })
}

pub(super) fn term() -> impl Strategy<Value = TermRecord> {
    let ended = proptest::collection::btree_map(any::<u64>(), any::<(u64, u64)>(), 0..4);
    let labels = any::<([u64; 2], [usize; 2])>();
    let all = (ended, any::<bool>(), id_ends(), labels);
    all.prop_map(|(ended, more, ids, (keep, [finished_max, running_max]))| {
        let left_open = |(table, (txn, version))| LeftOpen {
            table: TableId(table),
            txn: TxnId(txn),
            version: Version(version),
        };
        let [keep, keep_streaming] = keep.map(Duration::from_micros);
        let labels = LabelLimits { keep, keep_streaming, finished_max, running_max };
        TermRecord { ended: ended.into_iter().map(left_open).collect(), more, ids, labels }
    })
}

pub(super) fn log_state() -> impl Strategy<Value = LogState> {
    let secrets = proptest::collection::btree_map(any::<u64>(), any::<[u64; 2]>(), 0..3);
    let files = proptest::collection::btree_map(any::<u64>(), (text(), any::<u64>()), 0..4);
    let holes = vec(any::<(u64, u64)>(), 0..3);
    let lists = (secrets, vec(text(), 0..3), files, holes);
    (any::<(u64, u64, [u64; 3])>(), lists, option::of(text())).prop_map(
        |((store, next_file, [lsn, index, term]), (secrets, dirs, files, holes), side_file)| {
            let secret = |(from, key)| LogSecret { from: Term(from), key };
            let file = |(id, (path, bytes))| LogFileRecord { id, path, bytes };
            let hole =
                |(a, b): (u64, u64)| AcceptedHole { first: Lsn(a.min(b)), last: Lsn(a.max(b)) };
            LogState {
                store,
                secrets: secrets.into_iter().map(secret).collect(),
                dirs,
                files: files.into_iter().map(file).collect(),
                next_file,
                recycled: LogPosition { lsn: Lsn(lsn), index: BatchIndex(index), term: Term(term) },
                side_file,
                holes: holes.into_iter().map(hole).collect(),
            }
        },
    )
}

pub(super) fn database() -> impl Strategy<Value = Database> {
    let modes = select(vec![None, Some(DatabaseMode::Auto), Some(DatabaseMode::Drds)]);
    (any::<(u64, i64)>(), text(), modes).prop_map(|((id, created_micros), name, mode)| Database {
        id: DbId(id),
        name,
        created_micros,
        mode,
        collation: (created_micros % 2 == 0).then_some(Collation::Utf8mb40900AiCi),
        dropped_micros: (created_micros % 3 == 0).then_some(created_micros),
        tables: OrdMap::new(),
        sequences: OrdMap::new(),
    })
}

pub(super) fn label() -> impl Strategy<Value = LabelRecord> {
    let kind = prop_oneof![Just(LabelKind::Statement), Just(LabelKind::Streaming)];
    let parts = (any::<(u64, u64, u64, i64, i64)>(), text(), kind);
    parts.prop_map(|(numbers, label, kind)| LabelRecord {
        db: DbId(numbers.0),
        label,
        kind,
        txn: TxnId(numbers.1),
        lsn: Lsn(numbers.2),
        finished_micros: numbers.3,
        expires_micros: numbers.4,
    })
}

fn noted_partial() -> impl Strategy<Value = NotedPartial> {
    (vec(any::<bool>(), 1..9), any::<[bool; 3]>()).prop_map(
        |(given, [is_flexible, refuses_new, deletes])| {
            let required = (0..given.len() as u32).step_by(3).collect();
            let deletes = is_flexible && deletes;
            NotedPartial { given, required, is_flexible, refuses_new, deletes }
        },
    )
}

pub(super) fn prepared() -> impl Strategy<Value = PreparedNote> {
    let ids = any::<([u64; 3], [u32; 2], Option<(u64, u32)>, bool)>();
    let files = (vec(rowset(), 0..3), option::of(noted_partial()));
    let all = (ids, any::<String>(), files, any::<Option<u64>>(), any::<i64>());
    all.prop_map(|(ids, label, (mut rowsets, partial), highest_id, expires_micros)| {
        let ([txn, db, table], [incarnation, schema_version], noted, is_grouped) = ids;
        let noted = noted.map(|(bytes, checksum)| NotedRows { bytes, checksum });
        if noted.is_some() {
            rowsets.clear();
        }
        for rowset in &mut rowsets {
            rowset.segments.iter_mut().for_each(|segment| segment.rows %= 1000);
            rowset.rows = rowset.segments.iter().map(|segment| segment.rows).sum();
        }
        PreparedNote {
            txn: TxnId(txn),
            db: DbId(db),
            label,
            table: TableId(table),
            incarnation: Incarnation(incarnation),
            schema_version: SchemaVersion(schema_version),
            rows: rowsets.iter().map(|rowset| rowset.rows as u32).sum(),
            rowsets,
            noted,
            partial: partial.filter(|_| noted.is_some()),
            is_grouped,
            highest_id,
            expires_micros,
        }
    })
}
