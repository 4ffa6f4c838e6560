use freshet_base::ColumnId;
use proptest::prelude::*;
use proptest::strategy::{Strategy, Union};

use arrow::array::{Array, ArrayRef, StringViewArray};

use super::*;
use crate::LengthUnit;

fn scalar(ty: ColumnType) -> Column {
    Column { length_unit: LengthUnit::Bytes, ..Column::new(ColumnId(0), ITEM, ty) }
}

fn of(ty: ColumnType, elements: Vec<Column>) -> Column {
    Column { elements: elements.into(), ..scalar(ty) }
}

fn named(name: &str, column: Column) -> Column {
    Column { name: name.to_owned(), ..column }
}

const INT: ColumnType = ColumnType::Int { unsigned: false };

fn ints() -> Column {
    of(ColumnType::Array, vec![scalar(INT)])
}

fn texts_to_ints() -> Column {
    of(ColumnType::Map, vec![scalar(ColumnType::VarChar { len: 10 }), scalar(INT)])
}

fn pair() -> Column {
    let fields = [("a", INT), ("b", ColumnType::VarChar { len: 3 })];
    of(ColumnType::Struct, fields.map(|(name, ty)| named(name, scalar(ty))).to_vec())
}

/// The text as it is stored; `None` for NULL.
fn stored(column: &Column, text: &str) -> Result<Option<String>, String> {
    let mut cell = Vec::new();
    match put(column, text.as_bytes(), &Rules::default(), &mut cell) {
        Ok(Put::Null) => Ok(None),
        Ok(Put::Value) => {
            let (_, taken) = crate::row::take_length(&cell).unwrap();
            Ok(Some(String::from_utf8(cell[taken..].to_vec()).unwrap()))
        }
        Err(BadValue::NotNested(bad)) => Err(bad.reason()),
        Err(other) => Err(format!("{other:?}")),
    }
}

#[track_caller]
fn becomes(column: &Column, text: &str, wanted: &str) {
    assert_eq!(stored(column, text).unwrap().as_deref(), Some(wanted), "{text}");
}

#[track_caller]
fn is_refused(column: &Column, text: &str, reason: &str) {
    assert_eq!(stored(column, text).unwrap_err(), reason, "{text}");
}

/// The texts of arrays made of these texts.
fn shown_again(column: &Column, texts: &[Option<&str>]) -> Vec<Option<String>> {
    let texts = texts.iter().copied().collect::<StringViewArray>();
    let array: ArrayRef = arrays(column, &texts).unwrap();
    assert_eq!(array.data_type(), &query_type(column));
    let shown = Shown::new(&array).unwrap();
    let text = |row: usize| {
        let mut text = Vec::new();
        shown.text(row, &mut text);
        assert!(text.len() <= shown.bytes_max(), "{} of {}", text.len(), shown.bytes_max());
        (!shown.is_null(row)).then(|| String::from_utf8(text).unwrap())
    };
    (0..array.len()).map(text).collect()
}

