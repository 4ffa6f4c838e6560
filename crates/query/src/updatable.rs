//! Which views rows are written through (RFC 0058): those that select rows of one table, or of
//! another such view, and those that join such, where a statement writes to one of them.

use std::ops::ControlFlow;
use std::sync::Arc;

use freshet_meta::{Catalog, CheckOption, View, ViewAlgorithm, is_reserved_database};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
};

use crate::joined::{self, table_of};
use crate::parser::{Statement, parse};
use crate::rewrite::{self, values};
use crate::session::SqlMode;
use crate::through::{Check, PARTS_MAX, Shown, Through};
use crate::views::mode_of;
use crate::visit::{visit_expressions, visit_expressions_mut, visit_relations};

/// The views inside one another through which something is written.
const LEVELS_MAX: usize = 32;

/// The columns of a view of joined tables that are asked whether they can be written to: for each
/// of them the texts of the views inside are read.
const ASKED_MAX: usize = 16;

/// Why nothing is written through a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fixed {
    /// Its query joins tables, and no column that is written to says which of them is meant.
    Joined,
    /// Its query joins tables, and columns of several of them are written to.
    Several,
    /// Its rows are not those of a table.
    Computed,
    /// The table that it reads is not there any more.
    Missing,
}

impl Through {
    /// What is behind a view of this database, for a statement that writes to these of its columns.
    ///
    /// # Errors
    /// Where nothing can be written through it.
    pub fn of(
        catalog: &Catalog,
        database: &str,
        view: &Arc<View>,
        wanted: &[&str],
    ) -> Result<Self, Fixed> {
        let names = view.columns.iter().map(|column| column.name.clone());
        let is_wanted = |name: &str| wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name));
        let is_wanted = names.clone().map(|name| is_wanted(&name)).collect::<Vec<_>>();
        let mut shown = names.clone().map(Shown::Column).collect::<Vec<_>>();
        let mut conditions = Vec::<Option<Expr>>::new();
        let (mut is_forced, mut is_joined, mut path) = (false, false, Vec::new());
        let mut views = Vec::<(String, Arc<View>)>::new();
        let (mut home, mut current) = (database.to_owned(), Arc::clone(view));
        loop {
            let mut selection = Selection::of(catalog, &current)?;
            let wanted = shown.iter().zip(&is_wanted).filter(|(_, is_wanted)| **is_wanted);
            let place = selection.place(wanted.filter_map(|(shown, _)| shown.column()))?;
            is_joined |= selection.sources.len() > 1;
            path.push(place);
            shown.iter_mut().for_each(|shown| selection.follow(shown, place));
            for expr in &mut conditions {
                *expr = expr.take().and_then(|expr| selection.substituted(expr, place));
            }
            let checks = is_forced || current.check_option != CheckOption::None;
            is_forced |= current.check_option == CheckOption::Cascaded;
            if checks && let Some(condition) = selection.condition.take() {
                conditions.push(condition);
            }
            let is_again = views.len() >= LEVELS_MAX
                || views.iter().any(|(_, outer)| Arc::ptr_eq(outer, &current));
            views.push((home, current));
            let Source { database, table, .. } = selection.sources.swap_remove(place);
            match catalog.view(&database, &table) {
                _ if is_again => return Err(Fixed::Computed),
                Some(inner) => (home, current) = (database, Arc::clone(inner)),
                None if is_reserved_database(&database) => return Err(Fixed::Computed),
                None if catalog.table(&database, &table).is_none() => return Err(Fixed::Missing),
                None => {
                    let columns = names.zip(shown).collect();
                    let check = Check::of(conditions);
                    return Ok(Self { views, path, is_joined, database, table, columns, check });
                }
            }
        }
    }
}

