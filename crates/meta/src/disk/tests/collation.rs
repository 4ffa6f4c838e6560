//! The numbers of collations, in columns and behind the other parts of a table.

use freshet_schema::{Collation, Table};

use super::golden::sample_table;
use crate::disk::{OnDisk, encode};

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
