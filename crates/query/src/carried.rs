//! INSERT .. SELECT .. ON DUPLICATE KEY UPDATE that reads columns of its SELECT: the query gets
//! them as columns behind its own, and they stand beside the new row while a stored one is
//! computed.

use std::ops::ControlFlow;

use freshet_base::{Result, bail};
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select as Body, SelectItem, SetExpr, TableFactor, VisitorMut,
};

use crate::change::{Assignments, NEW};
use crate::joined::{factors, table_of};
use crate::syntax::Select;
use crate::visit::walk_mut;

/// Stands behind [`NEW`] before the number of a carried column.
const CARRIED: &str = "\u{1}of.";

/// A query that carries columns for what is assigned.
pub struct Carrying {
    /// The query, with the carried columns behind its own.
    pub query: Select,
    /// What is assigned, with the carried columns by the names of [`name`].
    pub set: Assignments,
    /// How many they are.
    pub count: usize,
}

/// The name of a carried column beside stored rows.
pub fn name(at: usize) -> String {
    format!("{NEW}{CARRIED}{at}")
}

/// What a query carries for the assignments of its INSERT into `table`, which has the columns of
/// which `is_column` says so; `None` if they read nothing of the query.
///
/// # Errors
/// `NotSupported` beside DISTINCT.
pub fn carrying(
    query: &Select,
    (table, is_column): (&str, impl Fn(&str) -> bool),
    set: &Assignments,
) -> Result<Option<Carrying>> {
    let SetExpr::Select(body) = &*query.0.body else { return Ok(None) };
    let is_grouped =
        !matches!(&body.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    // As in MySQL, which knows no columns of groups there.
    if is_grouped {
        return Ok(None);
    }
    let mut reads = Reads {
        table,
        tables: tables_of(body),
        columns: columns_of(body).into_iter().filter(|name| !is_column(name)).collect(),
        found: Vec::new(),
        queries: 0,
    };
    let mut set = set.clone();
    for value in set.iter_mut().filter_map(|(_, value)| value.as_mut()) {
        let _ = walk_mut(&mut value.0, &mut reads);
    }
    let found = reads.found;
    if found.is_empty() {
        return Ok(None);
    }
    if body.distinct.is_some() {
        bail!(
            NotSupported,
            "ON DUPLICATE KEY UPDATE of columns of a SELECT DISTINCT is not supported: select from \
             a derived table that has the DISTINCT"
        );
    }
    let mut query = query.clone();
    if let SetExpr::Select(body) = &mut *query.0.body {
        body.projection.extend(found.iter().enumerate().map(|(at, expr)| {
            let alias = Ident::with_quote('`', format!("{CARRIED}{at}"));
            SelectItem::ExprWithAlias { expr: expr.clone(), alias }
        }));
    }
    Ok(Some(Carrying { query, set, count: found.len() }))
}

/// The names by which a query refers to the tables that it reads.
fn tables_of(body: &Body) -> Vec<String> {
    let name = |factor: &TableFactor| match factor {
        TableFactor::Table { .. } => table_of(factor).map(|(_, name)| name),
        TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::JsonTable { alias, .. } => {
            alias.as_ref().map(|alias| alias.name.value.clone())
        }
        _ => None,
    };
    factors(&body.from).into_iter().filter_map(name).collect()
}

/// The columns that a query names, itself or in its derived tables.
fn columns_of(body: &Body) -> Vec<String> {
    let mut names = Vec::new();
    for item in &body.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            names.extend(column_of(expr));
        }
    }
    for factor in factors(&body.from) {
        if let TableFactor::Derived { subquery, .. } = factor
            && let SetExpr::Select(derived) = &*subquery.body
        {
            names.extend(derived.projection.iter().filter_map(|item| match item {
                SelectItem::UnnamedExpr(expr) => column_of(expr),
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
                _ => None,
            }));
        }
    }
    names
}

fn column_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) if !name.value.starts_with('@') => Some(name.value.clone()),
        Expr::CompoundIdentifier(parts) if !parts[0].value.starts_with('@') => {
            parts.last().map(|name| name.value.clone())
        }
        _ => None,
    }
}

