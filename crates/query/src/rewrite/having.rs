//! HAVING of a select without groups: a condition over its rows that may name its aliases.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use freshet_base::{Result, bail};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    Query, Select, SelectItem, Visit, VisitMut, Visitor, VisitorMut, visit_expressions,
};

use crate::functions::list;

/// Makes a HAVING that has no groups part of WHERE.
///
/// # Errors
/// A column that is not selected: of the outermost select, inside which no other may have it.
pub fn without_groups(select: &mut Select, outermost: bool) -> Result<()> {
    let grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let aggregated = items.chain(&select.having).any(has_aggregate);
    if grouped || aggregated {
        return Ok(());
    }
    let Some(mut having) = select.having.take() else { return Ok(()) };
    if outermost {
        check_selected(select, &having)?;
    }
    let _ = VisitMut::visit(&mut having, &mut Unaliased { aliases: aliases(select), depth: 0 });
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

/// Refuses columns in HAVING that are not selected. What a subquery in it reads is its own.
fn check_selected(select: &Select, having: &Expr) -> Result<()> {
    let subquery = |expr: &Expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let mut selected = units(having);
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => selected.extend(column_name(expr)),
            SelectItem::ExprWithAlias { expr, alias } => {
                selected.extend(column_name(expr));
                selected.insert(alias.value.to_lowercase());
            }
            _ => return Ok(()),
        }
    }
    if visit_expressions(having, subquery).is_break() {
        return Ok(());
    }
    let unknown = visit_expressions(having, |expr| match column_name(expr) {
        Some(name) if !selected.contains(&name) => ControlFlow::Break(expr.to_string()),
        _ => ControlFlow::Continue(()),
    });
    match unknown {
        ControlFlow::Break(name) => {
            let name = name.replace('`', "");
            bail!(UnknownColumn, "Unknown column '{name}' in 'having clause'")
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The name of a column, without its table; a variable is none.
fn column_name(expr: &Expr) -> Option<String> {
    let idents = match expr {
        Expr::Identifier(ident) => std::slice::from_ref(ident),
        Expr::CompoundIdentifier(idents) => &idents[..],
        _ => return None,
    };
    let is_variable = idents.first()?.value.starts_with('@');
    (!is_variable).then_some(idents.last()?.value.to_lowercase())
}

/// The words that stand where other functions have a column: `day` of `TIMESTAMPDIFF(day, ..)`.
fn units(having: &Expr) -> HashSet<String> {
    const TAKE_A_UNIT: [&str; 3] = ["timestampdiff", "timestampadd", "get_format"];
    let mut units = HashSet::new();
    let _ = visit_expressions(having, |expr| {
        if let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr
            && TAKE_A_UNIT.contains(&name.to_string().to_lowercase().as_str())
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(unit))) = list.args.first()
        {
            units.extend(column_name(unit));
        }
        ControlFlow::<()>::Continue(())
    });
    units
}

/// Puts what aliases stand for in their place, but for subqueries, whose names are their own.
struct Unaliased {
    aliases: HashMap<String, Expr>,
    /// How many queries the visitor is inside of.
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

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
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

/// Whether an expression has an aggregate in it, those of its subqueries left out.
pub fn has_aggregate(expr: &Expr) -> bool {
    Visit::visit(expr, &mut Aggregates { depth: 0 }).is_break()
}

/// Looks for an aggregate.
struct Aggregates {
    /// How many queries the visitor is inside of: aggregates of those are their own.
    depth: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.depth == 0 && is_aggregate(function) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether a function is an aggregate.
pub fn is_aggregate(function: &Function) -> bool {
    list::is_aggregate(&function.name.to_string().to_lowercase())
}
