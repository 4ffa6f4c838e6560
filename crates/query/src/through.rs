//! Writing through views (RFC 0058): what a view selects of the one table behind it, and how a
//! statement that writes through it finds the rows of that table.
//!
//! The statement reads the view as any query does, so with the same rights. Columns of the table
//! that it needs beside those of the view, such as the key, stand behind these under names that
//! begin with [`BELOW`].

use std::ops::ControlFlow;
use std::sync::Arc;

use freshet_base::{ColumnId, Error, Result, bail, err};
use freshet_meta::{Account, View};
use freshet_schema::{ROW_ID, TableSchema};
use sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, TableFactor, TableWithJoins, visit_expressions,
};

use crate::joined::{self, ROW, table_of};
use crate::snapshot::PARTITION_MARK;
use crate::syntax::Scalar;
use crate::views::hidden;

/// Begins the names under which a view shows columns of its table to a statement that writes
/// through it; stands for a partition before those that are wanted.
pub const BELOW: &str = "\u{4}";

/// The parts of a condition that CHECK OPTION asks of each row; columns of views inside stand for
/// expressions, so that a few short views could make a very long one.
pub(crate) const PARTS_MAX: usize = 1000;

/// A view that a statement writes through, and the table behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct Through {
    /// From the outside in, with their databases.
    pub views: Vec<(String, Arc<View>)>,
    /// The database of the table.
    pub database: String,
    pub table: String,
    /// The columns of the outermost view, with those of the table; `None` for an expression.
    pub(crate) columns: Vec<(String, Option<String>)>,
    /// What CHECK OPTION asks of rows, in columns of the table.
    pub(crate) check: Check,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Check {
    Nothing,
    Holds(Box<Expr>),
    /// A condition that is not of one row alone.
    Unknown,
}

