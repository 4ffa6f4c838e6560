//! The bytes of every form, as older stores have them: change the code, or raise their format.

use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::Duration;

use freshet_base::{
    BatchIndex, ColumnId, DbId, Incarnation, LogPosition, Lsn, PartitionId, RowsetId,
    SchemaVersion, SegmentId, TableId, TabletId, Term, TxnId, Version,
};
use freshet_schema::{
    Aggregate, AutoPartition, Collation, Column, ColumnType, DeclaredKey, DeclaredKeyKind,
    DefaultValue, Distribution, GroupCommitMode, KeyForm, KeyModel, LengthUnit, Partition,
    PartitionBy, PartitionFunction, PartitionMethod, PartitionValues, Placement, PolicyHolder,
    Properties, RowPolicy, SchemaHistory, Sequence, SequenceKind, Table, TableForm, TableSchema,
    TimeUnit,
};
use imbl::OrdMap;
use prost::Message;

use crate::disk::{OnDisk, decode, encode};
use crate::{
    AcceptedHole, Account, AuthData, Database, DatabaseMode, Definition, Flushed, Grant,
    GrantObject, GrantedRole, IdEnds, IdKind, KeyPartMeta, KeyRange, LabelKind, LabelLimits,
    LabelRecord, LeftOpen, LockTime, LogFileRecord, LogSecret, LogState, MarkFileMeta, MetaEvent,
    Moved, NewMarks, Privilege, Publish, Repartition, Replacement, RowsetMeta, SegmentMeta,
    TermRecord, TlsRequirement, Truncate, User, UserOption, UserOptions,
};

pub(super) fn has_bytes<T>(value: &T, hex: &str)
where
    T: OnDisk<Form: Message + Default> + PartialEq + Debug,
{
    let bytes = encode(value);
    let written = bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    assert_eq!(written, hex.replace(' ', ""), "{value:?}");
    assert_eq!(decode::<T>(&bytes).unwrap(), *value);
}

fn numbers<T: OnDisk<Form = u32>>(values: &[T]) -> Vec<u32> {
    values.iter().map(T::form).collect()
}

#[test]
fn numbers_of_enums() {
    assert_eq!(numbers(&[LengthUnit::Bytes, LengthUnit::Characters]), [1, 2]);
    assert_eq!(numbers(&[TableForm::Olap, TableForm::MySql]), [1, 2]);
    let models = [KeyModel::Duplicate, KeyModel::Unique, KeyModel::Primary, KeyModel::Aggregate];
    assert_eq!(numbers(&models), [1, 2, 3, 4]);
    assert_eq!(numbers(&Aggregate::ALL), [1, 2, 3, 4, 5, 6, 7]);
    use DeclaredKeyKind::{Index, Primary, Unique, UniqueHint};
    assert_eq!(numbers(&[Primary, UniqueHint, Index, Unique]), [1, 2, 3, 4]);
    use PartitionFunction::{ToDays, ToSeconds, UnixTimestamp, Year};
    assert_eq!(numbers(&[Year, ToDays, ToSeconds, UnixTimestamp]), [1, 2, 3, 4]);
    use GroupCommitMode::{Async, Off, Sync};
    assert_eq!(numbers(&[Off, Sync, Async]), [1, 2, 3]);
    let privileges = [
        1, 2, 3, 4, 5, 6, 7, 18, 8, 17, 19, 15, 9, 10, 11, 20, 21, 22, 23, 24, 12, 13, 25, 26, 14,
        27, 28, 29, 30, 31, 16,
    ];
    assert_eq!(numbers(Privilege::ALL), privileges);
}

#[test]
fn numbers_of_their_own() {
    has_bytes(&300u64, "01 08ac02");
    has_bytes(&-1i64, "01 08ffffffffffffffffff01");
    has_bytes(&Lsn(300), "01 08ac02");
    has_bytes(&Lsn::ZERO, "01");
}

