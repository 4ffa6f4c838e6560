//! Writing through views (RFC 0058): what a view selects of the one table behind it, and how a
//! statement that writes through it finds the rows of that table.
//!
//! The statement reads the view as any query does, so with the same rights. Columns of the table
//! that it needs beside those of the view, such as the key, stand behind these under names that
//! begin with [`BELOW`].
//!
//! Where a view joins tables, a statement writes to the columns of one of them. Its rows are those
//! that the join pairs, each of them once.

use std::ops::ControlFlow;
use std::sync::Arc;

use freshet_base::{ColumnId, Error, Result, bail, err};
use freshet_meta::{Account, View};
use freshet_schema::{ROW_ID, TableSchema};
use sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor};

use crate::joined::{self, ROW, table_of};
use crate::snapshot::PARTITION_MARK;
use crate::syntax::{Scalar, TableName};
use crate::views::hidden;
use crate::visit::visit_expressions;

/// Begins the names under which a view shows columns of its table to a statement that writes
/// through it; stands for a partition before those that are wanted, with the places in FROM that
/// lead to the table.
pub const BELOW: &str = "\u{4}";

/// Stand for [`ROW`] and [`joined::MARK`], which separate names of partitions.
const STANDINS: [(&str, &str); 2] = [(ROW, ""), (joined::MARK, "\u{2}")];

/// The parts of a condition that CHECK OPTION asks of each row; columns of views inside stand for
/// expressions, so that a few short views could make a very long one.
pub(crate) const PARTS_MAX: usize = 1000;

/// A view that a statement writes through, and the table behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct Through {
    /// From the outside in, with their databases.
    pub views: Vec<(String, Arc<View>)>,
    /// Of each view, the place in its FROM of what leads to the table.
    pub(crate) path: Vec<usize>,
    /// Whether one of the views joins tables.
    pub is_joined: bool,
    /// The database of the table.
    pub database: String,
    pub table: String,
    /// The columns of the outermost view.
    pub(crate) columns: Vec<(String, Shown)>,
    /// What CHECK OPTION asks of rows, in columns of the table.
    pub(crate) check: Check,
}

/// What a column of a view is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Shown {
    /// A column of the table.
    Column(String),
    /// A column of another table that is joined.
    Beside,
    Expression,
}

impl Shown {
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Column(name) => Some(name),
            Self::Beside | Self::Expression => None,
        }
    }
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

    /// The column of the table that a column of the view is; `None` for an expression, for a
    /// column of another table, and where the view has no such column.
    pub fn below(&self, name: &str) -> Option<&str> {
        let found = self.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, shown)| shown.column())
    }

    /// As [`Self::below`], for a column that gets a value.
    ///
    /// # Errors
    /// 1054, 1348 and 1393.
    pub fn assigned(&self, name: &str) -> Result<&str> {
        match self.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, Shown::Column(below))) => Ok(below),
            Some((_, Shown::Expression)) => {
                bail!(NonUpdatableColumn, "Column '{name}' is not updatable")
            }
            Some((_, Shown::Beside)) => {
                let (database, view) = &self.views[0];
                Err(several_tables(database, &view.name))
            }
            None => bail!(UnknownColumn, "Unknown column '{name}' in 'field list'"),
        }
    }

    /// Whether each column is one of a table, and those of the table that is written to are each
    /// another one.
    pub fn takes_rows(&self) -> bool {
        let shown = |at: usize| &self.columns[at].1;
        let is_own = |at: usize| (0..at).all(|before| shown(before) != shown(at));
        (0..self.columns.len()).all(|at| match shown(at) {
            Shown::Column(_) => is_own(at),
            Shown::Beside => true,
            Shown::Expression => false,
        })
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
                "WITH CHECK OPTION of view '{}' is not supported: its condition has a subquery or \
                 is of several tables, and so is not of one row, or it has more than {PARTS_MAX} \
                 parts",
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

/// 1393.
pub fn several_tables(database: &str, view: &str) -> Error {
    err!(
        JoinViewTables,
        "Can not modify more than one base table through a join view '{database}.{view}'"
    )
}

/// What a view shows of the table behind it, to a statement that writes through it.
#[derive(PartialEq, Debug)]
pub(crate) struct Below<'a> {
    /// The places in FROM that lead to the table, of the view and of those inside.
    pub path: Vec<usize>,
    /// Columns of the table.
    pub names: Vec<&'a str>,
}

