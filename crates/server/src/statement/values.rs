//! Expressions outside of a query.

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_query::Parameter;
use freshet_query::assign::value_assigns;
use freshet_query::engine::PlanRequest;
use freshet_query::evaluation::{Losses, Warnings};
use freshet_query::result::Cells;
use freshet_query::session::Value;
use freshet_query::syntax::{Constant, Scalar, Select};
use freshet_schema::Collation;

use super::query::{asked, begun, run};
use crate::reader::Reader;
use crate::reply::bounded;
use crate::session::Session;
use crate::watched::{cell_value, kept_collation};

/// Expressions that are evaluated in one query.
const TOGETHER: usize = 256;

/// Evaluates expressions outside of a query; each is a column of one row. Returns warnings instead
/// of recording them in the session.
///
/// # Errors
/// Those of planning and executing; 1235 for assignments in more than one query.
pub async fn evaluate_apart(
    session: &mut Session,
    exprs: Vec<Scalar>,
    parameters: Vec<Parameter>,
    losses: Losses,
) -> Result<(Vec<Cells>, Warnings)> {
    if exprs.len() > TOGETHER {
        check_assigns_none(&exprs)?;
    }
    let reads_tables = exprs.iter().any(Scalar::reads_tables);
    session.enter_group(reads_tables).await?;
    let origin = Reader::of(session, reads_tables).await?;
    let mut all = Vec::with_capacity(exprs.len());
    let mut warnings = Warnings::default();
    let mut exprs = exprs.into_iter().peekable();
    while exprs.peek().is_some() {
        // The planner's limit on columns is below the number of values of an INSERT.
        let query = Select::of(exprs.by_ref().take(TOGETHER).collect());
        let asked = PlanRequest { losses, ..asked(Arc::clone(&origin), query, &parameters) };
        let (columns, mut rows) = begun(session, asked, parameters.clone()).await?;
        let batches = bounded(session, rows.collect()).await?;
        let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else {
            bail!(Unknown, "an expression gave no value");
        };
        all.extend(Cells::of(batch, &columns)?);
        warnings.append(rows.warnings());
    }
    Ok((all, warnings))
}

/// Refuses values that assign variables, where they are not computed in one query: each begins with
/// the variables of the session.
///
/// # Errors
/// 1235.
pub fn check_assigns_none<'a>(exprs: impl IntoIterator<Item = &'a Scalar>) -> Result<()> {
    if exprs.into_iter().any(value_assigns) {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support ':=' in VALUES with more than {TOGETHER} \
             values that are computed, or that name columns; use INSERT .. SELECT"
        );
    }
    Ok(())
}

/// The value of one expression, for a variable.
///
/// # Errors
/// As [`evaluate_apart`].
pub async fn value(
    session: &mut Session,
    expr: &Scalar,
    parameters: Vec<Parameter>,
) -> Result<Value> {
    Ok(variable(session, expr, parameters).await?.0)
}

/// As [`value`], with the collation that a user variable keeps.
///
/// # Errors
/// As [`evaluate_apart`].
pub async fn variable(
    session: &mut Session,
    expr: &Scalar,
    parameters: Vec<Parameter>,
) -> Result<(Value, Option<Collation>)> {
    if let Some(value) = literal(expr) {
        return Ok((value, None));
    }
    let select = Select::of(vec![expr.clone()]);
    let losses = session.settings.losses_queries;
    let (columns, mut rows) = run(session, &select, parameters, losses).await?;
    let batches = bounded(session, rows.collect()).await?;
    session.evaluated(rows.warnings())?;
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else {
        bail!(Unknown, "an expression gave no value");
    };
    let collation = kept_collation(session, &columns[0]);
    Ok((cell_value(&Cells::of(batch, &columns)?[0], 0), collation))
}

/// The value of a literal, which needs no planning.
fn literal(expr: &Scalar) -> Option<Value> {
    match expr.constant()? {
        Constant::Null => Some(Value::Null),
        Constant::Bool(on) => Some(Value::Int(on.into())),
        Constant::Number(digits) => digits.parse().ok().map(Value::Int),
        Constant::Text(text) => Some(Value::Text(text.to_owned())),
        Constant::Bits(_) | Constant::Bytes(_) => None,
    }
}
