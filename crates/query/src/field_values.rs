//! The SET clause of LOAD DATA, as a query over the fields of rows: they stand in place of the
//! table, and the user variables among them are columns.

use std::ops::ControlFlow;

use freshet_base::{Result, bail};
use sqlparser::ast::{Expr, Ident};

use crate::change::{Assignments, in_order, over_rows, over_rows_through};
use crate::syntax::{Scalar, Select, TableName};
use crate::through::Through;
use crate::visit::{visit_expressions_mut, visit_relations};

/// Stands before the name of a column that has the fields of a user variable.
pub const VARIABLE: &str = "\u{1}@";

/// What SET assigns, with columns in place of the `variables` that fields are read into.
///
/// # Errors
/// As [`in_order`].
pub fn over_variables(set: &Assignments, variables: &[&str]) -> Result<Assignments> {
    let mut set = set.clone();
    for value in set.iter_mut().filter_map(|(_, value)| value.as_mut()) {
        let _ = visit_expressions_mut(&mut value.0, |expr| {
            if let Expr::Identifier(name) = expr
                && let Some(variable) = name.value.strip_prefix('@')
                && variables.iter().any(|known| known.eq_ignore_ascii_case(variable))
            {
                *name = column(&format!("{VARIABLE}{}", variable.to_lowercase()));
            }
            ControlFlow::<()>::Continue(())
        });
    }
    in_order(&set, None)
}

/// The query of the row's number, of these columns and of these values; of rows of the table, or of
/// those that stand in place of the table behind a view.
///
/// # Errors
/// 1093 when a value reads the table itself.
pub fn over_fields(
    (table, view): (&TableName, Option<&Through>),
    columns: &[&str],
    values: &[&Scalar],
) -> Result<Select> {
    let columns = columns.iter().map(|name| Scalar(Expr::Identifier(column(name))));
    let values = values.iter().map(|value| (*value).clone());
    let exprs = columns.chain(values).collect::<Vec<_>>();
    let query = match view {
        None => over_rows(table, &exprs),
        Some(view) => over_rows_through(view, table, &exprs),
    };
    let is_it = |name: &str| name == table.table || view.is_some_and(|view| view.table == name);
    let mut times = 0;
    let _ = visit_relations(&*query.0, |relation| {
        let last = relation.0.last().and_then(|part| part.as_ident());
        times += usize::from(last.is_some_and(|name| is_it(&name.value)));
        ControlFlow::<()>::Continue(())
    });
    if times > 1 {
        bail!(
            ChangesWhatItReads,
            "Table '{}' is specified twice, both as a target for 'LOAD DATA' and as a separate \
             source for data",
            table.table
        );
    }
    Ok(query)
}

fn column(name: &str) -> Ident {
    Ident::with_quote('`', name)
}
