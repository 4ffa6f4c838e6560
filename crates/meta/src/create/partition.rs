//! PARTITION BY of a CREATE TABLE, and the partitions that ADD PARTITION adds: from what was
//! written to bounds as keys.

use freshet_base::{Result, bail, err};
use freshet_schema::key::KEY_BYTES_MAX;
use freshet_schema::partition::{tell_others, value_key, value_text};
use freshet_schema::value::temporal::{LocalDateTime, date_of, parse};
use freshet_schema::{
    AutoPartition, Column, ColumnType, DeclaredKey, KeyModel, PartitionBy, PartitionExpr,
    PartitionFunction, PartitionKey, PartitionMethod, PartitionValues, TableForm, TimeUnit,
};

use PartitionFunction::UnixTimestamp;

use super::known::{Known, NewPartition};
use super::position;
use super::sizes::key_bytes_max;
use super::steps::one_by_one;
use crate::dynamic;
use crate::spec::{ComputedSpec, PartitionBySpec, PartitionSpec, TableSpec, ValueSpec, ValuesSpec};
use crate::zoned::unix_seconds;

/// 1970-01-01 as TO_DAYS counts.
pub(crate) const TO_DAYS_OF_1970: i64 = 719_528;
const SECONDS_PER_DAY: i64 = 86_400;

/// The PARTITION BY clause, and its partitions.
pub(super) fn divided(
    spec: &TableSpec,
    columns: &[Column],
    (key_model, sort_key): (KeyModel, &[usize]),
    declared_keys: &[DeclaredKey],
) -> Result<(Option<PartitionBy>, Vec<NewPartition>)> {
    let Some(written) = &spec.partition_by else { return Ok((None, Vec::new())) };
    if spec.placement.is_some() && spec.form == TableForm::Olap {
        bail!(
            Syntax,
            "SUBPARTITION BY is for the form of MySQL; write DISTRIBUTED BY HASH(..) BUCKETS n"
        );
    }
    let by = clause(written, columns, spec.form)?;
    if key_model != KeyModel::Duplicate {
        let is_key = |id| sort_key.iter().any(|&at| columns[at].id == id);
        if let Some(id) = by.columns.iter().find(|id| !is_key(**id)) {
            let name = columns.iter().find(|column| column.id == *id).map_or("", |c| &c.name);
            let key = match key_model {
                KeyModel::Primary => "A PRIMARY KEY",
                KeyModel::Aggregate => "An AGGREGATE KEY",
                KeyModel::Unique | KeyModel::Duplicate => "A UNIQUE KEY",
            };
            bail!(
                PartitionKey,
                "{key} must include all columns in the table's partitioning function: Only key \
                 column can be partition column, and '{name}' is none"
            );
        }
    }
    check_unique(&by, columns, declared_keys)?;
    let mut known = Known::new(by.columns.len());
    let made_later = by.auto.is_some() || dynamic::is_written(&spec.properties);
    if written.partitions.is_empty() && made_later {
        let values = Some(by.nothing());
        known.push(NewPartition { name: String::new(), values });
    } else if written.partitions.is_empty() {
        let method = method_name(by.method);
        bail!(PartitionsMissing, "For {method} partitions each partition must be defined");
    }
    for one in &one_by_one(&written.partitions, &by.columns_of(columns))? {
        let one = one_more(&by, columns, spec.form, &known, one)?;
        known.push(one);
    }
    let mut all = known.into_all();
    tell_others(all.iter_mut().filter_map(|one| one.values.as_mut()));
    if by.method == PartitionMethod::Range {
        // Ranges stand in their order, as behind ADD PARTITION.
        all.sort_by_cached_key(|one| one.values.as_ref()?.range(by.columns.len()));
    }
    Ok((Some(by), all))
}

/// Checks the clause of a global index, whose partitions nobody makes: it is one that a table could
/// have.
///
/// # Errors
/// Those of the clause of a table.
pub(super) fn check_clause(written: &PartitionBySpec, columns: &[Column]) -> Result<()> {
    let by = clause(written, columns, TableForm::MySql)?;
    if written.partitions.is_empty() {
        let method = method_name(by.method);
        bail!(PartitionsMissing, "For {method} partitions each partition must be defined");
    }
    let mut known = Known::new(by.columns.len());
    for one in &one_by_one(&written.partitions, &by.columns_of(columns))? {
        let one = one_more(&by, columns, TableForm::MySql, &known, one)?;
        known.push(one);
    }
    Ok(())
}