impl Through {
    /// The names of the columns of the view.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// The column of the table that a column of the view is; `None` for an expression, and where
    /// the view has no such column.
    pub fn below(&self, name: &str) -> Option<&str> {
        let found = self.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, below)| below.as_deref())
    }

    /// As [`Self::below`], for a column that gets a value.
    ///
    /// # Errors
    /// 1054 and 1348.
    pub fn assigned(&self, name: &str) -> Result<&str> {
        match self.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, Some(below))) => Ok(below),
            Some((_, None)) => {
                bail!(NonUpdatableColumn, "Column '{name}' is not updatable")
            }
            None => bail!(UnknownColumn, "Unknown column '{name}' in 'field list'"),
        }
    }

    /// Whether each column is one of the table, and of no other column.
    pub fn takes_rows(&self) -> bool {
        let below = |at: usize| self.columns[at].1.as_ref();
        let is_own = |at: usize| (0..at).all(|before| below(before) != below(at));
        (0..self.columns.len()).all(|at| below(at).is_some() && is_own(at))
    }

    /// Whose rights the inner views and, last, the table are used with; `None` for those of the
    /// session.
    pub fn uses(&self) -> impl Iterator<Item = (Option<&Account>, &str, &str)> {
        let inner = self.views[1..].iter().map(|(home, view)| (home.as_str(), view.name.as_str()));
        let used = inner.chain([(self.database.as_str(), self.table.as_str())]);
        self.readers().zip(used).map(|(reader, (database, name))| (reader, database, name))
    }

    /// Whose rights the table is used with; `None` for those of the session.
    pub fn reader(&self) -> Option<&Account> {
        self.readers().last().flatten()
    }

    /// With whose rights the query of each view reads.
    fn readers(&self) -> impl Iterator<Item = Option<&Account>> {
        self.views.iter().scan(None, |reader, (_, view)| {
            *reader = if view.invoker { *reader } else { Some(&view.definer) };
            Some(*reader)
        })
    }

    /// What is told of an error about what is behind the view.
    pub fn hidden(&self, error: Error) -> Error {
        let (database, view) = &self.views[0];
        hidden(error, database, view)
    }

    /// What a row has to satisfy, with the columns of the table that it names; `None` for nothing.
    ///
    /// # Errors
    /// `NotSupported` for a condition that is not of one row.
    pub fn check(&self, schema: &TableSchema) -> Result<Option<(Scalar, Vec<ColumnId>)>> {
        let condition = match &self.check {
            Check::Nothing => return Ok(None),
            Check::Holds(condition) => Expr::clone(condition),
            Check::Unknown => bail!(
                NotSupported,
                "WITH CHECK OPTION of view '{}' is not supported: its condition has a subquery, \
                 and so is not of one row, or it has more than {PARTS_MAX} parts",
                self.views[0].1.name
            ),
        };
        let mut columns = Vec::new();
        let _ = visit_expressions(&condition, |expr| {
            if let Expr::Identifier(name) = expr
                && let Some(at) = schema.position(&name.value)
                && !columns.contains(&schema.columns[at].id)
            {
                columns.push(schema.columns[at].id);
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(Some((Scalar(condition), columns)))
    }
}

/// Lets the view that stands here show these columns of its table, too. The name of [`ROW`], which
/// separates names of partitions, is left empty.
pub(crate) fn showing(factor: &mut TableFactor, names: &[&str]) {
    if let TableFactor::Table { partitions, .. } = factor {
        assert!(partitions.is_empty(), "a view has no partitions");
        let names = names.iter().map(|name| if *name == ROW { "" } else { *name });
        let names = [BELOW].into_iter().chain(names);
        *partitions = names.map(|name| Ident::with_quote('`', name)).collect();
    }
}

/// The name of what stands in FROM, and the columns that it shows of its table, if it is a view
/// that a statement writes through.
pub(crate) fn shown(full_name: &str) -> (&str, Option<Vec<&str>>) {
    let mut names = full_name.split(PARTITION_MARK);
    let name = names.next().unwrap_or_default();
    match names.next() {
        Some(BELOW) => {
            let names = names.map(|name| if name.is_empty() { ROW } else { name });
            (name, Some(names.collect()))
        }
        _ => (full_name, None),
    }
}

/// Whether what stands in FROM is a view that a statement writes through.
pub fn is_written_through(full_name: &str) -> bool {
    shown(full_name).1.is_some()
}

/// Adds columns of its table to the query of a view; `is_view` says whether that is a view, too.
///
/// # Errors
/// 1288 when the view is not of one table.
pub(crate) fn show(query: &mut Query, names: &[&str], is_view: bool) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else { return Err(fixed()) };
    let [TableWithJoins { relation, joins }] = &mut select.from[..] else { return Err(fixed()) };
    let is_whole = joins.is_empty()
        && matches!(relation, TableFactor::Table { partitions, .. } if partitions.is_empty());
    let Some((_, alias)) = table_of(relation).filter(|_| is_whole) else { return Err(fixed()) };
    for name in names {
        let shown = format!("{BELOW}{}", name.to_lowercase());
        let column = if is_view { shown.as_str() } else { *name };
        let parts = [&*alias, column].map(|part| Ident::with_quote('`', part));
        let expr = Expr::CompoundIdentifier(parts.to_vec());
        let alias = Ident::with_quote('`', shown);
        select.projection.push(SelectItem::ExprWithAlias { expr, alias });
    }
    if is_view {
        showing(relation, names);
    } else if names.contains(&ROW) {
        joined::given(relation);
    } else if names.contains(&ROW_ID) {
        joined::with_row_id(relation);
    }
    Ok(())
}

/// The table or view that the query of a view reads, if it is one.
pub(crate) fn source(query: &Query) -> Option<(Option<&str>, &str)> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let [TableWithJoins { relation: TableFactor::Table { name, .. }, .. }] = &select.from[..]
    else {
        return None;
    };
    let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident());
    let table = parts.next()?;
    Some((parts.next().map(|database| database.value.as_str()), table.value.as_str()))
}

fn fixed() -> Error {
    err!(NonUpdatableTable, "The target table of the statement is not updatable")
}
