//! What a statement looks at to find and change rows: columns of its table, and keys.

use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr, JoinConstraint, JoinOperator, Value, Visit};

use super::{Change, ChangeKind};
use crate::syntax::Scalar;
use crate::visit::{visit_expressions, visit_relations};

/// Columns of the table that a statement changes.
pub trait Columns {
    fn is_column(&self, name: &str) -> bool;
    /// Whether a key begins with the column.
    fn begins_key(&self, name: &str) -> bool;
}

/// What a statement reads of the table that it changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reads {
    /// These columns of the rows that it changes.
    Columns(Vec<String>),
    /// The table, in a join or a subquery.
    Table,
}

impl Change {
    /// What it reads of the table that it changes.
    pub fn reads(&self, columns: &impl Columns) -> Reads {
        let of_order = self.rows.order.iter().map(|by| &by.expr);
        let set = match &self.kind {
            ChangeKind::Update { set } => set.as_slice(),
            ChangeKind::Delete | ChangeKind::Lock { .. } => &[],
        };
        let values = set.iter().filter_map(|(_, value)| value.as_ref()).map(|value| &value.0);
        let exprs = self.rows.selection.iter().chain(of_order).chain(values).collect::<Vec<_>>();
        if self.rows.with.is_some()
            || self.names_several()
            || exprs.iter().any(|expr| self.is_read_by(*expr))
        {
            return Reads::Table;
        }
        let mut read = Vec::new();
        for expr in exprs {
            let _ = visit_expressions(expr, |expr| {
                let name = self.column_of(expr).filter(|name| columns.is_column(name));
                read.extend(name.map(str::to_owned));
                ControlFlow::<()>::Continue(())
            });
        }
        Reads::Columns(read)
    }

    /// Whether a subquery of it reads a table that `is_it`.
    pub fn has_subquery_of(&self, is_it: impl Fn(Option<&str>, &str) -> bool) -> bool {
        let mut of_set: &[(String, Option<Scalar>)] = &[];
        if let ChangeKind::Update { set } = &self.kind {
            of_set = set;
        }
        let values = of_set.iter().filter_map(|(_, value)| value.as_ref()).map(|value| &value.0);
        let of_order = self.rows.order.iter().map(|by| &by.expr);
        let mut exprs = self.rows.selection.iter().chain(of_order).chain(values);
        exprs.any(|expr| {
            let found = visit_relations(expr, |relation| {
                let mut parts = relation.0.iter().rev().filter_map(|part| part.as_ident());
                let table = parts.next().map_or("", |name| name.value.as_str());
                match is_it(parts.next().map(|name| name.value.as_str()), table) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            found.is_break()
        })
    }

    /// Whether an expression has a column of the table, or the table in a subquery.
    fn names(&self, expr: &Expr, columns: &impl Columns) -> bool {
        let found = visit_expressions(expr, |expr| match self.column_of(expr) {
            Some(name) if columns.is_column(name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break() || self.is_read_by(expr)
    }

    fn is_read_by(&self, expr: &impl Visit) -> bool {
        let found = visit_relations(expr, |relation| {
            let last = relation.0.last().and_then(|part| part.as_ident());
            match last.is_some_and(|name| name.value.eq_ignore_ascii_case(&self.target.table)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        found.is_break()
    }

    /// The name of a column that may be one of the table.
    fn column_of<'a>(&self, expr: &'a Expr) -> Option<&'a str> {
        match expr {
            Expr::Identifier(name) => Some(&name.value),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, column] if table.value.eq_ignore_ascii_case(&self.name) => {
                    Some(&column.value)
                }
                // A field of a column, or a column of another table.
                [table, column, _] if table.value.eq_ignore_ascii_case(&self.name) => {
                    Some(&column.value)
                }
                [column, ..] => Some(&column.value),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a key, a LIMIT, or a condition that is never true says which rows it is of, as
    /// `sql_safe_updates` wants.
    pub fn is_narrow(&self, columns: &impl Columns) -> bool {
        let joins = self.rows.from.iter().flat_map(|table| &table.joins);
        let on = joins.filter_map(|join| match &join.join_operator {
            JoinOperator::Join(JoinConstraint::On(on))
            | JoinOperator::Inner(JoinConstraint::On(on)) => Some(on),
            _ => None,
        });
        let mut conditions = self.rows.selection.iter().chain(on);
        self.is_limited() || conditions.any(|condition| self.narrows(condition, columns))
    }

    fn narrows(&self, condition: &Expr, columns: &impl Columns) -> bool {
        let key = |expr: &Expr| {
            let name = self.column_of(unwrapped(expr));
            name.is_some_and(|name| columns.begins_key(name))
        };
        let free = |expr: &Expr| !self.names(expr, columns);
        match condition {
            Expr::Nested(inner) => self.narrows(inner, columns),
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And => self.narrows(left, columns) || self.narrows(right, columns),
                BinaryOperator::Or => self.narrows(left, columns) && self.narrows(right, columns),
                BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
                | BinaryOperator::Spaceship => key(left) && free(right) || key(right) && free(left),
                _ => false,
            },
            Expr::Between { expr, low, high, .. } => key(expr) && free(low) && free(high),
            Expr::InList { expr, list, .. } => key(expr) && list.iter().all(free),
            Expr::IsNull(expr) | Expr::IsNotNull(expr) => key(expr),
            Expr::Like { negated: false, expr, pattern, .. } => key(expr) && begins(pattern),
            Expr::Value(value) => match &value.value {
                Value::Null | Value::Boolean(false) => true,
                Value::Number(digits, _) => *digits == "0",
                _ => false,
            },
            _ => false,
        }
    }
}

fn unwrapped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unwrapped(inner),
        other => other,
    }
}

/// Whether a pattern of LIKE says how texts begin.
fn begins(pattern: &Expr) -> bool {
    let Expr::Value(value) = unwrapped(pattern) else { return false };
    let text = value.value.clone().into_string();
    text.is_some_and(|text| !text.starts_with(['%', '_']))
}