#[test]
fn schema_of_all_types() {
    use ColumnType::*;
    let types = [
        Boolean,
        TinyInt { unsigned: true },
        SmallInt { unsigned: false },
        MediumInt { unsigned: true },
        Int { unsigned: false },
        BigInt { unsigned: true },
        LargeInt,
        Float,
        Double,
        Decimal { precision: 15, scale: 2 },
        Date,
        DateTime { fsp: 3 },
        Timestamp { fsp: 6 },
        Char { len: 10 },
        VarChar { len: 300 },
        Text,
        VarBinary { len: 16 },
        Blob,
        Json,
        Time { fsp: 2 },
        Year,
    ];
    let columns = (1..).zip(types).map(|(id, ty)| Column::new(ColumnId(id), "c", ty));
    let mut columns = columns.collect::<Vec<_>>();
    columns[0].default = Some(DefaultValue::Literal("1".to_owned()));
    columns[1].default = Some(DefaultValue::Bits("0f".to_owned()));
    columns[11].default = Some(DefaultValue::CurrentTimestamp);
    columns[11].before = Some("2024".to_owned());
    columns[10].default = Some(DefaultValue::CurrentDate);
    columns[9].non_negative = true;
    columns[4].nullable = false;
    columns[13].comment = "note".to_owned();
    columns[13].collation = Collation::Utf8mb4Bin;
    columns[13].length_unit = LengthUnit::Characters;
    let schema = TableSchema::new(SchemaVersion(3), columns, vec![4, 0]);
    has_bytes(
        &schema,
        "010803121108011201632001300138014a01318201001212080212016320013001380152023066880101\
         120e0803120163200130013801900100120e0804120163200130013801980101120c0805120163300138\
         01a00100120e0806120163200130013801a80101120e0807120163200130013801b20100120e08081201\
         63200130013801ba0100120e0809120163200130013801c201001214080a1201631801200130013801ca\
         0104080f10021210080b1201632001300138016200d201001216080c1201632001300138014204323032\
         345a00d80103120e080d120163200130013801e001061214080e12016320012a046e6f746530023802e8\
         010a120f080f120163200130013801f001ac02120e0810120163200130013801fa0100120e0811120163\
         200130013801800210120e08121201632001300138018a0200120e0813120163200130013801920200120e\
         0814120163200130013801980202120e0815120163200130013801a202001a\
         020400",
    );
}

#[test]
fn schema_of_padded_bytes() {
    let column = Column::new(ColumnId(1), "c", ColumnType::Binary { len: 16 });
    let schema = TableSchema::new(SchemaVersion(3), vec![column], vec![0]);
    has_bytes(&schema, "01 0803 120e 0801 120163 2001 3001 3801 f00310 1a0100");
}

pub(super) fn sample_table() -> Table {
    let int = ColumnType::Int { unsigned: false };
    let first =
        TableSchema::new(SchemaVersion(1), vec![Column::new(ColumnId(1), "a", int)], vec![0]);
    let mut columns = first.columns.clone();
    columns.push(Column::new(ColumnId(2), "b", int));
    let second = TableSchema::new(SchemaVersion(2), columns, vec![0]);
    Table {
        id: TableId(7),
        db: DbId(3),
        name: "t".to_owned(),
        form: TableForm::MySql,
        key_model: KeyModel::Duplicate,
        key_columns: 1,
        declared_keys: vec![DeclaredKey {
            kind: DeclaredKeyKind::UniqueHint,
            name: "k".to_owned(),
            columns: vec![ColumnId(1), ColumnId(2)],
            comment: String::new(),
            global: None,
            form: KeyForm::default(),
        }],
        history: SchemaHistory::of(vec![Arc::new(first), Arc::new(second)]).unwrap(),
        next_column: ColumnId(3),
        partition_by: None,
        partitions: vec![Partition {
            id: PartitionId(8),
            name: "p".to_owned(),
            incarnation: Incarnation(1),
            tablets: vec![TabletId(10), TabletId(11)],
            values: None,
        }],
        buckets: 2,
        distribution: Distribution::Hash(vec![ColumnId(1)]),
        buckets_auto: true,
        properties: Properties {
            others: vec![("x".to_owned(), "y".to_owned())],
            ..Properties::default()
        },
        comment: "note".to_owned(),
        created_micros: 1_700_000_000_000_000,
        collation: Collation::Utf8mb4Bin,
        unlisted: true,
        dropped_micros: None,
        temporary_of: None,
        sequence: None,
        policies: Vec::new(),
        placement: None,
        foreign_keys: Vec::new(),
    }
}

