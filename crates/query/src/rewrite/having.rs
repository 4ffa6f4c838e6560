//! HAVING: what its names mean; without groups it is a condition on rows.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use freshet_base::{Result, bail};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    Query, Select, SelectItem, Visitor, VisitorMut,
};

use crate::functions::list;
use crate::visit::{visit_expressions, walk, walk_mut};

/// Moves a HAVING without groups and aggregates to WHERE; in one of groups it writes out aliases.
///
/// # Errors
/// 3593 and 3594 for a window function in HAVING; 1054 for a column that is neither selected nor
/// grouped and cannot belong to an outer query.
pub fn before(select: &mut Select, has_outer: bool) -> Result<()> {
    if let Some(having) = &select.having {
        check_windows(select, having)?;
        if !has_outer {
            check_names(select, having)?;
        }
    }
    let grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let aggregated = items.chain(&select.having).any(has_aggregate);
    let Some(mut having) = select.having.take() else { return Ok(()) };
    let mut aliases = aliases(select);
    if grouped || aggregated {
        without_keys(&mut aliases, &select.group_by);
        aliases.retain(|name, _| !units(&having).contains(name));
    }
    let _ = walk_mut(&mut having, &mut Unaliased { aliases, depth: 0 });
    if grouped || aggregated {
        select.having = Some(having);
        return Ok(());
    }
    select.selection = Some(match select.selection.take() {
        None => having,
        Some(selection) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(selection))),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(Box::new(having))),
        },
    });
    Ok(())
}

/// Leaves out the aliases that name a key: there the key goes before what is selected.
fn without_keys(aliases: &mut HashMap<String, Expr>, group_by: &GroupByExpr) {
    if let GroupByExpr::Expressions(keys, _) = group_by {
        for key in keys.iter().filter_map(Name::of) {
            aliases.remove(&key.column);
        }
    }
}

/// Rejects window functions: they are computed after HAVING.
fn check_windows(select: &Select, having: &Expr) -> Result<()> {
    if let Some(name) = window_in(having) {
        bail!(WindowNotHere, "You cannot use the window function '{name}' in this context.");
    }
    let windows = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if window_in(expr).is_some() => {
            Some(alias.value.to_lowercase())
        }
        _ => None,
    });
    let windows = windows.collect::<HashSet<_>>();
    let named = find_own(having, |expr, _| match expr {
        Expr::Identifier(ident) if windows.contains(&ident.value.to_lowercase()) => {
            Some(ident.value.clone())
        }
        _ => None,
    });
    match named {
        Some(name) => bail!(
            WindowAliasNotHere,
            "You cannot use the alias '{name}' of an expression containing a window function in \
             this context."
        ),
        None => Ok(()),
    }
}

/// The name of a window function in the expression.
pub fn window_in(expr: &Expr) -> Option<String> {
    find_own(expr, |expr, _| match expr {
        Expr::Function(function) if function.over.is_some() => Some(function.name.to_string()),
        _ => None,
    })
}

/// Rejects columns in HAVING that are neither selected nor grouped. Columns inside aggregates and
/// subqueries are not checked.
fn check_names(select: &Select, having: &Expr) -> Result<()> {
    let mut known = units(having).into_iter().map(Name::alias).collect::<HashSet<_>>();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => known.extend(Name::of(expr)),
            SelectItem::ExprWithAlias { expr, alias } => {
                known.extend(Name::of(expr));
                known.insert(Name::alias(alias.value.to_lowercase()));
            }
            _ => return Ok(()),
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &select.group_by {
        known.extend(keys.iter().filter_map(Name::of));
    }
    let unknown = find_own(having, |expr, aggregated| {
        let name = Name::of(expr).filter(|_| !aggregated)?;
        let is_known = known.iter().any(|known| known.is_meant_by(&name));
        (!is_known).then(|| expr.to_string().replace('`', ""))
    });
    match unknown {
        Some(name) => bail!(UnknownColumn, "Unknown column '{name}' in 'having clause'"),
        None => Ok(()),
    }
}

/// The name of a column reference or of an item in the select list.
#[derive(PartialEq, Eq, Hash)]
struct Name {
    table: Table,
    column: String,
}

#[derive(PartialEq, Eq, Hash)]
enum Table {
    /// An alias in the select list, for a column of any table.
    Alias,
    Unnamed,
    Named(String),
}

