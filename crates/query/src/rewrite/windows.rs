//! Windows: where window functions may stand, and what the windows of OVER are. Those that have a
//! name, and those that add to one that has, are written out: the planner knows neither.

use std::cell::Cell;
use std::ops::ControlFlow;

use crate::visit::{visit_expressions, walk_mut};
use freshet_base::{Error, Result, bail};
use sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, JoinConstraint, NamedWindowDefinition, NamedWindowExpr,
    OrderBy, Query, Select, SelectItem, SetExpr, VisitorMut, WindowSpec, WindowType,
};

use super::having::{find_own, window_in};
use super::join;

/// Writes out the windows of a query, and of its ORDER BY; returns how many expressions it has
/// copied for that.
///
/// # Errors
/// 3579 to 3583 and 3591 for windows that are not defined, or do not fit what they add to; 3593 for
/// a window function that stands where none may; 3170 for more than `most` copies.
pub fn written_out(query: &mut Query, most: usize) -> Result<usize> {
    let copies = Copies { most, made: Cell::new(0) };
    of_body(&mut query.body, query.order_by.as_mut(), &copies)?;
    Ok(copies.made.get())
}

/// The expressions that are copied.
struct Copies {
    most: usize,
    made: Cell<usize>,
}

impl Copies {
    /// A copy of a window.
    fn of(&self, spec: &WindowSpec) -> Result<WindowSpec> {
        let mut made = self.made.get();
        let _ = visit_expressions(spec, |_| {
            made += 1;
            if made > self.most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.made.set(made);
        if made > self.most {
            bail!(
                TooLarge,
                "The windows of the statement become more than {} expressions where their names \
                 are spelled out; send it in parts",
                self.most
            );
        }
        Ok(spec.clone())
    }
}

fn of_body(body: &mut SetExpr, order: Option<&mut OrderBy>, copies: &Copies) -> Result<()> {
    match body {
        SetExpr::Select(select) => of_select(select, order, copies),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left, None, copies)?;
            of_body(right, None, copies)
        }
        _ => Ok(()),
    }
}

fn of_select(select: &mut Select, order: Option<&mut OrderBy>, copies: &Copies) -> Result<()> {
    check_places(select)?;
    let named = std::mem::take(&mut select.named_window);
    let mut over = Over { windows: Windows::of(&named, copies)?, queries: 0 };
    let mut done = walk_mut(&mut select.projection, &mut over);
    if done.is_continue()
        && let Some(order) = order
    {
        done = walk_mut(order, &mut over);
    }
    match done {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Rejects window functions in conditions, keys and aggregates.
fn check_places(select: &mut Select) -> Result<()> {
    let keys = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => &keys[..],
        GroupByExpr::All(_) => &[],
    };
    let refused = |name: String| -> Result<()> {
        bail!(WindowNotHere, "You cannot use the window function '{name}' in this context.")
    };
    if let Some(name) = select.selection.iter().chain(keys).find_map(window_in) {
        return refused(name);
    }
    let mut items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let within = |expr: &Expr| {
        find_own(expr, |expr, is_aggregated| match expr {
            Expr::Function(Function { over: Some(_), name, .. }) if is_aggregated => {
                Some(name.to_string())
            }
            _ => None,
        })
    };
    if let Some(name) = items.find_map(within) {
        return refused(name);
    }
    let mut found = None;
    for table in &mut select.from {
        for joined in &mut table.joins {
            if let Some(JoinConstraint::On(condition)) = join::constraint(&mut joined.join_operator)
            {
                found = found.or_else(|| window_in(condition));
            }
        }
    }
    found.map_or(Ok(()), refused)
}

/// The windows of a SELECT that have names, written out.
struct Windows<'a>(Vec<(String, WindowSpec)>, &'a Copies);

impl<'a> Windows<'a> {
    /// Those of WINDOW.
    fn of(named: &[NamedWindowDefinition], copies: &'a Copies) -> Result<Self> {
        let mut left = named.iter().collect::<Vec<_>>();
        let mut known = Self(Vec::with_capacity(left.len()), copies);
        for (at, NamedWindowDefinition(name, _)) in named.iter().enumerate() {
            let is_it =
                |other: &NamedWindowDefinition| other.0.value.eq_ignore_ascii_case(&name.value);
            if named[..at].iter().any(is_it) {
                bail!(WindowTwice, "Window '{}' is defined twice.", name.value);
            }
        }
        // Each round takes those whose window below is known.
        while !left.is_empty() {
            let before = left.len();
            let mut failed = None;
            left.retain(|NamedWindowDefinition(name, window)| {
                let below = match window {
                    NamedWindowExpr::NamedWindow(below) => Some(below),
                    NamedWindowExpr::WindowSpec(spec) => spec.window_name.as_ref(),
                };
                let is_defined = |below: &Ident| {
                    named.iter().any(|one| one.0.value.eq_ignore_ascii_case(&below.value))
                };
                if below.is_some_and(|below| known.find(below).is_none() && is_defined(below)) {
                    return true;
                }
                let whole = match window {
                    NamedWindowExpr::NamedWindow(below) => known.named(below),
                    NamedWindowExpr::WindowSpec(spec) => known.whole(spec, Some(name)),
                };
                match whole {
                    Ok(whole) => known.0.push((name.value.clone(), whole)),
                    Err(error) => failed = failed.take().or(Some(error)),
                }
                false
            });
            if let Some(error) = failed {
                return Err(error);
            }
            if left.len() == before {
                bail!(WindowLoop, "There is a circularity in the window dependency graph.");
            }
        }
        Ok(known)
    }

    fn find(&self, name: &Ident) -> Option<&WindowSpec> {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name.value));
        found.map(|(_, spec)| spec)
    }

    fn named(&self, name: &Ident) -> Result<WindowSpec> {
        match self.find(name) {
            Some(spec) => self.1.of(spec),
            None => bail!(UnknownWindow, "Window name '{}' is not defined.", name.value),
        }
    }

    /// A window with what it takes of the one that it adds to; `name` is its own.
    fn whole(&self, spec: &WindowSpec, name: Option<&Ident>) -> Result<WindowSpec> {
        let Some(below) = &spec.window_name else { return self.1.of(spec) };
        let own = name.map_or("<unnamed window>", |name| &name.value);
        let mut whole = self.named(below)?;
        if !spec.partition_by.is_empty() {
            bail!(WindowPartition, "A window which depends on another cannot define partitioning.");
        }
        if whole.window_frame.is_some() {
            bail!(
                WindowFrameBelow,
                "Window '{}' has a frame definition, so cannot be referenced by another window.",
                below.value
            );
        }
        if !spec.order_by.is_empty() {
            if !whole.order_by.is_empty() {
                bail!(
                    WindowOrderTwice,
                    "Window '{own}' cannot inherit '{}' since both contain an ORDER BY clause.",
                    below.value
                );
            }
            whole.order_by.clone_from(&spec.order_by);
        }
        whole.window_frame.clone_from(&spec.window_frame);
        Ok(whole)
    }
}

/// Writes out the windows of functions, but for those of subqueries.
struct Over<'a> {
    windows: Windows<'a>,
    queries: usize,
}

impl VisitorMut for Over<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Function(Function { over: Some(over), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        let whole = match &*over {
            WindowType::NamedWindow(name) => self.windows.named(name),
            WindowType::WindowSpec(spec) if spec.window_name.is_none() => {
                return ControlFlow::Continue(());
            }
            WindowType::WindowSpec(spec) => self.windows.whole(spec, None),
        };
        match whole {
            Ok(whole) => *over = WindowType::WindowSpec(whole),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}