/// As in MySQL, each unique key says which partition a row is in. One of a global index is looked
/// up in all of them.
///
/// # Errors
/// 1503.
pub(crate) fn check_unique(
    by: &PartitionBy,
    columns: &[Column],
    keys: &[DeclaredKey],
) -> Result<()> {
    for key in keys.iter().filter(|key| key.kind.is_unique() && key.global.is_none()) {
        if let Some(id) = by.columns.iter().find(|id| !key.columns.contains(id)) {
            let name = columns.iter().find(|column| column.id == *id).map_or("", |c| &c.name);
            bail!(
                PartitionKey,
                "A UNIQUE INDEX must include all columns in the table's partitioning function: key \
                 '{}' lacks column '{name}'; a UNIQUE GLOBAL INDEX need not",
                key.name
            );
        }
    }
    Ok(())
}

fn method_name(method: PartitionMethod) -> &'static str {
    match method {
        PartitionMethod::Range => "RANGE",
        PartitionMethod::List => "LIST",
    }
}

fn clause(written: &PartitionBySpec, columns: &[Column], form: TableForm) -> Result<PartitionBy> {
    let mut ids = Vec::with_capacity(written.columns.len());
    let mut bytes = 0u64;
    for name in &written.columns {
        let at = position(columns, name)
            .ok_or_else(|| err!(UnknownColumn, "Unknown column '{name}' in 'PARTITION BY'"))?;
        let column = &columns[at];
        let is_instant = matches!(column.ty, ColumnType::Timestamp { .. });
        if !(divides(column.ty) || is_instant && written.function == Some(UnixTimestamp)) {
            bail!(
                PartitionFieldType,
                "Field '{name}' is of a not allowed type for this type of partitioning: {} is \
                 none of integers, DATE, DATETIME, CHAR and VARCHAR, nor a TIMESTAMP in \
                 UNIX_TIMESTAMP",
                column.ty
            );
        }
        if ids.contains(&column.id) {
            bail!(DuplicateColumn, "Duplicate partition field name '{name}'");
        }
        bytes += key_bytes_max(column.ty, form);
        ids.push(column.id);
    }
    if bytes > KEY_BYTES_MAX as u64 {
        bail!(
            KeyTooLong,
            "The columns of PARTITION BY may have {bytes} bytes, limit {KEY_BYTES_MAX}"
        );
    }
    if let Some(function) = written.function {
        check_function(written, columns, function)?;
    }
    if let Some(AutoPartition::Period(unit)) = written.auto {
        check_period(written, columns, unit)?;
    }
    let computed = written.computed.as_ref().map(|spec| computed(written, columns, spec));
    let computed = computed.transpose()?.map(Box::new);
    let PartitionBySpec { method, function, has_columns_word, auto, .. } = *written;
    Ok(PartitionBy { method, columns: ids, function, computed, has_columns_word, auto })
}

/// The expression of a clause, over its column.
fn computed(
    written: &PartitionBySpec,
    columns: &[Column],
    spec: &ComputedSpec,
) -> Result<PartitionExpr> {
    let column = match &*written.columns {
        [name] => position(columns, name).map(|at| &columns[at]),
        _ => None,
    };
    match column.and_then(|column| expr_of(column, spec)) {
        Some(expr) => Ok(expr),
        None => bail!(
            PartitionFieldType,
            "PARTITION BY {} is a whole number of one column: of an integer, or by functions of \
             time of a DATE or DATETIME",
            spec.text
        ),
    }
}

/// An expression over a column; `None` where the column has no such numbers.
pub(super) fn expr_of(column: &Column, spec: &ComputedSpec) -> Option<PartitionExpr> {
    let expr = PartitionExpr {
        text: spec.text.clone(),
        steps: spec.steps.clone(),
        of: column.ty,
        nullable: column.nullable,
        numbers: Column::new(column.id, &column.name, ColumnType::BigInt { unsigned: false }),
    };
    expr.is_valid().then_some(expr)
}