#[test]
fn values_have_one_form() {
    becomes(&ints(), "[1,2 , 3]", "[1, 2, 3]");
    becomes(&ints(), " [ ] ", "[]");
    becomes(&ints(), "[\"7\", '8', null, NULL]", "[7, 8, null, null]");
    assert_eq!(stored(&ints(), "null").unwrap(), None);
    becomes(&texts_to_ints(), "{\"k\":1, 'l' : null,m:3}", "{\"k\":1, \"l\":null, \"m\":3}");
    becomes(&texts_to_ints(), "{a:1,b:2,a:3}", "{\"a\":3, \"b\":2}");
    becomes(&texts_to_ints(), "{}", "{}");
    becomes(&pair(), "{\"a\":1,\"b\":\"x\"}", "{\"a\":1, \"b\":\"x\"}");
    becomes(&pair(), "{b:x, A:1}", "{\"a\":1, \"b\":\"x\"}");
    becomes(&pair(), "{1, 'x'}", "{\"a\":1, \"b\":\"x\"}");
    becomes(&pair(), "{}", "{\"a\":null, \"b\":null}");
    let texts = of(ColumnType::Array, vec![scalar(ColumnType::Text)]);
    becomes(
        &texts,
        r#"["a\"b\\c\n\u00e9\ud83d\ude00", '', "null", x y ]"#,
        "[\"a\\\"b\\\\c\\n\u{e9}\u{1f600}\", \"\", \"null\", \"x y\"]",
    );
    let days = of(ColumnType::Array, vec![scalar(ColumnType::Date)]);
    becomes(&days, "[2020-1-2, '20200103']", "[\"2020-01-02\", \"2020-01-03\"]");
    let flags = of(ColumnType::Array, vec![scalar(ColumnType::Boolean)]);
    becomes(&flags, "[true,false,1]", "[1, 0, 1]");
    let cents = ColumnType::Decimal { precision: 5, scale: 2 };
    becomes(&of(ColumnType::Array, vec![scalar(cents)]), "[1.5,-0.004]", "[1.50, 0.00]");
}

#[test]
fn what_is_wrong_is_named() {
    is_refused(&ints(), "[1, x]", "element 2: 'x' is no int");
    is_refused(&ints(), "[1, 99999999999]", "element 2: '99999999999' is out of the range of int");
    is_refused(&ints(), "[1, [2]]", "element 2: int is wanted at position 4, and not '[2]]'");
    is_refused(&ints(), "[1", "',' or ']' is wanted at position 2, and not the end");
    is_refused(&ints(), "1", "'[' is wanted at position 0, and not '1'");
    is_refused(&ints(), "[1] 2", "the end of the value is wanted at position 4, and not '2'");
    is_refused(&texts_to_ints(), "{null:1}", "key 1 is NULL");
    is_refused(
        &texts_to_ints(),
        "{'a' 1}",
        "':' behind key 1 is wanted at position 5, and not '1}'",
    );
    is_refused(&pair(), "{\"a\":1, \"c\":2}", "it has no field 'c'");
    is_refused(&pair(), "{\"a\":1, \"a\":2}", "field 'a' is given twice");
    is_refused(&pair(), "{1}", "it has 2 fields, and 1 are given");
    is_refused(&pair(), "{1, 'x', 2}", "it has 2 fields, and more are given");
    is_refused(&pair(), "{1, b:'x'}", "some of its fields have names, and some have none");
    is_refused(&pair(), "{1, 'long'}", "field 'b': 'long' is 4 bytes, limit 3");
    let deep = of(ColumnType::Array, vec![pair()]);
    is_refused(&deep, "[{1,'x'},{a:y}]", "field 'a' of element 2: 'y' is no int");
    let open = "[".repeat(1 << 20);
    assert!(stored(&ints(), &open).is_err(), "a value is as deep as its type");
    let many = format!("[{}1]", "1,".repeat(ELEMENTS_MAX));
    is_refused(
        &ints(),
        &many,
        &format!("element 1000001: it has more than {ELEMENTS_MAX} elements"),
    );
}

#[test]
fn types_are_shown_and_have_arrays() {
    let column = of(ColumnType::Map, vec![scalar(INT), of(ColumnType::Array, vec![pair()])]);
    assert_eq!(column.type_text(), "map<int,array<struct<a:int,b:varchar(3)>>>");
    let texts = [Some("{1:[{\"a\":1, \"b\":null}, null], 2:null, 3:[]}"), None, Some("{}")];
    let again = shown_again(&column, &texts);
    assert_eq!(again, texts.map(|text| text.map(str::to_owned)));
    assert!(shown_again(&column, &[]).is_empty());
}

