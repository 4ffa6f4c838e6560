//! The bytes of what columns got later.

use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::{
    Aggregate, Check, Column, ColumnType, DefaultValue, Generated, LobSize, TableSchema,
    hidden_columns,
};

use super::golden::has_bytes;
use crate::disk::{decode, encode};

#[test]
fn column_with_on_update() {
    let mut column = Column::new(ColumnId(1), "c", ColumnType::Timestamp { fsp: 6 });
    column.on_update_now = true;
    let schema = TableSchema::new(SchemaVersion(1), vec![column], Vec::new());
    has_bytes(&schema, "01080112100801120163200130013801 7801 e00106");
}

#[test]
fn columns_with_the_size_of_texts() {
    let column = |lob_size| Column { lob_size, ..Column::new(ColumnId(1), "c", ColumnType::Text) };
    let sizes = [LobSize::Plain, LobSize::Tiny, LobSize::Medium, LobSize::Long];
    let schema = TableSchema::new(SchemaVersion(1), sizes.map(column).to_vec(), Vec::new());
    has_bytes(
        &schema,
        "010801 120e 0801 120163 2001 3001 3801 fa0100 \
         1211 0801 120163 2001 3001 3801 fa0100 880301 \
         1211 0801 120163 2001 3001 3801 fa0100 880302 \
         1211 0801 120163 2001 3001 3801 fa0100 880303",
    );
}

#[test]
fn columns_with_labels() {
    let types = [ColumnType::Enum { len: 2 }, ColumnType::Set { len: 4 }];
    let columns = types.map(|ty| Column {
        labels: ["a", "bc"].map(str::to_owned).into(),
        ..Column::new(ColumnId(1), "c", ty)
    });
    let schema = TableSchema::new(SchemaVersion(1), columns.to_vec(), Vec::new());
    has_bytes(
        &schema,
        "010801 1217 0801 120163 2001 3001 3801 a80202 ba020161 ba02026263 \
         1217 0801 120163 2001 3001 3801 b00204 ba020161 ba02026263",
    );
}

#[test]
fn columns_of_nested_types() {
    let element = |name: &str, ty| Column::new(ColumnId(0), name, ty);
    let int = ColumnType::Int { unsigned: false };
    let list = Column {
        elements: [element("item", int)].into(),
        ..Column::new(ColumnId(1), "c", ColumnType::Array)
    };
    let map = Column {
        elements: [element("key", ColumnType::VarChar { len: 3 }), list.clone()].into(),
        ..Column::new(ColumnId(1), "c", ColumnType::Map)
    };
    let fields = Column {
        elements: [element("a", ColumnType::Date)].into(),
        ..Column::new(ColumnId(1), "c", ColumnType::Struct)
    };
    let variant = Column::new(ColumnId(1), "c", ColumnType::Variant);
    let columns = vec![list, map, fields, variant];
    let schema = TableSchema::new(SchemaVersion(1), columns, Vec::new());
    let list = "0801 120163 2001 3001 3801 da0200 f2020f 12046974656d 2001 3001 3801 a00100";
    has_bytes(
        &schema,
        &format!(
            "010801 1220 {list} \
             1242 0801 120163 2001 3001 3801 e20200 f2020e 12036b6579 2001 3001 3801 f00103 \
             f20220 {list} \
             121d 0801 120163 2001 3001 3801 ea0200 f2020c 120161 2001 3001 3801 d20100 \
             120e 0801 120163 2001 3001 3801 d20200"
        ),
    );
    let mut lacking = schema.columns[0].clone();
    lacking.elements = Default::default();
    let lacking = TableSchema::new(SchemaVersion(1), vec![lacking], Vec::new());
    let refusal = decode::<TableSchema>(&encode(&lacking)).unwrap_err().to_string();
    assert!(refusal.contains("a nested type lacks a part"), "{refusal}");
}

