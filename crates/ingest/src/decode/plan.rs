//! The plan of an INSERT: what all rows of a statement of the same form have in common.

use std::sync::Arc;

use freshet_base::{ColumnId, Error, Result, bail, err};
use freshet_meta::unknown_partition;
use freshet_schema::row::Put;
use freshet_schema::value::{BadDefault, put_default, put_implicit, put_zero};
use freshet_schema::{
    BadValue, Column, DefaultValue, OnBad, RowChecks, Rules, Table, TableSchema, hidden_columns,
};

use super::completion::{Completion, ComputedDefaults};
use super::divider::{Divider, Undivided};
use super::ids::{IdPlan, IdRules};
use crate::buffer::LoadBuffer;
use crate::counter::Counter;

/// The value of a column that a row omits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Filler {
    /// An encoded default.
    Cell(Vec<u8>),
    Null,
    /// A generated id.
    Id,
    /// An error, since the column has no default and is NOT NULL.
    Missing,
    /// An error, since the default does not fit the column.
    Bad(BadValue),
    /// Computed for each row by [`InsertPlan::defaults`].
    Computed,
}

/// Maps the values of a row to columns, with defaults for the other columns.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    schema: Arc<TableSchema>,
    /// The column index of each value.
    pub(super) columns: Vec<usize>,
    /// For each column, whether rows contain a value for it.
    pub(super) given: Vec<bool>,
    /// For each column, its value if it is omitted.
    pub(super) fillers: Vec<Filler>,
    /// Whether values are in column order.
    pub(super) in_order: bool,
    /// Whether no columns were named, so that a row without values is one of defaults.
    pub(super) takes_empty: bool,
    /// Whether each row has columns of its own, which are noted.
    pub(super) is_flexible: bool,
    /// Whether rows with unacceptable values are omitted instead of failing the statement.
    pub(super) filters: bool,
    /// Where generated ids come from, if there is an AUTO_INCREMENT column.
    pub(super) ids: Option<IdPlan>,
    /// The partitions of the table, if rows are divided by values that they have.
    pub(super) divider: Option<Arc<Divider>>,
    /// Whether a row that no partition takes, or that violates a constraint, is omitted with a
    /// warning.
    pub(super) skips_undivided: bool,
    /// What rows get, and have to satisfy.
    pub(super) completion: Completion,
    /// The defaults that are expressions.
    pub(super) defaults: Option<Arc<dyn ComputedDefaults>>,
    /// The name of the table, where columns are generated.
    pub(super) table: String,
    /// A bit for each column whose values are ids or not written at all.
    pub(super) odd: u64,
    /// The column of values that say whether their row deletes its key. It is none of the table:
    /// its index is that behind them all.
    pub(super) sign: Option<Arc<Column>>,
}

/// Which columns the rows of a partial update have.
#[derive(Clone, Debug)]
pub struct PartialColumns {
    /// For each column of the table; where each row has its own, all that any may have.
    pub given: Vec<bool>,
    /// Columns without which there is no new row.
    pub required: Vec<usize>,
    /// What completes rows once they have all columns.
    pub completion: Completion,
}

impl PartialColumns {
    /// Which columns each of these rows has, if some delete: those are given none. Empty for none.
    pub fn of_each(&self, deletes: &[bool]) -> Vec<bool> {
        let of_row = |&deletes: &bool| self.given.iter().map(move |given| *given && !deletes);
        deletes.iter().flat_map(of_row).collect()
    }
}

impl InsertPlan {
    /// A plan for rows with values for the columns `names`, or for all columns in table order.
    /// `now` is the time of the statement in microseconds since 1970 UTC.
    ///
    /// Fails with 1054 for an unknown column, 1110 for a column named twice, and 1364 for an
    /// omitted column without a default.
    pub fn new<N: AsRef<str>>(
        schema: &Arc<TableSchema>,
        names: Option<&[N]>,
        now: i64,
        rules: &Rules,
    ) -> Result<Self> {
        let plan = Self::partial(schema, names, now, rules)?;
        plan.check_omitted()?;
        Ok(plan)
    }

