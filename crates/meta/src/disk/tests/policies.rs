//! Any values of row policies.

use freshet_base::ColumnId;
use freshet_schema::{PolicyHolder, RowPolicy};
use proptest::collection::vec;
use proptest::prelude::*;

pub(super) fn policy() -> impl Strategy<Value = RowPolicy> {
    let text = || "[a-z%\\x00\u{e9}]{0,6}";
    let holder = (text(), text(), any::<bool>());
    let parts = (text(), any::<bool>(), holder, "[a-z]{1,9}", vec(any::<u32>(), 0..3));
    parts.prop_map(|(name, is_restrictive, (of, host, is_role), text, columns)| RowPolicy {
        name,
        is_restrictive,
        holder: PolicyHolder { name: of, host, is_role },
        text,
        columns: columns.into_iter().map(ColumnId).collect(),
    })
}
