mod accounts;
mod collation;
mod columns;
mod division;
mod foreign;
mod global_keys;
mod golden;
mod notes;
mod policies;
mod strategies;
mod views;
mod workload;

use std::fmt::Debug;

use freshet_base::Lsn;
use freshet_schema::{Aggregate, KeyModel, SchemaHistory, Table, TableSchema};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::test::rowset;
use crate::{
    Database, Flushed, KeyPartMeta, LabelRecord, LogState, MetaEvent, PreparedNote, RowsetMeta,
    User, View, WorkloadGroup, keys,
};

fn comes_back<T>(value: &T)
where
    T: OnDisk<Form: Message + Default> + PartialEq + Debug,
{
    let bytes = encode(value);
    assert_eq!(encoded_len(value), bytes.len());
    assert_eq!(decode::<T>(&bytes).unwrap(), *value);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn tables_come_back(table in strategies::table(), schema in strategies::schema(7)) {
        comes_back(&table);
        comes_back(&schema);
    }

    #[test]
    fn rowsets_come_back(
        rowsets in vec(strategies::rowset(), 0..4),
        flushed in strategies::flushed(),
    ) {
        rowsets.iter().for_each(comes_back);
        comes_back(&rowsets);
        comes_back(&flushed);
    }

    #[test]
    fn events_come_back(event in strategies::event()) {
        comes_back(&event);
    }

    #[test]
    fn terms_come_back(term in strategies::term()) {
        comes_back(&term);
        comes_back(&term.labels);
    }

    #[test]
    fn the_state_of_the_log_comes_back(state in strategies::log_state()) {
        comes_back(&state);
    }

    #[test]
    fn users_databases_and_labels_come_back(
        user in accounts::user(),
        database in strategies::database(),
        label in strategies::label(),
        view in views::view(),
        group in accounts::workload_group(),
    ) {
        comes_back(&group);
        comes_back(&user);
        comes_back(&view);
        comes_back(&database);
        comes_back(&label);
    }

    #[test]
    fn notes_come_back(note in strategies::prepared()) {
        comes_back(&note);
    }

    #[test]
    fn numbers_come_back(unsigned in any::<u64>(), signed in any::<i64>()) {
        comes_back(&unsigned);
        comes_back(&signed);
        comes_back(&Lsn(unsigned));
    }
}

/// What is read can be written, and is read again.
fn is_read_or_refused<T>(bytes: &[u8])
where
    T: OnDisk<Form: Message + Default> + PartialEq + Debug,
{
    if let Ok(value) = decode::<T>(bytes) {
        comes_back(&value);
    }
}

fn any_form_is_read_or_refused(bytes: &[u8]) {
    is_read_or_refused::<u64>(bytes);
    is_read_or_refused::<Table>(bytes);
    is_read_or_refused::<TableSchema>(bytes);
    is_read_or_refused::<Vec<RowsetMeta>>(bytes);
    is_read_or_refused::<RowsetMeta>(bytes);
    is_read_or_refused::<Flushed>(bytes);
    is_read_or_refused::<MetaEvent>(bytes);
    is_read_or_refused::<LogState>(bytes);
    is_read_or_refused::<User>(bytes);
    is_read_or_refused::<Database>(bytes);
    is_read_or_refused::<LabelRecord>(bytes);
    is_read_or_refused::<View>(bytes);
    is_read_or_refused::<WorkloadGroup>(bytes);
    is_read_or_refused::<PreparedNote>(bytes);
}

fn damage() -> impl Strategy<Value = (prop::sample::Index, u8)> {
    (any::<prop::sample::Index>(), any::<u8>())
}

fn with_damage(mut bytes: Vec<u8>, damage: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    // The version stays, since it would hide the rest.
    for (at, byte) in damage {
        if let Some(form) = bytes.get_mut(1..).filter(|form| !form.is_empty()) {
            *at.get_mut(form) = *byte;
        }
    }
    bytes
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..60)) {
        any_form_is_read_or_refused(&[&[VERSION], &bytes[..]].concat());
        any_form_is_read_or_refused(&bytes);
    }

    #[test]
    fn damaged_bytes_are_read_or_refused(
        table in strategies::table(),
        event in strategies::event(),
        state in strategies::log_state(),
        user in accounts::user(),
        view in views::view(),
        damage in vec(damage(), 1..3),
    ) {
        is_read_or_refused::<Table>(&with_damage(encode(&table), &damage));
        is_read_or_refused::<MetaEvent>(&with_damage(encode(&event), &damage));
        is_read_or_refused::<LogState>(&with_damage(encode(&state), &damage));
        is_read_or_refused::<User>(&with_damage(encode(&user), &damage));
        is_read_or_refused::<View>(&with_damage(encode(&view), &damage));
    }
}

