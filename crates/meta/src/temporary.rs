//! Temporary partitions of Doris: those of a table without a name, which stands beside the table
//! that they are for.

use std::sync::Arc;

use freshet_base::{Incarnation, Result, TableId, bail};
use freshet_schema::{PartitionBy, SchemaHistory, Table, TableForm, TableSchema};

use crate::catalog::Catalog;
use crate::create::NewPartition;
use crate::meta::Meta;
use crate::partition::{check_unique_in_partition, not_divided};

impl Catalog {
    /// The table that has the temporary partitions of another one, if there is one.
    pub fn temporary_partitions(&self, of: TableId) -> Option<&Arc<Table>> {
        self.tables().find(|table| table.temporary_of == Some(of))
    }

    /// A table, and the one that has its temporary partitions.
    pub fn with_temporary(&self, id: TableId) -> Vec<TableId> {
        let temporary = self.temporary_partitions(id).map(|table| table.id);
        [id].into_iter().chain(temporary).collect()
    }

    /// Whether a table has temporary partitions.
    pub fn has_temporary_partitions(&self, id: TableId) -> bool {
        let temporary = self.temporary_partitions(id);
        temporary.is_some_and(|table| table.shown_partitions().next().is_some())
    }

    /// Checks that a table has no temporary partitions, whose rows would have other columns or keys
    /// than its own.
    ///
    /// # Errors
    /// 1105, in the words of Doris.
    pub fn check_no_temporary(&self, table: &Table) -> Result<()> {
        if !self.has_temporary_partitions(table.id) {
            return Ok(());
        }
        bail!(
            Unknown,
            "Can not alter table when there are temp partitions in table '{}': REPLACE PARTITION \
             or DROP TEMPORARY PARTITION first",
            table.name
        )
    }

    /// Whether a table is left over of a statement that did not come to its end, or has partitions
    /// of a table that is gone: the next start drops it.
    pub fn is_left_over(&self, table: &Table) -> bool {
        let has_owner = |of| self.table_by_id(of).is_some();
        table.unlisted
            && table.dropped_micros.is_none()
            && !table.temporary_of.is_some_and(has_owner)
    }
}

impl Meta {
    /// A table for the temporary partitions of another one, without any.
    ///
    /// # Errors
    /// 1505 for a table without PARTITION BY, 1235 for one that cannot have temporary partitions.
    pub fn new_temporary_partitions(&self, id: TableId) -> Result<Arc<Table>> {
        let catalog = self.catalog();
        let table = catalog.require(id)?;
        let Some(by) = &table.partition_by else { return Err(not_divided()) };
        if table.form != TableForm::Olap {
            bail!(
                NotSupported,
                "This version of Freshet doesn't yet support 'TEMPORARY PARTITION' of a table in \
                 the form of MySQL; EXCHANGE PARTITION takes the rows of another table"
            );
        }
        check_unique_in_partition(table, "TEMPORARY PARTITION")?;
        Self::check_table_count(&catalog)?;
        let by = PartitionBy { auto: None, ..by.clone() };
        let nothing = NewPartition { name: String::new(), values: Some(by.nothing()) };
        let nothing = self.partition_of(nothing, table.buckets, Incarnation(1))?;
        let mut properties = table.properties.clone();
        properties.others.retain(|(name, _)| !name.starts_with("dynamic_partition."));
        Ok(Arc::new(Table {
            id: self.ids().table()?,
            history: SchemaHistory::new(TableSchema::clone(table.schema())),
            partition_by: Some(by),
            partitions: vec![nothing],
            properties,
            created_micros: self.clock.0.wall_micros(),
            unlisted: true,
            temporary_of: Some(id),
            policies: Vec::new(),
            ..Table::clone(table)
        }))
    }
}
