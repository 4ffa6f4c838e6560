//! From MySQL's syntax tree to one that DataFusion plans with MySQL's meaning.
//!
//! Column names become lower case, since MySQL compares them so; functions of the session
//! become literals; the rest is told by the functions of `functions`.

mod aggregate;
mod cast;
mod division;
mod expr;
mod function;
mod having;
mod select;
pub mod set_operation;
mod special;
mod subquery;
mod values;

pub use division::refusing_zero;
pub use select::is_system;

use std::ops::ControlFlow;

use freshet_base::{Error, Result};
use sqlparser::ast::{Expr, ObjectName, Query, Select, TableFactor, VisitMut, VisitorMut};

use crate::session::Session;

/// What a rewritten query is besides its tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rewritten {
    /// Whether the tree holds values of the session or of this moment, so that a plan of it
    /// is good for one execution only.
    pub of_session: bool,
    /// How columns of the outermost select are called, where it is a select: `None` for a
    /// wildcard, which is called by the columns that it stands for.
    pub names: Vec<Option<String>>,
}

/// Rewrites a query.
///
/// # Errors
/// Unknown variables, and what is not supported.
pub fn query(query: &mut Query, texts: &[String], session: &Session<'_>) -> Result<Rewritten> {
    let names = select::outer_names(query, texts);
    let mut rewriter = Rewriter { session, of_session: false, depth: 0 };
    match query.visit(&mut rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(Rewritten { of_session: rewriter.of_session, names }),
    }
}

/// Rewrites an expression that stands outside of a query.
///
/// # Errors
/// As for a query.
pub fn expression(expr: &mut Expr, session: &Session<'_>) -> Result<()> {
    let mut rewriter = Rewriter { session, of_session: false, depth: 0 };
    match expr.visit(&mut rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rewriter<'a> {
    session: &'a Session<'a>,
    of_session: bool,
    /// How many queries the visitor is inside of.
    depth: usize,
}

fn flow(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        flow(select::before(query, self.depth == 1))
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        select::after(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Error> {
        select::relation(relation);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        flow(select::table_factor(factor))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        flow(self.before(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        flow(self.after(expr))
    }
}
