//! Dynamic partitions: the properties `dynamic_partition.*` of a table, and which partitions it has
//! and loses by them at a moment.

use freshet_base::{Result, bail, err};
use freshet_schema::partition::{FirstDay, moment_key};
use freshet_schema::value::temporal::{LocalDateTime, parse};
use freshet_schema::{
    BUCKETS_MAX, Column, ColumnType, Partition, PartitionBy, PartitionMethod, PartitionValues,
    Properties, Table, TimeUnit, Zone,
};

/// What the names of these properties begin with.
const PREFIX: &str = "dynamic_partition.";
/// The maximum number of partitions that are made ahead and, at the beginning, of the past.
const PARTITIONS_AHEAD_MAX: i64 = 500;

/// Properties with an effect.
const WITH_EFFECT: [&str; 12] = [
    "enable",
    "time_unit",
    "time_zone",
    "start",
    "end",
    "prefix",
    "start_day_of_week",
    "start_day_of_month",
    "create_history_partition",
    "history_partition_num",
    "reserved_history_periods",
    "buckets",
];
/// Properties that are kept as written: there is one server.
const KEPT: [&str; 5] = [
    "replication_num",
    "replication_allocation",
    "hot_partition_num",
    "storage_medium",
    "storage_policy",
];

/// When partitions of a table are made and dropped by the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dynamic {
    pub is_enabled: bool,
    pub unit: TimeUnit,
    pub zone: Zone,
    /// As written.
    pub zone_name: String,
    /// Older periods are dropped, counted from the present one; negative. `None`: none are.
    pub start: Option<i64>,
    /// The last period that has a partition, counted from the present one.
    pub end: i64,
    pub prefix: String,
    pub first: FirstDay,
    /// How many past periods get a partition.
    pub history: i64,
    /// Periods whose partitions are not dropped: the first and the last moment of each.
    pub reserved: Vec<(LocalDateTime, LocalDateTime)>,
    /// Of each partition, as written.
    buckets: Option<String>,
}

/// What is to change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct DynamicPlan {
    /// The names and ranges of partitions that the table has from now on, unless it has them.
    pub wanted: Vec<(String, PartitionValues)>,
    /// Names of partitions that are too old.
    pub expired: Vec<String>,
}

fn value<'p>(properties: &'p Properties, name: &str) -> Option<&'p str> {
    let is = |key: &str| key.strip_prefix(PREFIX) == Some(name);
    let found = properties.others.iter().find(|(key, _)| is(key));
    found.map(|(_, value)| value.trim())
}

/// Whether a property is one of dynamic partitions.
pub(crate) fn is_known(key: &str) -> bool {
    let name = key.strip_prefix(PREFIX);
    name.is_some_and(|name| WITH_EFFECT.contains(&name) || KEPT.contains(&name))
}

/// Whether some of these properties are of dynamic partitions.
pub(crate) fn is_written(pairs: &[(String, String)]) -> bool {
    pairs.iter().any(|(key, _)| key.starts_with(PREFIX))
}

impl Dynamic {
    /// Whether a table has properties of dynamic partitions.
    pub fn is_named(properties: &Properties) -> bool {
        is_written(&properties.others)
    }