/// Finds the columns of a query in values that are assigned, and gives them the names by which
/// they are carried.
struct Reads<'a> {
    /// The table that rows are inserted into.
    table: &'a str,
    /// The names of the tables of the query.
    tables: Vec<String>,
    /// The columns of the query that the table does not have.
    columns: Vec<String>,
    found: Vec<Expr>,
    /// The number of queries around, whose names are their own.
    queries: usize,
}

impl Reads<'_> {
    fn is_of_query(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(name) => {
                self.columns.iter().any(|column| column.eq_ignore_ascii_case(&name.value))
            }
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [of, _] => of.value != self.table && self.tables.contains(&of.value),
                _ => false,
            },
            _ => false,
        }
    }
}

impl VisitorMut for Reads<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries == 0 && self.is_of_query(expr) {
            let at = self.found.iter().position(|known| *known == *expr).unwrap_or_else(|| {
                self.found.push(expr.clone());
                self.found.len() - 1
            });
            let carried = [self.table.to_owned(), name(at)];
            let carried = carried.map(|part| Ident::with_quote('`', part));
            *expr = Expr::CompoundIdentifier(carried.to_vec());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{InsertSource, OnDuplicate, Statement, parse};
    use crate::session::SqlMode;

    fn carried(sql: &str) -> Option<(String, Vec<String>)> {
        let parsed = parse(sql, SqlMode::default()).unwrap().remove(0);
        let Statement::Insert(insert) = parsed.statement else { panic!("{sql}") };
        let InsertSource::Query(query) = &insert.source else { panic!("{sql}") };
        let OnDuplicate::Update(set) = &insert.on_duplicate else { panic!("{sql}") };
        let is_column = |name: &str| ["id", "a"].contains(&name);
        let found = carrying(query, (&insert.table.table, is_column), set).unwrap()?;
        let values = found.set.iter().filter_map(|(_, value)| value.as_ref());
        let values = values.map(|value| value.to_string().replace('\u{1}', "!")).collect();
        assert!(found.count > 0);
        Some((found.query.to_string().replace('\u{1}', "!"), values))
    }

    #[test]
    fn columns_of_the_query_stand_behind_its_own() {
        let (query, values) = carried(
            "INSERT INTO t SELECT id, n FROM s AS x \
             ON DUPLICATE KEY UPDATE a = x.n + x.m + x.n + t.a",
        )
        .unwrap();
        assert_eq!(query, "SELECT id, n, x.n AS `!of.0`, x.m AS `!of.1` FROM s AS x");
        assert_eq!(values, ["`t`.`!new.!of.0` + `t`.`!new.!of.1` + `t`.`!new.!of.0` + t.a"]);
    }

    #[test]
    fn names_without_a_table_are_those_of_the_query_where_the_table_has_none() {
        let (_, values) = carried(
            "INSERT INTO t SELECT * FROM (SELECT id, COUNT(*) AS n FROM s GROUP BY id) AS x \
             ON DUPLICATE KEY UPDATE a = a + n",
        )
        .unwrap();
        assert_eq!(values, ["a + `t`.`!new.!of.0`"]);
    }

    #[test]
    fn what_is_of_the_table_or_the_new_row_is_not_carried() {
        for sql in [
            "INSERT INTO t SELECT id, n FROM s ON DUPLICATE KEY UPDATE a = VALUES(a) + t.a + a",
            "INSERT INTO t SELECT id, 1 FROM t ON DUPLICATE KEY UPDATE a = t.a + 1",
            "INSERT INTO t SELECT id, COUNT(*) FROM s GROUP BY id ON DUPLICATE KEY UPDATE a = s.n",
            "INSERT INTO t SELECT 1, 2 UNION SELECT 3, n FROM s ON DUPLICATE KEY UPDATE a = s.n",
            "INSERT INTO t SELECT id, 1 FROM s \
             ON DUPLICATE KEY UPDATE a = (SELECT MAX(s.n) FROM s)",
        ] {
            assert_eq!(carried(sql), None, "{sql}");
        }
    }
}
