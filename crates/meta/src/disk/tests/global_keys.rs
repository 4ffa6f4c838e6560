//! The bytes of keys that were declared.

use freshet_base::ColumnId;
use freshet_schema::{DeclaredKey, DeclaredKeyKind, GlobalIndex, KeyForm, Placement};

use super::golden::has_bytes;

#[test]
fn a_global_index() {
    let placement = Placement { text: "p".to_owned(), columns: vec![ColumnId(1)] };
    let key = DeclaredKey {
        kind: DeclaredKeyKind::Index,
        name: "g".to_owned(),
        columns: vec![ColumnId(1)],
        comment: String::new(),
        global: Some(GlobalIndex {
            clustered: true,
            covering: vec![ColumnId(2)],
            placement: Some(placement),
        }),
        form: KeyForm::default(),
    };
    has_bytes(&key, "01 0803 120167 1a0101 220d 0801 120102 1a06 0a0170 120101");
    let local = DeclaredKey { global: None, ..key };
    has_bytes(&local, "01 0803 120167 1a0101");
    let described = DeclaredKey { comment: "c".to_owned(), ..local };
    has_bytes(&described, "01 0803 120167 1a0101 2a0163");
}

#[test]
fn a_key_with_what_show_says_again() {
    let key = DeclaredKey {
        kind: DeclaredKeyKind::Index,
        name: "g".to_owned(),
        columns: vec![ColumnId(1), ColumnId(2)],
        comment: String::new(),
        global: None,
        form: KeyForm {
            is_btree: true,
            descending: vec![ColumnId(2)],
            first: vec![(ColumnId(1), 10)],
        },
    };
    has_bytes(&key, "01 0803 120167 1a020102 3001 3a0102 420101 4a010a");
}
