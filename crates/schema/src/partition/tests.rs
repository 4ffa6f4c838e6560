use freshet_base::SchemaVersion;

use super::*;
use crate::{Column, ColumnType, Put, RowWriter};

fn schema() -> TableSchema {
    let int = ColumnType::Int { unsigned: false };
    let columns = vec![
        Column::new(ColumnId(1), "a", int),
        Column { nullable: false, ..Column::new(ColumnId(2), "b", int) },
    ];
    TableSchema::new(SchemaVersion(1), columns, vec![0, 1])
}

fn rows(values: &[(Option<i32>, i32)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = RowWriter::new(2, &mut out);
    for (a, b) in values {
        writer.begin_row();
        match a {
            Some(a) => writer.put_encoded(&a.to_le_bytes()),
            None => writer.put_null(),
        }
        let put = |out: &mut Vec<u8>| {
            out.extend_from_slice(&b.to_le_bytes());
            Ok::<_, ()>(Put::Value)
        };
        writer.cell(put).unwrap();
        writer.end_row();
    }
    out
}

fn key(column: usize, value: Option<i32>) -> Vec<u8> {
    let row = rows(&[(value, value.unwrap_or_default())]);
    let mut key = Vec::new();
    KeyCodec::new(&schema(), &[column]).put(&row, &mut key);
    key
}

fn by(method: PartitionMethod, columns: &[u32]) -> PartitionBy {
    let columns = columns.iter().map(|&id| ColumnId(id)).collect();
    PartitionBy {
        method,
        columns,
        function: None,
        computed: None,
        has_columns_word: false,
        auto: None,
    }
}

fn below(lower: Option<i32>, upper: Option<i32>) -> PartitionValues {
    let bound = |value| vec![key(0, Some(value))];
    PartitionValues::Range { lower: lower.map(bound), upper: upper.map(bound).unwrap_or_default() }
}

fn routes(router: &Router, values: &[(Option<i32>, i32)]) -> Vec<Option<u32>> {
    let schema = schema();
    let columns = crate::ColumnsBuilder::batch_of(&schema, &rows(values), values.len());
    router.of_batch(&columns, &schema)
}

#[test]
fn null_is_in_the_lowest_range_and_gaps_take_nothing() {
    let values = [below(Some(20), None), below(None, Some(10)), below(Some(10), Some(15))];
    let router = Router::new(&by(PartitionMethod::Range, &[1]), &values);
    let asked = [None, Some(-5), Some(9), Some(10), Some(14), Some(15), Some(20), Some(i32::MAX)];
    let asked = asked.map(|value| (value, 0));
    let expected = [Some(1), Some(1), Some(1), Some(2), Some(2), None, Some(0), Some(0)];
    assert_eq!(routes(&router, &asked), expected);
    let unrouted = router.check(&schema(), &rows(&asked)).unwrap_err();
    assert_eq!(unrouted, Unrouted { row: 5, values: "15".to_owned() });
}

#[test]
fn a_bound_that_ends_early_is_maxvalue_from_there() {
    let cut = vec![key(0, Some(7)), key(1, Some(3))];
    let whole = vec![key(0, Some(7))];
    let values = [
        PartitionValues::Range { lower: None, upper: cut.clone() },
        PartitionValues::Range { lower: Some(cut), upper: whole.clone() },
        PartitionValues::Range { lower: Some(whole), upper: Vec::new() },
    ];
    let router = Router::new(&by(PartitionMethod::Range, &[1, 2]), &values);
    let asked = [(Some(7), 2), (Some(7), 3), (Some(7), i32::MAX), (Some(8), i32::MIN)];
    assert_eq!(routes(&router, &asked), [Some(0), Some(1), Some(1), Some(2)]);
    assert!(!values[0].overlaps(&values[1], 2) && !values[1].overlaps(&values[2], 2));
    assert!(values[1].overlaps(&values[1], 2) && !values[1].is_empty(2));
}

#[test]
fn lists_name_their_values() {
    let list = |values: &[Option<i32>]| {
        PartitionValues::List(values.iter().map(|&value| vec![key(0, value)]).collect())
    };
    let values = [list(&[Some(1), None]), list(&[Some(2)])];
    let router = Router::new(&by(PartitionMethod::List, &[1]), &values);
    let asked = [(Some(2), 0), (None, 0), (Some(3), 0)];
    assert_eq!(routes(&router, &asked), [Some(1), Some(0), None]);
}

#[test]
fn keys_of_lost_partitions_are_told_by_their_columns() {
    let values = [PartitionValues::Range { lower: None, upper: vec![key(1, Some(5))] }];
    let router = Router::new(&by(PartitionMethod::Range, &[2]), &values);
    let schema = schema();
    let lost = RoutedKeys::new(router, &schema);
    let keys = KeyCodec::of_sort_key(&schema).of_rows(&rows(&[(Some(9), 4), (None, 5)]));
    assert_eq!([lost.has(keys.key(0)), lost.has(keys.key(1))], [true, false]);
}

fn auto(auto: AutoPartition, method: PartitionMethod) -> PartitionBy {
    PartitionBy { auto: Some(auto), ..by(method, &[1]) }
}

#[test]
fn a_row_that_no_list_has_wants_one_of_its_value() {
    let by = auto(AutoPartition::Value, PartitionMethod::List);
    let router = Router::new(&by, &[by.nothing(), PartitionValues::List(vec![vec![key(0, None)]])]);
    let asked = rows(&[(Some(2), 0), (None, 0), (Some(2), 1), (Some(3), 0)]);
    let wanted = router.wanted(&by, &schema(), &asked);
    assert_eq!(wanted, [vec![key(0, Some(2))], vec![key(0, Some(3))]]);
}

#[test]
fn a_row_that_no_range_has_wants_its_period() {
    let by = auto(AutoPartition::Period(TimeUnit::Month), PartitionMethod::Range);
    let column = Column::new(ColumnId(1), "d", ColumnType::Date);
    let schema = TableSchema::new(Default::default(), vec![column.clone()], vec![0]);
    let key = |text| value_key(&column, Some(text)).unwrap();
    let mut bytes = Vec::new();
    let mut writer = RowWriter::new(1, &mut bytes);
    for text in [Some("2024-02-29"), None, Some("2024-02-01"), Some("9999-12-31")] {
        writer.begin_row();
        let literal = text.map_or(Literal::Null, |text| Literal::Text(text.as_bytes()));
        let put = |out: &mut Vec<u8>| value::put(&column, literal, &Rules::default(), out);
        assert!(writer.cell(put).is_ok());
        writer.end_row();
    }
    let router = Router::new(&by, &[by.nothing()]);
    let wanted = router.wanted(&by, &schema, &bytes);
    assert_eq!(wanted, [vec![key("2024-02-29")], vec![key("9999-12-31")]]);
    let made = by.made_for(&[&column], &wanted[0]).unwrap();
    let (lower, upper) = (vec![key("2024-02-01")], vec![key("2024-03-01")]);
    assert_eq!(made, PartitionValues::Range { lower: Some(lower), upper });
    let last = by.made_for(&[&column], &wanted[1]).unwrap();
    let lower = Some(vec![key("9999-12-01")]);
    assert_eq!(last, PartitionValues::Range { lower, upper: Vec::new() });
    assert!(by.nothing().is_nothing() && !last.is_nothing());
}

#[test]
fn the_default_of_lists_takes_what_no_list_has() {
    let list = |values: &[Option<i32>]| {
        PartitionValues::List(values.iter().map(|&value| vec![key(0, value)]).collect())
    };
    let others = || PartitionValues::Others(Vec::new());
    let mut values = [list(&[Some(1), None]), others(), list(&[Some(2)])];
    tell_others(&mut values);
    let by = by(PartitionMethod::List, &[1]);
    let asked = [(Some(2), 0), (None, 0), (Some(3), 0), (Some(1), 0)];
    assert_eq!(routes(&Router::new(&by, &values), &asked), [Some(2), Some(0), Some(1), Some(0)]);
    // Alone it does not take those of others either.
    let alone = Router::new(&by, [&values[1]]);
    assert_eq!(routes(&alone, &asked), [None, None, Some(0), None]);
    assert!(!values[0].overlaps(&values[1], 1) && !values[1].overlaps(&values[2], 1));
    assert!(values[1].overlaps(&list(&[Some(5), Some(1)]), 1) && values[1].overlaps(&others(), 1));
    assert!(!values[1].is_empty(1) && !values[1].is_nothing());
}
