//! The columns of the tables of a query, of which some are defined by WITH around it.

use freshet_base::{Result, bail};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{Cte, Expr, Ident, Query, SelectItem, SetExpr, TableAlias, TableFactor, With};

use super::ColumnsOf;
use crate::rewrite::derived::selecting_all;

/// The queries around a place.
pub struct Scopes<'a> {
    columns_of: ColumnsOf<'a>,
    open: Vec<Scope>,
}

/// A query that is being visited.
#[derive(Default)]
struct Scope {
    recursive: bool,
    /// The tables that its WITH defines, which are visited first: those that are written out, and
    /// the names of the others.
    defined: Vec<Cte>,
    waiting: Vec<TableAlias>,
    /// Whether it is one of WITH of the query around it.
    is_defining: bool,
}

impl<'a> Scopes<'a> {
    pub fn new(columns_of: ColumnsOf<'a>) -> Self {
        Self { columns_of, open: Vec::new() }
    }

    /// Whether one query alone is being visited.
    pub fn is_outermost(&self) -> bool {
        self.open.len() == 1
    }

    pub fn open(&mut self, query: &Query) {
        let is_defining = self.open.last().is_some_and(|around| !around.waiting.is_empty());
        let mut scope = Scope { is_defining, ..Scope::default() };
        if let Some(with) = &query.with {
            scope.recursive = with.recursive;
            scope.waiting = with.cte_tables.iter().rev().map(|cte| cte.alias.clone()).collect();
        }
        self.open.push(scope);
    }

    pub fn close(&mut self, query: &Query) {
        let closed = self.open.pop().expect("a query that was opened");
        if let (true, Some(around)) = (closed.is_defining, self.open.last_mut())
            && let Some(alias) = around.waiting.pop()
        {
            around.defined.push(Cte {
                alias,
                query: Box::new(query.clone()),
                from: None,
                materialized: None,
                closing_paren_token: AttachedToken::empty(),
            });
        }
    }

    /// The names of the columns of a table, in lower case.
    ///
    /// # Errors
    /// Those of planning it; `NotSupported` where they are not known without the tables before it.
    pub fn columns(&self, factor: &TableFactor) -> Result<Vec<String>> {
        let alias = match factor {
            TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => alias.as_ref(),
            _ => None,
        };
        if let Some(alias) = alias.filter(|alias| !alias.columns.is_empty()) {
            return Ok(names_of(alias));
        }
        match factor {
            TableFactor::Table { name, .. } => {
                let name = name.to_string();
                let own = self.open.iter().rev().filter_map(|scope| scope.waiting.last());
                let mut own = own.filter(|own| own.name.to_string() == name);
                if let Some(recursive) = own.next() {
                    if recursive.columns.is_empty() {
                        bail!(
                            NotSupported,
                            "USING and NATURAL JOIN of a recursive table need the names of its \
                             columns, as in WITH RECURSIVE {name} (a, b) AS (..)"
                        );
                    }
                    return Ok(names_of(recursive));
                }
            }
            TableFactor::Derived { lateral, subquery, .. } => match items(subquery) {
                Some(names) => return Ok(names),
                None if *lateral => bail!(
                    NotSupported,
                    "USING and NATURAL JOIN beside a LATERAL table need names of its columns"
                ),
                None => {}
            },
            _ => {}
        }
        (self.columns_of)(self.within(factor.clone()))
    }

    /// All columns of a table, in the WITH of the queries around it.
    fn within(&self, factor: TableFactor) -> Query {
        let mut query = *selecting(factor);
        for scope in self.open.iter().rev().filter(|scope| !scope.defined.is_empty()) {
            if query.with.is_some() {
                let name = Ident::with_quote('`', "#columns");
                let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
                query = *selecting(TableFactor::Derived {
                    lateral: false,
                    subquery: Box::new(query),
                    alias: Some(alias),
                    sample: None,
                });
            }
            query.with = Some(With {
                with_token: AttachedToken::empty(),
                recursive: scope.recursive,
                cte_tables: scope.defined.clone(),
            });
        }
        query
    }
}

fn names_of(alias: &TableAlias) -> Vec<String> {
    alias.columns.iter().map(|column| column.name.value.to_lowercase()).collect()
}

fn selecting(factor: TableFactor) -> Box<Query> {
    let mut query = selecting_all();
    if let SetExpr::Select(select) = &mut *query.body {
        let joins = Vec::new();
        select.from = vec![sqlparser::ast::TableWithJoins { relation: factor, joins }];
    }
    query
}

/// The names of the items of a query, if it names all of them.
fn items(query: &Query) -> Option<Vec<String>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().map(|name| name.value.clone())
        }
        _ => None,
    };
    select.projection.iter().map(name).collect()
}
