//! The numbers of collations, in columns and behind the other parts of a table.

use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::{Collation, Column, ColumnType, Table, TableSchema};

use super::golden::sample_table;
use crate::disk::{OnDisk, decode, encode};

#[test]
fn numbers_of_collations() {
    let all = [
        Collation::Binary,
        Collation::Utf8mb4Bin,
        Collation::Utf8mb40900Bin,
        Collation::Utf8mb40900AiCi,
        Collation::Utf8mb40900AsCi,
        Collation::Utf8mb40900AsCs,
        Collation::Utf8mb4GeneralCi,
        Collation::Utf8mb4UnicodeCi,
        Collation::Utf8mb4Unicode520Ci,
    ];
    assert_eq!(all.map(|collation| collation.form()), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_table_with_a_collation_has_its_number_behind_the_rest() {
    let plain = encode(&sample_table());
    let table = Table { collation: Collation::Utf8mb40900AiCi, ..sample_table() };
    assert_eq!(encode(&table), [&plain[..], &[0xa8, 0x01, 0x04]].concat());
}

#[test]
fn a_column_that_keys_have_by_weights_says_so_behind_the_rest() {
    let column = |keyed_by_weights| {
        let text = Column::new(ColumnId(1), "a", ColumnType::VarChar { len: 5 });
        let column = Column { collation: Collation::Utf8mb4GeneralCi, keyed_by_weights, ..text };
        TableSchema::new(SchemaVersion(1), vec![column], Vec::new())
    };
    let (plain, weighed) = (encode(&column(false)), encode(&column(true)));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&plain), PLAIN);
    assert_eq!(hex(&weighed), WEIGHED);
    assert_eq!(decode::<TableSchema>(&plain).unwrap(), column(false));
    assert_eq!(decode::<TableSchema>(&weighed).unwrap(), column(true));
}

const PLAIN: &str = "010801120e0801120161200130073801f00105";
const WEIGHED: &str = "01080112110801120161200130073801f00105c80201";
