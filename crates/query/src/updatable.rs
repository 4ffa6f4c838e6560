//! Which views rows are written through (RFC 0058): those that select rows of one table, or of
//! another such view.

use std::ops::ControlFlow;
use std::sync::Arc;

use freshet_meta::{Catalog, CheckOption, View, ViewAlgorithm, is_reserved_database};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem,
    SetExpr, TableFactor, TableWithJoins, visit_expressions, visit_expressions_mut,
    visit_relations,
};

use crate::joined::{self, table_of};
use crate::parser::{Statement, parse};
use crate::rewrite::{self, values};
use crate::session::SqlMode;
use crate::syntax::TableName;
use crate::through::{Check, PARTS_MAX, Through};
use crate::views::mode_of;

/// The views inside one another through which something is written.
const LEVELS_MAX: usize = 32;

/// Why nothing is written through a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fixed {
    /// Its query joins tables.
    Joined,
    /// Its rows are not those of a table.
    Computed,
    /// The table that it reads is not there any more.
    Missing,
}

impl Through {
    /// What is behind a view of this database.
    ///
    /// # Errors
    /// Where nothing can be written through it.
    pub fn of(catalog: &Catalog, database: &str, view: &Arc<View>) -> Result<Self, Fixed> {
        let names = view.columns.iter().map(|column| column.name.clone());
        let mut below_names = names.clone().map(Some).collect::<Vec<_>>();
        let mut conditions = Vec::<Option<Expr>>::new();
        let mut is_forced = false;
        let mut views = Vec::<(String, Arc<View>)>::new();
        let (mut home, mut current) = (database.to_owned(), Arc::clone(view));
        loop {
            let selection = Selection::of(&current)?;
            let known = current.columns.iter().zip(&selection.columns);
            let below = |name: &str| {
                let mut known = known.clone();
                let found = known.find(|(column, _)| column.name.eq_ignore_ascii_case(name));
                found.and_then(|(_, expr)| expr.clone())
            };
            for name in &mut below_names {
                let expr = name.take().and_then(|name| below(&name));
                *name = column_in(expr.as_ref());
            }
            for expr in &mut conditions {
                *expr = expr.take().and_then(|expr| substituted(expr, &below));
            }
            let checks = is_forced || current.check_option != CheckOption::None;
            is_forced |= current.check_option == CheckOption::Cascaded;
            if checks && let Some(condition) = selection.condition {
                conditions.push(condition);
            }
            let is_again = views.len() >= LEVELS_MAX
                || views.iter().any(|(_, outer)| Arc::ptr_eq(outer, &current));
            views.push((home, current));
            let (database, table) = selection.source;
            match catalog.view(&database, &table) {
                _ if is_again => return Err(Fixed::Computed),
                Some(inner) => (home, current) = (database, Arc::clone(inner)),
                None if is_reserved_database(&database) => return Err(Fixed::Computed),
                None if catalog.table(&database, &table).is_none() => return Err(Fixed::Missing),
                None => {
                    let columns = names.zip(below_names).collect();
                    let check = Check::of(conditions);
                    return Ok(Self { views, database, table, columns, check });
                }
            }
        }
    }
}

impl Check {
    fn of(conditions: Vec<Option<Expr>>) -> Self {
        let mut all = None;
        for condition in conditions {
            let Some(condition) = condition else { return Self::Unknown };
            let holds = Expr::IsTrue(Box::new(Expr::Nested(Box::new(condition))));
            all = Some(joined::and(all, holds));
        }
        all.map_or(Self::Nothing, |all| Self::Holds(Box::new(all)))
    }
}

/// What a view selects of one table or view.
struct Selection {
    /// Database and name.
    source: (String, String),
    /// What its columns are, by names of columns of the source; `None` for what cannot be said so.
    columns: Vec<Option<Expr>>,
    condition: Option<Option<Expr>>,
}

