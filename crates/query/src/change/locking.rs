//! What a SELECT .. FOR UPDATE or FOR SHARE locks: the rows that it reads of the tables in FROM,
//! or of those that it names behind OF. Subqueries, derived tables and what WITH defines lock none.

use std::ops::ControlFlow;

use freshet_base::{Result, bail};
use sqlparser::ast::{
    Expr, GroupByExpr, LimitClause, LockClause, LockType, NonBlock, OrderBy, OrderByExpr,
    OrderByKind, OrderByOptions, Query, Select as Body, SelectItem, SetExpr, TableFactor, Visit,
};

use super::{Change, ChangeKind, LockWait, Rows, quoted};
use crate::joined::{self, table_of};
use crate::rewrite::is_aggregate;
use crate::syntax::{Select, TableName};
use crate::visit::{visit_expressions, visit_relations};

/// What a query locks.
pub struct Locking {
    /// Of each table, under each of its names.
    pub tables: Vec<Change>,
    /// Whether the query reads a table once, and nothing else: rows that are given may stand in its
    /// place.
    pub is_single: bool,
}

impl Select {
    /// Whether it has FOR UPDATE or FOR SHARE.
    pub fn locks(&self) -> bool {
        !self.0.locks.is_empty()
    }

    /// Whether all that it has is FOR SHARE.
    pub fn is_shared(&self) -> bool {
        self.0.locks.iter().all(|lock| lock.lock_type == LockType::Share)
    }

    /// The same, whose rows come by these columns, with the tables that have them, where its own
    /// order leaves that open.
    #[must_use]
    pub fn then_by(&self, columns: &[(String, String)]) -> Self {
        let mut select = self.clone();
        if columns.is_empty() {
            return select;
        }
        let mut order = order_of(&select.0);
        order.extend(columns.iter().map(by));
        let kind = OrderByKind::Expressions(order);
        select.0.order_by = Some(OrderBy { kind, interpolate: None });
        select
    }
}

impl Change {
    /// As [`Select::then_by`].
    #[must_use]
    pub fn then_by(&self, columns: &[(String, String)]) -> Self {
        let mut change = self.clone();
        change.rows.order.extend(columns.iter().map(by));
        change
    }

    /// The same of all rows, without LIMIT.
    #[must_use]
    pub fn without_limit(&self) -> Self {
        let mut change = self.clone();
        (change.rows.order, change.rows.limit) = (Vec::new(), None);
        change
    }
}

impl Locking {
    /// What this query locks.
    ///
    /// # Errors
    /// `NotSupported` for a UNION; 3568 and 3569 for tables behind OF that it does not read, and
    /// that stand there twice.
    pub fn of(select: &Select) -> Result<Self> {
        let query = &select.0;
        let SetExpr::Select(body) = &*query.body else {
            bail!(NotSupported, "FOR UPDATE is supported for a SELECT alone, and for no UNION");
        };
        let factors = joined::factors(&body.from);
        check_clauses(&query.locks, &factors)?;
        let (order, limit) = first_rows(query, body);
        let rows = Rows {
            with: query.with.clone(),
            from: body.from.clone(),
            selection: body.selection.clone(),
            order,
            limit,
        };
        let mut tables = Vec::new();
        for (target, name) in factors.iter().filter_map(|factor| table_of(factor)) {
            let Some(clause) = query.locks.iter().find(|clause| is_of(clause, &name)) else {
                continue;
            };
            if !is_stored(query, &target) {
                continue;
            }
            let wait = match clause.nonblock {
                None => LockWait::Wait,
                Some(NonBlock::Nowait) => LockWait::Fail,
                Some(NonBlock::SkipLocked) => LockWait::Skip,
            };
            let is_shared = clause.lock_type == LockType::Share;
            let (kind, rows) = (ChangeKind::Lock { wait, is_shared }, rows.clone());
            let (ignores, view, beside) = (false, None, Vec::new());
            tables.push(Change { kind, target, name, ignores, view, beside, rows });
        }
        let is_single = factors.len() == 1 && query.with.is_none();
        let is_single = match &tables[..] {
            [one] => is_single && mentions(query, &one.target.table) == 1,
            _ => false,
        };
        Ok(Self { tables, is_single })
    }
}

