//! Of which query the columns are that a subquery reads.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, Select, SetExpr, TableWithJoins, Visitor};

use super::Visible;
use super::scopes::Scopes;
use crate::joined::factors;
use crate::nesting::count_queries;
use crate::rewrite::aggregate_call;
use crate::rewrite::derived::is_made;
use crate::visit::walk;

/// The columns of the tables of one query; `None` where they are not known, as of LATERAL tables.
pub struct Level(Option<Vec<Visible>>);

impl Level {
    pub fn of(from: &[TableWithJoins], scopes: &Scopes<'_>) -> Self {
        let columns = factors(from).into_iter().map(|factor| {
            let of = super::name_of(factor)?;
            let names = scopes.columns(factor).ok()?.into_iter();
            Some(names.map(move |name| Visible { name, of: of.clone(), is_shared: false }))
        });
        let columns = columns.collect::<Option<Vec<_>>>();
        Self(columns.map(|columns| columns.into_iter().flatten().collect()))
    }

    fn of_body(body: &SetExpr, scopes: &Scopes<'_>) -> Self {
        match body {
            SetExpr::Select(select) => Self::of(&select.from, scopes),
            SetExpr::Query(query) => Self::of_body(&query.body, scopes),
            _ => Self(Some(Vec::new())),
        }
    }

    /// Whether a column is one of these; `None` if that is not known.
    pub fn has(&self, column: &Expr) -> Option<bool> {
        let known = self.0.as_ref()?;
        Some(match column {
            Expr::Identifier(name) => known.iter().any(|column| column.name == name.value),
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [.., table, name] => known.iter().any(|column| {
                    column.name == name.value
                        && column.of.last().is_some_and(|of| of.value == table.value)
                }),
                _ => false,
            },
            _ => false,
        })
    }
}

/// A subquery around a place.
struct Inner {
    level: Level,
    is_made: bool,
}

/// A place within the expressions of a query.
pub struct Place<'a> {
    pub own: &'a Level,
    scopes: &'a Scopes<'a>,
    /// The subqueries around it.
    inner: Vec<Inner>,
}

impl<'a> Place<'a> {
    pub fn new(own: &'a Level, scopes: &'a Scopes<'a>) -> Self {
        Self { own, scopes, inner: Vec::new() }
    }

    pub fn enter(&mut self, query: &Query) {
        let level = Level::of_body(&query.body, self.scopes);
        self.inner.push(Inner { level, is_made: false });
    }

    pub fn enter_select(&mut self, select: &Select) {
        let level = Level::of(&select.from, self.scopes);
        self.inner.push(Inner { level, is_made: is_made(select) });
    }

    pub fn leave(&mut self) {
        self.inner.pop();
    }

    pub fn is_within_subquery(&self) -> bool {
        !self.inner.is_empty()
    }

    /// Whether this is a column of the query itself.
    pub fn is_own(&self, column: &Expr) -> bool {
        let is_column = matches!(column, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        is_column
            && self.inner.iter().all(|inner| inner.level.has(column) == Some(false))
            && self.own.has(column) == Some(true)
    }

    /// Whether an aggregate of a subquery is one of the query itself: all columns in it are.
    pub fn is_raised(&self, expr: &Expr) -> bool {
        let is_written = self.inner.last().is_some_and(|inner| !inner.is_made);
        if !is_written || !aggregate_call(expr) {
            return false;
        }
        let mut read = Read::default();
        let _ = walk(expr, &mut read);
        !read.has_subquery
            && !read.columns.is_empty()
            && read.columns.iter().all(|column| self.is_own(column))
    }
}

/// Collects the columns in an expression.
#[derive(Default)]
struct Read {
    columns: Vec<Expr>,
    has_subquery: bool,
    /// The nesting of subqueries.
    queries: usize,
}

impl Visitor for Read {
    type Break = ();

    count_queries!(&Query);

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.has_subquery |= self.queries > 0;
        if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = expr {
            self.columns.push(expr.clone());
        }
        ControlFlow::Continue(())
    }
}