#[test]
fn table() {
    has_bytes(
        &sample_table(),
        "01080710031a01742002280130013a09080212016b1a02010242150801120e0801120161200130013801\
         a001001a010042250802120e0801120161200130013801a00100120e0802120162200130013801a00100\
         1a01004803520b0808120170180122020a0b5a030a01016801721408904e1080808020180120012a060a\
         01781201797a046e6f746580018080f9c0c1c48203880101",
    );
    let random = Table { distribution: Distribution::Random, ..sample_table() };
    has_bytes(
        &random,
        "01080710031a01742002280130013a09080212016b1a02010242150801120e0801120161200130013801\
         a001001a010042250802120e0801120161200130013801a00100120e0802120162200130013801a00100\
         1a01004803520b0808120170180122020a0b62006801721408904e1080808020180120012a060a017812\
         01797a046e6f746580018080f9c0c1c48203880101",
    );
}

#[test]
fn a_clause_of_polardbx() {
    let placement = Placement { text: "single".to_owned(), columns: vec![ColumnId(2)] };
    let random =
        Table { distribution: Distribution::Random, placement: Some(placement), ..sample_table() };
    has_bytes(
        &random,
        "01080710031a01742002280130013a09080212016b1a02010242150801120e0801120161200130013801\
         a001001a010042250802120e0801120161200130013801a00100120e0802120162200130013801a00100\
         1a01004803520b0808120170180122020a0b62006801721408904e1080808020180120012a060a017812\
         01797a046e6f746580018080f9c0c1c4820388010192010b0a0673696e676c65120102",
    );
    assert_eq!(numbers(&[DatabaseMode::Auto, DatabaseMode::Drds]), [1, 2]);
}

#[test]
fn a_sequence() {
    use SequenceKind::{Group, New, Simple, Time};
    assert_eq!(numbers(&[New, Group, Simple, Time]), [1, 2, 3, 4]);
    let sequence =
        Sequence { kind: Group, start: 1, increment: 2, max: 300, cycle: true, base: 5, first: 7 };
    has_bytes(&sequence, "01 0802 1001 1802 20ac02 2801 3005 3807");
    let change = Definition::Sequence(sequence);
    let event = MetaEvent::Define { table: TableId(7), change };
    has_bytes(&event, "01 2213 0807 320f 0802 1001 1802 20ac02 2801 3005 3807");
    let keys = sample_table().declared_keys;
    let event =
        MetaEvent::Define { table: TableId(7), change: Definition::Keys(keys, Default::default()) };
    has_bytes(&event, "01 220f 0807 3a0b 0a09 0802 12016b 1a020102");
}

pub(super) fn sample_rowset() -> RowsetMeta {
    let segment = |id, rows| SegmentMeta {
        id: SegmentId(id),
        file: format!("20_{id}.parquet"),
        rows,
        bytes: 5_000,
        data_bytes: 4_000,
        key_part: None,
        footer_checksum: 0x0102_0304,
        keys: KeyRange { min: u64::from(id), max: 1 << 63 },
        removes: false,
    };
    RowsetMeta {
        id: RowsetId(20),
        tablet: TabletId(10),
        lsn_first: Lsn(101),
        lsn_last: Lsn(200),
        schema_version: SchemaVersion(2),
        segments: vec![segment(0, 3), segment(1, 4)],
        rows: 7,
    }
}

