//! Values that a statement assigns to columns of stored rows: UPDATE .. SET and ON DUPLICATE KEY
//! UPDATE.

mod columns;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use freshet_base::{ColumnId, Error, ErrorCode, Result, bail, err};
use freshet_ingest::LoadTarget;
use freshet_ingest::decode::{Fault, RowEncoder};
use freshet_query::actions::{self, SequenceCall};
use freshet_query::change::{Assignments, Change, ChangeKind, NEW, ROW, in_order, is_of_new};
use freshet_query::evaluation;
use freshet_query::result::{Cells, ResultColumn};
use freshet_query::syntax::{Literal, Scalar, Select};
use freshet_query::through::Through;
use freshet_query::{Parameter, RecordBatch};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::{Column, ColumnType, DefaultValue, Rules, TableSchema};

pub use columns::{AssignedColumns, NewValues, touched_beside};

use super::cells::{put_cell, row_numbers};
use super::query;
use super::sequence::columns::SequenceColumns;
use crate::given::GivenRows;
use crate::session::Session;

/// Columns with the values that they get.
pub struct Assigned {
    columns: AssignedColumns,
    /// What each of them gets; `None` for DEFAULT.
    values: Vec<Option<Scalar>>,
    /// Those of them that are values of sequences: each has a number in its place.
    taken: SequenceColumns,
}

impl Assigned {
    /// What an UPDATE assigns, `None` for other changes; and the query of the rows that are still
    /// to be changed, with their values.
    ///
    /// # Errors
    /// As [`Self::new`], and 1093.
    pub fn of(
        session: &Session,
        target: &LoadTarget,
        change: &Change,
    ) -> Result<(Option<Self>, Select)> {
        let ChangeKind::Update { set } = &change.kind else {
            // A DELETE reads no other rows of the table than those that it removes, either.
            return Ok((None, change.computed(&[])?));
        };
        let of = change.is_joined().then_some(change.name.as_str());
        let target = (target, change.view.as_deref());
        let plan = Self::new(session, target, (set, of), change.ignores)?;
        let computed = change.computed(&plan.exprs())?;
        Ok((Some(plan), computed))
    }

    /// `of` is the name of the table where it is one of several. Where it is changed through a
    /// view, columns are those of the view.
    ///
    /// # Errors
    /// 1054 for a column that the table does not have, and 1348.
    pub fn new(
        session: &Session,
        (target, view): (&LoadTarget, Option<&Through>),
        (set, of): (&Assignments, Option<&str>),
        ignores: bool,
    ) -> Result<Self> {
        let schema = target.schema();
        // The last of several values for a column counts.
        let mut last: Vec<Option<Option<Scalar>>> = vec![None; schema.columns.len()];
        let of_column = |name: &str| default_of(session, (target, view), name);
        let with_defaults = |(name, value): &(String, Option<Scalar>)| {
            let value = value.clone().map(|value| value.with_defaults(of_column)).transpose()?;
            Ok((name.clone(), value))
        };
        let set = set.iter().map(with_defaults).collect::<Result<Assignments>>()?;
        for (name, value) in in_order(&set, of)? {
            last[position(schema, view, &name)?] = Some(value);
        }
        let computes_all = take_generated(target, &mut last)?;
        let touched = touched_beside(schema, |at| last[at].is_some());
        touched.iter().for_each(|&at| last[at] = Some(None));
        let given = last.into_iter().enumerate();
        let (columns, mut values): (Vec<_>, Vec<_>) =
            given.filter_map(|(at, value)| Some((at, value?))).unzip();
        let taken = SequenceColumns::at(session, sequences(schema, &mut values))?;
        let mut columns = AssignedColumns::new(session, target, (columns, touched), ignores)?;
        columns.computes_all = computes_all;
        if let Some(view) = view {
            columns.check(session, view).map_err(|error| view.hidden(error))?;
        }
        Ok(Self { columns, values, taken })
    }

    /// The columns, which take the values that [`Self::compute`] finds.
    pub fn columns(&self) -> &AssignedColumns {
        &self.columns
    }

    /// Appends what `old` becomes, and says whether it is another row, as
    /// [`AssignedColumns::apply`]. What a constraint of the table, or of a view, refuses stays as
    /// it is by IGNORE, with a warning.
    ///
    /// # Errors
    /// Those of [`AssignedColumns::apply`].
    pub fn apply(
        &self,
        session: &mut Session,
        old: &[u8],
        values: (&mut NewValues, usize),
        ignores: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let start = out.len();
        let differs = match self.columns.apply(old, values, out) {
            Err(error) if ignores && is_constraint(&error) => {
                ignore(session, &error);
                false
            }
            differs => differs?,
        };
        if !differs {
            out.truncate(start);
        }
        Ok(differs)
    }

    /// The expressions, in the order in which [`Self::compute`] takes their values.
    pub fn exprs(&self) -> Vec<Scalar> {
        self.values.iter().flatten().cloned().collect()
    }