/// Why these bytes of protobuf, behind the version, are no `T`.
fn refusal<T: OnDisk<Form: Message + Default> + Debug>(bytes: &[u8]) -> String {
    decode::<T>(&[&[VERSION], bytes].concat()).unwrap_err().to_string()
}

#[test]
fn another_version_is_refused_by_name() {
    let mut bytes = encode(&7u64);
    bytes[0] = 2;
    let refused = decode::<u64>(&bytes).unwrap_err().to_string();
    assert_eq!(refused, "it is of version 2, this server reads version 1");
    assert_eq!(decode::<u64>(&[]).unwrap_err().to_string(), "it is empty");
}

#[test]
fn parts_of_a_newer_version_are_refused() {
    assert!(refusal::<Flushed>(&[32, 1]).contains("does not know"));
    assert!(refusal::<User>(&[138, 1, 0]).contains("does not know"));
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    assert_eq!(refusal::<MetaEvent>(&[]), "its kind is missing");
    assert_eq!(refusal::<LogState>(&[]), "its recycled position is missing");
    assert_eq!(refusal::<Table>(&[]), "its schema versions do not rise by one");
    assert_eq!(refusal::<TableSchema>(&[18, 0]), "its column type is missing");
    assert_eq!(refusal::<TableSchema>(&[26, 1, 0]), "its sort key has a column that it lacks");
    let number = [18, 7, 48, 99, 56, 1, 130, 1, 0];
    assert_eq!(refusal::<TableSchema>(&number[..]), "99 is no Collation");
    assert_eq!(refusal::<User>(&[26, 1, 0]), "a hash is not of 20 bytes");
    assert_eq!(refusal::<View>(&[]), "a view has no columns");
    assert_eq!(refusal::<User>(&[42, 0]), "the object of a grant is missing");
    assert_eq!(refusal::<User>(&[42, 5, 10, 0, 34, 1, 77]), "77 is no Privilege");
}

#[test]
fn a_unique_key_that_does_not_sort_its_rows_is_refused() {
    let refusal = |key_columns, sort_key: Vec<usize>| {
        let table = golden::sample_table();
        let schema = table.schema();
        let schema = TableSchema::new(schema.version, schema.columns.clone(), sort_key);
        let history = SchemaHistory::new(schema);
        let table = Table { key_model: KeyModel::Unique, key_columns, history, ..table };
        decode::<Table>(&encode(&table)).map(drop).map_err(|error| error.to_string())
    };
    for (key_columns, sort_key) in [(0, vec![]), (1, vec![]), (2, vec![0]), (1, vec![1])] {
        assert!(refusal(key_columns, sort_key).unwrap_err().contains("unique key"));
    }
    assert_eq!(refusal(2, vec![0, 1]), Ok(()));
}

#[test]
fn a_row_id_ends_the_sort_key_of_its_table() {
    let read = |sort_key: Vec<usize>| {
        let table = golden::sample_table();
        let (version, mut columns) = (table.schema().version, table.schema().columns.clone());
        columns.push(freshet_schema::row_id_column(table.next_column));
        let schema = TableSchema::new(version, columns, sort_key);
        let history = SchemaHistory::new(schema);
        let key_model = KeyModel::Primary;
        let table = Table { key_model, key_columns: 0, declared_keys: vec![], history, ..table };
        let read = decode::<Table>(&encode(&table)).map_err(|error| error.to_string())?;
        Ok::<_, String>((read.has_row_ids(), read.schema().shown().len()))
    };
    let hidden = golden::sample_table().schema().columns.len();
    assert_eq!(read(vec![hidden]), Ok((true, hidden)));
    assert_eq!(read(vec![0, hidden]), Ok((true, hidden)));
    assert!(read(vec![hidden, 0]).unwrap_err().contains("row id"));
    assert!(read(vec![0]).unwrap_err().contains("row id"));
}