    /// What the properties of a table say; `None` if they say nothing of it.
    ///
    /// # Errors
    /// What is missing or wrong, in the words of Doris.
    pub fn of(properties: &Properties) -> Result<Option<Self>> {
        if !Self::is_named(properties) {
            return Ok(None);
        }
        let text = |name: &str| value(properties, name);
        let required = |name: &str| {
            let found = text(name).filter(|text| !text.is_empty());
            found.ok_or_else(|| err!(Unknown, "Must assign {PREFIX}{name} properties"))
        };
        let unit = required("time_unit")?;
        let unit =
            TimeUnit::parse(unit).filter(|unit| *unit != TimeUnit::Quarter).ok_or_else(|| {
                err!(
                    Unknown,
                    "Unsupported time unit {unit}. Expect HOUR, DAY, WEEK, MONTH or YEAR in \
                     {PREFIX}time_unit"
                )
            })?;
        let zone_name = text("time_zone").unwrap_or("UTC").to_owned();
        let zone = Zone::parse(&zone_name);
        let zone =
            zone.ok_or_else(|| err!(Unknown, "Unknown or incorrect time zone: '{zone_name}'"))?;
        // What Doris takes as none.
        let start = integer("start", text("start"))?.filter(|it| *it != i64::from(i32::MIN));
        if let Some(start) = start.filter(|start| *start >= 0) {
            bail!(
                Unknown,
                "Dynamic partition start must less than 0, and {PREFIX}start is {start}"
            );
        }
        let end = integer("end", Some(required("end")?))?.unwrap_or(0);
        if end <= 0 {
            bail!(Unknown, "Dynamic partition end must greater than 0, and {PREFIX}end is {end}");
        }
        let this = Self {
            is_enabled: boolean("enable", text("enable"))?.unwrap_or(true),
            unit,
            zone,
            zone_name,
            start,
            end,
            prefix: required("prefix")?.to_owned(),
            first: FirstDay {
                of_week: bounded("start_day_of_week", text("start_day_of_week"), 7)? - 1,
                of_month: bounded("start_day_of_month", text("start_day_of_month"), 28)?,
            },
            history: history(properties, start)?,
            reserved: reserved(text("reserved_history_periods"))?,
            buckets: text("buckets").map(str::to_owned),
        };
        let count = this.end + 1 + this.history;
        if count > PARTITIONS_AHEAD_MAX {
            bail!(
                Unknown,
                "Too many dynamic partitions: {count}. Limit: {PARTITIONS_AHEAD_MAX}; use a longer \
                 {PREFIX}time_unit, a smaller {PREFIX}end or {PREFIX}history_partition_num"
            );
        }
        Ok(Some(this))
    }

    /// The number of buckets of the partitions that it makes in a table.
    pub fn buckets_of(&self, table: &Table) -> u32 {
        self.buckets.as_deref().and_then(buckets).unwrap_or(table.buckets)
    }

    /// Checks that a table with these columns is divided by one of time, and the number of buckets,
    /// which was without effect once.
    ///
    /// # Errors
    /// What it is divided by instead; 1105 for a wrong number.
    pub fn check(&self, by: Option<&PartitionBy>, columns: &[Column]) -> Result<()> {
        if let Some(written) = self.buckets.as_deref().filter(|text| buckets(text).is_none()) {
            bail!(
                Unknown,
                "Invalid {PREFIX}buckets: '{written}'. It is a number from 1 to {BUCKETS_MAX}"
            );
        }
        let is_range = |by: &&PartitionBy| by.method == PartitionMethod::Range && by.auto.is_none();
        let of = by.filter(is_range).map(|by| by.columns_of(columns)).unwrap_or_default();
        match &*of {
            [Column { ty: ColumnType::DateTime { .. }, .. }] => Ok(()),
            [Column { ty: ColumnType::Date, .. }] if self.unit != TimeUnit::Hour => Ok(()),
            _ => bail!(
                Unknown,
                "Dynamic partition only support RANGE partition of one column, which is a \
                 DATETIME, or for units from DAY on a DATE"
            ),
        }
    }

    /// Where the present period begins, `periods` later.
    fn begin(&self, now_micros: i64, periods: i64) -> Option<LocalDateTime> {
        let now = LocalDateTime::from_micros(self.zone.to_local(now_micros));
        self.unit.plus(self.unit.floor(now, self.first), periods)
    }