    /// Like [`Self::new`], for sources whose rows may omit any column, such as JSON. A row that
    /// omits a column without a default is then a fault of that row.
    pub fn partial<N: AsRef<str>>(
        schema: &Arc<TableSchema>,
        names: Option<&[N]>,
        now: i64,
        rules: &Rules,
    ) -> Result<Self> {
        let columns = match names {
            Some(names) => positions(schema, names)?,
            None => (0..schema.shown().len()).collect(),
        };
        let mut given = vec![false; schema.columns.len()];
        columns.iter().for_each(|&at| given[at] = true);
        let in_order = columns.is_sorted();
        let fillers = schema.columns.iter().map(|column| filler(column, now, rules));
        let mut fillers = fillers.collect::<Vec<_>>();
        if let Some(at) = schema.row_id_beside() {
            fillers[at] = Filler::Cell(vec![0; size_of::<u64>()]);
        }
        let (schema, filters, ids) = (Arc::clone(schema), false, None);
        let (takes_empty, divider, skips_undivided) = (names.is_none(), None, false);
        Ok(Self {
            schema,
            columns,
            given,
            fillers,
            in_order,
            takes_empty,
            is_flexible: false,
            filters,
            ids,
            divider,
            skips_undivided,
            completion: Completion::default(),
            defaults: None,
            table: String::new(),
            odd: 0,
            sign: None,
        })
    }

    /// Takes a value of each row, at this position among the others, that says whether the row
    /// deletes its key.
    #[must_use]
    pub fn with_sign(mut self, position: usize) -> Self {
        let at = self.sign_place();
        self.columns.insert(position, at);
        self.in_order = self.columns.is_sorted();
        self.odd |= Self::odd_bit(at);
        self.sign = hidden_columns(ColumnId(u32::MAX), None).pop().map(Arc::new);
        self
    }

    /// The index of the column that says whether a row deletes its key.
    pub(super) fn sign_place(&self) -> usize {
        self.schema.columns.len()
    }

    /// The column at an index.
    pub(crate) fn column_at(&self, at: usize) -> &Column {
        match (self.schema.columns.get(at), &self.sign) {
            (Some(column), _) => column,
            (None, sign) => sign.as_deref().expect("it stands behind the columns of the table"),
        }
    }

    /// Takes rows of which only the key counts: other columns without a default get NULL or zero.
    #[must_use]
    pub fn of_keys(mut self) -> Self {
        let keys = self.schema.sort_key.clone();
        self.fill_missing(|at| !keys.contains(&at));
        self
    }

    /// Gives some columns NULL or zero where they have no default.
    fn fill_missing(&mut self, fills: impl Fn(usize) -> bool) {
        for (at, column) in self.schema.columns.iter().enumerate().filter(|(at, _)| fills(*at)) {
            if matches!(self.fillers[at], Filler::Missing | Filler::Bad(_)) {
                let mut cell = Vec::new();
                put_zero(column.ty, &mut cell);
                self.fillers[at] = Filler::Cell(cell);
            }
        }
    }

    /// Takes rows that change some columns of stored rows: what others get is not kept, unless the
    /// row is new.
    ///
    /// # Errors
    /// `WrongArguments` when a column of the key is not given; 3105 when a generated one is.
    pub fn of_partial_rows(mut self) -> Result<(Self, PartialColumns)> {
        self.check_generated()?;
        let given = self.given.clone();
        if let Some(&key) = self.schema.sort_key.iter().find(|&&at| !given[at]) {
            bail!(
                WrongArguments,
                "Partial update should include all key columns, missing: {}",
                self.schema.columns[key].name
            );
        }
        let required = self.without_default();
        self.fill_missing(|at| !given[at]);
        let completion = std::mem::take(&mut self.completion);
        Ok((self, PartialColumns { given, required, completion }))
    }

    /// As [`Self::of_partial_rows`], where each row has columns of its own, those of the key among
    /// them.
    #[must_use]
    pub fn of_flexible_rows(mut self) -> (Self, PartialColumns) {
        let (given, required) = (self.given.clone(), self.without_default());
        self.fill_missing(|_| true);
        self.is_flexible = true;
        let completion = std::mem::take(&mut self.completion);
        (self, PartialColumns { given, required, completion })
    }

