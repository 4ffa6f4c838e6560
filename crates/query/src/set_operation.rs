//! UNION, INTERSECT and EXCEPT: the columns have the common type of all operands, and ALL takes
//! duplicates into account.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DataFusionError, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Union, lit,
};
use freshet_base::err;
use sqlparser::ast::{SetExpr, SetOperator, SetQuantifier, TableFactor};

use crate::error::external;
use crate::functions::call;
use crate::functions::meaning::{digits, hides_digits, showing, shown_type};
use crate::functions::types::{common_of, converted, exact_digits};
use crate::result::copy_name;
use crate::rewrite::derived::is_nameless;
use crate::rewrite::set_operation::{is_bare_set_operation, query_of};

/// The column that numbers duplicates; no user column is named like this.
const COPY: &str = "#copy";

/// Plans set operations, which the rewriter has made derived tables, before anything refers to
/// their columns: operators are planned by the types of their operands.
#[derive(Debug)]
pub struct SetOperations;

impl RelationPlanner for SetOperations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Derived { subquery, alias, .. } if is_bare_set_operation(&subquery) => {
                let plan = planned(*subquery.body, context)?;
                let alias = alias.filter(|alias| !is_nameless(alias));
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

/// Plans a set operation or a query in parentheses. A chain of operations nests as deep as it is
/// long, so it is processed by a loop instead of recursion.
fn planned(body: SetExpr, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let mut first = body;
    let mut rest = Vec::new();
    while let SetExpr::SetOperation { op, set_quantifier, left, right } = first {
        rest.push((op, is_all(op, set_quantifier)?, *right));
        first = *left;
    }
    let mut plan = part(first, context)?;
    while let Some(&(op, ..)) = rest.last() {
        // A run of the same operation is planned at once: all its operands have common types.
        let mut run = vec![(true, plan)];
        while let Some((_, all, right)) = rest.pop_if(|(next, ..)| *next == op) {
            run.push((all, part(right, context)?));
        }
        plan = combined(op, run)?;
    }
    Ok(plan)
}

/// Whether an operation has ALL.
fn is_all(op: SetOperator, quantifier: SetQuantifier) -> Result<bool> {
    match (op, quantifier) {
        (SetOperator::Minus, _) => Err(unknown("MINUS")),
        (_, SetQuantifier::All) => Ok(true),
        (_, SetQuantifier::Distinct | SetQuantifier::None) => Ok(false),
        (op, quantifier) => Err(unknown(&format!("{op} {quantifier}"))),
    }
}

fn part(body: SetExpr, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let subquery = match body {
        SetExpr::Query(query) => query,
        body => query_of(body),
    };
    context.plan(TableFactor::Derived { lateral: false, subquery, alias: None, sample: None })
}

/// A column of a set operation.
struct Common {
    name: String,
    ty: DataType,
    /// The number of fractional digits of a time, if known for all operands.
    digits: Option<u8>,
}

/// The columns of a set operation, with the names of its first operand, made unique.
fn columns(parts: &[LogicalPlan]) -> Result<Vec<Common>> {
    let count = parts[0].schema().fields().len();
    if parts.iter().any(|part| part.schema().fields().len() != count) {
        return Err(external(err!(
            SetColumns,
            "The used SELECT statements have a different number of columns"
        )));
    }
    let mut taken = HashSet::new();
    let columns = (0..count).map(|at| {
        let fields = parts.iter().map(|part| part.schema().field(at));
        let wanted = parts[0].schema().field(at).name();
        let mut names =
            std::iter::once(wanted.clone()).chain((2..).map(|copy| copy_name(wanted, copy)));
        let name = names.find(|name| taken.insert(name.clone())).expect("names do not end");
        let types = fields.clone().map(|field| shown_type(field)).collect::<Vec<_>>();
        let ty = common_of(&types);
        let digits = match ty {
            DataType::Timestamp(_, _) | DataType::Duration(_) => {
                let known = fields.filter(|field| *field.data_type() != DataType::Null);
                known
                    .map(|field| digits(field, None, field.data_type()))
                    .collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        Common { name, ty, digits: digits.and_then(|digits| digits.into_iter().max()) }
    });
    Ok(columns.collect())
}

/// An operand of a set operation with the common names and types.
fn columns_of(part: LogicalPlan, columns: &[Common]) -> Result<LogicalPlan> {
    let items = part.schema().iter().zip(columns).map(|((qualifier, field), common)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let typed = converted(column, field.data_type(), &common.ty);
        let shown = match (common.digits, &common.ty) {
            (Some(wanted), _) if digits(field, None, field.data_type()) == Some(wanted) => {
                showing(typed, Some(wanted))
            }
            (Some(wanted), DataType::Timestamp(_, _)) => {
                call("mysql_datetime_digits", vec![typed, lit(i64::from(wanted))])
            }
            (Some(wanted), _) => call("mysql_time_digits", vec![typed, lit(i64::from(wanted))]),
            // A cast alone would display as many digits as its operand.
            (None, ty) => match exact_digits(ty) {
                Some((_, scale)) if hides_digits(field) => {
                    showing(typed, Some(scale.unsigned_abs()))
                }
                _ => typed,
            },
        };
        shown.alias(&common.name)
    });
    let items = items.collect::<Vec<_>>();
    LogicalPlanBuilder::from(part).project(items)?.build()
}

/// Plans one operation; each operand has a flag for ALL before it.
fn combined(op: SetOperator, parts: Vec<(bool, LogicalPlan)>) -> Result<LogicalPlan> {
    let (alls, parts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let columns = columns(&parts)?;
    let mut parts =
        parts.into_iter().map(|part| columns_of(part, &columns)).collect::<Result<Vec<_>>>()?;
    if op == SetOperator::Union {
        // The last DISTINCT applies to all operands before it.
        let distinct = alls.iter().rposition(|all| !all).map_or(0, |last| last + 1);
        let later = parts.split_off(distinct);
        if parts.is_empty() {
            return union(later);
        }
        let first = LogicalPlanBuilder::from(union(parts)?).distinct()?.build()?;
        return union(std::iter::once(first).chain(later).collect());
    }
    let operation = match op {
        SetOperator::Intersect => LogicalPlanBuilder::intersect,
        _ => LogicalPlanBuilder::except,
    };
    let mut parts = alls.into_iter().zip(parts);
    let (_, first) = parts.next().expect("an operation has a first part");
    parts.try_fold(first, |left, (all, right)| {
        // With ALL, one copy of a row matches one copy in the other operand.
        let plan = match all {
            true => operation(numbered(left)?, numbered(right)?, true)?,
            false => operation(left, right, false)?,
        };
        let items = columns_in(&plan).into_iter().zip(&columns);
        let items = items.map(|(item, column)| item.alias(&column.name)).collect::<Vec<_>>();
        LogicalPlanBuilder::from(plan).project(items)?.build()
    })
}

/// The rows of all operands, with duplicates.
fn union(mut parts: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    match parts.len() {
        1 => Ok(parts.remove(0)),
        _ => Union::try_new(parts.into_iter().map(Arc::new).collect()).map(LogicalPlan::Union),
    }
}

fn unknown(operation: &str) -> DataFusionError {
    external(err!(
        Syntax,
        "You have an error in your SQL syntax; UNION, INTERSECT and EXCEPT combine queries, and \
         ALL or DISTINCT may follow them, near '{operation}' at line 1"
    ))
}

/// Numbers each row among its duplicates.
fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut items = columns_in(&plan);
    let number = row_number().partition_by(items.clone()).build()?;
    items.push(Expr::Column(Column::from_name(number.schema_name().to_string())).alias(COPY));
    LogicalPlanBuilder::from(plan).window([number])?.project(items)?.build()
}

fn columns_in(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}
