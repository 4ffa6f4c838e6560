//! Values that name columns: each stands for what the row has got there so far, and for the default
//! of a column that gets its value later, or none.

use std::collections::{BTreeMap, BTreeSet};

use freshet_base::{ErrorCode, Result};
use freshet_query::Parameter;
use freshet_query::earlier::{as_stored, columns, of_cell, with_columns};
use freshet_query::parser::Insert;
use freshet_query::syntax::{Constant, Literal, Scalar};
use freshet_schema::Column;

use super::super::assigned::{default_of, note};
use super::super::values::{check_assigns_none, evaluate_apart};
use crate::insert::Target;
use crate::session::Session;

/// A row of an INSERT; `None` stands for DEFAULT.
type Row = Vec<Option<Scalar>>;

/// The rows with values in place of the columns that they name; `None` if they name none. What is
/// named is computed once.
///
/// # Errors
/// Those of computing values, and of defaults.
pub async fn resolved(
    session: &mut Session,
    insert: &Insert,
    target: &Target,
    rows: &[Row],
    parameters: &[Parameter],
) -> Result<Option<Vec<Row>>> {
    let names = names(insert, target);
    let table = &insert.table.table;
    let place = |name: &str| names.iter().position(|known| known.eq_ignore_ascii_case(name));
    let values = rows.iter().flatten().flatten().filter(|value| value.constant().is_none());
    let named = values.flat_map(|value| columns(value, table)).collect::<BTreeSet<_>>();
    if named.is_empty() {
        return Ok(None);
    }
    check_assigns_none(rows.iter().flatten().flatten())?;
    let read = named.iter().filter_map(|name| place(name)).collect::<BTreeSet<_>>();
    let mut rows = rows.to_vec();
    let mut got = vec![BTreeMap::<usize, Scalar>::new(); rows.len()];
    for (at, name_of) in names.iter().enumerate() {
        for (row, got) in rows.iter_mut().zip(&got) {
            let Some(slot) = row.get_mut(at) else { continue };
            let Some(value) = slot.take() else { continue };
            let mut failed = None;
            let mut of = |name: &str| match place(name) {
                Some(place) if place < at => got.get(&place).cloned(),
                place => default(session, target, name, place).unwrap_or_else(|error| {
                    failed = Some(error);
                    None
                }),
            };
            *slot = Some(with_columns(value, table, &mut of));
            if let Some(error) = failed {
                return Err(error);
            }
        }
        if read.contains(&at) {
            compute(session, target, (&mut rows, at), parameters).await?;
            for (row, got) in rows.iter().zip(&mut got) {
                let Some(value) = row.get(at) else { continue };
                got.extend(stored(session, target, name_of, (value.as_ref(), at))?);
            }
        }
    }
    Ok(Some(rows))
}

/// The names of the columns that get values, in the order of these.
fn names(insert: &Insert, target: &Target) -> Vec<String> {
    match (&insert.columns, &target.through) {
        (Some(columns), _) if !columns.is_empty() => columns.clone(),
        (_, Some(view)) => view.names().map(str::to_owned).collect(),
        (_, None) => target.plan.names().map(str::to_owned).collect(),
    }
}

/// Computes the values of one column, so that what names it and the row itself have the same.
async fn compute(
    session: &mut Session,
    target: &Target,
    (rows, at): (&mut [Row], usize),
    parameters: &[Parameter],
) -> Result<()> {
    let is_computed = |row: &Row| match row.get(at) {
        Some(Some(value)) => value.constant().is_none(),
        _ => false,
    };
    let computed = (0..rows.len()).filter(|&row| is_computed(&rows[row])).collect::<Vec<_>>();
    let of = (&target.into, target.through.as_deref());
    let exprs = computed.iter().filter_map(|&row| rows[row][at].clone());
    let exprs = exprs.map(|expr| expr.with_defaults(|name| default_of(session, of, name)));
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    if exprs.is_empty() {
        return Ok(());
    }
    let losses = session.settings.losses(target.into.table().form);
    let (cells, warnings) = evaluate_apart(session, exprs, parameters.to_vec(), losses).await?;
    note(session, &target.rules, warnings)?;
    for (row, cells) in computed.into_iter().zip(&cells) {
        if let Some(value) = of_cell(cells, 0) {
            rows[row][at] = Some(value);
        }
    }
    Ok(())
}

/// What an expression sees of a value that its column has got.
fn stored(
    session: &Session,
    target: &Target,
    name: &str,
    (value, at): (Option<&Scalar>, usize),
) -> Result<Option<(usize, Scalar)>> {
    if at >= target.plan.width() {
        return Ok(None);
    }
    let column = target.plan.column(at);
    let is_null = |value: &&Scalar| matches!(value.constant(), Some(Constant::Null));
    // Ids are generated behind all other values.
    let given = value.filter(|value| column.auto_increment.is_none() || !is_null(value));
    let seen = match given {
        Some(value) => Some(as_stored(value.clone(), column)),
        None => default(session, target, name, Some(at))?,
    };
    Ok(seen.map(|seen| (at, seen)))
}

/// The default of a column, which rows have a value for at `place`; `None` where there is no such
/// column.
///
/// # Errors
/// For a default that is computed.
fn default(
    session: &Session,
    target: &Target,
    name: &str,
    place: Option<usize>,
) -> Result<Option<Scalar>> {
    let schema = target.into.schema();
    let found = match place {
        Some(at) if at < target.plan.width() => Some(target.plan.column(at)),
        _ if target.through.is_some() => None,
        _ => schema.position(name).map(|at| &schema.columns[at]),
    };
    let Some(column) = found else { return Ok(None) };
    let literal = match column.auto_increment {
        Some(_) => zero(column),
        None => match default_of(session, (&target.into, target.through.as_deref()), name) {
            Err(error) if error.code() == ErrorCode::NoDefault => zero(column),
            found => found?,
        },
    };
    Ok(Some(as_stored(literal.into(), column)))
}

/// What stands in a column that has neither a value nor a default.
fn zero(column: &Column) -> Literal {
    match column.ty.is_numeric() {
        true => Literal::Number("0".to_owned()),
        false => Literal::Text(String::new()),
    }
}
