//! What every row of one statement shape has in common.

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_schema::row::Put;
use freshet_schema::value::{BadDefault, put_default, put_zero};
use freshet_schema::{BadValue, Column, DefaultValue, OnBad, Rules, TableSchema};

/// What a column takes when a row gives it no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Filler {
    /// This cell.
    Cell(Vec<u8>),
    /// NULL.
    Null,
    /// It has no default and takes no NULL.
    Missing,
    /// Its default does not fit it.
    Bad(BadValue),
}

/// Which column each value of a row is for, and what the other columns take.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    schema: Arc<TableSchema>,
    /// The column of each value.
    pub(super) columns: Vec<usize>,
    /// For each column, whether rows give a value for it.
    pub(super) given: Vec<bool>,
    /// For each column, what it takes otherwise.
    pub(super) fillers: Vec<Filler>,
    /// Values come in the order of the columns.
    pub(super) in_order: bool,
    /// A row whose values cannot be taken is left out, and the others are taken.
    pub(super) filters: bool,
}

impl InsertPlan {
    /// A plan for rows that name these columns in this order, or all of them in the order of
    /// the table. `now` is the time of the statement in microseconds since 1970 UTC.
    ///
    /// Fails with 1054 for a column the table lacks, 1110 for one named twice, and 1364 for
    /// one that was left out and has no default.
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

    /// The same, for sources whose rows may leave out any column, like JSON: what a row leaves
    /// out and has no default is that row's fault.
    pub fn partial<N: AsRef<str>>(
        schema: &Arc<TableSchema>,
        names: Option<&[N]>,
        now: i64,
        rules: &Rules,
    ) -> Result<Self> {
        let columns = match names {
            Some(names) => positions(schema, names)?,
            None => (0..schema.columns.len()).collect(),
        };
        let mut given = vec![false; schema.columns.len()];
        columns.iter().for_each(|&at| given[at] = true);
        let in_order = columns.is_sorted();
        let fillers = schema.columns.iter().map(|column| filler(column, now, rules)).collect();
        Ok(Self { schema: Arc::clone(schema), columns, given, fillers, in_order, filters: false })
    }

    /// The same for a lax statement: a row with a value that cannot be taken is left out and
    /// counted, instead of failing the statement.
    #[must_use]
    pub fn filtering(mut self, filters: bool) -> Self {
        self.filters = filters;
        self
    }

    /// The plan at another time: defaults like CURRENT_TIMESTAMP are read again.
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

    /// The columns that rows are encoded under.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// How many values a row has.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The column that the value at `position` is for.
    pub fn column(&self, position: usize) -> &Column {
        &self.schema.columns[self.columns[position]]
    }

    fn check_omitted(&self) -> Result<()> {
        for (at, column) in self.schema.columns.iter().enumerate() {
            match &self.fillers[at] {
                _ if self.given[at] => {}
                Filler::Missing => {
                    bail!(NoDefault, "Field '{}' doesn't have a default value", column.name)
                }
                Filler::Bad(bad) => return Err(bad.error(column, b"DEFAULT", 1)),
                Filler::Cell(_) | Filler::Null => {}
            }
        }
        Ok(())
    }
}

/// How the fields of a source, like those of a CSV line, become the values of a row.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// The plan of the values.
    pub plan: InsertPlan,
    /// The name of each field, in the order of the source.
    pub names: Vec<String>,
    /// For each field the position of its value; `None` for one that no column takes.
    pub fields: Vec<Option<usize>>,
}

impl SourcePlan {
    /// A plan for fields of these names, or of the table's columns in order. Names that the
    /// table lacks are fields that are read and dropped.
    pub fn new<N: AsRef<str>>(
        schema: &Arc<TableSchema>,
        names: Option<&[N]>,
        now: i64,
        rules: &Rules,
    ) -> Result<Self> {
        let names: Vec<String> = match names {
            Some(names) => names.iter().map(|name| name.as_ref().to_owned()).collect(),
            None => schema.columns.iter().map(|column| column.name.clone()).collect(),
        };
        let mut values = Vec::new();
        let mut fields = Vec::with_capacity(names.len());
        for name in &names {
            let known = schema.position(name).is_some();
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
    let mut cell = Vec::new();
    match put_default(column, now, rules, &mut cell) {
        Ok(Put::Value) => Filler::Cell(cell),
        Ok(Put::Null) => Filler::Null,
        Err(BadDefault::Missing) if rules.on_bad == OnBad::Clamp => {
            put_zero(column.ty, &mut cell);
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
