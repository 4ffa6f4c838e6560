//! From MySQL's syntax tree to one that DataFusion plans with MySQL's meaning.
//!
//! Column names become lower case, since MySQL compares them so; functions of the session
//! become literals; the rest is told by the functions of `functions`.

mod aggregate;
mod cast;
mod expr;
mod function;
mod having;
mod join;
mod select;
pub mod set_operation;
mod special;
mod subquery;
mod values;

pub use select::is_system;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use freshet_base::{Error, Result, bail};
use sqlparser::ast::{
    BinaryOperator, Expr, ObjectName, Query, Select, TableFactor, VisitMut, VisitorMut,
};

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
    let mut rewriter = Rewriter::new(session);
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
    let mut rewriter = Rewriter::new(session);
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
    /// How many derived tables that read those beside them it is inside of.
    laterals: usize,
    /// Expressions that were visited, and those that were copied.
    seen: usize,
    /// How high the expressions are that the visitor is inside of, as far as it has come.
    heights: Vec<usize>,
}

/// An expression that is so high gets a name of its own: DataFusion spells out the names of all
/// that stands below each expression, again and again.
const PART_HEIGHT: usize = 12;

/// What is written is copied where MySQL's meaning takes more than one expression of
/// DataFusion's: no more often than this.
const COPIES_MAX: usize = 3;

/// Where a query stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Whether it is the whole statement.
    outermost: bool,
    /// Whether it may name columns that are not those of its own tables.
    has_outer: bool,
}

fn is_lateral(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Derived { lateral: true, .. })
}

impl<'a> Rewriter<'a> {
    fn new(session: &'a Session<'a>) -> Self {
        let heights = Vec::new();
        Self { session, of_session: false, depth: 0, laterals: 0, seen: 0, heights }
    }
}

impl Rewriter<'_> {
    /// Counts expressions: copies of copies double with each level.
    fn count(&mut self, more: usize) -> Result<()> {
        self.seen = self.seen.saturating_add(more);
        let most = self.session.limits.terms.saturating_mul(COPIES_MAX);
        if self.seen > most {
            bail!(
                TooLarge,
                "The statement becomes more than {most} expressions where subqueries and operands \
                 of CASE and IN are spelled out; nest them less deep, or send it in parts"
            );
        }
        Ok(())
    }

    /// An expression is copied so many times.
    fn copied(&mut self, expr: &Expr, times: usize) -> Result<()> {
        let most = self.session.limits.terms.saturating_mul(COPIES_MAX);
        self.count(values::nodes(expr, most + 1).saturating_mul(times))
    }
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
        let place = Place {
            outermost: self.depth == 1,
            has_outer: self.laterals > 0 || !self.heights.is_empty(),
        };
        flow(select::before(query, place))
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
        self.laterals += usize::from(is_lateral(factor));
        flow(select::table_factor(factor))
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.laterals -= usize::from(is_lateral(factor));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.heights.push(0);
        let count = usize::from(!matches!(expr, Expr::Value(_)));
        flow(self.count(count).and_then(|()| self.before(expr)))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let names = is_named(expr);
        if let Err(error) = self.after(expr) {
            return ControlFlow::Break(error);
        }
        let height = self.heights.pop().unwrap_or(0) + usize::from(names);
        let part = height >= PART_HEIGHT && names;
        if part {
            name_part(expr);
        }
        if let Some(outer) = self.heights.last_mut() {
            *outer = (*outer).max(if part { 0 } else { height });
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression has a name that is made of those of its parts, and may have another one:
/// conditions are taken apart by AND and OR, and aggregates are found where they stand.
fn is_named(expr: &Expr) -> bool {
    use BinaryOperator::{And, Or, Xor};
    match expr {
        Expr::BinaryOp { op, .. } => !matches!(op, And | Or | Xor),
        Expr::Function(function) => function.over.is_none() && !having::is_aggregate(function),
        Expr::Like { .. } | Expr::UnaryOp { .. } | Expr::Case { .. } => true,
        _ => false,
    }
}

/// Calls an expression by what its text comes to.
fn name_part(expr: &mut Expr) {
    let mut hash = DefaultHasher::new();
    expr.to_string().hash(&mut hash);
    let name = values::text(format!("{:016x}", hash.finish()));
    *expr = values::call("mysql_part", vec![values::take(expr), name]);
}