    /// The columns that have no default.
    fn without_default(&self) -> Vec<usize> {
        let has_none = |at: &usize| matches!(self.fillers[*at], Filler::Missing | Filler::Bad(_));
        (0..self.fillers.len()).filter(has_none).collect()
    }

    /// Sets whether a row with an unacceptable value is omitted and counted, instead of failing the
    /// statement.
    #[must_use]
    pub fn filtering(mut self, filters: bool) -> Self {
        self.filters = filters;
        self
    }

    /// Takes the ids of the AUTO_INCREMENT column from a counter.
    #[must_use]
    pub fn generating(mut self, counter: Option<&Arc<Counter>>, rules: IdRules) -> Self {
        self.ids = counter.and_then(|counter| IdPlan::new(&self.schema, counter, rules));
        self.odd |= self.ids.as_ref().map_or(0, |ids| Self::odd_bit(ids.column));
        self
    }

    /// Refuses rows that no partition of the table takes, or omits them with a warning.
    #[must_use]
    pub fn dividing(mut self, table: &Table, skips: bool) -> Self {
        self.divider = Divider::new(table, &self.schema).map(Arc::new);
        self.skips_undivided = skips;
        self
    }

    /// Computes the generated columns of rows, and refuses those that violate a constraint.
    #[must_use]
    pub fn completing(mut self, completion: Completion, table: &Table) -> Self {
        if completion.generated.is_some() {
            let columns = self.schema.columns.iter().enumerate();
            let generated = columns.filter(|(_, column)| column.generated.is_some());
            self.odd |= generated.map(|(at, _)| Self::odd_bit(at)).fold(0, |all, bit| all | bit);
            self.table.clone_from(&table.name);
        }
        self.completion = completion;
        self
    }

    /// Asks this of rows in place of the constraints of the table.
    #[must_use]
    pub fn checking(mut self, checks: Arc<dyn RowChecks>) -> Self {
        self.completion.checks = Some(checks);
        self
    }

    /// Takes the values of defaults that are expressions.
    #[must_use]
    pub fn computing(self, defaults: Option<Arc<dyn ComputedDefaults>>) -> Self {
        Self { defaults, ..self }
    }

    /// Whether defaults that are expressions hold for one statement only.
    pub fn is_of_statement(&self) -> bool {
        self.defaults.as_ref().is_some_and(|defaults| defaults.is_of_statement())
    }

    /// The bit of a column; the last one is of all columns behind.
    const fn odd_bit(at: usize) -> u64 {
        let last = u64::BITS as usize - 1;
        1 << if at < last { at } else { last }
    }

    /// Whether values of a column may be others than simply written ones.
    #[inline]
    pub(super) const fn is_odd(odd: u64, at: usize) -> bool {
        odd & Self::odd_bit(at) != 0
    }

    /// Whether the values of a column are computed.
    #[inline]
    pub(super) fn generates(&self, at: usize) -> bool {
        self.completion.generated.is_some()
            && self.schema.columns.get(at).is_some_and(|column| column.generated.is_some())
    }

    /// The error for a value of a generated column.
    pub(super) fn generated_value(&self, column: usize) -> Error {
        err!(
            GeneratedValue,
            "The value specified for generated column '{}' in table '{}' is not allowed.",
            self.schema.columns[column].name,
            self.table
        )
    }

    /// The first column with given values that is generated.
    fn given_generated(&self) -> Option<usize> {
        self.columns.iter().copied().find(|&at| self.generates(at))
    }

    /// Refuses rows that all have a value for a generated column.
    ///
    /// # Errors
    /// 3105.
    pub fn check_generated(&self) -> Result<()> {
        match self.given_generated() {
            None => Ok(()),
            Some(column) => Err(self.generated_value(column)),
        }
    }

