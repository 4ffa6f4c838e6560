//! UNIX_TIMESTAMP of a text in the values of partitions, which is a number by the time zone of the
//! session that says it.

use freshet_schema::value::temporal::{LocalDateTime, parse};
use freshet_schema::{PartitionFunction, Zone};

use crate::partition::PartitionChange;
use crate::rewrite::Division;
use crate::spec::{PartitionBySpec, PartitionSpec, StepsSpec, TableSpec, ValueSpec, ValuesSpec};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// The seconds from 1970-01-01 on of a moment in UTC.
pub(crate) fn unix_seconds(moment: &LocalDateTime) -> i64 {
    micros(moment).div_euclid(MICROS_PER_SECOND)
}

fn micros(moment: &LocalDateTime) -> i64 {
    i64::from(moment.days) * MICROS_PER_DAY + moment.micros
}

impl ValueSpec {
    /// What is no moment is refused where its partition is.
    fn say_in(&mut self, zone: Zone) {
        let Self::Call(PartitionFunction::UnixTimestamp, text) = self else { return };
        if let Some(moment) = parse(text.as_bytes()) {
            let instant = zone.to_utc_or_skip(micros(&moment));
            *self = Self::Literal(instant.div_euclid(MICROS_PER_SECOND).to_string());
        }
    }
}

impl PartitionSpec {
    fn say_in(&mut self, zone: Zone) {
        let values = match &mut self.values {
            ValuesSpec::LessThan(values) => vec![values],
            ValuesSpec::Range(lower, upper) => vec![lower, upper],
            ValuesSpec::In(lists) => lists.iter_mut().collect(),
            ValuesSpec::Steps(StepsSpec { from, to, .. }) => {
                [from, to].into_iter().for_each(|value| value.say_in(zone));
                Vec::new()
            }
        };
        values.into_iter().flatten().for_each(|value| value.say_in(zone));
    }
}

impl PartitionBySpec {
    fn say_in(&mut self, zone: Zone) {
        self.partitions.iter_mut().for_each(|partition| partition.say_in(zone));
    }
}

impl TableSpec {
    /// With the values of partitions as they are in a time zone.
    pub fn say_in(&mut self, zone: Zone) {
        self.partition_by.iter_mut().for_each(|by| by.say_in(zone));
    }
}

impl PartitionChange {
    /// With the values of partitions as they are in a time zone.
    #[must_use]
    pub fn said_in(mut self, zone: Zone) -> Self {
        match &mut self {
            Self::Add(specs) | Self::Reorganize { into: specs, .. } => {
                specs.iter_mut().for_each(|spec| spec.say_in(zone));
            }
            Self::AddDistributed { spec, .. } => spec.say_in(zone),
            Self::SplitAt { at, .. } => at.iter_mut().for_each(|value| value.say_in(zone)),
            _ => {}
        }
        self
    }
}

impl Division {
    /// With the values of partitions as they are in a time zone.
    #[must_use]
    pub fn said_in(mut self, zone: Zone) -> Self {
        if let Self::By(spec) = &mut self {
            spec.partition_by.iter_mut().for_each(|by| by.say_in(zone));
        }
        self
    }
}