    /// The values of [`Self::compute`] where each column takes that of the row to be inserted;
    /// `None` where something is to be computed.
    pub fn of_new(&self, new: &[&[u8]]) -> Option<NewValues> {
        let schema = self.columns.target().schema();
        let is_taken = |(&at, value): (&usize, &Option<Scalar>)| {
            value.as_ref().is_some_and(|value| is_of_new(value, &schema.columns[at].name))
        };
        let is_all = self.columns.columns().iter().zip(&self.values).all(is_taken);
        is_all.then(|| self.columns.of_rows(new))
    }

    /// Runs the query of [`ROW`] and [`Self::exprs`] over `given` rows, of which there are `count`.
    ///
    /// # Errors
    /// Those of the query, and values that a column does not take.
    pub async fn compute(
        &self,
        session: &mut Session,
        select: &Select,
        given: (GivenRows, usize),
        parameters: Vec<Parameter>,
    ) -> Result<NewValues> {
        let (given, count) = given;
        let losses = session.settings.losses(self.columns.target().table().form);
        let over = query::over(session, select, given, parameters, losses).await?;
        note(session, self.columns.rules(), over.warnings)?;
        let mut new = NewValues::of(count);
        for batch in over.batches {
            let batch = self.taken.fill(session, batch).await?;
            self.encode(&batch, &over.columns, &mut new)?;
        }
        Ok(new)
    }

    fn encode(
        &self,
        batch: &RecordBatch,
        columns: &[ResultColumn],
        new: &mut NewValues,
    ) -> Result<()> {
        let cells = Cells::of(batch, columns)?;
        let numbers = row_numbers(&cells)?;
        let mut text = Vec::new();
        for (at, number) in numbers.into_iter().enumerate() {
            let cells = &cells[1..];
            self.columns
                .encode(new, number, |encoder| self.encode_row(encoder, cells, at, &mut text))?;
        }
        Ok(())
    }

    fn encode_row(
        &self,
        encoder: &mut RowEncoder<'_>,
        cells: &[Cells],
        row: usize,
        text: &mut Vec<u8>,
    ) -> Result<(), Box<Fault>> {
        let mut cells = cells.iter();
        for value in &self.values {
            match value {
                None => encoder.put_default()?,
                Some(_) => {
                    let cells = cells.next().expect("the query computes each expression");
                    put_cell(encoder, cells, row, text)?;
                }
            }
        }
        Ok(())
    }
}

fn is_constraint(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::CheckViolated | ErrorCode::CheckOptionFailed)
}

/// Notes that IGNORE leaves a row as it is.
pub fn ignore(session: &mut Session, error: &Error) {
    session.diagnostics.push("Warning", error.code().errno(), error.message().into());
}

/// The values of sequences among those that rows get, by their place behind [`ROW`] in the query
/// that computes these. A number takes the place of each.
fn sequences(schema: &TableSchema, values: &mut [Option<Scalar>]) -> Vec<(usize, SequenceCall)> {
    let mut found = Vec::new();
    if ["nextval", "currval"].iter().any(|name| schema.position(name).is_some()) {
        // A column of this name goes before a sequence of the name of its table.
        return found;
    }
    for (at, value) in values.iter_mut().flatten().enumerate() {
        if let Some(call) = actions::sequence_value(value) {
            *value = Literal::Number("0".to_owned()).into();
            found.push((at + 1, call));
        }
    }
    found
}

/// Takes generated columns out of those that get a value; returns whether there are any.
///
/// # Errors
/// 3105 for another value than DEFAULT.
fn take_generated(target: &LoadTarget, last: &mut [Option<Option<Scalar>>]) -> Result<bool> {
    let mut is_any = false;
    let columns = target.schema().columns.iter().zip(last);
    for (column, value) in columns.filter(|(column, _)| column.generated.is_some()) {
        match value.take() {
            None => {}
            Some(None) => is_any = true,
            Some(Some(_)) => bail!(
                GeneratedValue,
                "The value specified for generated column '{}' in table '{}' is not allowed.",
                column.name,
                target.table().name
            ),
        }
    }
    Ok(is_any)
}

/// How values of a statement are converted.
pub fn rules(session: &Session, target: &LoadTarget, ignores: bool) -> Rules {
    let mut rules = *session.settings.rules(target.table().form);
    if ignores && rules.strict() {
        rules.on_bad = freshet_schema::OnBad::Clamp;
    }
    rules
}

/// The default of a column, for `DEFAULT(column)`.
///
/// # Errors
/// 1054, 1143, 1364 for a column without one, and `NotSupported` for one that is computed.
pub fn default_of(
    session: &Session,
    (target, view): (&LoadTarget, Option<&Through>),
    name: &str,
) -> Result<Literal> {
    let schema = target.schema();
    let column = &schema.columns[position(schema, view, name)?];
    if view.is_none() {
        session.check_seen(target.table(), &column.name)?;
    }
    match &column.default {
        Some(DefaultValue::Literal(text)) if column.ty.is_numeric() => {
            Ok(Literal::Number(text.clone()))
        }
        Some(DefaultValue::Literal(text)) => Ok(Literal::Text(text.clone())),
        None if column.nullable => Ok(Literal::Null),
        None => bail!(NoDefault, "Field '{name}' doesn't have a default value"),
        Some(_) => bail!(
            NotSupported,
            "DEFAULT({name}) is not supported: its default is computed; write DEFAULT, or what it \
             computes"
        ),
    }
}