    /// What is to change in these partitions, of a table divided by `column`. `now_micros` is UTC.
    pub(crate) fn plan(
        &self,
        column: &Column,
        partitions: &[Partition],
        now_micros: i64,
    ) -> DynamicPlan {
        let mut plan = DynamicPlan::default();
        if !self.is_enabled {
            return plan;
        }
        let key = |periods| self.begin(now_micros, periods).and_then(|at| moment_key(column, at));
        for periods in -self.history..=self.end {
            let Some(begin) = self.begin(now_micros, periods) else { continue };
            if let (Some(lower), Some(upper)) = (key(periods), key(periods + 1)) {
                let name = format!("{}{}", self.prefix, self.unit.digits(begin));
                let values =
                    PartitionValues::Range { lower: Some(vec![lower]), upper: vec![upper] };
                plan.wanted.push((name, values));
            }
        }
        let Some(border) = self.start.and_then(key) else { return plan };
        let bounds = |(first, last): &(LocalDateTime, LocalDateTime)| {
            Some((moment_key(column, *first)?, moment_key(column, *last)?))
        };
        let reserved = self.reserved.iter().filter_map(bounds).collect::<Vec<_>>();
        let is_expired = |one: &&Partition| {
            let range = one.values.as_ref().and_then(|values| values.range(1));
            let Some((lower, Some(end))) = range.filter(|_| !one.is_hidden()) else { return false };
            let mut kept = reserved.iter();
            end <= border && !kept.any(|(first, last)| lower <= *last && *first < end)
        };
        plan.expired = partitions.iter().filter(is_expired).map(|one| one.name.clone()).collect();
        plan
    }
}

fn history(properties: &Properties, start: Option<i64>) -> Result<i64> {
    let written = value(properties, "create_history_partition");
    if !boolean("create_history_partition", written)?.unwrap_or(false) {
        return Ok(0);
    }
    let written = value(properties, "history_partition_num");
    let count = integer("history_partition_num", written)?.filter(|count| *count != -1);
    match (count, start) {
        (Some(count), _) if count < 1 => bail!(
            Unknown,
            "Dynamic history partition num must greater than 0, and {PREFIX}history_partition_num \
             is {count}"
        ),
        (Some(count), Some(start)) => Ok(count.min(-start)),
        (Some(count), None) => Ok(count),
        (None, Some(start)) => Ok(-start),
        (None, None) => bail!(
            Unknown,
            "Provide {PREFIX}start or {PREFIX}history_partition_num property when creating history \
             partition"
        ),
    }
}

/// Parses `[first,last],[first,last]`.
fn reserved(text: Option<&str>) -> Result<Vec<(LocalDateTime, LocalDateTime)>> {
    let text = text.filter(|text| !text.is_empty() && !text.eq_ignore_ascii_case("NULL"));
    let Some(text) = text else { return Ok(Vec::new()) };
    let invalid = || {
        err!(
            Unknown,
            "Invalid {PREFIX}reserved_history_periods: '{text}'. Expect \
             [first,last],[first,last] with days, or with times in quotes for HOUR"
        )
    };
    let mut periods = Vec::new();
    for part in text.split_inclusive(']') {
        let part = part.trim_start_matches(',').trim();
        let inside = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
        let (first, last) = inside.and_then(|it| it.split_once(',')).ok_or_else(invalid)?;
        let moment = |text: &str| {
            let text = text.trim().trim_matches(['"', '\'']);
            parse(text.as_bytes()).ok_or_else(invalid)
        };
        let (first, last) = (moment(first)?, moment(last)?);
        if last.to_string() < first.to_string() {
            bail!(
                Unknown,
                "The first date is larger than the second date, [{first},{last}] is invalid in \
                 {PREFIX}reserved_history_periods"
            );
        }
        periods.push((first, last));
    }
    Ok(periods)
}

fn boolean(name: &str, text: Option<&str>) -> Result<Option<bool>> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => bail!(Unknown, "Invalid {PREFIX}{name}: {other}. Expect true or false"),
    }
}

fn buckets(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| (1..=BUCKETS_MAX).contains(count))
}

fn integer(name: &str, text: Option<&str>) -> Result<Option<i64>> {
    let Some(text) = text else { return Ok(None) };
    let number = text.parse::<i32>();
    let number = number.map_err(|_| err!(Unknown, "Invalid {PREFIX}{name}: '{text}'"))?;
    Ok(Some(i64::from(number)))
}