fn check_function(
    written: &PartitionBySpec,
    columns: &[Column],
    function: PartitionFunction,
) -> Result<()> {
    let ty = match &*written.columns {
        [name] => position(columns, name).map(|at| columns[at].ty),
        _ => None,
    };
    let is_of_type = match function {
        UnixTimestamp => matches!(ty, Some(ColumnType::Timestamp { .. })),
        _ => matches!(ty, Some(ColumnType::Date | ColumnType::DateTime { .. })),
    };
    if is_of_type {
        return Ok(());
    }
    bail!(
        PartitionFieldType,
        "PARTITION BY {}({}) is of one column of type {}",
        function.name(),
        written.columns.join(", "),
        if function == UnixTimestamp { "TIMESTAMP" } else { "DATE or DATETIME" }
    )
}

/// Checks `AUTO PARTITION BY RANGE(date_trunc(c, unit))`.
fn check_period(written: &PartitionBySpec, columns: &[Column], unit: TimeUnit) -> Result<()> {
    let ty = match &*written.columns {
        [name] => position(columns, name).map(|at| columns[at].ty),
        _ => None,
    };
    match ty {
        Some(ColumnType::DateTime { .. }) => Ok(()),
        Some(ColumnType::Date) if unit != TimeUnit::Hour => Ok(()),
        _ => bail!(
            PartitionFieldType,
            "AUTO PARTITION BY RANGE is of date_trunc of one column, which is a DATETIME, or for \
             units from day on a DATE: date_trunc({}, '{}')",
            written.columns.join(", "),
            unit.name()
        ),
    }
}

/// Whether values of this type can divide a table.
fn divides(ty: ColumnType) -> bool {
    ty.is_integer()
        || matches!(
            ty,
            ColumnType::Date
                | ColumnType::DateTime { .. }
                | ColumnType::Char { .. }
                | ColumnType::VarChar { .. }
        )
}

/// A further partition beside those that there are.
///
/// # Errors
/// What MySQL says of names that are taken, of values that do not fit, and of ranges that overlap.
pub(crate) fn one_more(
    by: &PartitionBy,
    columns: &[Column],
    form: TableForm,
    known: &Known,
    spec: &PartitionSpec,
) -> Result<NewPartition> {
    let name = &spec.name;
    known.check(name)?;
    let new = Bounds { by, columns: by.columns_of(columns), form, known };
    let values = match (by.method, &spec.values) {
        (PartitionMethod::Range, ValuesSpec::LessThan(upper)) => new.less_than(upper)?,
        (PartitionMethod::Range, ValuesSpec::Range(lower, upper)) => {
            let (lower, upper) = (Some(new.bound(lower)?), new.bound(upper)?);
            PartitionValues::Range { lower, upper }
        }
        (PartitionMethod::List, ValuesSpec::In(lists)) => new.list(lists)?,
        (_, ValuesSpec::In(_)) => bail!(
            PartitionValues,
            "Only LIST PARTITIONING can use VALUES IN in partition definition"
        ),
        (_, ValuesSpec::LessThan(_) | ValuesSpec::Range(..) | ValuesSpec::Steps(_)) => bail!(
            PartitionValues,
            "Only RANGE PARTITIONING can use VALUES LESS THAN in partition definition"
        ),
    };
    new.check(name, &values)?;
    Ok(NewPartition { name: name.clone(), values: Some(values) })
}

/// The partitions beside which another one is made.
struct Bounds<'a> {
    by: &'a PartitionBy,
    /// Those of PARTITION BY.
    columns: Vec<&'a Column>,
    form: TableForm,
    known: &'a Known,
}