fn column() -> impl Strategy<Value = Column> {
    let types = [
        INT,
        ColumnType::Boolean,
        ColumnType::BigInt { unsigned: true },
        ColumnType::LargeInt,
        ColumnType::Float,
        ColumnType::Double,
        ColumnType::Decimal { precision: 9, scale: 2 },
        ColumnType::Decimal { precision: 30, scale: 3 },
        ColumnType::Date,
        ColumnType::DateTime { fsp: 3 },
        ColumnType::VarChar { len: 50 },
        ColumnType::Text,
    ];
    let leaf = Union::new(types.map(|ty| Just(scalar(ty))));
    leaf.clone().prop_recursive(3, 12, 3, move |inner| {
        let fields = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            inner.clone().prop_map(|item| of(ColumnType::Array, vec![item])),
            (leaf.clone(), inner).prop_map(|(key, value)| of(ColumnType::Map, vec![key, value])),
            fields.prop_map(|fields| {
                let named = fields.into_iter().enumerate();
                let named = named.map(|(at, field)| named_field(at, field));
                of(ColumnType::Struct, named.collect())
            }),
        ]
    })
}

fn named_field(at: usize, column: Column) -> Column {
    named(&format!("f{at}"), column)
}

/// A text of a value of a column, out of random numbers.
fn text(column: &Column, numbers: &mut impl Iterator<Item = u32>) -> String {
    let number = numbers.next().unwrap_or(0);
    if number % 11 == 10 {
        return "null".to_owned();
    }
    let count = number as usize % 4;
    match column.ty {
        ColumnType::Array => {
            let items = (0..count).map(|_| text(&column.elements[0], numbers));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        ColumnType::Map => {
            let entries = (0..count).map(|_| {
                let key = loop {
                    let key = text(&column.elements[0], numbers);
                    if key != "null" {
                        break key;
                    }
                };
                format!("{key}:{}", text(&column.elements[1], numbers))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        ColumnType::Struct => {
            let fields = column.elements.iter();
            let fields = fields.map(|field| format!("{}:{}", field.name, text(field, numbers)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        ColumnType::Boolean => (number % 2).to_string(),
        ColumnType::Float | ColumnType::Double => {
            format!("{}{}e{}", number, number % 7, i64::from(number % 50) - 25)
        }
        ColumnType::Decimal { .. } => format!("-{}.{:02}", number % 1000, number % 100),
        ColumnType::Date => format!("'20{:02}-01-{:02}'", number % 100, number % 28 + 1),
        ColumnType::DateTime { .. } => {
            format!("\"2020-01-01 00:{:02}:00.{}\"", number % 60, number % 1000)
        }
        ty if ty.is_text() => {
            let chars =
                ['a', '"', '\\', '\'', '\n', ',', ']', '}', ':', ' ', '\u{e9}', '\u{1f600}'];
            let chars = (0..count).map(|at| chars[(number as usize / 5 + at) % chars.len()]);
            serde_json::to_string(&chars.collect::<String>()).unwrap()
        }
        _ => number.to_string(),
    }
}

proptest! {
    #[test]
    fn what_is_stored_is_shown_and_stored_again(
        column in column().prop_filter("nested", |column| column.ty.is_nested()),
        numbers in prop::collection::vec(0u32..2_000_000_000, 40..200),
        rows in 1usize..5,
    ) {
        let mut numbers = numbers.into_iter();
        let stored = (0..rows)
            .map(|_| {
                let text = text(&column, &mut numbers);
                stored(&column, &text).unwrap_or_else(|bad| panic!("{text}: {bad}"))
            })
            .collect::<Vec<_>>();
        let texts = stored.iter().map(Option::as_deref).collect::<Vec<_>>();
        let again = shown_again(&column, &texts);
        prop_assert_eq!(&again, &stored);
        for text in stored.iter().flatten() {
            let same = super::tests::stored(&column, text).unwrap();
            prop_assert_eq!(same.as_deref(), Some(text.as_str()));
        }
    }

    #[test]
    fn no_text_is_too_much(column in column(), text in "[\\[\\]{}:,\"'a1 \\\\unlNULT.-]{0,60}") {
        if column.ty.is_nested() {
            let _ = stored(&column, &text);
        }
    }
}
