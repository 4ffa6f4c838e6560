//! A table of which nothing special is said.

use freshet_base::{ColumnId, DbId, Incarnation, PartitionId, TableId, TabletId};

use crate::{
    Collation, Distribution, KeyModel, Partition, Properties, SchemaHistory, Table, TableForm,
    TableSchema,
};

impl Table {
    /// A table in the form of Doris that keeps every row, in one partition whose rows go anywhere
    /// among its tablets. Tests and benchmarks change what they are about.
    ///
    /// # Panics
    /// Without a tablet.
    #[must_use]
    pub fn plain(id: TableId, schema: TableSchema, tablets: Vec<TabletId>) -> Self {
        assert!(!tablets.is_empty(), "rows lie in tablets");
        let last = schema.columns.iter().map(|column| column.id.get()).max();
        let name = "t".to_owned();
        let partition = Partition {
            id: PartitionId(1),
            name: name.clone(),
            incarnation: Incarnation(1),
            tablets,
            values: None,
        };
        Self {
            id,
            db: DbId(1),
            name,
            form: TableForm::Olap,
            key_model: KeyModel::Duplicate,
            key_columns: 1,
            declared_keys: Vec::new(),
            foreign_keys: Vec::new(),
            history: SchemaHistory::new(schema),
            next_column: ColumnId(last.unwrap_or(0) + 1),
            partition_by: None,
            buckets: partition.tablets.len() as u32,
            partitions: vec![partition],
            distribution: Distribution::Random,
            buckets_auto: false,
            properties: Properties::default(),
            comment: String::new(),
            created_micros: 0,
            collation: Collation::Binary,
            unlisted: false,
            dropped_micros: None,
            temporary_of: None,
            sequence: None,
            policies: Vec::new(),
            placement: None,
        }
    }
}
