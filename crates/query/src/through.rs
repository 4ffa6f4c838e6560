//! Writing through views (RFC 0058): what a view selects of the one table behind it, and how a
//! statement that writes through it finds the rows of that table.
//!
//! The statement reads the view as any query does, so with the same rights. Columns of the table
//! that it needs beside those of the view, such as the key, stand behind these under names that
//! begin with [`BELOW`].

use std::ops::ControlFlow;
use std::sync::Arc;

use freshet_base::{ColumnId, Error, Result, bail, err};
use freshet_meta::{Account, Catalog, CheckOption, View, ViewAlgorithm, is_reserved_database};
use freshet_schema::{ROW_ID, TableSchema};
use sqlparser::ast::{
    Expr, FunctionArguments, GroupByExpr, Ident, Query, SelectItem, SetExpr, TableFactor,
    TableWithJoins, visit_expressions, visit_expressions_mut, visit_relations,
};

use crate::change::ROW;
use crate::joined::{self, table_of};
use crate::parser::{Statement, parse};
use crate::rewrite;
use crate::snapshot::PARTITION_MARK;
use crate::syntax::Scalar;
use crate::views::{hidden, mode_of};

/// Begins the names under which a view shows columns of its table to a statement that writes
/// through it; stands for a partition before those that are wanted.
pub const BELOW: &str = "\u{4}";

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

/// A view that a statement writes through, and the table behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct Through {
    /// From the outside in, with their databases.
    pub views: Vec<(String, Arc<View>)>,
    /// The database of the table.
    pub database: String,
    pub table: String,
    /// The columns of the outermost view, with those of the table; `None` for an expression.
    columns: Vec<(String, Option<String>)>,
    /// What CHECK OPTION asks of rows, in columns of the table.
    check: Check,
}

#[derive(Clone, PartialEq, Debug)]
enum Check {
    Nothing,
    Holds(Expr),
    /// A condition that is not of one row alone.
    Unknown,
}