#[test]
fn rowsets_and_flushed() {
    has_bytes(
        &sample_rowset(),
        "010814100a186520c80128023226120c32305f302e70617271756574180320882728a01f35040302013a\
         0911000000000000008032310801120c32305f312e70617271756574180420882728a01f35040302013a\
         12090100000000000000110000000000000080",
    );
    has_bytes(
        &vec![RowsetMeta { segments: Vec::new(), rows: 0, ..sample_rowset() }],
        "010a0b0814100a186520c8012802",
    );
    let mut with_keys = sample_rowset();
    (_, with_keys.rows) = (with_keys.segments.pop(), 3);
    with_keys.segments[0].key_part = Some(KeyPartMeta {
        start: 4_000,
        bytes: 900,
        directory_bytes: 40,
        directory_checksum: 0x0102_0304,
    });
    with_keys.segments[0].removes = true;
    has_bytes(
        &with_keys,
        "010814100a186520c80128023234120c32305f302e70617271756574180320882728a01f35040302013a\
         09110000000000000080420a08840710281d040302014801",
    );
    let flushed = Flushed { lsn: Lsn(200), version: Version(4), version_lsn: Lsn(300) };
    has_bytes(&flushed, "0108c801100418ac02");
}

#[test]
fn events() {
    let publish = Publish {
        table: TableId(7),
        from: Lsn(100),
        to: Lsn(200),
        version: Version(4),
        schema_version: SchemaVersion(2),
        rowsets: vec![sample_rowset()],
        marks: None,
    };
    has_bytes(
        &MetaEvent::Publish(publish),
        "010a730807106418c8012004280232660814100a186520c80128023226120c32305f302e706172717565\
         74180320882728a01f35040302013a0911000000000000008032310801120c32305f312e706172717565\
         74180420882728a01f35040302013a12090100000000000000110000000000000080",
    );
    let replacement = Replacement {
        table: TableId(7),
        tablet: TabletId(10),
        removed: vec![RowsetId(18), RowsetId(19)],
        added: sample_rowset(),
        marks: None,
    };
    has_bytes(
        &MetaEvent::Replace(replacement),
        "01126e0807120212131a660814100a186520c80128023226120c32305f302e7061727175657418032088\
         2728a01f35040302013a0911000000000000008032310801120c32305f312e7061727175657418042088\
         2728a01f35040302013a12090100000000000000110000000000000080",
    );
}

#[test]
fn mark_files() {
    let lsns = (Lsn(100), Lsn(200));
    let file = MarkFileMeta { number: RowsetId(21), lsns, bytes: 99, head_checksum: 5, marks: 300 };
    has_bytes(&file, "01 0815 1064 18c801 2063 2d05000000 30ac02");
    let publish = Publish {
        table: TableId(7),
        from: Lsn(100),
        to: Lsn(200),
        version: Version(4),
        schema_version: SchemaVersion(2),
        rowsets: Vec::new(),
        marks: Some(NewMarks { file, is_whole: true }),
    };
    has_bytes(
        &MetaEvent::Publish(publish),
        "01 0a20 0807 1064 18c801 2004 2802 3a11 0815106418c80120632d0500000030ac02 4001",
    );
}

