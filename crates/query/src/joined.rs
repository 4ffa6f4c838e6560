//! The tables of a FROM clause, nested joins included.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinOperator, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value, VisitMut,
};

use crate::snapshot::HIDDEN_MARK;
use crate::syntax::{TableName, select_of};
use crate::visit::visit_expressions_mut;

/// The name of the column with the number of a row among those that are computed from.
pub const ROW: &str = "\u{1}row";

/// The name of a column that has a value in each row of a table; no user column is named like this.
pub const MARK: &str = "\u{1}mark";

/// A named table, and the name by which expressions refer to it.
pub fn table_of(factor: &TableFactor) -> Option<(TableName, String)> {
    let TableFactor::Table { name, alias, .. } = factor else { return None };
    let mut parts = name.0.iter().filter_map(|part| part.as_ident()).map(|id| id.value.clone());
    let mut table = TableName { database: None, table: parts.next()? };
    if let Some(second) = parts.next() {
        table.database = Some(std::mem::replace(&mut table.table, second));
    }
    let name = alias.as_ref().map_or_else(|| table.table.clone(), |alias| alias.name.value.clone());
    Some((table, name))
}

/// All tables, derived tables and functions, from left to right.
pub fn factors(from: &[TableWithJoins]) -> Vec<&TableFactor> {
    let mut found = Vec::new();
    for table in from {
        let joined = table.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&table.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    found.extend(factors(std::slice::from_ref(table_with_joins)));
                }
                other => found.push(other),
            }
        }
    }
    found
}

/// Whether a join keeps rows that have no partner.
pub fn is_outer(from: &[TableWithJoins]) -> bool {
    from.iter().any(|table| {
        let nested = |factor: &TableFactor| match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                is_outer(std::slice::from_ref(table_with_joins))
            }
            _ => false,
        };
        nested(&table.relation)
            || table.joins.iter().any(|join| {
                let keeps = matches!(
                    join.join_operator,
                    JoinOperator::Left(_)
                        | JoinOperator::LeftOuter(_)
                        | JoinOperator::Right(_)
                        | JoinOperator::RightOuter(_)
                        | JoinOperator::FullOuter(_)
                );
                keeps || nested(&join.relation)
            })
    })
}

/// Changes the table that has this name, as it is written there: others may differ by case.
pub fn on_table(from: &mut [TableWithJoins], name: &str, change: impl Fn(&mut TableFactor)) {
    on_each(from, &mut |factor| {
        if is_named(factor, name) {
            change(factor);
        }
    });
}

/// Changes what has this place among [`factors`].
pub fn on_place(from: &mut [TableWithJoins], place: usize, change: impl Fn(&mut TableFactor)) {
    let mut at = 0;
    on_each(from, &mut |factor| {
        if at == place {
            change(factor);
        }
        at += 1;
    });
}

/// Gives tables of one name from several databases aliases; all of that name, with theirs.
pub fn apart(from: &mut [TableWithJoins]) -> Vec<(TableName, String)> {
    let names = factors(from).into_iter().filter_map(table_of).map(|(_, name)| name);
    let names = names.collect::<Vec<_>>();
    let is_twice =
        |name: &str| names.iter().filter(|other| other.eq_ignore_ascii_case(name)).count() > 1;
    let mut apart = Vec::new();
    on_each(from, &mut |factor| {
        let Some((table, mut name)) = table_of(factor) else { return };
        let TableFactor::Table { alias: alias @ None, .. } = factor else { return };
        if !is_twice(&name) {
            return;
        }
        if let Some(database) = &table.database {
            name = format!("{database}.{}", table.table);
            let ident = Ident::with_quote('`', &name);
            *alias = Some(TableAlias { explicit: true, name: ident, columns: vec![], at: None });
        }
        apart.push((table, name));
    });
    apart
}

/// Makes names with a database those of [`apart`]. Returns the database of a name that can only be
/// of a table whose own is not said.
pub fn named_apart(apart: &[(TableName, String)], exprs: &mut impl VisitMut) -> Option<String> {
    let mut current = None;
    let _ = visit_expressions_mut(exprs, |expr| {
        let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::<()>::Continue(()) };
        let [database, table, column] = &parts[..] else { return ControlFlow::Continue(()) };
        let of = |database: Option<&String>| {
            apart.iter().find(|(known, _)| {
                known.database.as_ref() == database
                    && known.table.eq_ignore_ascii_case(&table.value)
            })
        };
        let found = of(Some(&database.value)).or_else(|| of(None));
        if let Some((known, alias)) = found {
            if known.database.is_none() {
                current = Some(database.value.clone());
            }
            *parts = vec![Ident::with_quote('`', alias), column.clone()];
        }
        ControlFlow::Continue(())
    });
    current
}

fn on_each(from: &mut [TableWithJoins], change: &mut dyn FnMut(&mut TableFactor)) {
    for table in from {
        let joined = table.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut table.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    on_each(std::slice::from_mut(table_with_joins), change);
                }
                other => change(other),
            }
        }
    }
}

fn is_named(factor: &TableFactor, name: &str) -> bool {
    table_of(factor).is_some_and(|(_, known)| known == name)
}

/// Makes it the rows that are given in place of those of the table: they are of the partitions that
/// were named. A partition without a name stands for them.
pub fn given(factor: &mut TableFactor) {
    if let TableFactor::Table { partitions, .. } = factor {
        *partitions = vec![Ident::with_quote('`', "")];
    }
}

/// Shows the hidden column that names its rows, too. Partitions that are named stay so.
pub fn with_row_id(factor: &mut TableFactor) {
    if let TableFactor::Table { partitions, .. } = factor {
        partitions.push(Ident::with_quote('`', HIDDEN_MARK));
    }
}

/// Adds the column [`MARK`].
pub fn mark(factor: &mut TableFactor) {
    let Some((_, name)) = table_of(factor) else { return };
    let mut query = select_of(Vec::new());
    if let SetExpr::Select(select) = &mut *query.body {
        let alias = Ident::with_quote('`', MARK);
        let expr = Expr::Value(Value::Number("1".into(), false).into());
        select.projection = vec![
            SelectItem::Wildcard(Default::default()),
            SelectItem::ExprWithAlias { expr, alias },
        ];
        select.from = vec![TableWithJoins { relation: factor.clone(), joins: Vec::new() }];
    }
    let name = Ident::with_quote('`', name);
    *factor = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None }),
        sample: None,
    };
}

/// A condition and, if there is one before, that one.
pub fn and(before: Option<Expr>, condition: Expr) -> Expr {
    let nested = |expr| Box::new(Expr::Nested(Box::new(expr)));
    match before {
        None => condition,
        Some(before) => Expr::BinaryOp {
            left: nested(before),
            op: BinaryOperator::And,
            right: nested(condition),
        },
    }
}