#[test]
fn schema_with_a_default_that_is_an_expression() {
    let ty = ColumnType::Year;
    let default = Some(DefaultValue::Expression("1+2".to_owned()));
    let column = Column { default, ..Column::new(ColumnId(1), "c", ty) };
    let schema = TableSchema::new(SchemaVersion(1), vec![column], Vec::new());
    has_bytes(&schema, "01 0801 1214 0801 120163 2001 3001 3801 8203 03312b32 a202 00");
}

#[test]
fn schema_with_checks() {
    let column = Column::new(ColumnId(1), "c", ColumnType::Year);
    let checks = vec![Check {
        name: "k".to_owned(),
        text: "c > 1".to_owned(),
        columns: vec![ColumnId(1)],
        is_enforced: true,
    }];
    let schema = TableSchema::new(SchemaVersion(1), vec![column], Vec::new()).with_checks(checks);
    has_bytes(
        &schema,
        "010801 120e 0801 120163 2001 3001 3801 a20200 220f 0a016b 120563203e2031 1a0101 2001",
    );
}

#[test]
fn column_that_is_generated() {
    let mut column = Column::new(ColumnId(2), "d", ColumnType::Year);
    let (text, columns) = ("c + 1".to_owned(), vec![ColumnId(1)]);
    column.generated = Some(Generated { text, columns, is_stored: true });
    let named = Column::new(ColumnId(1), "c", ColumnType::Year);
    let schema = TableSchema::new(SchemaVersion(1), vec![named, column.clone()], Vec::new());
    has_bytes(
        &schema,
        "010801 120e 0801 120163 2001 3001 3801 a20200 \
         121d 0802 120164 2001 3001 3801 a20200 fa020c 0a0563202b2031 120101 1801",
    );
    let alone = TableSchema::new(SchemaVersion(1), vec![column], Vec::new());
    let refusal = decode::<TableSchema>(&encode(&alone)).unwrap_err().to_string();
    assert!(refusal.contains("names a column that it lacks"), "{refusal}");
}

#[test]
fn column_of_bits() {
    let column = Column::new(ColumnId(1), "c", ColumnType::Bit { len: 9 });
    let schema = TableSchema::new(SchemaVersion(1), vec![column], Vec::new());
    has_bytes(&schema, "010801 120e 0801 120163 2001 3001 3801 c00209");
}

#[test]
fn schema_with_a_sequence() {
    let int = ColumnType::Int { unsigned: false };
    let hidden = hidden_columns(ColumnId(2), Some(int));
    let columns = [vec![Column::new(ColumnId(1), "k", int)], hidden].concat();
    let schema = TableSchema::new(SchemaVersion(1), columns.clone(), vec![0]);
    has_bytes(
        &schema.clone().sequenced_by(Some(ColumnId(2))),
        "010801 120e 0801 12016b 2001 3001 3801 a00100 \
         1223 0802 12165f5f444f5249535f53455155454e43455f434f4c5f5f 2001 3001 3801 a00100 \
         1223 0803 12155f5f444f5249535f44454c4554455f5349474e5f5f 3001 3801 4a0130 880100 \
         1a0100 2802",
    );
    let refusal = |change: fn(&mut Vec<u8>)| {
        let mut bytes = encode(&schema.clone().sequenced_by(Some(ColumnId(2))));
        change(&mut bytes);
        decode::<TableSchema>(&bytes).unwrap_err().to_string()
    };
    let last = |bytes: &mut Vec<u8>| bytes.last_mut().map(|id| *id = 9).unwrap_or_default();
    assert!(refusal(last).contains("its sequence column is none"));
}

#[test]
fn columns_of_sketches() {
    let joined = Column {
        aggregate: Some(Aggregate::BitmapUnion),
        ..Column::new(ColumnId(1), "c", ColumnType::Bitmap)
    };
    let columns = vec![joined, Column::new(ColumnId(2), "d", ColumnType::Hll)];
    let schema = TableSchema::new(SchemaVersion(1), columns, Vec::new());
    has_bytes(
        &schema,
        "010801 1210 0801 120163 2001 3001 3801 7006 e20300 \
         120e 0802 120164 2001 3001 3801 ea0300",
    );
}