    /// Takes rows of these partitions only.
    ///
    /// # Errors
    /// 1735 for a partition that there is none, 1747 for a table without partitions.
    pub fn only(&mut self, table: &Table, names: &[String]) -> Result<()> {
        if table.partition_by.is_none() {
            bail!(PartitionClause, "PARTITION () clause on non partitioned table");
        }
        let at = |name: &String| {
            let at = table.partition_at(name).map(|at| at as u32);
            at.ok_or_else(|| unknown_partition(table, name))
        };
        let only = names.iter().map(at).collect::<Result<Vec<_>>>()?;
        let Some(divider) = Divider::new(table, &self.schema) else {
            bail!(
                NotSupported,
                "This version of Freshet doesn't yet support 'PARTITION (..)' for rows of table \
                 '{}', whose partitions follow from generated ids",
                table.name
            );
        };
        self.divider = Some(Arc::new(divider.only(only)));
        Ok(())
    }

    /// Checks that an encoded row, which was computed from a stored one, is of the partitions that
    /// are named.
    ///
    /// # Errors
    /// 1748 where it is of another one, 1526 where it is of none.
    pub fn check_named(&self, row: &[u8]) -> Result<()> {
        let named = self.divider.as_ref().filter(|divider| divider.names_some());
        match named.and_then(|divider| divider.refused(row, &self.schema, &mut Vec::new())) {
            None => Ok(()),
            Some(Undivided { values, is_elsewhere: true }) => bail!(
                NotInPartitions,
                "Found a row not matching the given partition set: value {values}"
            ),
            Some(Undivided { values, .. }) => {
                bail!(NoPartition, "Table has no partition for value {values}")
            }
        }
    }

    /// Gives the rows of a load other ids, if the table was truncated since they got theirs: the
    /// load was refused for it, and can be tried again. Returns `false` where that is not so.
    ///
    /// # Errors
    /// 1467 when there are not as many.
    pub fn renew_ids(&self, buffer: &mut LoadBuffer) -> Result<bool> {
        let Some((ids, used)) = self.ids.as_ref().zip(buffer.ids()) else { return Ok(false) };
        let Some(renewed) = ids.renew(&self.schema, &used, buffer.rows_mut())? else {
            return Ok(false);
        };
        buffer.replace_ids(renewed);
        Ok(true)
    }

    /// Sets the first generated id of the next statement, instead of the counter's.
    pub fn force_id(&mut self, id: Option<u64>) {
        if let Some(ids) =
            self.ids.as_mut().filter(|_| self.schema.shown_auto_increment().is_some())
        {
            ids.forced = id;
        }
    }

    /// Reevaluates defaults like CURRENT_TIMESTAMP at another time.
    pub fn set_now(&mut self, now: i64, rules: &Rules) {
        for (column, slot) in self.schema.columns.iter().zip(&mut self.fillers) {
            if depends_on_now(column) {
                *slot = filler(column, now, rules);
            }
        }
    }

    /// Whether a default depends on the time of the statement.
    pub fn depends_on_now(&self) -> bool {
        self.schema.columns.iter().any(depends_on_now)
    }

    /// The schema that rows are encoded with.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The names of the columns that values are of, in the order of the values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|&at| self.column_at(at).name.as_str())
    }

    /// The number of values in a row.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The column of the value at `position`.
    pub fn column(&self, position: usize) -> &Column {
        self.column_at(self.columns[position])
    }

    fn check_omitted(&self) -> Result<()> {
        for (at, column) in self.schema.columns.iter().enumerate() {
            match &self.fillers[at] {
                _ if self.given[at] => {}
                Filler::Missing => {
                    bail!(NoDefault, "Field '{}' doesn't have a default value", column.name)
                }
                Filler::Bad(bad) => return Err(bad.error(column, b"DEFAULT", 1)),
                Filler::Cell(_) | Filler::Null | Filler::Id | Filler::Computed => {}
            }
        }
        Ok(())
    }
}

/// Maps the fields of a source, such as a CSV line, to the values of a row.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    pub plan: InsertPlan,
    /// The name of each field, in source order.
    pub names: Vec<String>,
    /// The position of each field's value; `None` for fields without a column.
    pub fields: Vec<Option<usize>>,
}

