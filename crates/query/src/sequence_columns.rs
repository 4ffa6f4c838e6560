//! NEXTVAL and CURRVAL in the select list of a query that reads tables: each is a column of the
//! result, into which the server puts values of its sequence on the way of the rows.

use std::collections::HashSet;
use std::ops::ControlFlow;

use freshet_base::{Result, err};
use sqlparser::ast::{
    Expr, Ident, Select as Body, SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor,
};

use crate::actions::{Action, SequenceCall, reads_nothing, sequence_call};
use crate::assign::Place;
use crate::joined::factors;
use crate::syntax::{Literal, Select};
use crate::visit::visit_expressions;

/// A column of a result that has values of a sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceColumn {
    pub place: Place,
    pub call: SequenceCall,
}

/// A query and its columns of sequences, in each of which it has a number of its own.
#[derive(Clone, PartialEq, Debug)]
pub struct Taking {
    pub query: Select,
    pub columns: Vec<SequenceColumn>,
}

/// Whether a query reads tables, is a UNION or in parentheses, and has values of sequences in a
/// select list.
pub fn takes_values(query: &Select) -> bool {
    let mut bodies = Vec::new();
    if !query.0.locks.is_empty() || !has_selects_alone(&query.0.body, &mut bodies) {
        return false;
    }
    // Without tables a SELECT takes them before it runs.
    let is_alone = matches!(&*query.0.body, SetExpr::Select(body) if reads_nothing(body));
    !is_alone && bodies.iter().any(|body| Known::of(body).in_any(&body.projection))
}

/// Adds the SELECTs of a UNION, or the only one; whether there is nothing else.
fn has_selects_alone<'q>(body: &'q SetExpr, selects: &mut Vec<&'q Body>) -> bool {
    match body {
        SetExpr::Select(body) => {
            selects.push(body);
            true
        }
        SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => {
            has_selects_alone(left, selects) && has_selects_alone(right, selects)
        }
        SetExpr::Query(query) if query.locks.is_empty() => has_selects_alone(&query.body, selects),
        _ => false,
    }
}

/// Puts numbers in place of the sequences in the select list of such a query; `None` if it takes no
/// values.
///
/// # Errors
/// 1235 where no row of the result has the value by itself.
pub fn taken(query: &Select) -> Result<Option<Taking>> {
    if !takes_values(query) {
        return Ok(None);
    }
    let mut query = query.0.clone();
    let columns = columns_of(&mut query.body)?;
    Ok(Some(Taking { query: Select(query), columns }))
}

/// Puts numbers in place of the sequences. No two rows with a value of NEXTVAL are the same, so
/// that DISTINCT removes none, while the numbers are all the same.
fn columns_of(body: &mut SetExpr) -> Result<Vec<SequenceColumn>> {
    let takes_next = |columns: &[SequenceColumn]| {
        columns.iter().any(|column| column.call.action == Action::NextValue)
    };
    match body {
        SetExpr::Select(body) => {
            let columns = columns_of_select(body)?;
            if takes_next(&columns) {
                body.distinct = None;
            }
            Ok(columns)
        }
        SetExpr::SetOperation { set_quantifier, left, right, .. } => {
            let columns = columns_of(left)?;
            if columns != columns_of(right)? {
                return Err(refused("in some places of a UNION"));
            }
            if takes_next(&columns) {
                *set_quantifier = SetQuantifier::All;
            }
            Ok(columns)
        }
        SetExpr::Query(query) => columns_of(&mut query.body),
        _ => Ok(Vec::new()),
    }
}

fn columns_of_select(body: &mut Body) -> Result<Vec<SequenceColumn>> {
    let known = Known::of(body);
    let is_wild = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    let wild = body.projection.iter().map(is_wild).collect::<Vec<_>>();
    let count = wild.len();
    let mut columns = Vec::new();
    for (at, item) in body.projection.iter_mut().enumerate() {
        let Some(expr) = expr_of(item) else { continue };
        let Some(call) = known.call(expr) else {
            if known.is_in(expr) {
                return Err(refused("within an expression"));
            }
            continue;
        };
        let place = match (wild[..at].contains(&true), wild[at..].contains(&true)) {
            (false, _) => Place::FromStart(at),
            (true, false) => Place::FromEnd(count - 1 - at),
            (true, true) => return Err(refused("between two wildcards")),
        };
        columns.push(SequenceColumn { place, call });
        let alias = match &*item {
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            _ => Ident::with_quote('`', expr.to_string()),
        };
        let number = Literal::Number("0".to_owned()).expr();
        *item = SelectItem::ExprWithAlias { expr: number, alias };
    }
    Ok(columns)
}