impl Below<'_> {
    /// Lets the view that stands here show it.
    pub fn shown_by(&self, factor: &mut TableFactor) {
        let TableFactor::Table { partitions, .. } = factor else { return };
        assert!(partitions.is_empty(), "a view has no partitions");
        let places = self.path.iter().map(usize::to_string).collect::<Vec<_>>().join(".");
        let names = self.names.iter().map(|name| {
            let standin = STANDINS.iter().find(|(known, _)| known == name);
            standin.map_or(*name, |(_, standin)| *standin).to_owned()
        });
        let names = [format!("{BELOW}{places}")].into_iter().chain(names);
        *partitions = names.map(|name| Ident::with_quote('`', name)).collect();
    }
}

/// The name of what stands in FROM, and what it shows of its table, if it is a view that a
/// statement writes through.
pub(crate) fn shown(full_name: &str) -> (&str, Option<Below<'_>>) {
    let mut names = full_name.split(PARTITION_MARK);
    let name = names.next().unwrap_or_default();
    match names.next().and_then(|first| first.strip_prefix(BELOW)) {
        Some(places) => {
            let path = places.split('.').filter_map(|place| place.parse().ok()).collect();
            let names = names.map(|name| {
                let standin = STANDINS.iter().find(|(_, standin)| *standin == name);
                standin.map_or(name, |(known, _)| *known)
            });
            (name, Some(Below { path, names: names.collect() }))
        }
        None => (full_name, None),
    }
}

/// Whether what stands in FROM is a view that a statement writes through.
pub fn is_written_through(full_name: &str) -> bool {
    shown(full_name).1.is_some()
}

/// The name under which a view shows a column of its table.
pub(crate) fn name_below(name: &str) -> String {
    format!("{BELOW}{}", name.to_lowercase())
}

/// Adds columns of its table to the query of a view; `is_view` says whether what leads to the
/// table is a view, too.
///
/// # Errors
/// 1288 when the view does not read a table there.
pub(crate) fn show(query: &mut Query, below: &Below<'_>, is_view: bool) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else { return Err(fixed()) };
    let Some((&place, inner)) = below.path.split_first() else { return Err(fixed()) };
    let Some((_, alias)) = factor_at(select, place).and_then(table_of) else {
        return Err(fixed());
    };
    for name in &below.names {
        let shown = name_below(name);
        let column = if is_view { shown.as_str() } else { *name };
        let parts = [&*alias, column].map(|part| Ident::with_quote('`', part));
        let expr = Expr::CompoundIdentifier(parts.to_vec());
        let alias = Ident::with_quote('`', shown);
        select.projection.push(SelectItem::ExprWithAlias { expr, alias });
    }
    let inner = Below { path: inner.to_vec(), names: below.names.clone() };
    joined::on_place(&mut select.from, place, |relation| {
        if is_view {
            inner.shown_by(relation);
            return;
        }
        if inner.names.contains(&ROW) {
            joined::given(relation);
        } else if inner.names.contains(&ROW_ID) {
            joined::with_row_id(relation);
        }
        if inner.names.contains(&joined::MARK) {
            joined::mark(relation);
        }
    });
    Ok(())
}

/// What stands at this place of FROM, if it is read as a whole.
fn factor_at(select: &Select, place: usize) -> Option<&TableFactor> {
    let factor = joined::factors(&select.from).into_iter().nth(place);
    factor.filter(|factor| match factor {
        TableFactor::Table { partitions, .. } => partitions.is_empty(),
        _ => false,
    })
}

/// The table or view that the query of a view reads at this place of its FROM, if it is one.
pub(crate) fn source(query: &Query, place: usize) -> Option<TableName> {
    let SetExpr::Select(select) = &*query.body else { return None };
    factor_at(select, place).and_then(table_of).map(|(table, _)| table)
}

fn fixed() -> Error {
    err!(NonUpdatableTable, "The target table of the statement is not updatable")
}
