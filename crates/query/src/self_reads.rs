//! Statements that read a table which they change (1093).
//!
//! A derived table has its rows before any row is changed, so it may read the table; another
//! subquery may not.

use std::ops::ControlFlow;

use sqlparser::ast::{ObjectName, Query, TableFactor, Visitor};

use crate::nesting::count_queries;
use crate::syntax::TableName;
use crate::visit::walk;

/// The first of these tables that a subquery of the query reads.
pub fn in_subquery<'a>(
    query: &Query,
    mut tables: impl Iterator<Item = &'a TableName>,
) -> Option<&'a TableName> {
    tables.find(|table| {
        let mut reads = Reads { table, queries: 0, derived: 0 };
        walk(query, &mut reads).is_break()
    })
}

struct Reads<'a> {
    table: &'a TableName,
    /// The nesting of queries.
    queries: usize,
    /// The nesting of derived tables.
    derived: usize,
}

impl Visitor for Reads<'_> {
    type Break = ();

    count_queries!(&Query);

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.derived += usize::from(matches!(factor, TableFactor::Derived { .. }));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.derived -= usize::from(matches!(factor, TableFactor::Derived { .. }));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if self.queries < 2 || self.derived > 0 {
            return ControlFlow::Continue(());
        }
        let names = relation.0.iter().filter_map(|part| part.as_ident());
        let names = names.map(|name| name.value.as_str()).collect::<Vec<_>>();
        let is_table = match names.as_slice() {
            [table] => table.eq_ignore_ascii_case(&self.table.table),
            [database, table] => {
                table.eq_ignore_ascii_case(&self.table.table)
                    && self.table.database.as_deref().is_none_or(|known| known == *database)
            }
            _ => false,
        };
        if is_table { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
