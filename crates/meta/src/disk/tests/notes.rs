//! The bytes of notes of prepared loads.

use freshet_base::{DbId, Incarnation, SchemaVersion, TableId, TxnId};

use super::golden::{has_bytes, sample_rowset};
use crate::{NotedPartial, NotedRows, PreparedNote};

#[test]
fn notes_of_prepared_loads() {
    let rowset = sample_rowset();
    let note = PreparedNote {
        txn: TxnId(7),
        db: DbId(2),
        label: "l".to_owned(),
        table: TableId(3),
        incarnation: Incarnation(4),
        schema_version: SchemaVersion(5),
        rows: u32::try_from(rowset.rows).unwrap(),
        rowsets: vec![rowset],
        noted: None,
        partial: None,
        is_grouped: false,
        highest_id: Some(9),
        expires_micros: 10,
    };
    has_bytes(
        &note,
        "01080710021a016c200328043005380742660814100a186520c80128023226120c32305f302e7061 \
         7271756574180320882728a01f35040302013a0911000000000000008032310801120c32305f312e \
         70617271756574180420882728a01f35040302013a12090100000000000000110000000000000080 \
         4809500a",
    );
    let noted = Some(NotedRows { bytes: 300, checksum: 5 });
    let note = PreparedNote { rowsets: Vec::new(), noted, ..note };
    has_bytes(&note, "01080710021a016c20032804300538074809500a5a0508ac021005");
    let grouped = PreparedNote { is_grouped: true, ..note.clone() };
    has_bytes(&grouped, "01080710021a016c20032804300538074809500a5a0508ac0210056801");
    let (given, required) = (vec![true, false], vec![1]);
    let (is_flexible, refuses_new, deletes) = (true, false, false);
    let partial = NotedPartial { given, required, is_flexible, refuses_new, deletes };
    let note = PreparedNote { partial: Some(partial.clone()), ..note };
    has_bytes(
        &note,
        "01080710021a016c20032804300538074809500a5a0508ac02100562090a0201001201011801",
    );
    let partial = NotedPartial { deletes: true, ..partial };
    let note = PreparedNote { partial: Some(partial), ..note };
    has_bytes(
        &note,
        "01080710021a016c20032804300538074809500a5a0508ac021005620e0a020100120601ffffffff0f1801",
    );
}