#[test]
fn partitions() {
    let define = |change| MetaEvent::Define { table: TableId(7), change };
    let upper = PartitionValues::Range { lower: Some(vec![vec![1, 0x80]]), upper: Vec::new() };
    let partition = Partition {
        id: PartitionId(8),
        name: "p".to_owned(),
        incarnation: Incarnation(1),
        tablets: vec![TabletId(10)],
        values: Some(upper),
    };
    let partitions = vec![partition];
    has_bytes(
        &define(Definition::Partitions(partitions.clone())),
        "01 221a 0807 4216 0a14 0808 120170 1801 22010a 2a08 0a040a020180 1200",
    );
    let by = PartitionBy {
        method: PartitionMethod::Range,
        columns: vec![ColumnId(1)],
        function: Some(PartitionFunction::Year),
        computed: None,
        has_columns_word: true,
        auto: None,
    };
    let removed = partitions.clone();
    has_bytes(
        &Repartition { removed, ..Repartition::of(by, partitions.clone()) },
        "01 0a09 0801 120101 1801 2001 1214 0808 120170 1801 22010a 2a08 0a040a020180 1200 1a14 \
         0808 120170 1801 22010a 2a08 0a040a020180 1200",
    );
    let by = PartitionBy {
        method: PartitionMethod::Range,
        columns: vec![ColumnId(1)],
        function: None,
        computed: None,
        has_columns_word: false,
        auto: Some(AutoPartition::Period(TimeUnit::Day)),
    };
    has_bytes(
        &Repartition::of(by, partitions),
        "01 0a07 0801 120101 3002 1214 0808 120170 1801 22010a 2a08 0a040a020180 1200",
    );
    let list = PartitionValues::List(vec![vec![vec![0]], vec![vec![1, 0x81]]]);
    has_bytes(
        &define(Definition::Partitions(vec![Partition {
            id: PartitionId(8),
            name: "p".to_owned(),
            incarnation: Incarnation(1),
            tablets: vec![TabletId(10)],
            values: Some(list),
        }])),
        "01 221d 0807 4219 0a17 0808 120170 1801 22010a 2a0b 1a030a0100 1a040a020181",
    );
}

#[test]
fn definitions() {
    let define = |change| MetaEvent::Define { table: TableId(7), change };
    has_bytes(&define(Definition::Name("u".to_owned())), "01 2205 0807 120175");
    has_bytes(&define(Definition::Listed), "01 2204 0807 1801");
    has_bytes(&define(Definition::Dropped { at_micros: 5 }), "01 2204 0807 4805");
    has_bytes(&define(Definition::Recovered("u".to_owned())), "01 2205 0807 520175");
    let policy = RowPolicy {
        name: "p".to_owned(),
        is_restrictive: true,
        holder: PolicyHolder { name: "r".to_owned(), host: "%".to_owned(), is_role: true },
        text: "a = 1".to_owned(),
        columns: vec![ColumnId(1)],
    };
    let policies = define(Definition::Policies(vec![policy]));
    has_bytes(&policies, "01221d08075a190a170a017010011a01722201252801320561203d20313a0101");
    has_bytes(&define(Definition::Comment("u".to_owned())), "01 2205 0807 620175");
    has_bytes(&define(Definition::Collation(Collation::Utf8mb4Bin)), "01 2204 0807 6802");
    let properties = define(Definition::Properties(Properties::default()));
    has_bytes(&properties, "0122100807220c08904e108080802018012001");
    let columns = vec![Column::new(ColumnId(1), "a", ColumnType::Date)];
    let schema = Arc::new(TableSchema::new(SchemaVersion(2), columns, vec![0]));
    has_bytes(
        &define(Definition::Schema(schema)),
        "01221908072a150802120e0801120161200130013801d201001a0100",
    );
    has_bytes(
        &MetaEvent::Create(Arc::new(sample_table())),
        "011a9501080710031a01742002280130013a09080212016b1a02010242150801120e0801120161200130\
         013801a001001a010042250802120e0801120161200130013801a00100120e0802120162200130013801\
         a001001a01004803520b0808120170180122020a0b5a030a01016801721408904e108080802018012001\
         2a060a01781201797a046e6f746580018080f9c0c1c48203880101",
    );
    let truncate = Truncate {
        table: TableId(7),
        version: Version(4),
        incarnation: Incarnation(2),
        tablets: vec![TabletId(10), TabletId(11)],
        keeps_counter: false,
    };
    has_bytes(&MetaEvent::Truncate(vec![truncate.clone()]), "012a0c0a0a08071004180222020a0b");
    let emptied = Truncate { keeps_counter: true, ..truncate };
    has_bytes(&MetaEvent::Truncate(vec![emptied]), "012a0e0a0c08071004180222020a0b 2801");
    has_bytes(&MetaEvent::Counter { table: TableId(7), end: 300 }, "01 5205 0807 10ac02");
    has_bytes(&MetaEvent::Drop(vec![TableId(7)]), "01 3203 0a0107");
    let renamed = [(7, "u"), (8, "t")].map(|(id, name)| (TableId(id), name.to_owned()));
    has_bytes(&MetaEvent::Rename(renamed.to_vec()), "01a2010e0a0508071201750a050808120174");
    let moved = Moved { table: TableId(7), database: DbId(3), name: "u".to_owned() };
    has_bytes(&MetaEvent::Move(vec![moved]), "019202090a0708071003 1a0175");
    has_bytes(&MetaEvent::Exchange { old: TableId(7), new: TableId(9) }, "01aa010408071009");
    has_bytes(&MetaEvent::DropDatabase(DbId(3)), "01 3803");
    let ends = IdKind::ALL.into_iter().zip(101..);
    let ends = ends.fold(IdEnds::default(), |ends, (kind, end)| ends.with(kind, end));
    has_bytes(&MetaEvent::Reserve(ends), "01 420c 0865 1066 1867 2068 2869 306a");
    let term = TermRecord {
        ended: vec![LeftOpen { table: TableId(1), txn: TxnId(2), version: Version(3) }],
        more: true,
        ids: ends,
        labels: LabelLimits {
            keep: Duration::from_micros(4),
            keep_streaming: Duration::from_micros(5),
            finished_max: 6,
            running_max: 7,
        },
    };
    let limits = "0804 1005 1806 2007";
    has_bytes(&term.labels, &format!("01 {limits}"));
    let form = format!("0a06 0801 1002 1803 120c 0865 1066 1867 2068 2869 306a 1a08 {limits} 2001");
    has_bytes(&term, &format!("01 {form}"));
    has_bytes(&MetaEvent::Term(term), &format!("01 4a22 {form}"));
}