/// The names of the tables of a query: what stands behind these are columns.
struct Known(HashSet<String>);

impl Known {
    fn of(body: &Body) -> Self {
        let name = |factor: &TableFactor| match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.value.clone()),
            TableFactor::Table { name, .. } => Some(name.0.last()?.as_ident()?.value.clone()),
            _ => None,
        };
        let names = factors(&body.from).into_iter().filter_map(name);
        Self(names.map(|name| name.to_lowercase()).collect())
    }

    /// The call that an expression is.
    fn call(&self, expr: &Expr) -> Option<SequenceCall> {
        let call = sequence_call(expr)?;
        let is_column = matches!(expr, Expr::CompoundIdentifier(_))
            && self.0.contains(&call.sequence.table.to_lowercase());
        (!is_column).then_some(call)
    }

    fn is_in(&self, expr: &Expr) -> bool {
        visit_expressions(expr, |part| match self.call(part) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        })
        .is_break()
    }

    fn in_any(&self, items: &[SelectItem]) -> bool {
        items.iter().filter_map(expr_of).any(|expr| self.is_in(expr))
    }
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn refused(what: &str) -> freshet_base::Error {
    err!(
        NotSupported,
        "This version of Freshet doesn't yet support 'NEXTVAL {what} of a query that reads \
         tables': select it as a column of its own, in a UNION at one place of all its SELECTs"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Statement, parse};
    use crate::session::SqlMode;

    fn query(sql: &str) -> Select {
        match parse(sql, SqlMode::default()).unwrap().remove(0).statement {
            Statement::Query(query) | Statement::SideEffects(query) => query,
            other => panic!("{other:?} is no query"),
        }
    }

    #[test]
    fn numbers_stand_in_place_of_sequences() {
        let sql = "SELECT s.nextval, a.*, NEXTVAL(d.s) AS n FROM a WHERE a.b > 1";
        let taking = taken(&query(sql)).unwrap().unwrap();
        assert_eq!(
            taking.query.to_string(),
            "SELECT 0 AS `s.nextval`, a.*, 0 AS n FROM a WHERE a.b > 1"
        );
        let places = taking.columns.iter().map(|column| column.place).collect::<Vec<_>>();
        assert_eq!(places, [Place::FromStart(0), Place::FromEnd(0)]);
        assert!(taking.columns.iter().all(|one| one.call.action == Action::NextValue));
    }

    #[test]
    fn rows_with_values_are_distinct() {
        for (sql, wanted) in [
            ("SELECT DISTINCT s.nextval, a FROM t", "SELECT 0 AS `s.nextval`, a FROM t"),
            ("SELECT DISTINCT s.currval, a FROM t", "SELECT DISTINCT 0 AS `s.currval`, a FROM t"),
            (
                "SELECT a, s.nextval AS n FROM t UNION SELECT 1, s.nextval",
                "SELECT a, 0 AS n FROM t UNION ALL SELECT 1, 0 AS `s.nextval`",
            ),
            (
                "(SELECT s.nextval, a FROM t LIMIT 2) UNION (SELECT s.nextval)",
                "(SELECT 0 AS `s.nextval`, a FROM t LIMIT 2) UNION ALL (SELECT 0 AS `s.nextval`)",
            ),
            ("(SELECT DISTINCT s.nextval)", "(SELECT 0 AS `s.nextval`)"),
        ] {
            let taking = taken(&query(sql)).unwrap().unwrap();
            assert_eq!((taking.query.to_string().as_str(), taking.columns.len()), (wanted, 1));
        }
    }

    #[test]
    fn columns_of_tables_are_no_sequences() {
        for sql in [
            "SELECT s.nextval FROM s",
            "SELECT x.nextval FROM d.t AS x",
            "SELECT s.currval FROM (SELECT 1 AS currval) AS s",
            "SELECT a FROM t",
            "SELECT s.nextval",
        ] {
            assert_eq!(taken(&query(sql)).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn what_no_row_has_by_itself_is_refused() {
        for sql in [
            "SELECT s.nextval + 1 FROM t",
            "SELECT s.nextval, a FROM t UNION ALL SELECT a, s.nextval FROM t",
            "(SELECT s.nextval FROM t) UNION (SELECT a FROM t)",
            "SELECT s.nextval FROM t UNION ALL SELECT r.nextval FROM t",
            "SELECT s.nextval FROM t UNION SELECT a FROM t",
            "SELECT *, s.nextval, t.* FROM t",
        ] {
            assert_eq!(taken(&query(sql)).unwrap_err().code().errno(), 1235, "{sql}");
        }
    }
}
