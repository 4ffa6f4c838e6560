//! Keys that a load deletes and that no partition takes: there is nothing to delete, and with AUTO
//! PARTITION no partition is made for them.

use std::collections::BTreeSet;

use bytes::Bytes;
use freshet_base::{Result, bail};
use freshet_schema::TableSchema;
use freshet_schema::key::KeyCodec;
use freshet_schema::row::RowCells;

use crate::ddl::Ddl;
use crate::partitions::Layout;
use crate::target::LoadTarget;

/// Partitions are made for further ones, since these are kept in memory.
const LEFT_OUT_MAX: usize = 1 << 18;

/// Keys that a load has left out. Others may make their partition until its record is appended, and
/// a later row of the load may need it, too.
#[derive(Default)]
pub struct LeftOut(BTreeSet<Box<[u8]>>);

impl LeftOut {
    /// Makes the partitions that rows need, and leaves out those of `deletes` whose key none takes.
    ///
    /// # Errors
    /// Those of making partitions.
    pub(crate) async fn leave(
        &mut self,
        ddl: &Ddl,
        target: &LoadTarget,
        (rows, deletes): (Bytes, Vec<bool>),
    ) -> Result<(Bytes, Vec<bool>)> {
        let may_leave_out = deletes.contains(&true) && self.0.len() < LEFT_OUT_MAX;
        if !may_leave_out || target.state.layout().is_none() {
            ddl.make_partitions(target, &rows, 0).await?;
            return Ok((rows, deletes));
        }
        let schema = target.schema();
        let cells = RowCells::new(schema);
        let added = cells.rows(&rows).zip(&deletes).filter(|(_, deletes)| !**deletes);
        let added = added.flat_map(|(row, _)| row).copied().collect::<Vec<_>>();
        ddl.make_partitions(target, &added, 0).await?;
        let layout = target.state.layout().expect("a table stays divided");
        let (routed, codec) = (layout.routed_keys(schema), KeyCodec::of_sort_key(schema));
        let (mut left, mut signs) = (Vec::with_capacity(rows.len()), Vec::new());
        let mut key = Vec::new();
        for (row, deletes) in cells.rows(&rows).zip(deletes) {
            if deletes {
                key.clear();
                codec.put(row, &mut key);
                if !routed.has(&key) {
                    self.0.insert(key.as_slice().into());
                    continue;
                }
            }
            left.extend_from_slice(row);
            signs.push(deletes);
        }
        Ok((left.into(), signs))
    }

    /// Takes those out that a partition takes by now.
    pub(crate) fn taken(&mut self, target: &LoadTarget) -> Vec<Box<[u8]>> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let layout = target.state.layout().expect("a table stays divided");
        let routed = layout.routed_keys(target.schema());
        self.0.extract_if(.., |key| routed.has(key)).collect()
    }

    /// All of them.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.0.iter().map(|key| &**key)
    }

    /// Checks that no partition takes any of them; called under the append lock.
    ///
    /// # Errors
    /// `SnapshotTooOld` where somebody has made one.
    pub(crate) fn check(&self, table: &str, schema: &TableSchema, layout: &Layout) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let routed = layout.routed_keys(schema);
        if !self.0.iter().any(|key| routed.has(key)) {
            return Ok(());
        }
        bail!(
            SnapshotTooOld,
            "table '{table}' got a partition of keys that the load deletes while it ran; nothing \
             was loaded, send it again"
        );
    }
}