/// Whether a table is no system table, and not what WITH defines.
fn is_stored(query: &Query, table: &TableName) -> bool {
    let is_it = |name: &str| name.eq_ignore_ascii_case(&table.table);
    match &table.database {
        Some(database) => !freshet_meta::is_reserved_database(database),
        None => {
            let mut defined = query.with.iter().flat_map(|with| &with.cte_tables);
            !defined.any(|cte| is_it(&cte.alias.name.value))
        }
    }
}

/// How often a query names tables of this name, subqueries included.
fn mentions(query: &Query, table: &str) -> usize {
    fn within(part: &impl Visit, table: &str) -> usize {
        let mut count = 0;
        let _ = visit_relations(part, |relation| {
            let last = relation.0.last().and_then(|part| part.as_ident());
            count += usize::from(last.is_some_and(|name| name.value.eq_ignore_ascii_case(table)));
            ControlFlow::<()>::Continue(())
        });
        count
    }
    within(&query.body, table) + within(&query.order_by, table)
}

/// The table that a clause names, as FROM does, if it names one.
fn named(clause: &LockClause) -> Option<&str> {
    let last = clause.of.as_ref()?.0.last()?.as_ident()?;
    Some(&last.value)
}

fn is_of(clause: &LockClause, name: &str) -> bool {
    named(clause).is_none_or(|of| of.eq_ignore_ascii_case(name))
}

fn check_clauses(clauses: &[LockClause], factors: &[&TableFactor]) -> Result<()> {
    let names = factors.iter().filter_map(|factor| name_of(factor)).collect::<Vec<_>>();
    for of in clauses.iter().filter_map(named) {
        if !names.iter().any(|name| name.eq_ignore_ascii_case(of)) {
            bail!(UnresolvedLock, "Unresolved table name `{of}` in locking clause.");
        }
    }
    for name in &names {
        if clauses.iter().filter(|clause| is_of(clause, name)).count() > 1 {
            bail!(DuplicateLock, "Table `{name}` appears in multiple locking clauses.");
        }
    }
    Ok(())
}

/// The name by which expressions refer to a table, or to what stands in place of one.
fn name_of(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Derived { alias, .. } => Some(alias.as_ref()?.name.value.clone()),
        other => table_of(other).map(|(_, name)| name),
    }
}

/// The order and LIMIT of a query whose result is the first of the rows that it reads; none where
/// rows behind the limit are part of it, or its order is not that of columns.
fn first_rows(query: &Query, body: &Body) -> (Vec<OrderByExpr>, Option<Expr>) {
    let is_plain = body.distinct.is_none()
        && body.having.is_none()
        && matches!(&body.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let limit = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, .. }) => limit,
        _ => return (Vec::new(), None),
    };
    let order = order_of(query);
    let is_selected = |by: &OrderByExpr| match &by.expr {
        Expr::Value(_) => true,
        Expr::Identifier(name) => body.projection.iter().any(|item| {
            matches!(item, SelectItem::ExprWithAlias { alias, .. }
                if alias.value.eq_ignore_ascii_case(&name.value))
        }),
        _ => false,
    };
    match is_plain && !aggregates(body) && !order.iter().any(is_selected) {
        true => (order, Some(limit.clone())),
        false => (Vec::new(), None),
    }
}

fn aggregates(body: &Body) -> bool {
    let found = visit_expressions(&body.projection, |expr| match expr {
        Expr::Function(function) if function.over.is_some() || is_aggregate(function) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn order_of(query: &Query) -> Vec<OrderByExpr> {
    match &query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) => order.clone(),
        _ => Vec::new(),
    }
}

fn by((table, column): &(String, String)) -> OrderByExpr {
    let expr = Expr::CompoundIdentifier(vec![quoted(table), quoted(column)]);
    OrderByExpr { expr, options: OrderByOptions { asc: None, nulls_first: None }, with_fill: None }
}