impl SourcePlan {
    /// A plan for fields of these names, or for the table's columns in order. Fields that the table
    /// lacks are read and ignored.
    pub fn new<N: AsRef<str>>(
        schema: &Arc<TableSchema>,
        names: Option<&[N]>,
        now: i64,
        rules: &Rules,
    ) -> Result<Self> {
        let names: Vec<String> = match names {
            Some(names) => names.iter().map(|name| name.as_ref().to_owned()).collect(),
            None => schema.shown_names().map(str::to_owned).collect(),
        };
        let mut values = Vec::new();
        let mut fields = Vec::with_capacity(names.len());
        for name in &names {
            // Values of generated columns, as a dump has them, are read and ignored, too.
            let at = schema.position(name);
            let known = at.is_some_and(|at| schema.columns[at].generated.is_none());
            fields.push(known.then_some(values.len()));
            if known {
                values.push(name.as_str());
            }
        }
        let plan = InsertPlan::partial(schema, Some(&values), now, rules)?;
        Ok(Self { plan, names, fields })
    }
}

fn positions<N: AsRef<str>>(schema: &TableSchema, names: &[N]) -> Result<Vec<usize>> {
    let mut columns = Vec::with_capacity(names.len());
    let mut seen = vec![false; schema.columns.len()];
    for name in names.iter().map(AsRef::as_ref) {
        let Some(at) = schema.position(name) else {
            bail!(UnknownColumn, "Unknown column '{name}' in 'table list'")
        };
        if std::mem::replace(&mut seen[at], true) {
            bail!(ColumnTwice, "Column '{name}' specified twice")
        }
        columns.push(at);
    }
    Ok(columns)
}

fn filler(column: &Column, now: i64, rules: &Rules) -> Filler {
    if column.auto_increment.is_some() {
        return Filler::Id;
    }
    if matches!(column.default, Some(DefaultValue::Expression(_))) {
        return Filler::Computed;
    }
    let mut cell = Vec::new();
    if column.generated.is_some() && !column.nullable {
        // It stands in its place until it is computed.
        put_zero(column.ty, &mut cell);
        return Filler::Cell(cell);
    }
    match put_default(column, now, rules, &mut cell) {
        Ok(Put::Value) => Filler::Cell(cell),
        Ok(Put::Null) => Filler::Null,
        Err(BadDefault::Missing) if rules.on_bad == OnBad::Clamp => {
            put_implicit(column.ty, &mut cell);
            Filler::Cell(cell)
        }
        Err(BadDefault::Missing) => Filler::Missing,
        Err(BadDefault::Value(bad)) => Filler::Bad(bad),
    }
}

fn depends_on_now(column: &Column) -> bool {
    column.default.as_ref().is_some_and(DefaultValue::asks_clock)
}

#[cfg(test)]
mod tests {
    use freshet_schema::ColumnType;

    use super::*;
    use crate::decode::testing::schema;

    #[test]
    fn names_are_checked_once() {
        let schema = schema(&[
            ("a", ColumnType::Int { unsigned: false }, false),
            ("b", ColumnType::Text, true),
        ]);
        let plan = |names: &[&str]| InsertPlan::new(&schema, Some(names), 0, &Rules::default());
        let errno = |names: &[&str]| plan(names).unwrap_err().code().errno();
        assert_eq!(errno(&["x"]), 1054);
        assert_eq!(errno(&["a", "A"]), 1110);
        assert_eq!(errno(&["b"]), 1364);
        let plan = plan(&["B", "a"]).unwrap();
        assert_eq!((plan.width(), plan.in_order), (2, false));
        assert_eq!(plan.column(0).name, "b");
    }

    #[test]
    fn defaults_of_the_clock_follow_it() {
        let mut source =
            TableSchema::clone(&schema(&[("t", ColumnType::DateTime { fsp: 0 }, false)]));
        source.columns[0].default = Some(DefaultValue::CurrentTimestamp);
        let (schema, rules) = (Arc::new(source), Rules::default());
        let mut plan = InsertPlan::new::<&str>(&schema, Some(&[]), 0, &rules).unwrap();
        assert!(plan.depends_on_now());
        assert_eq!(plan.fillers, [Filler::Cell(0i64.to_le_bytes().to_vec())]);
        plan.set_now(5_000_000, &rules);
        assert_eq!(plan.fillers, [Filler::Cell(5_000_000i64.to_le_bytes().to_vec())]);
    }
}
