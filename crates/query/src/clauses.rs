//! In which clause a statement names a column that there is not.

use std::convert::Infallible;
use std::ops::ControlFlow;

use freshet_base::{Error, err};
use sqlparser::ast::{Expr, Query, Select, Visit, Visitor};

use crate::nesting::count_queries;
use crate::parser::Statement;
use crate::visit::walk;

/// The clauses in which a name may stand, in the order in which MySQL looks at them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Clause {
    On,
    Fields,
    Where,
    Group,
    Having,
    Order,
}

impl Clause {
    const fn name(self) -> &'static str {
        match self {
            Self::On => "on clause",
            Self::Fields => "field list",
            Self::Where => "where clause",
            Self::Group => "group statement",
            Self::Having => "having clause",
            Self::Order => "order clause",
        }
    }
}

/// The error 1054 with the name as the statement has it, and the clause in which it does; others as
/// they are. The planner knows neither: it gets rewritten queries.
#[must_use]
pub fn located(error: Error, statement: &Statement) -> Error {
    let message = error.message().strip_prefix("Unknown column '");
    let Some(name) = message.and_then(|rest| rest.strip_suffix("' in 'field list'")) else {
        return error;
    };
    let mut search = Search { name: name.to_lowercase(), first: None };
    match statement {
        Statement::Query(query) | Statement::SelectInto { query, .. } => {
            let _ = walk(&query.0, &mut search);
        }
        Statement::Change(change) => {
            search.look(Clause::Where, &change.rows.selection);
            search.look(Clause::Order, &change.rows.order);
        }
        _ => {}
    }
    match search.first {
        Some((clause, name)) => {
            err!(UnknownColumn, "Unknown column '{name}' in '{}'", clause.name())
        }
        None => error,
    }
}

/// Looks for a name in the clauses of all queries of a statement.
struct Search {
    /// In lower case.
    name: String,
    /// The first clause that has it, and how it is written there.
    first: Option<(Clause, String)>,
}

impl Search {
    fn look(&mut self, clause: Clause, part: &impl Visit) {
        if self.first.as_ref().is_some_and(|(first, _)| *first <= clause) {
            return;
        }
        let mut names = Names { wanted: &self.name, queries: 0 };
        if let ControlFlow::Break(written) = walk(part, &mut names) {
            self.first = Some((clause, written));
        }
    }
}

impl Visitor for Search {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        self.look(Clause::Order, &query.order_by);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Infallible> {
        for join in select.from.iter().flat_map(|table| &table.joins) {
            self.look(Clause::On, &join.join_operator);
        }
        self.look(Clause::Fields, &select.projection);
        self.look(Clause::Where, &select.selection);
        self.look(Clause::Group, &select.group_by);
        self.look(Clause::Having, &select.having);
        ControlFlow::Continue(())
    }
}

/// Breaks with a name as it is written; what stands in a query within is that query's.
struct Names<'a> {
    wanted: &'a str,
    queries: usize,
}

impl Visitor for Names<'_> {
    type Break = String;

    count_queries!(&Query);

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        let parts = match expr {
            Expr::Identifier(name) => std::slice::from_ref(name),
            Expr::CompoundIdentifier(parts) => parts,
            _ => return ControlFlow::Continue(()),
        };
        let parts = parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>();
        let written = parts.join(".");
        if self.queries == 0 && written.to_lowercase() == self.wanted {
            return ControlFlow::Break(written);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use freshet_base::err;

    use super::*;
    use crate::parser::parse;
    use crate::session::SqlMode;

    #[test]
    fn names_are_found_where_they_stand() {
        for (sql, expected) in [
            ("SELECT * FROM t WHERE NoSuch = 1", "'NoSuch' in 'where clause'"),
            ("SELECT NoSuch FROM t WHERE nosuch = 1", "'NoSuch' in 'field list'"),
            ("SELECT * FROM t JOIN u ON t.a = nosuch", "'nosuch' in 'on clause'"),
            ("SELECT COUNT(*) FROM t GROUP BY nosuch", "'nosuch' in 'group statement'"),
            ("SELECT a FROM t ORDER BY -nosuch", "'nosuch' in 'order clause'"),
            ("(SELECT a FROM t) ORDER BY nosuch", "'nosuch' in 'order clause'"),
            ("SELECT (SELECT 1 FROM u WHERE nosuch) FROM t", "'nosuch' in 'where clause'"),
            ("SELECT a FROM t WHERE a IN (SELECT nosuch FROM u)", "'nosuch' in 'field list'"),
            ("DELETE FROM t WHERE nosuch = 1", "'nosuch' in 'where clause'"),
            ("UPDATE t SET a = nosuch", "'nosuch' in 'field list'"),
            ("SELECT * FROM v", "'nosuch' in 'field list'"),
        ] {
            let statement = parse(sql, SqlMode::default()).unwrap().remove(0).statement;
            let error = err!(UnknownColumn, "Unknown column 'nosuch' in 'field list'");
            let located = located(error, &statement);
            assert_eq!(located.message(), format!("Unknown column {expected}"), "{sql}");
            assert_eq!(located.code().errno(), 1054);
        }
        let other = err!(UnknownTable, "Unknown table 'nosuch'");
        let statement = parse("SELECT nosuch", SqlMode::default()).unwrap().remove(0).statement;
        assert_eq!(located(other, &statement).message(), "Unknown table 'nosuch'");
    }
}
