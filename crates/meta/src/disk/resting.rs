//! Partitions in the recycle bin.

use freshet_base::TableId;
use freshet_schema::Partition;
use prost::Message;

use super::partition::PartitionForm;
use super::rowset::MarkFileForm;
use super::table::DeclaredKeyForm;
use super::{OnDisk, Unreadable, ensure, forms, from_forms, required};
use crate::fold::Resting;

/// A partition in the recycle bin.
#[derive(Clone, PartialEq, Message)]
pub struct RestingForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(message, optional, tag = "2")]
    partition: Option<PartitionForm>,
    #[prost(int64, tag = "3")]
    dropped_micros: i64,
    #[prost(message, repeated, tag = "4")]
    marks: Vec<MarkFileForm>,
    #[prost(message, repeated, tag = "5")]
    keys: Vec<DeclaredKeyForm>,
}

impl OnDisk for Resting {
    type Form = RestingForm;

    fn form(&self) -> RestingForm {
        RestingForm {
            table: self.table.get(),
            partition: Some(self.partition.form()),
            dropped_micros: self.dropped_micros,
            marks: forms(&self.marks),
            keys: forms(&self.keys),
        }
    }

    fn from_form(form: RestingForm) -> Result<Self, Unreadable> {
        let partition = required::<Partition>(form.partition, "partition")?;
        ensure(partition.values.is_some(), "a partition in the recycle bin has no values")?;
        Ok(Self {
            table: TableId(form.table),
            partition,
            dropped_micros: form.dropped_micros,
            marks: from_forms(form.marks)?,
            keys: from_forms(form.keys)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use freshet_base::{Incarnation, PartitionId, TabletId};
    use freshet_schema::PartitionValues;

    use super::super::{decode, encode};
    use super::*;

    #[test]
    fn a_partition_in_the_recycle_bin_has_a_form() {
        let values = PartitionValues::List(vec![vec![vec![0]]]);
        let partition = Partition {
            id: PartitionId(8),
            name: "p".to_owned(),
            incarnation: Incarnation(1),
            tablets: vec![TabletId(10)],
            values: Some(values),
        };
        let (marks, keys) = (Vec::new(), Vec::new());
        let resting = Resting { table: TableId(7), partition, dropped_micros: 9, marks, keys };
        let bytes = encode(&resting);
        let head = [1, 8, 7, 0x12, 17, 8, 8, 0x12, 1, b'p', 0x18, 1, 0x22, 1, 10];
        let values = [0x2a, 5, 0x1a, 3, 10, 1, 0];
        assert_eq!(bytes, [&head[..], &values, &[0x18, 9]].concat());
        assert_eq!(decode::<Resting>(&bytes).unwrap(), resting);
        let form = RestingForm { partition: None, ..resting.form() };
        assert!(Resting::from_form(form).is_err(), "it has no partition");
    }
}
