//! The bytes of keys that were declared.

use freshet_base::ColumnId;
use freshet_schema::{DeclaredKey, DeclaredKeyKind, GlobalIndex, Placement};

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
    };
    has_bytes(&key, "01 0803 120167 1a0101 220d 0801 120102 1a06 0a0170 120101");
    let local = DeclaredKey { global: None, ..key };
    has_bytes(&local, "01 0803 120167 1a0101");
    let described = DeclaredKey { comment: "c".to_owned(), ..local };
    has_bytes(&described, "01 0803 120167 1a0101 2a0163");
}