impl Selection {
    fn of(view: &View) -> Result<Self, Fixed> {
        let mode = mode_of(view);
        let parsed = parse(&view.query, mode).ok().and_then(|mut all| all.pop());
        let Some(parsed) = parsed.filter(|_| view.algorithm != ViewAlgorithm::TempTable) else {
            return Err(Fixed::Computed);
        };
        let Statement::Query(query) = parsed.statement else { return Err(Fixed::Computed) };
        let names = rewrite::outer_names(&query.0, &parsed.items);
        let Query { with, body, limit_clause, fetch, .. } = *query.0;
        let SetExpr::Select(select) = *body else { return Err(Fixed::Computed) };
        let is_whole = with.is_none() && limit_clause.is_none() && fetch.is_none();
        if !is_whole || !is_of_rows(&select) {
            return Err(Fixed::Computed);
        }
        let (table, alias) = match &select.from[..] {
            [
                TableWithJoins {
                    relation: factor @ TableFactor::Table { partitions, args, .. },
                    joins,
                },
            ] if joins.is_empty() && partitions.is_empty() && args.is_none() => {
                table_of(factor).ok_or(Fixed::Computed)?
            }
            from => return Err(joined_or_computed(from)),
        };
        if select.selection.as_ref().is_some_and(|condition| reads(condition, &table)) {
            return Err(Fixed::Computed);
        }
        let database = table.database.or_else(|| view.database.clone()).ok_or(Fixed::Computed)?;
        let expr = |at: usize| match &select.projection[at] {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                plain(expr.clone(), &alias, mode)
            }
            _ => None,
        };
        let by_name = |source: &String| {
            let is_it = |name: &Option<String>| {
                name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(source))
            };
            names.iter().position(is_it).map_or_else(|| Some(identifier(source)), expr)
        };
        let columns = match view.sources.is_empty() {
            true => (0..select.projection.len()).map(expr).collect::<Vec<_>>(),
            false => view.sources.iter().map(by_name).collect(),
        };
        if columns.len() != view.columns.len() {
            return Err(Fixed::Computed);
        }
        let condition = select.selection.clone();
        let condition = condition.map(|condition| plain(condition, &alias, mode));
        Ok(Self { source: (database, table.table), columns, condition })
    }
}

/// Whether each row of the result is one of what is selected from.
fn is_of_rows(select: &Select) -> bool {
    let is_grouped = !matches!(&select.group_by,
        GroupByExpr::Expressions(by, modifiers) if by.is_empty() && modifiers.is_empty());
    select.distinct.is_none()
        && select.having.is_none()
        && select.lateral_views.is_empty()
        && !is_grouped
        && !select.projection.iter().any(is_of_many)
}

/// Whether a subquery of an expression reads a table of this name.
fn reads(expr: &Expr, table: &TableName) -> bool {
    let read = visit_relations(expr, |relation| {
        let last = relation.0.last().and_then(|part| part.as_ident());
        match last.is_some_and(|name| name.value.eq_ignore_ascii_case(&table.table)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    read.is_break()
}

fn joined_or_computed(from: &[TableWithJoins]) -> Fixed {
    let factors = joined::factors(from);
    let is_table = |factor: &&TableFactor| matches!(factor, TableFactor::Table { .. });
    match factors.len() > 1 && factors.iter().all(is_table) {
        true => Fixed::Joined,
        false => Fixed::Computed,
    }
}

/// Whether the value of an item is of more than one row.
fn is_of_many(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return false;
    };
    let found = visit_expressions(expr, |expr| {
        let is_one = match expr {
            Expr::Function(function) => function.over.is_some() || rewrite::is_aggregate(function),
            other => has_query(other),
        };
        if is_one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}

fn has_query(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => true,
        Expr::Function(function) => matches!(function.args, FunctionArguments::Subquery(_)),
        _ => false,
    }
}

fn identifier(name: &str) -> Expr {
    Expr::Identifier(Ident::with_quote('`', name))
}

/// The column that an expression is.
fn column_in(expr: Option<&Expr>) -> Option<String> {
    match expr? {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::Nested(inner) => column_in(Some(inner)),
        _ => None,
    }
}

/// An expression whose columns are named without the name of their table; `None` with a subquery.
fn plain(mut expr: Expr, alias: &str, mode: SqlMode) -> Option<Expr> {
    let done = visit_expressions_mut(&mut expr, |expr| {
        if has_query(expr) {
            return ControlFlow::Break(());
        }
        // Rows are checked in no mode, so what `||` means is said here.
        if let Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } = expr
            && mode.pipes_as_concat
        {
            *expr = values::call("concat", vec![values::take(left), values::take(right)]);
            return ControlFlow::Continue(());
        }
        let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
        match &parts[..] {
            [.., table, column] if table.value.eq_ignore_ascii_case(alias) => {
                *expr = identifier(&column.value);
                ControlFlow::Continue(())
            }
            // A member of a column.
            _ => ControlFlow::Break(()),
        }
    });
    done.is_continue().then_some(expr)
}

fn parts_of(expr: &Expr) -> usize {
    let mut parts = 0;
    let _ = visit_expressions(expr, |_| {
        parts += 1;
        ControlFlow::<()>::Continue(())
    });
    parts
}

/// An expression with what `below` says of each column; `None` where that is not known.
fn substituted(mut expr: Expr, below: &impl Fn(&str) -> Option<Expr>) -> Option<Expr> {
    let mut parts = parts_of(&expr);
    let done = visit_expressions_mut(&mut expr, |expr| {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        let known = below(&name.value);
        parts += known.as_ref().map_or(0, parts_of);
        match known.filter(|_| parts <= PARTS_MAX) {
            Some(known) => {
                *expr = Expr::Nested(Box::new(known));
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    });
    done.is_continue().then_some(expr)
}