/// The place of a column of the table, or of the view that it is changed through.
fn position(schema: &TableSchema, view: Option<&Through>, name: &str) -> Result<usize> {
    let below = view.map_or(Ok(name), |view| view.assigned(name))?;
    match schema.position(below) {
        Some(at) => Ok(at),
        None => {
            let error = err!(UnknownColumn, "Unknown column '{name}' in 'field list'");
            Err(match view {
                Some(view) => view.hidden(error),
                None => error,
            })
        }
    }
}

/// Records what expressions warn of; in a strict mode it fails the statement.
///
/// # Errors
/// The first warning in a strict mode.
pub fn note(session: &mut Session, rules: &Rules, warnings: evaluation::Warnings) -> Result<()> {
    match warnings.first.first() {
        Some((code, message)) if rules.strict() => Err(Error::new(*code, message.clone())),
        _ => {
            // The client hears of it, too.
            session.insert_id = warnings.insert_id.unwrap_or(session.insert_id);
            session.evaluated(warnings)
        }
    }
}

/// Stored rows as a statement reads them: with their numbers as [`ROW`], and beside each the row
/// that is to be inserted, if `new` has such.
///
/// # Errors
/// Never, as long as both are rows of the target.
pub fn given(target: &LoadTarget, old: &[&[u8]], new: Option<&[&[u8]]>) -> Result<GivenRows> {
    let schema = target.schema();
    let mut columns = schema.columns.clone();
    let mut arrays = arrays(schema, old);
    let mut add = |column: Column, array: ArrayRef| {
        let id = columns.iter().map(|column| column.id.0).max().unwrap_or(0) + 1;
        columns.push(Column { id: ColumnId(id), ..column });
        arrays.push(array);
    };
    let numbers = Int64Array::from_iter_values(0..old.len() as i64);
    let number = Column::new(ColumnId(0), ROW, ColumnType::BigInt { unsigned: false });
    add(number, Arc::new(numbers));
    if let Some(new) = new {
        for (column, array) in schema.columns.iter().zip(self::arrays(schema, new)) {
            let name = format!("{NEW}{}", column.name.to_lowercase());
            add(Column { name, ..column.clone() }, array);
        }
    }
    let schema = Arc::new(TableSchema::new(schema.version, columns, schema.sort_key.clone()));
    match RecordBatch::try_new(Arc::clone(schema.arrow()), arrays) {
        Ok(rows) => Ok(GivenRows::of(target.id(), schema, rows)),
        Err(error) => bail!(Internal, "current rows do not fit their columns: {error}"),
    }
}

/// As [`given`], with the columns of a view through which rows are inserted.
///
/// # Errors
/// As [`given`].
pub fn given_through(
    target: &LoadTarget,
    view: &Through,
    old: &[&[u8]],
    new: &[&[u8]],
) -> Result<GivenRows> {
    let whole = given(target, old, Some(new))?;
    let named = |name: &str| -> Option<(usize, String)> {
        if name == ROW {
            return Some((whole.schema.position(ROW)?, ROW.to_owned()));
        }
        let (prefix, column) = match name.strip_prefix(NEW) {
            Some(column) => (NEW, column),
            None => ("", name),
        };
        let below = view.below(column)?;
        let below = if prefix.is_empty() { below.to_owned() } else { below.to_lowercase() };
        Some((whole.schema.position(&format!("{prefix}{below}"))?, name.to_owned()))
    };
    let new = view.names().map(|name| format!("{NEW}{}", name.to_lowercase()));
    let names = view.names().map(str::to_owned).chain([ROW.to_owned()]).chain(new);
    let (mut columns, mut arrays) = (Vec::new(), Vec::new());
    for (at, name) in names.filter_map(|name| named(&name)) {
        columns.push(Column { name, ..whole.schema.columns[at].clone() });
        arrays.push(Arc::clone(whole.rows.column(at)));
    }
    let schema = Arc::new(TableSchema::new(whole.schema.version, columns, Vec::new()));
    match RecordBatch::try_new(Arc::clone(schema.arrow()), arrays) {
        Ok(rows) => Ok(GivenRows { schema, rows, is_marked: true, of_view: true, ..whole }),
        Err(error) => bail!(Internal, "rows do not fit the columns of a view: {error}"),
    }
}

fn arrays(schema: &TableSchema, rows: &[&[u8]]) -> Vec<ArrayRef> {
    let mut columns = ColumnsBuilder::new(schema, rows.len());
    rows.iter().for_each(|row| columns.append(row, 1));
    columns.finish().columns().to_vec()
}