/// A number from 1 on, which it is if nothing was written.
fn bounded(name: &str, text: Option<&str>, max: u32) -> Result<u32> {
    let number = integer(name, text)?.unwrap_or(1);
    let number = u32::try_from(number).ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| {
        err!(Unknown, "Invalid {PREFIX}{name}: {}. Expect 1 to {max}", text.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use freshet_base::ColumnId;
    use freshet_schema::partition::value_text;

    use super::*;

    fn properties(pairs: &[(&str, &str)]) -> Properties {
        let pair = |(key, value): &(&str, &str)| (format!("{PREFIX}{key}"), (*value).to_owned());
        Properties { others: pairs.iter().map(pair).collect(), ..Properties::default() }
    }

    fn refused(pairs: &[(&str, &str)]) -> String {
        Dynamic::of(&properties(pairs)).unwrap_err().message().to_owned()
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        assert_eq!(Dynamic::of(&Properties::default()).unwrap(), None);
        assert!(refused(&[("enable", "true")]).contains("time_unit"));
        let day = [("time_unit", "DAY"), ("prefix", "p")];
        assert!(refused(&day).contains("dynamic_partition.end"));
        let with = |pair| refused(&[day[0], day[1], ("end", "3"), pair]);
        assert!(with(("start", "3")).contains("start must less than 0"));
        assert!(with(("time_zone", "Nowhere")).contains("time zone"));
        assert!(with(("start_day_of_week", "8")).contains("Expect 1 to 7"));
        assert!(with(("create_history_partition", "true")).contains("history_partition_num"));
        assert!(refused(&[day[0], day[1], ("end", "500")]).contains("Limit: 500"));
        assert!(refused(&[("time_unit", "QUARTER")]).contains("HOUR, DAY"));
    }

    #[test]
    fn reserved_periods_keep_their_partitions() {
        let reserved = "[2024-01-02,2024-01-03],[\"2024-01-09\", \"2024-01-09\"]";
        let written = properties(&[
            ("time_unit", "DAY"),
            ("prefix", "p"),
            ("start", "-1"),
            ("end", "1"),
            ("reserved_history_periods", reserved),
        ]);
        let dynamic = Dynamic::of(&written).unwrap().unwrap();
        let column = Column::new(ColumnId(1), "d", ColumnType::Date);
        let key = |day: i64| {
            let moment = parse(format!("2024-01-{day:02}").as_bytes()).unwrap();
            vec![moment_key(&column, moment).unwrap()]
        };
        let partition = |day: i64| Partition {
            id: freshet_base::PartitionId(1),
            name: format!("p{day}"),
            incarnation: freshet_base::Incarnation(1),
            tablets: Vec::new(),
            values: Some(PartitionValues::Range { lower: Some(key(day)), upper: key(day + 1) }),
        };
        let partitions = (1..=10).map(partition).collect::<Vec<_>>();
        let plan = dynamic.plan(&column, &partitions, 1_709_139_600_000_000);
        assert_eq!(plan.expired, ["p1", "p4", "p5", "p6", "p7", "p8", "p10"]);
        let day = [("time_unit", "DAY"), ("prefix", "p"), ("end", "3")];
        for wrong in ["2024-01-02", "[2024-01-02]", "[x,2024-01-02]", "[2024-01-02,2024-01-01]"] {
            let pairs = [day[0], day[1], day[2], ("reserved_history_periods", wrong)];
            assert!(refused(&pairs).contains("reserved_history_periods"), "{wrong}");
        }
    }

    #[test]
    fn partitions_follow_the_clock_of_their_zone() {
        let written = properties(&[
            ("time_unit", "day"),
            ("time_zone", "Asia/Shanghai"),
            ("prefix", "p"),
            ("start", "-3"),
            ("end", "1"),
            ("create_history_partition", "true"),
            ("history_partition_num", "1"),
        ]);
        let dynamic = Dynamic::of(&written).unwrap().unwrap();
        let column = Column::new(ColumnId(1), "d", ColumnType::Date);
        // 2024-02-28 17:00:00 UTC is the 29th in Shanghai.
        let now = 1_709_139_600_000_000;
        let plan = dynamic.plan(&column, &[], now);
        let names = plan.wanted.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["p20240228", "p20240229", "p20240301"]);
        let PartitionValues::Range { upper, .. } = &plan.wanted[1].1 else { unreachable!() };
        assert_eq!(value_text(&column, &upper[0]).unwrap(), "2024-03-01");
        assert_eq!(plan.expired, Vec::<String>::new());
    }
}