impl Bounds<'_> {
    /// It begins where the next lower one ends.
    fn less_than(&self, upper: &[ValueSpec]) -> Result<PartitionValues> {
        let upper = self.bound(upper)?;
        let whole = PartitionValues::Range { lower: None, upper: upper.clone() };
        let end = whole.range(self.columns.len()).and_then(|(_, end)| end);
        if self.form == TableForm::MySql {
            match self.known.highest() {
                Some(None) => {
                    bail!(
                        MaxValueNotLast,
                        "MAXVALUE can only be used in last partition definition"
                    );
                }
                Some(known) if end.is_some() && *known >= end => bail!(
                    RangeNotIncreasing,
                    "VALUES LESS THAN value must be strictly increasing for each partition"
                ),
                _ => {}
            }
        }
        let lower = self.known.below(end.as_deref()).cloned();
        Ok(PartitionValues::Range { lower, upper })
    }

    fn list(&self, lists: &[Vec<ValueSpec>]) -> Result<PartitionValues> {
        if matches!(lists, [values] if matches!(values[..], [ValueSpec::Default])) {
            if self.form == TableForm::Olap {
                bail!(Syntax, "VALUES IN (DEFAULT) is for tables in the form of MySQL");
            }
            return Ok(PartitionValues::Others(Vec::new()));
        }
        let mut keys = Vec::<PartitionKey>::with_capacity(lists.len());
        for values in lists {
            self.check_count(values)?;
            let key = values.iter().zip(&self.columns).map(|(value, column)| match value {
                ValueSpec::MaxValue => {
                    bail!(Syntax, "MAXVALUE is a bound of RANGE, and no value of LIST")
                }
                ValueSpec::Default => {
                    bail!(Syntax, "DEFAULT stands alone: VALUES IN (DEFAULT)")
                }
                value => self.key(column, value),
            });
            let key = key.collect::<Result<PartitionKey>>()?;
            if keys.contains(&key) {
                return Err(twice());
            }
            keys.push(key);
        }
        Ok(PartitionValues::List(keys))
    }

    /// A bound of a range; from MAXVALUE on it is empty.
    fn bound(&self, values: &[ValueSpec]) -> Result<PartitionKey> {
        if matches!(values, [ValueSpec::MaxValue]) {
            return Ok(Vec::new());
        }
        self.check_count(values)?;
        let mut bound = Vec::with_capacity(values.len());
        for (value, column) in values.iter().zip(&self.columns) {
            match value {
                ValueSpec::MaxValue => break,
                ValueSpec::Default => bail!(Syntax, "DEFAULT is of LIST, and no bound of RANGE"),
                ValueSpec::Null => {
                    bail!(NullInRange, "Not allowed to use NULL value in VALUES LESS THAN")
                }
                value => bound.push(self.key(column, value)?),
            }
        }
        Ok(bound)
    }

    fn check_count(&self, values: &[ValueSpec]) -> Result<()> {
        let (given, columns) = (values.len(), self.columns.len());
        if given != columns {
            bail!(
                PartitionValueType,
                "Inconsistency in usage of column lists for partitioning: {given} values for \
                 {columns} columns"
            );
        }
        Ok(())
    }

    fn key(&self, column: &Column, value: &ValueSpec) -> Result<Vec<u8>> {
        let incorrect = |text: &str| {
            err!(
                PartitionValueType,
                "Partition column values of incorrect type: '{text}' for column '{}' of type {}",
                column.name,
                column.ty
            )
        };
        let (text, shown) = match (value, self.by.function) {
            (ValueSpec::Null, _) => (None, "NULL"),
            (ValueSpec::Literal(text), None) => (Some(text.clone()), text.as_str()),
            (ValueSpec::Literal(shown), Some(function)) => {
                let number = shown.parse().ok();
                let date = number.and_then(|number| first_with(function, number, column.ty));
                (Some(date.ok_or_else(|| incorrect(shown))?), shown.as_str())
            }
            (ValueSpec::Call(written, text), Some(function)) if *written == function => {
                let date = parse(text.as_bytes()).ok_or_else(|| incorrect(text))?;
                let (year, month, day) = date_of(date.days);
                let date = match function {
                    PartitionFunction::Year => Some(format!("{year:04}-01-01")),
                    PartitionFunction::ToDays => Some(format!("{year:04}-{month:02}-{day:02}")),
                    PartitionFunction::ToSeconds => {
                        first_with(function, to_seconds(&date), column.ty)
                    }
                    UnixTimestamp => first_with(function, unix_seconds(&date), column.ty),
                };
                (Some(date.ok_or_else(|| incorrect(text))?), text.as_str())
            }
            (ValueSpec::Call(_, text), _) => return Err(incorrect(text)),
            (ValueSpec::MaxValue | ValueSpec::Default, _) => {
                unreachable!("a bound ends before MAXVALUE, and DEFAULT stands alone")
            }
        };
        value_key(column, text.as_deref()).ok_or_else(|| incorrect(shown))
    }

    /// That no row could be of two partitions.
    fn check(&self, name: &str, values: &PartitionValues) -> Result<()> {
        let count = self.columns.len();
        if values.is_empty(count) {
            bail!(
                RangeNotIncreasing,
                "VALUES LESS THAN value must be strictly increasing for each partition: '{name}' \
                 would take no row"
            );
        }
        let is_twice = match values {
            PartitionValues::List(keys) => Some(self.known.has_value(keys)),
            PartitionValues::Others(_) => Some(self.known.has_others),
            PartitionValues::Range { .. } => None,
        };
        if let Some(is_twice) = is_twice {
            return if is_twice { Err(twice()) } else { Ok(()) };
        }
        let Some(other) = self.known.overlapped(values) else { return Ok(()) };
        let range = |values: Option<&PartitionValues>| {
            values.map(|values| range_text(&self.columns, values)).unwrap_or_default()
        };
        bail!(
            RangeNotIncreasing,
            "Range {} of '{name}' is intersected with range {} of '{}'",
            range(Some(values)),
            range(other.values.as_ref()),
            other.name
        )
    }
}

