//! Rewrites MySQL's syntax tree so that DataFusion plans it with MySQL's semantics.
//!
//! Column names become lower case, since they are case-insensitive in MySQL; functions of the
//! session become literals; other differences are left to the functions of `functions`.

mod aggregate;
mod ambiguous;
mod cast;
pub mod derived;
mod distinct;
mod expr;
mod function;
mod having;
mod interval;
mod join;
mod json_table;
mod lateral_view;
mod select;
pub mod set_operation;
mod special;
mod subquery;
mod tables;
mod tuple;
pub mod values;
mod windows;

pub(crate) use having::{is_aggregate, units};
pub(crate) use select::outer_names;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

pub use aggregate::{has_call as has_aggregate_call, is_call as aggregate_call, is_grouping};
pub use join::constraint as join_condition;
pub use select::key_at;

use freshet_base::{Error, Result, bail};
use sqlparser::ast::{BinaryOperator, Expr, ObjectName, Query, Select, TableFactor, VisitorMut};

use crate::assign;
use crate::by_row::{VariableType, VariableTypes};
use crate::functions::types::is_comparison;
use crate::session::Session;
use crate::visit::walk_mut;

/// Information about a rewritten query.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rewritten {
    /// Whether it contains values of the session or of the current time, so that its plan must not
    /// be reused.
    pub of_session: bool,
    /// The column names of the outermost SELECT; `None` for a wildcard.
    pub names: Vec<Option<String>>,
}

/// Rewrites a query, whose user variables have these types as far as it assigns them.
///
/// # Errors
/// Unknown variables and unsupported features.
pub fn query(
    query: &mut Query,
    texts: &[String],
    (session, types): (&Session<'_>, &VariableTypes),
) -> Result<Rewritten> {
    let names = select::outer_names(query, texts);
    tables::before_columns(query);
    let mut rewriter = Rewriter::new(session);
    let assigned = assign::variables_assigned(query).into_iter();
    rewriter.assigned = assigned.map(|name| (types.get(&name).copied(), name)).collect();
    match walk_mut(query, &mut rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(Rewritten { of_session: rewriter.of_session, names }),
    }
}

/// Rewrites an expression outside of a query.
///
/// # Errors
/// Those of [`query`].
pub fn expression(expr: &mut Expr, session: &Session<'_>) -> Result<()> {
    let mut rewriter = Rewriter::new(session);
    match walk_mut(expr, &mut rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rewriter<'a> {
    session: &'a Session<'a>,
    /// The user variables that the query assigns, in lower case, with their types.
    assigned: Vec<(Option<VariableType>, String)>,
    of_session: bool,
    /// The nesting of queries at the visitor's position.
    depth: usize,
    /// The nesting of LATERAL derived tables.
    laterals: usize,
    /// The number of visited and copied expressions.
    seen: usize,
    /// The heights of the enclosing expressions, as far as they have been visited.
    heights: Vec<usize>,
}

/// Expressions of this height get a name of their own: DataFusion repeatedly builds the name of
/// each expression from all its descendants, and asks some of them twice for their type.
const PART_HEIGHT: usize = 8;

/// The same for comparisons, which the optimizer should see as long as that is cheap.
const CONDITION_HEIGHT: usize = 12;

/// Limit on copies: where MySQL's semantics need several expressions of DataFusion, operands are
/// copied. The total size may grow to this multiple of the limit on terms.
const COPIES_MAX: usize = 3;

/// The position of a query.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Whether it is the whole statement.
    outermost: bool,
    /// Whether it may refer to columns of an outer query.
    has_outer: bool,
}

fn is_lateral(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Derived { lateral: true, .. })
}

impl<'a> Rewriter<'a> {
    fn new(session: &'a Session<'a>) -> Self {
        let heights = Vec::new();
        let assigned = Vec::new();
        Self { session, assigned, of_session: false, depth: 0, laterals: 0, seen: 0, heights }
    }
}

impl Rewriter<'_> {
    /// Counts expressions, since copies of copies grow exponentially.
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

    /// Counts copies of an expression.
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
        let most = self.session.limits.terms.saturating_mul(COPIES_MAX);
        let copied = select::before(query, place, most.saturating_sub(self.seen));
        flow(copied.and_then(|copied| self.count(copied)))
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
        tables::relation(relation);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.laterals += usize::from(is_lateral(factor));
        flow(select::table_factor(factor))
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.laterals -= usize::from(is_lateral(factor));
        flow(json_table::table(factor))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.heights.push(0);
        let count = usize::from(!matches!(expr, Expr::Value(_)));
        flow(self.count(count).and_then(|()| self.before(expr)))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let names = is_named(expr);
        let most = if is_condition(expr) { CONDITION_HEIGHT } else { PART_HEIGHT };
        if let Err(error) = self.after(expr) {
            return ControlFlow::Break(error);
        }
        let height = self.heights.pop().unwrap_or(0) + usize::from(names);
        let part = height >= most && names;
        if part {
            name_part(expr);
        }
        if let Some(outer) = self.heights.last_mut() {
            *outer = (*outer).max(if part { 0 } else { height });
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression's name is built from its parts and may be replaced. Conditions are split
/// at AND and OR, and aggregates must remain recognizable, so these are excluded.
fn is_named(expr: &Expr) -> bool {
    use BinaryOperator::{And, Or, Xor};
    match expr {
        Expr::BinaryOp { op, .. } => !matches!(op, And | Or | Xor),
        Expr::Function(function) => function.over.is_none() && !having::is_aggregate(function),
        Expr::UnaryOp { .. }
        | Expr::Case { .. }
        | Expr::Cast { .. }
        | Expr::Convert { .. }
        | Expr::Trim { .. }
        | Expr::Substring { .. }
        | Expr::Position { .. }
        | Expr::Extract { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. } => true,
        other => is_condition(other),
    }
}

/// Whether an expression compares values.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op, .. } => is_comparison(op),
        Expr::Like { .. }
        | Expr::RLike { .. }
        | Expr::InList { .. }
        | Expr::Between { .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_) => true,
        _ => false,
    }
}

/// Names an expression by the hash of its text.
fn name_part(expr: &mut Expr) {
    let mut hash = DefaultHasher::new();
    expr.to_string().hash(&mut hash);
    let name = values::text(format!("{:016x}", hash.finish()));
    *expr = values::call("mysql_part", vec![values::take(expr), name]);
}
