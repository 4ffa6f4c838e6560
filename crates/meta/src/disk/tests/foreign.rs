//! Foreign keys: their bytes, and any values of them.

use freshet_base::{ColumnId, TableId};
use freshet_schema::{ForeignKey, ReferenceAction};
use proptest::prelude::*;
use proptest::{collection::vec, option, sample::select};

use super::golden::has_bytes;
use crate::{Definition, ForeignChange, MetaEvent};

fn foreign_key() -> impl Strategy<Value = ForeignKey> {
    let columns = vec((any::<u32>(), "[a-z]{1,9}"), 1..3);
    let text = || "[a-z%\u{e9}]{0,6}";
    let actions = || select(ReferenceAction::ALL.to_vec());
    let parts = (text(), columns, option::of(text()), text(), actions(), actions());
    parts.prop_map(|(name, columns, database, table, on_delete, on_update)| {
        let (columns, referenced) =
            columns.into_iter().map(|(id, name)| (ColumnId(id), name)).unzip();
        ForeignKey { name, columns, database, table, referenced, on_delete, on_update }
    })
}

pub(super) fn foreign_change() -> impl Strategy<Value = ForeignChange> {
    let parts = (vec("[a-z%\u{e9}]{0,6}", 0..3), vec(foreign_key(), 0..3));
    parts.prop_map(|(dropped, added)| ForeignChange { dropped, added })
}

pub(super) fn sample(column: ColumnId) -> ForeignKey {
    ForeignKey {
        name: "f".to_owned(),
        columns: vec![column],
        database: None,
        table: "u".to_owned(),
        referenced: vec!["a".to_owned()],
        on_delete: ReferenceAction::Cascade,
        on_update: ReferenceAction::NoAction,
    }
}

#[test]
fn foreign_keys_have_the_bytes_that_older_stores_have() {
    let foreign = sample(ColumnId(2));
    has_bytes(&foreign, "01 0a0166 120102 220175 2a0161 3003 3801");
    let foreign = ForeignChange { dropped: vec!["g".to_owned()], added: vec![foreign] };
    let change = Definition::Keys(Vec::new(), foreign);
    let event = MetaEvent::Define { table: TableId(7), change };
    has_bytes(&event, "01 2219 0807 3a15 1210 0a0166 120102 220175 2a0161 3003 3801 1a0167");
}
