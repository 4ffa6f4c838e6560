//! Derived tables made from subqueries and set operations, and SELECTs from them.

use sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
};

use crate::parser::{self, Statement};

/// The alias of derived tables made from subqueries, and the prefix of their column names; users
/// cannot have this name.
const DERIVED: &str = "#subquery";

/// A column of a derived table with column aliases.
pub fn column(at: usize) -> Expr {
    let name = |text: String| Ident::with_quote('`', text);
    Expr::CompoundIdentifier(vec![name(DERIVED.into()), name(format!("{DERIVED}{at}"))])
}

/// A derived table of a query; `columns` is the number of column aliases, 0 for none.
pub fn derived(subquery: Box<Query>, columns: usize) -> TableFactor {
    let name = |text: String| Ident::with_quote('`', text);
    let column = |at| TableAliasColumnDef { name: name(format!("{DERIVED}{at}")), data_type: None };
    TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(TableAlias {
            explicit: true,
            name: name(DERIVED.into()),
            columns: (0..columns).map(column).collect(),
            at: None,
        }),
        sample: None,
    }
}

/// Whether a derived table was made by [`derived`] without column aliases.
pub fn is_nameless(alias: &TableAlias) -> bool {
    alias.name.value == DERIVED && alias.columns.is_empty()
}

/// Marks a SELECT whose aggregates are not written in the statement, in a field of another dialect.
pub fn mark_made(select: &mut Select) {
    select.top_before_distinct = true;
}

/// Whether the aggregates of a SELECT are not written in the statement.
pub fn is_made(select: &Select) -> bool {
    select.top_before_distinct
}

/// `SELECT item FROM from WHERE condition`.
pub fn selecting(item: Expr, from: TableFactor, condition: Option<Expr>) -> Box<Query> {
    let mut query = selecting_all();
    if let SetExpr::Select(select) = &mut *query.body {
        select.projection = vec![SelectItem::UnnamedExpr(item)];
        select.from[0].relation = from;
        select.selection = condition;
    }
    query
}

/// `SELECT * FROM dual`.
pub fn selecting_all() -> Box<Query> {
    let parsed = parser::parse("SELECT * FROM dual", Default::default());
    let Some(Statement::Query(query)) =
        parsed.ok().and_then(|mut parsed| parsed.pop()).map(|parsed| parsed.statement)
    else {
        unreachable!("the text above is a query")
    };
    query.0
}
