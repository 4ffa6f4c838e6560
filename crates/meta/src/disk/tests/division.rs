//! What says where the rows of a table are.

use freshet_base::{ColumnId, TableId};
use freshet_schema::{
    Column, ColumnType, Distribution, PartitionExpr, PartitionValues, Step, Table, TimePart,
};

use super::golden::{has_bytes, sample_table};
use crate::disk::OnDisk;
use crate::{Definition, MetaEvent};

#[test]
fn a_table_divided_by_parts_of_moments() {
    let parts = vec![(ColumnId(1), Some(TimePart::Month)), (ColumnId(2), None)];
    has_bytes(
        &Table { distribution: Distribution::Parts(parts), ..sample_table() },
        "01080710031a01742002280130013a09080212016b1a02010242150801120e0801120161200130013801\
         a001001a010042250802120e0801120161200130013801a00100120e0802120162200130013801a00100\
         1a01004803520b0808120170180122020a0bda01080a020102120203006801721408904e108080802018\
         0120012a060a01781201797a046e6f746580018080f9c0c1c48203880101",
    );
    let all = TimePart::ALL.iter().map(TimePart::form).collect::<Vec<_>>();
    assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn a_table_divided_by_computed_numbers() {
    let expr = PartitionExpr {
        text: "t".to_owned(),
        steps: vec![Step::Value, Step::Number(4), Step::Modulo],
        of: ColumnType::Int { unsigned: false },
        nullable: true,
        numbers: Column::new(ColumnId(1), "a", ColumnType::BigInt { unsigned: false }),
    };
    has_bytes(
        &Table { distribution: Distribution::Computed(Box::new(expr)), ..sample_table() },
        "01080710031a01742002280130013a09080212016b1a02010242150801120e0801120161200130013801\
         a001001a010042250802120e0801120161200130013801a00100120e0802120162200130013801a00100\
         1a01004803520b0808120170180122020a0be201210a017412020801120408021008120208081a0e0801\
         120161200130013801a001006801721408904e1080808020180120012a060a01781201797a046e6f7465\
         80018080f9c0c1c48203880101",
    );
}

#[test]
fn a_table_whose_first_partition_has_other_buckets() {
    let table = Table { buckets: 3, ..sample_table() };
    has_bytes(
        &table,
        "01080710031a01742002280130013a09080212016b1a02010242150801120e0801120161200130013801\
         a001001a010042250802120e0801120161200130013801a00100120e0802120162200130013801a00100\
         1a01004803520b0808120170180122020a0b5a030a01016801721408904e1080808020180120012a060a\
         01781201797a046e6f746580018080f9c0c1c48203880101d00103",
    );
}

#[test]
fn other_buckets_for_partitions_to_come() {
    let change = Definition::Buckets { count: 5, auto: true };
    let event = MetaEvent::Define { table: TableId(7), change };
    has_bytes(&event, "01 2208 0807 7204 0805 1001");
}

#[test]
fn the_default_of_lists() {
    has_bytes(&PartitionValues::Others(vec![vec![vec![5]]]), "01 1a030a0105 2001");
    has_bytes(&PartitionValues::List(vec![vec![vec![5]]]), "01 1a030a0105");
}