#[test]
fn foreign_keys_have_columns_of_their_table() {
    let read = |column| {
        let foreign_keys = vec![foreign::sample(column)];
        let table = Table { foreign_keys, ..golden::sample_table() };
        decode::<Table>(&encode(&table)).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(read(golden::sample_table().schema().columns[0].id), Ok(()));
    assert!(read(99.into()).unwrap_err().contains("a column that it lacks"));
}

#[test]
fn an_aggregate_key_has_functions_behind_its_key() {
    let read = |functions: &dyn Fn(usize) -> Option<Aggregate>| {
        let table = golden::sample_table();
        let schema = table.schema();
        let mut columns = schema.columns.clone();
        for (at, column) in columns.iter_mut().enumerate() {
            column.aggregate = functions(at);
        }
        let history = SchemaHistory::new(TableSchema::new(schema.version, columns, vec![0]));
        let table = Table { key_model: KeyModel::Aggregate, key_columns: 1, history, ..table };
        let read = decode::<Table>(&encode(&table)).map_err(|error| error.to_string())?;
        assert_eq!(read, table);
        Ok::<_, String>(())
    };
    assert_eq!(read(&|at| (at > 0).then_some(Aggregate::ReplaceIfNotNull)), Ok(()));
    assert!(read(&|_| None).unwrap_err().contains("aggregate key"));
    assert!(read(&|_| Some(Aggregate::Sum)).unwrap_err().contains("aggregate key"));
}

#[test]
fn what_the_fold_would_not_survive_is_refused() {
    let refused = |change: fn(&mut RowsetMeta)| {
        let mut bad = rowset(1, 1.into(), 5, 9);
        change(&mut bad);
        decode::<RowsetMeta>(&encode(&bad)).unwrap_err().to_string()
    };
    assert!(refused(|rowset| rowset.lsn_first = Lsn(10)).contains("before it begins"));
    assert!(refused(|rowset| rowset.segments[0].data_bytes = 2_000).contains("behind its end"));
    let part = |bytes, directory_bytes| {
        Some(KeyPartMeta { start: 900, bytes, directory_bytes, directory_checksum: 1 })
    };
    let with_part = |part| {
        let mut bad = rowset(1, 1.into(), 5, 9);
        assert_eq!(bad.segments[0].data_bytes, 900);
        bad.segments[0].key_part = part;
        decode::<RowsetMeta>(&encode(&bad)).map_err(|error| error.to_string())
    };
    assert!(with_part(part(101, 10)).unwrap_err().contains("behind its end"));
    assert!(with_part(part(u64::MAX, 10)).unwrap_err().contains("behind its end"));
    assert!(with_part(part(50, 51)).unwrap_err().contains("longer than the keys"));
    assert_eq!(with_part(part(50, 50)).unwrap().segments[0].footer_start(), 950);
    let doubled = |rowset: &mut RowsetMeta| rowset.segments.push(rowset.segments[0].clone());
    assert!(refused(doubled).contains("do not rise"));
    let huge = |rowset: &mut RowsetMeta| {
        let last =
            crate::SegmentMeta { id: 1.into(), rows: u64::MAX, ..rowset.segments[0].clone() };
        rowset.segments.push(last);
    };
    assert!(refused(huge).contains("impossibly many"));
    let publish = crate::Publish {
        table: 1.into(),
        from: Lsn(5),
        to: Lsn(9),
        version: 1.into(),
        schema_version: 1.into(),
        rowsets: vec![rowset(1, 1.into(), 5, 9)],
        marks: None,
    };
    let refused = decode::<MetaEvent>(&encode(&MetaEvent::Publish(publish))).unwrap_err();
    assert!(refused.to_string().contains("outside of its range"));
}

#[test]
fn an_unreadable_value_is_named_by_its_key() {
    let error = keys::decode::<Table>("/table/7", b"{}").unwrap_err();
    assert_eq!(error.code(), freshet_base::ErrorCode::Corruption);
    assert!(error.message().starts_with("metadata at '/table/7' cannot be read: it is of version"));
    assert!(error.message().contains("restore meta.redb from a backup"), "{error}");
}