impl Through {
    /// What is behind a view of this database.
    ///
    /// # Errors
    /// Where nothing can be written through it.
    pub fn of(catalog: &Catalog, database: &str, view: &Arc<View>) -> Result<Self, Fixed> {
        let names = view.columns.iter().map(|column| column.name.clone());
        let mut exprs = names.clone().map(|name| Some(identifier(&name))).collect::<Vec<_>>();
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
            for expr in exprs.iter_mut().chain(&mut conditions) {
                *expr = expr.take().and_then(|expr| substituted(expr, &below));
            }
            let checks = is_forced || current.check_option != CheckOption::None;
            is_forced |= current.check_option == CheckOption::Cascaded;
            if checks && let Some(condition) = selection.condition {
                conditions.push(condition);
            }
            let is_again = views.iter().any(|(_, outer)| Arc::ptr_eq(outer, &current));
            views.push((home, current));
            let (database, table) = selection.source;
            match catalog.view(&database, &table) {
                _ if is_again => return Err(Fixed::Computed),
                Some(inner) => (home, current) = (database, Arc::clone(inner)),
                None if is_reserved_database(&database) => return Err(Fixed::Computed),
                None if catalog.table(&database, &table).is_none() => return Err(Fixed::Missing),
                None => {
                    let columns = names.zip(exprs.iter().map(|expr| column_in(expr.as_ref())));
                    let columns = columns.collect();
                    let check = Check::of(conditions);
                    return Ok(Self { views, database, table, columns, check });
                }
            }
        }
    }

    /// The names of the columns of the view.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// The column of the table that a column of the view is; `None` for an expression, and where
    /// the view has no such column.
    pub fn below(&self, name: &str) -> Option<&str> {
        let found = self.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, below)| below.as_deref())
    }

    /// As [`Self::below`], for a column that gets a value.
    ///
    /// # Errors
    /// 1054 and 1348.
    pub fn assigned(&self, name: &str) -> Result<&str> {
        match self.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, Some(below))) => Ok(below),
            Some((_, None)) => {
                bail!(NonUpdatableColumn, "Column '{name}' is not updatable")
            }
            None => bail!(UnknownColumn, "Unknown column '{name}' in 'field list'"),
        }
    }

    /// Whether each column is one of the table, and of no other column.
    pub fn takes_rows(&self) -> bool {
        let below = |at: usize| self.columns[at].1.as_ref();
        let is_own = |at: usize| (0..at).all(|before| below(before) != below(at));
        (0..self.columns.len()).all(|at| below(at).is_some() && is_own(at))
    }

    /// Whose rights the inner views and, last, the table are used with; `None` for those of the
    /// session.
    pub fn uses(&self) -> impl Iterator<Item = (Option<&Account>, &str, &str)> {
        let inner = self.views[1..].iter().map(|(home, view)| (home.as_str(), view.name.as_str()));
        let used = inner.chain([(self.database.as_str(), self.table.as_str())]);
        self.readers().zip(used).map(|(reader, (database, name))| (reader, database, name))
    }

    /// Whose rights the table is used with; `None` for those of the session.
    pub fn reader(&self) -> Option<&Account> {
        self.readers().last().flatten()
    }

    /// With whose rights the query of each view reads.
    fn readers(&self) -> impl Iterator<Item = Option<&Account>> {
        self.views.iter().scan(None, |reader, (_, view)| {
            *reader = if view.invoker { *reader } else { Some(&view.definer) };
            Some(*reader)
        })
    }

    /// What is told of an error about what is behind the view.
    pub fn hidden(&self, error: Error) -> Error {
        let (database, view) = &self.views[0];
        hidden(error, database, view)
    }

    /// What a row has to satisfy, with the columns of the table that it names; `None` for nothing.
    ///
    /// # Errors
    /// `NotSupported` for a condition that is not of one row.
    pub fn check(&self, schema: &TableSchema) -> Result<Option<(Scalar, Vec<ColumnId>)>> {
        let condition = match &self.check {
            Check::Nothing => return Ok(None),
            Check::Holds(condition) => condition.clone(),
            Check::Unknown => bail!(
                NotSupported,
                "WITH CHECK OPTION of view '{}' is not supported: its condition has a subquery, \
                 and so is not of one row",
                self.views[0].1.name
            ),
        };
        let mut columns = Vec::new();
        let _ = visit_expressions(&condition, |expr| {
            if let Expr::Identifier(name) = expr
                && let Some(at) = schema.position(&name.value)
                && !columns.contains(&schema.columns[at].id)
            {
                columns.push(schema.columns[at].id);
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(Some((Scalar(condition), columns)))
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
        all.map_or(Self::Nothing, Self::Holds)
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
        let parsed = parse(&view.query, mode_of(view)).ok().and_then(|mut all| all.pop());
        let Some(parsed) = parsed.filter(|_| view.algorithm != ViewAlgorithm::TempTable) else {
            return Err(Fixed::Computed);
        };
        let Statement::Query(query) = parsed.statement else { return Err(Fixed::Computed) };
        let names = rewrite::outer_names(&query.0, &parsed.items);
        let Query { with, body, limit_clause, fetch, .. } = *query.0;
        let SetExpr::Select(select) = *body else { return Err(Fixed::Computed) };
        let is_grouped = !matches!(&select.group_by,
            GroupByExpr::Expressions(by, modifiers) if by.is_empty() && modifiers.is_empty());
        let is_of_rows = with.is_none()
            && limit_clause.is_none()
            && fetch.is_none()
            && select.distinct.is_none()
            && select.having.is_none()
            && select.lateral_views.is_empty()
            && !is_grouped
            && !select.projection.iter().any(is_of_many);
        if !is_of_rows {
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
        let reads_itself = |expr: &Expr| {
            let read = visit_relations(expr, |relation| {
                let last = relation.0.last().and_then(|part| part.as_ident());
                match last.is_some_and(|name| name.value.eq_ignore_ascii_case(&table.table)) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            read.is_break()
        };
        if select.selection.as_ref().is_some_and(reads_itself) {
            return Err(Fixed::Computed);
        }
        let database = table.database.or_else(|| view.database.clone()).ok_or(Fixed::Computed)?;
        let expr = |at: usize| match &select.projection[at] {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                plain(expr.clone(), &alias)
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
        let condition = select.selection.clone().map(|condition| plain(condition, &alias));
        Ok(Self { source: (database, table.table), columns, condition })
    }
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
fn plain(mut expr: Expr, alias: &str) -> Option<Expr> {
    let done = visit_expressions_mut(&mut expr, |expr| {
        if has_query(expr) {
            return ControlFlow::Break(());
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

/// An expression with what `below` says of each column; `None` where that is not known.
fn substituted(mut expr: Expr, below: &impl Fn(&str) -> Option<Expr>) -> Option<Expr> {
    if let Expr::Identifier(name) = &expr {
        return below(&name.value);
    }
    let done = visit_expressions_mut(&mut expr, |expr| {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        match below(&name.value) {
            Some(known) => {
                *expr = Expr::Nested(Box::new(known));
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    });
    done.is_continue().then_some(expr)
}

/// Lets the view that stands here show these columns of its table, too. The name of [`ROW`], which
/// separates names of partitions, is left empty.
pub(crate) fn showing(factor: &mut TableFactor, names: &[&str]) {
    if let TableFactor::Table { partitions, .. } = factor {
        let names = names.iter().map(|name| if *name == ROW { "" } else { *name });
        let names = [BELOW].into_iter().chain(names);
        *partitions = names.map(|name| Ident::with_quote('`', name)).collect();
    }
}

/// The name of what stands in FROM, and the columns that it shows of its table, if it is a view
/// that a statement writes through.
pub(crate) fn shown(full_name: &str) -> (&str, Option<Vec<&str>>) {
    let mut names = full_name.split(PARTITION_MARK);
    let name = names.next().unwrap_or_default();
    match names.next() {
        Some(BELOW) => {
            let names = names.map(|name| if name.is_empty() { ROW } else { name });
            (name, Some(names.collect()))
        }
        _ => (full_name, None),
    }
}

/// Whether what stands in FROM is a view that a statement writes through.
pub fn is_written_through(full_name: &str) -> bool {
    shown(full_name).1.is_some()
}

/// Adds columns of its table to the query of a view; `is_view` says whether that is a view, too.
///
/// # Errors
/// 1288 when the view is not of one table.
pub(crate) fn show(query: &mut Query, names: &[&str], is_view: bool) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else { return Err(fixed()) };
    let [TableWithJoins { relation, joins }] = &mut select.from[..] else { return Err(fixed()) };
    let Some((_, alias)) = table_of(relation).filter(|_| joins.is_empty()) else {
        return Err(fixed());
    };
    for name in names {
        let shown = format!("{BELOW}{}", name.to_lowercase());
        let column = if is_view { shown.as_str() } else { *name };
        let parts = [&*alias, column].map(|part| Ident::with_quote('`', part));
        let expr = Expr::CompoundIdentifier(parts.to_vec());
        let alias = Ident::with_quote('`', shown);
        select.projection.push(SelectItem::ExprWithAlias { expr, alias });
    }
    if is_view {
        showing(relation, names);
    } else if names.contains(&ROW) {
        joined::given(relation);
    } else if names.contains(&ROW_ID) {
        joined::with_row_id(relation);
    }
    Ok(())
}

/// The table or view that the query of a view reads, if it is one.
pub(crate) fn source(query: &Query) -> Option<(Option<&str>, &str)> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let [TableWithJoins { relation: TableFactor::Table { name, .. }, .. }] = &select.from[..]
    else {
        return None;
    };
    let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident());
    let table = parts.next()?;
    Some((parts.next().map(|database| database.value.as_str()), table.value.as_str()))
}

fn fixed() -> Error {
    err!(NonUpdatableTable, "The target table of the statement is not updatable")
}