#[test]
fn log_state() {
    let state = LogState {
        store: 1 << 63,
        secrets: vec![LogSecret { from: Term(1), key: [2, 3] }],
        dirs: vec!["log".to_owned()],
        files: vec![LogFileRecord { id: 4, path: "log/4.log".to_owned(), bytes: 64 << 20 }],
        next_file: 5,
        recycled: LogPosition { lsn: Lsn(6), index: BatchIndex(7), term: Term(8) },
        side_file: Some("side/9".to_owned()),
        holes: vec![AcceptedHole { first: Lsn(10), last: Lsn(11) }],
    };
    has_bytes(
        &state,
        "01090000000000000080121408011102000000000000001903000000000000001a036c6f672212080412\
         096c6f672f342e6c6f671880808020280532060806100718083a06736964652f394204080a100b",
    );
}

#[test]
fn second_password() {
    let second = Some(AuthData { sha2_slow: Some("$A$".to_owned()), ..AuthData::default() });
    let user = User { second, ..User::new(Account::anywhere("u"), AuthData::default()) };
    has_bytes(&user, "010a0175120125 8201 05 1203 244124");
}

#[test]
fn user() {
    let grant = |object, privilege| Grant { object, privileges: [privilege].into_iter().collect() };
    let (database, table) = ("d".to_owned(), "t".to_owned());
    let user = User {
        account: Account { name: "u".to_owned(), host: "%".to_owned() },
        auth: AuthData {
            native: Some([1; 20]),
            sha2_slow: Some("$A$".to_owned()),
            ..AuthData::default()
        },
        grants: vec![
            grant(GrantObject::Server, Privilege::Select),
            grant(GrantObject::Database(database.clone()), Privilege::Insert),
            grant(GrantObject::Table(database, table), Privilege::GrantOption),
        ],
        ..User::new(Account::root(), AuthData::default())
    };
    has_bytes(
        &user,
        "010a01751201251a14010101010101010101010101010101010101010122032441242a050a002201012a\
         061201642201022a0b1a060a0164120174220110",
    );
    let column = GrantObject::Column("d".to_owned(), "t".to_owned(), "c".to_owned());
    has_bytes(
        &User {
            grants: vec![grant(column, Privilege::Select)],
            ..User::new(Account::anywhere("u"), AuthData::default())
        },
        "010a0175120125 2a0e 2a09 0a0164120174 1a0163 220101",
    );
    let account = Account::anywhere("u");
    let auth = AuthData { tls: TlsRequirement::X509, ..AuthData::default() };
    has_bytes(&User::new(account.clone(), auth), "010a01751201253003");
    let options = [
        UserOption::Locked(true),
        UserOption::QueriesPerHour(2),
        UserOption::UpdatesPerHour(3),
        UserOption::ConnectionsPerHour(4),
        UserOption::Connections(5),
        UserOption::FailedLogins(6),
        UserOption::LockTime(LockTime::Days(7)),
        UserOption::LifetimeDays(8),
        UserOption::Expired,
    ];
    let options = options.into_iter().fold(UserOptions::default(), UserOptions::with);
    let auth = AuthData { changed_seconds: 9, ..AuthData::default() };
    has_bytes(
        &User { options, ..User::new(account.clone(), auth) },
        "010a0175120125 5212 0801 1002 1803 2004 2805 3006 3807 4801 5008 5809",
    );
    let options = UserOptions::default().with(UserOption::RequiresCurrent(Some(false)));
    let user = User { options, ..User::new(account.clone(), AuthData::default()) };
    has_bytes(&user, "010a0175120125 5202 6800");
    let reuse = [UserOption::PasswordHistory(Some(3)), UserOption::PasswordReuseDays(Some(0))];
    let options = reuse.into_iter().fold(UserOptions::default(), UserOptions::with);
    let past = AuthData { native: Some([7; 20]), changed_seconds: 9, ..AuthData::default() };
    let user = User { options, ..User::new(account.clone(), AuthData::default()) };
    has_bytes(
        &User { past: vec![past], ..user },
        "010a0175120125 5204 5803 6000 7218 0a14 0707070707070707070707070707070707070707 1809",
    );
    let role = User {
        locked: true,
        roles: vec![GrantedRole { role: account.clone(), admin: true }],
        default_roles: vec![account],
        ..User::new(Account::anywhere("r"), AuthData::default())
    };
    has_bytes(&role, "010a01721201253801420a0a060a017512012510014a060a0175120125");
}