impl Name {
    fn alias(name: String) -> Self {
        Self { table: Table::Alias, column: name }
    }

    /// The name of an expression that is a column, not a variable.
    fn of(expr: &Expr) -> Option<Self> {
        let (table, column) = match expr {
            Expr::Identifier(ident) => (Table::Unnamed, ident),
            Expr::CompoundIdentifier(idents) => {
                let [.., table, column] = &idents[..] else { return None };
                (Table::Named(table.value.clone()), column)
            }
            _ => return None,
        };
        let first = match expr {
            Expr::CompoundIdentifier(idents) => &idents[0],
            _ => column,
        };
        let is_variable = first.quote_style.is_none() && first.value.starts_with('@');
        (!is_variable).then(|| Self { table, column: column.value.to_lowercase() })
    }

    /// Whether this item may be what `name` in HAVING refers to.
    fn is_meant_by(&self, name: &Self) -> bool {
        self.column == name.column
            && match (&self.table, &name.table) {
                (Table::Alias, Table::Named(_)) => false,
                (Table::Named(table), Table::Named(wanted)) => table == wanted,
                _ => true,
            }
    }
}

/// Units of functions, which are parsed as columns: `day` in `TIMESTAMPDIFF(day, ..)`.
pub fn units(expr: &Expr) -> HashSet<String> {
    const TAKE_A_UNIT: [&str; 3] = ["timestampdiff", "timestampadd", "get_format"];
    let mut units = HashSet::new();
    let _ = visit_expressions(expr, |expr| {
        if let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr
            && TAKE_A_UNIT.contains(&name.to_string().to_lowercase().as_str())
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(unit))) = list.args.first()
        {
            units.extend(Name::of(unit).map(|name| name.column));
        }
        ControlFlow::<()>::Continue(())
    });
    units
}

/// Replaces aliases by their expressions, except in subqueries, and in aggregates, where a column
/// goes before an alias.
struct Unaliased {
    aliases: HashMap<String, Expr>,
    /// The nesting of queries and aggregates at the visitor's position.
    depth: usize,
}

impl VisitorMut for Unaliased {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(is_aggregate_call(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(is_aggregate_call(expr));
        if let Expr::Identifier(ident) = expr
            && self.depth == 0
            && let Some(aliased) = self.aliases.get(&ident.value.to_lowercase())
        {
            *expr = Expr::Nested(Box::new(aliased.clone()));
        }
        ControlFlow::Continue(())
    }
}

fn aliases(select: &Select) -> HashMap<String, Expr> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            Some((alias.value.to_lowercase(), expr.clone()))
        }
        _ => None,
    });
    named.collect()
}

/// Whether an expression contains an aggregate, not counting those in subqueries and windows.
pub fn has_aggregate(expr: &Expr) -> bool {
    find_own(expr, |expr, _| is_aggregate_call(expr).then_some(())).is_some()
}

/// The first match in an expression, excluding subqueries. The second argument of `find` is whether
/// the expression is inside an aggregate.
pub fn find_own<T>(expr: &Expr, find: impl FnMut(&Expr, bool) -> Option<T>) -> Option<T> {
    match walk(expr, &mut Own { find, queries: 0, aggregates: 0 }) {
        ControlFlow::Break(found) => Some(found),
        ControlFlow::Continue(()) => None,
    }
}

/// Visits the expressions of one SELECT.
struct Own<F> {
    find: F,
    /// The nesting of queries; expressions inside them are not visited.
    queries: usize,
    /// The nesting of aggregates.
    aggregates: usize,
}

impl<T, F: FnMut(&Expr, bool) -> Option<T>> Visitor for Own<F> {
    type Break = T;

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<T> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<T> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<T> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        let found = (self.find)(expr, self.aggregates > 0);
        self.aggregates += usize::from(is_aggregate_call(expr));
        found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<T> {
        if self.queries == 0 {
            self.aggregates -= usize::from(is_aggregate_call(expr));
        }
        ControlFlow::Continue(())
    }
}

fn is_aggregate_call(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if is_aggregate(function))
}

/// Whether a function is an aggregate, not called as a window function.
pub fn is_aggregate(function: &Function) -> bool {
    function.over.is_none() && list::is_aggregate(&function.name.to_string().to_lowercase())
}