/// Whether a statement can write to a column of a view.
pub fn is_updatable(catalog: &Catalog, database: &str, view: &Arc<View>) -> bool {
    match Through::of(catalog, database, view, &[]) {
        Err(Fixed::Joined) => view.columns.iter().take(ASKED_MAX).any(|column| {
            let through = Through::of(catalog, database, view, &[&column.name]);
            through.is_ok_and(|through| through.below(&column.name).is_some())
        }),
        found => found.is_ok(),
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

/// A table or view in FROM.
struct Source {
    database: String,
    table: String,
    /// The name by which expressions refer to it.
    alias: String,
}

impl Source {
    fn has(&self, catalog: &Catalog, column: &str) -> bool {
        let is_it = |name: &str| name.eq_ignore_ascii_case(column);
        match catalog.view(&self.database, &self.table) {
            Some(view) => view.columns.iter().any(|known| is_it(&known.name)),
            None => {
                let table = catalog.table(&self.database, &self.table);
                table.is_some_and(|table| table.schema().position(column).is_some())
            }
        }
    }
}

/// What a view selects of tables and views.
struct Selection {
    /// From left to right.
    sources: Vec<Source>,
    /// Its columns, by name.
    columns: Vec<(String, Selected)>,
    /// Its condition; `None` within for one that cannot be said in columns of one source.
    condition: Option<Option<Expr>>,
}

/// What a column of a view is.
#[derive(Clone)]
enum Selected {
    /// An expression of the columns of one source, which has this place.
    Of(usize, Box<Expr>),
    Unknown,
}

impl Selection {
    fn of(catalog: &Catalog, view: &View) -> Result<Self, Fixed> {
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
        if !is_whole || !is_of_rows(&select) || joined::is_outer(&select.from) {
            return Err(Fixed::Computed);
        }
        let factors = joined::factors(&select.from).into_iter();
        let sources = factors.map(|factor| source(factor, view)).collect::<Option<Vec<_>>>();
        let sources = sources.filter(|all| !all.is_empty()).ok_or(Fixed::Computed)?;
        let mut conditions = select.selection.iter();
        if conditions.any(|condition| sources.iter().any(|source| reads(condition, source))) {
            return Err(Fixed::Computed);
        }
        let expr = |at: usize| match &select.projection[at] {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                selected(catalog, &sources, expr, mode)
            }
            _ => Selected::Unknown,
        };
        let by_name = |name: &String| {
            let is_it = |known: &Option<String>| {
                known.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(name))
            };
            let is_named = names.iter().position(is_it);
            is_named.map_or_else(|| starred(catalog, &sources, &select, name), expr)
        };
        let columns = match view.sources.is_empty() {
            true => (0..select.projection.len()).map(expr).collect::<Vec<_>>(),
            false => view.sources.iter().map(by_name).collect(),
        };
        if columns.len() != view.columns.len() {
            return Err(Fixed::Computed);
        }
        let own_names = view.columns.iter().map(|column| column.name.clone());
        let columns = own_names.zip(columns).collect();
        let condition = match &sources[..] {
            [one] => {
                let condition = select.selection.clone();
                condition.map(|condition| plain(condition, &one.alias, mode))
            }
            _ => Some(None),
        };
        Ok(Self { sources, columns, condition })
    }

    /// The place of the source whose columns these are.
    fn place<'a>(&self, wanted: impl Iterator<Item = &'a str>) -> Result<usize, Fixed> {
        if self.sources.len() == 1 {
            return Ok(0);
        }
        let mut found = None;
        for name in wanted {
            if let Some(Selected::Of(place, _)) = self.column(name)
                && found.replace(*place).is_some_and(|before| before != *place)
            {
                return Err(Fixed::Several);
            }
        }
        found.ok_or(Fixed::Joined)
    }

    fn column(&self, name: &str) -> Option<&Selected> {
        let found = self.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, selected)| selected)
    }

    /// Makes what is shown of this view what is shown of one of its sources.
    fn follow(&self, shown: &mut Shown, place: usize) {
        let Shown::Column(name) = shown else { return };
        *shown = match self.column(name) {
            Some(Selected::Of(at, expr)) if *at == place => {
                column_in(expr).map_or(Shown::Expression, Shown::Column)
            }
            Some(Selected::Of(..)) => Shown::Beside,
            Some(Selected::Unknown) | None => Shown::Expression,
        };
    }

    /// A condition of columns of this view, as one of columns of a source; `None` where that is
    /// not known.
    fn substituted(&self, expr: Expr, place: usize) -> Option<Expr> {
        substituted(expr, &|name: &str| match self.column(name) {
            Some(Selected::Of(at, expr)) if *at == place => Some(Expr::clone(expr)),
            _ => None,
        })
    }
}

/// What stands in FROM, if it is a table or view.
fn source(factor: &TableFactor, view: &View) -> Option<Source> {
    let TableFactor::Table { partitions, args: None, .. } = factor else { return None };
    let (name, alias) = table_of(factor).filter(|_| partitions.is_empty())?;
    let database = name.database.or_else(|| view.database.clone())?;
    Some(Source { database, table: name.table, alias })
}

fn selected(catalog: &Catalog, sources: &[Source], expr: &Expr, mode: SqlMode) -> Selected {
    if let [one] = sources {
        let known = plain(expr.clone(), &one.alias, mode);
        return known.map_or(Selected::Unknown, |expr| Selected::Of(0, Box::new(expr)));
    }
    let (place, column) = match expr {
        Expr::Nested(inner) => return selected(catalog, sources, inner, mode),
        // The first is meant where USING makes several one.
        Expr::Identifier(name) => {
            (sources.iter().position(|source| source.has(catalog, &name.value)), name)
        }
        Expr::CompoundIdentifier(parts) => {
            let [before @ .., table, column] = &parts[..] else { return Selected::Unknown };
            let is_it = |source: &Source| {
                source.alias.eq_ignore_ascii_case(&table.value)
                    && before.last().is_none_or(|database| database.value == source.database)
                    && source.has(catalog, &column.value)
            };
            (sources.iter().position(is_it), column)
        }
        _ => return Selected::Unknown,
    };
    place
        .map_or(Selected::Unknown, |place| Selected::Of(place, Box::new(identifier(&column.value))))
}

/// A column that `*` stands for.
fn starred(catalog: &Catalog, sources: &[Source], select: &Select, name: &str) -> Selected {
    if sources.len() == 1 {
        return Selected::Of(0, Box::new(identifier(name)));
    }
    let is_shown = |source: &Source| {
        select.projection.iter().any(|item| match item {
            SelectItem::Wildcard(_) => true,
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(table),
                _,
            ) => {
                let table = table.0.last().and_then(|part| part.as_ident());
                table.is_some_and(|table| table.value.eq_ignore_ascii_case(&source.alias))
            }
            _ => false,
        })
    };
    let is_it = |source: &Source| is_shown(source) && source.has(catalog, name);
    let place = sources.iter().position(is_it);
    place.map_or(Selected::Unknown, |place| Selected::Of(place, Box::new(identifier(name))))
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
fn reads(expr: &Expr, source: &Source) -> bool {
    let read = visit_relations(expr, |relation| {
        let last = relation.0.last().and_then(|part| part.as_ident());
        match last.is_some_and(|name| name.value.eq_ignore_ascii_case(&source.table)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    read.is_break()
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
fn column_in(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::Nested(inner) => column_in(inner),
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
