//! Makes UNION, INTERSECT and EXCEPT derived tables, which `crate::set_operation` plans.

use std::ops::ControlFlow;

use crate::visit::{visit_relations, walk};
use freshet_base::{Error, Result, bail, err};
use sqlparser::ast::{
    Cte, Expr, ObjectName, OrderBy, OrderByKind, Query, Select, SetExpr, Visitor,
};

use super::derived::{derived, selecting_all};
use super::having::is_aggregate;

/// Whether a query body is a set operation.
pub fn is_set_operation(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { .. } => true,
        SetExpr::Query(query) => is_set_operation(&query.body),
        _ => false,
    }
}

/// The SELECT that a query body begins with.
pub fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// Whether a query is only a set operation, possibly in parentheses.
pub fn is_bare_set_operation(query: &Query) -> bool {
    is_bare(query) && is_set_operation(&query.body)
}

/// Whether a query has only a body.
fn is_bare(query: &Query) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
}

/// A query with only this body.
pub fn query_of(body: SetExpr) -> Box<Query> {
    let mut query = selecting_all();
    *query.body = body;
    query
}

/// Makes the set operation in a query a derived table; ORDER BY, LIMIT and WITH remain outside.
///
/// # Errors
/// An ORDER BY that is invalid for a set operation.
pub fn as_derived(query: &mut Query) -> Result<()> {
    if is_set_operation(&query.body) {
        query.order_by.as_ref().map_or(Ok(()), ordered)?;
        body_as_derived(&mut query.body);
    }
    Ok(())
}

/// Makes the set operation in a query a derived table if the query has other clauses.
///
/// # Errors
/// Those of [`as_derived`].
pub fn before(query: &mut Query, outermost: bool) -> Result<()> {
    if outermost || !is_bare(query) { as_derived(query) } else { Ok(()) }
}

fn body_as_derived(body: &mut SetExpr) {
    let mut select = selecting_all();
    std::mem::swap(body, &mut select.body);
    let SetExpr::Select(outer) = body else { unreachable!("the body of a select is one") };
    outer.from[0].relation = derived(select, 0);
}

/// A common table expression is referenced by name, so it gets the common types of all operands; a
/// recursive one has the types of its first operand.
///
/// # Errors
/// Those of [`as_derived`], and clauses of a recursive one that DataFusion would ignore.
pub fn cte(cte: &mut Cte, recursive: bool) -> Result<()> {
    let name = &cte.alias.name.value;
    let names_itself = |relation: &ObjectName| match &relation.0[..] {
        [part] if part.as_ident().is_some_and(|ident| ident.value == *name) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    if !recursive || visit_relations(&cte.query, names_itself).is_continue() {
        return as_derived(&mut cte.query);
    }
    if !is_bare(&cte.query) {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'WITH, ORDER BY or LIMIT over UNION in \
             recursive Common Table Expression'; write them in the query that reads '{name}'"
        );
    }
    if let SetExpr::SetOperation { left, right, .. } = &mut *cte.query.body {
        for part in [left, right].into_iter().filter(|part| is_set_operation(part)) {
            body_as_derived(part);
        }
    }
    Ok(())
}

/// Rejects expressions that MySQL does not allow in the ORDER BY of a set operation.
fn ordered(order: &OrderBy) -> Result<()> {
    let OrderByKind::Expressions(exprs) = &order.kind else { return Ok(()) };
    for (at, by) in exprs.iter().enumerate() {
        let mut ordering = Ordering { place: at + 1, depth: 0 };
        if let ControlFlow::Break(error) = walk(&by.expr, &mut ordering) {
            return Err(error);
        }
    }
    Ok(())
}

struct Ordering {
    /// The position of the visited expression in ORDER BY, from 1.
    place: usize,
    /// The nesting of queries; expressions inside them are not checked.
    depth: usize,
}

impl Visitor for Ordering {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<Error> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match expr {
            _ if self.depth > 0 => ControlFlow::Continue(()),
            Expr::CompoundIdentifier(idents) if !idents[0].value.starts_with("@@") => {
                ControlFlow::Break(err!(
                    TableNotHere,
                    "Table '{}' from one of the SELECTs cannot be used in global ORDER clause",
                    idents[idents.len() - 2].value
                ))
            }
            Expr::Function(function) if is_aggregate(function) => ControlFlow::Break(err!(
                AggregateOrder,
                "Expression #{} of ORDER BY contains aggregate function and applies to a \
                     UNION, EXCEPT or INTERSECT",
                self.place
            )),
            _ => ControlFlow::Continue(()),
        }
    }
}