fn twice() -> freshet_base::Error {
    err!(ListTwice, "Multiple definition of same constant in list partitioning")
}

/// A range as `[lower, upper)`.
pub(crate) fn range_text(columns: &[&Column], values: &PartitionValues) -> String {
    let bound = |key: &PartitionKey| {
        let values = columns.iter().enumerate().map(|(at, column)| match key.get(at) {
            Some(key) => value_text(column, key).unwrap_or_else(|| "NULL".to_owned()),
            None => "MAXVALUE".to_owned(),
        });
        format!("({})", values.collect::<Vec<_>>().join(", "))
    };
    match values {
        PartitionValues::Range { lower, upper } => {
            let lower = lower.as_ref().map_or_else(|| "(MINVALUE)".to_owned(), bound);
            format!("[{lower}, {})", bound(upper))
        }
        PartitionValues::List(keys) => {
            format!("({})", keys.iter().map(bound).collect::<Vec<_>>().join(", "))
        }
        PartitionValues::Others(_) => "(DEFAULT)".to_owned(),
    }
}

/// The seconds of a moment, as TO_SECONDS counts them.
pub(crate) fn to_seconds(moment: &LocalDateTime) -> i64 {
    let days = i64::from(moment.days) + TO_DAYS_OF_1970;
    days * SECONDS_PER_DAY + moment.micros / 1_000_000
}

/// The first date, or date and time, of a column of this type for which the function has at least
/// this value.
fn first_with(function: PartitionFunction, number: i64, ty: ColumnType) -> Option<String> {
    match function {
        UnixTimestamp => {
            let since = number.checked_add(TO_DAYS_OF_1970 * SECONDS_PER_DAY)?;
            first_with(PartitionFunction::ToSeconds, since, ty)
        }
        PartitionFunction::ToSeconds => {
            let number = number.max(0);
            if ty == ColumnType::Date {
                let days = number.checked_add(SECONDS_PER_DAY - 1)? / SECONDS_PER_DAY;
                return first_with(PartitionFunction::ToDays, days, ty);
            }
            let date = first_with(PartitionFunction::ToDays, number / SECONDS_PER_DAY, ty)?;
            let of_day = number % SECONDS_PER_DAY;
            let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
            Some(format!("{date} {hour:02}:{minute:02}:{second:02}"))
        }
        PartitionFunction::Year => {
            (0..=9999).contains(&number).then(|| format!("{number:04}-01-01"))
        }
        PartitionFunction::ToDays => {
            let days = i32::try_from(number.max(0) - TO_DAYS_OF_1970).ok()?;
            let (year, month, day) = date_of(days);
            (0..=9999).contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}"))
        }
    }
}