#[test]
fn database_and_label() {
    let (id, name, tables) = (DbId(3), "d".to_owned(), OrdMap::new());
    let database = Database {
        id,
        name,
        created_micros: 1_700_000_000_000_000,
        mode: None,
        collation: None,
        dropped_micros: None,
        tables,
        sequences: OrdMap::new(),
    };
    has_bytes(&database, "010803120164188080f9c0c1c48203");
    let (mode, collation) = (Some(DatabaseMode::Drds), Some(Collation::Utf8mb40900AiCi));
    let database = Database { created_micros: 1, mode, collation, ..database };
    has_bytes(&database, "01 0803 120164 1801 2002 2804");
    let dropped = Database { dropped_micros: Some(7), ..database };
    has_bytes(&dropped, "01 0803 120164 1801 2002 2804 3007");
    let label = LabelRecord {
        db: DbId(3),
        label: "l".to_owned(),
        kind: LabelKind::Statement,
        txn: TxnId(4),
        lsn: Lsn(5),
        finished_micros: 1_700_000_000_000_000,
        expires_micros: -1,
    };
    has_bytes(&label, "01080312016c18042005288080f9c0c1c4820330ffffffffffffffffff01");
    let label = LabelRecord { kind: LabelKind::Streaming, ..label };
    has_bytes(&label, "01080312016c18042005288080f9c0c1c4820330ffffffffffffffffff013801");
}
