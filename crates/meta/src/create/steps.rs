//! FROM .. TO .. INTERVAL: several partitions at once.

use freshet_base::{Result, bail, err};
use freshet_schema::value::temporal::{LocalDateTime, parse};
use freshet_schema::{Column, ColumnType, PARTITIONS_MAX, TimeUnit};

use crate::spec::{PartitionSpec, StepsSpec, ValueSpec, ValuesSpec};

/// The partitions that are written, those of FROM .. TO one by one. `columns` are those of
/// PARTITION BY.
///
/// # Errors
/// `PartitionValues` for steps that do not fit the column, `TooManyPartitions`.
pub(crate) fn one_by_one(
    specs: &[PartitionSpec],
    columns: &[&Column],
) -> Result<Vec<PartitionSpec>> {
    let mut all = Vec::with_capacity(specs.len());
    for spec in specs {
        match &spec.values {
            ValuesSpec::Steps(steps) => all.extend(of_steps(steps, columns)?),
            _ => all.push(spec.clone()),
        }
    }
    Ok(all)
}

fn of_steps(steps: &StepsSpec, columns: &[&Column]) -> Result<Vec<PartitionSpec>> {
    let [column] = columns else {
        bail!(
            PartitionValues,
            "FROM .. TO .. INTERVAL is of one column, and PARTITION BY RANGE has {}",
            columns.len()
        );
    };
    if steps.count == 0 {
        bail!(PartitionValues, "The INTERVAL of FROM .. TO is 0, and must be 1 or more");
    }
    match (column.ty, steps.unit) {
        (ty, None) if ty.is_integer() => of_numbers(steps, column),
        (ColumnType::Date, Some(TimeUnit::Hour)) => bail!(
            PartitionValues,
            "Column '{}' is a DATE: the INTERVAL of its partitions is in DAY, WEEK, MONTH, QUARTER \
             or YEAR",
            column.name
        ),
        (ColumnType::Date | ColumnType::DateTime { .. }, Some(unit)) => {
            of_periods(steps, column, unit)
        }
        (ty, Some(_)) if ty.is_integer() => bail!(
            PartitionValues,
            "Column '{}' is of type {ty}: the INTERVAL of its partitions has no unit",
            column.name
        ),
        (ColumnType::Date | ColumnType::DateTime { .. }, None) => bail!(
            PartitionValues,
            "Column '{}' is of type {}: the INTERVAL of its partitions has a unit, as INTERVAL {} \
             DAY",
            column.name,
            column.ty,
            steps.count
        ),
        (ty, _) => bail!(
            PartitionValues,
            "FROM .. TO .. INTERVAL is of integers, DATE and DATETIME, and column '{}' is of type \
             {ty}",
            column.name
        ),
    }
}

fn text<'s>(value: &'s ValueSpec, column: &Column) -> Result<&'s str> {
    match value {
        ValueSpec::Literal(text) => Ok(text),
        ValueSpec::Null | ValueSpec::MaxValue | ValueSpec::Default | ValueSpec::Call(..) => bail!(
            PartitionValues,
            "FROM and TO are values of column '{}': no NULL, no MAXVALUE",
            column.name
        ),
    }
}

fn incorrect(text: &str, column: &Column) -> freshet_base::Error {
    err!(
        PartitionValueType,
        "Partition column values of incorrect type: '{text}' for column '{}' of type {}",
        column.name,
        column.ty
    )
}

fn empty(from: &str, to: &str) -> freshet_base::Error {
    err!(PartitionValues, "FROM ({from}) TO ({to}) has no values: FROM must be less than TO")
}

fn range(name: String, lower: String, upper: String) -> PartitionSpec {
    let bound = |text| vec![ValueSpec::Literal(text)];
    let values = ValuesSpec::Range(bound(lower), bound(upper));
    PartitionSpec { name, if_not_exists: false, values }
}

fn check_count(all: &[PartitionSpec]) -> Result<()> {
    if all.len() >= PARTITIONS_MAX {
        bail!(
            TooManyPartitions,
            "Too many partitions (including subpartitions) were defined: limit {PARTITIONS_MAX}; \
             use a longer INTERVAL, or fewer values"
        );
    }
    Ok(())
}

fn of_numbers(steps: &StepsSpec, column: &Column) -> Result<Vec<PartitionSpec>> {
    let number = |value| {
        let text = text(value, column)?;
        text.trim().parse::<i128>().map_err(|_| incorrect(text, column))
    };
    let (mut lower, end) = (number(&steps.from)?, number(&steps.to)?);
    if lower >= end {
        return Err(empty(&lower.to_string(), &end.to_string()));
    }
    let mut all = Vec::new();
    while lower < end {
        check_count(&all)?;
        let upper = lower.saturating_add(i128::from(steps.count)).min(end);
        all.push(range(format!("p_{lower}_{upper}"), lower.to_string(), upper.to_string()));
        lower = upper;
    }
    Ok(all)
}

fn of_periods(steps: &StepsSpec, column: &Column, unit: TimeUnit) -> Result<Vec<PartitionSpec>> {
    let moment = |value| {
        let text = text(value, column)?;
        parse(text.as_bytes()).ok_or_else(|| incorrect(text, column))
    };
    let (begin, end) = (moment(&steps.from)?, moment(&steps.to)?);
    let shown = |at: LocalDateTime| match column.ty {
        ColumnType::Date => at.to_string()[..10].to_owned(),
        _ => at.to_string(),
    };
    let place = |at: LocalDateTime| (at.days, at.micros);
    if place(begin) >= place(end) {
        return Err(empty(&shown(begin), &shown(end)));
    }
    let (mut lower, mut all) = (begin, Vec::<PartitionSpec>::new());
    while place(lower) < place(end) {
        check_count(&all)?;
        // From the beginning, so that the 31st of a month does not become the 28th for good.
        let periods = (all.len() as i64 + 1).checked_mul(i64::try_from(steps.count).unwrap_or(0));
        let next = periods.and_then(|periods| unit.plus(begin, periods));
        let upper = next.filter(|next| place(lower) < place(*next) && place(*next) < place(end));
        let upper = upper.unwrap_or(end);
        all.push(range(format!("p_{}", unit.digits(lower)), shown(lower), shown(upper)));
        lower = upper;
    }
    Ok(all)
}
