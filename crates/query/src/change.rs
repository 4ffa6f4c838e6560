//! Statements that change rows, as the queries by which they find and compute them.
//!
//! A change finds the keys of its rows first ([`Change::candidates`]). Once these are locked, it
//! computes new values over their current rows ([`Change::computed`]), which stand in place of the
//! table and have [`ROW`] as one more column.

mod locking;
mod looks;
mod order;

use std::ops::ControlFlow;
use std::sync::Arc;

use freshet_base::{Error, Result, bail, err};
use freshet_schema::ROW_ID;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LimitClause, ObjectNamePart,
    OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value, With,
};

pub use locking::Locking;
pub use looks::{Columns, Reads};
pub use order::in_order;

use crate::assign::variables_assigned;
use crate::joined::{self, table_of};
use crate::self_reads;
use crate::snapshot::temporary_names;
use crate::syntax::{Scalar, Select, TableName, select_of, table_factor};
use crate::through::{BELOW, Below, Through};
use crate::visit::{visit_expressions, visit_expressions_mut};

pub use crate::error::NEW;
pub use crate::joined::ROW;

/// Stands before the place of a column of that row, in place of its name.
const PLACE: &str = "\u{1}at.";

/// Columns in the order of the statement, with what each of them gets; `None` for DEFAULT.
pub type Assignments = Vec<(String, Option<Scalar>)>;

/// UPDATE or DELETE.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    pub kind: ChangeKind,
    /// The table that is changed.
    pub target: TableName,
    /// The name by which expressions refer to it.
    pub name: String,
    /// IGNORE.
    pub ignores: bool,
    /// The view that it changes its table through, where the target is one.
    pub view: Option<Arc<Through>>,
    /// The tables that the statement changes beside it.
    pub(crate) beside: Vec<TableName>,
    pub(crate) rows: Rows,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ChangeKind {
    Update {
        set: Assignments,
    },
    Delete,
    /// SELECT .. FOR UPDATE or FOR SHARE, which locks and changes nothing.
    Lock {
        wait: LockWait,
        /// All that it has is FOR SHARE, so that it takes no right but to read.
        is_shared: bool,
    },
}

/// What SELECT .. FOR UPDATE does about rows that others hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWait {
    /// It waits for them.
    Wait,
    /// NOWAIT: it fails.
    Fail,
    /// SKIP LOCKED: it leaves them out.
    Skip,
}

/// Which rows.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Rows {
    pub with: Option<With>,
    pub from: Vec<TableWithJoins>,
    pub selection: Option<Expr>,
    pub order: Vec<OrderByExpr>,
    pub limit: Option<Expr>,
}

impl Change {
    /// The same, whose target is this view.
    #[must_use]
    pub fn through(&self, view: Arc<Through>) -> Self {
        let mut change = Self { view: Some(Arc::clone(&view)), ..self.clone() };
        change.changes_beside(&view);
        change
    }

    /// Notes that the statement changes the table behind this view, too.
    pub fn changes_beside(&mut self, view: &Through) {
        let table = view.table.clone();
        self.beside.push(TableName { database: Some(view.database.clone()), table });
    }

    /// Whether it is behind a WITH.
    pub fn has_with(&self) -> bool {
        self.rows.with.is_some()
    }

    /// How many rows it is of at most; `None` without LIMIT.
    ///
    /// # Errors
    /// `NotSupported` for a LIMIT that is no number, as a parameter is.
    pub fn limit(&self) -> Result<Option<u64>> {
        let Some(limit) = &self.rows.limit else { return Ok(None) };
        let number = match limit {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => digits.to_string().parse().ok(),
                _ => None,
            },
            _ => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => bail!(NotSupported, "SKIP LOCKED takes a LIMIT that is a number, not {limit}"),
        }
    }

    /// The same with another LIMIT.
    #[must_use]
    pub fn with_limit(&self, rows: u64) -> Self {
        let mut change = self.clone();
        change.rows.limit = Some(Expr::Value(Value::Number(rows.to_string(), false).into()));
        change
    }

    /// Whether it is of all rows of one table.
    pub fn is_whole(&self) -> bool {
        let Rows { from, selection, limit, .. } = &self.rows;
        let is_single = matches!(from.as_slice(), [one] if one.joins.is_empty());
        is_single && selection.is_none() && limit.is_none() && !from.iter().any(has_partitions)
    }

    /// The temporary partitions that its rows are in, if they are in such.
    pub fn temporary(&self) -> Option<Vec<String>> {
        let [one] = &self.rows.from[..] else { return None };
        let TableFactor::Table { partitions, .. } = &one.relation else { return None };
        let names = partitions.iter().map(|name| name.value.as_str()).collect::<Vec<_>>();
        let names = temporary_names(&names).filter(|_| one.joins.is_empty())?;
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Whether its rows are found by joining tables, so that a row may be found many times.
    pub fn is_joined(&self) -> bool {
        self.names_several() || self.view.as_ref().is_some_and(|view| view.is_joined)
    }

    /// Whether the statement itself joins tables.
    fn names_several(&self) -> bool {
        single(&self.rows.from).is_none()
    }

    /// Whether it says in which order its rows come.
    pub fn is_ordered(&self) -> bool {
        !self.rows.order.is_empty()
    }

    /// Whether it names partitions of its target.
    pub fn names_partitions(&self) -> bool {
        joined::factors(&self.rows.from).into_iter().any(|factor| {
            let is_target = table_of(factor).is_some_and(|(_, name)| name == self.name);
            is_target
                && matches!(factor, TableFactor::Table { partitions, .. } if !partitions.is_empty())
        })
    }

    /// Whether LIMIT chooses among its rows.
    pub fn is_limited(&self) -> bool {
        self.rows.limit.is_some()
    }

    /// The columns in its WHERE; `None` with a subquery.
    pub fn condition_columns(&self) -> Option<Vec<String>> {
        let mut columns = Vec::new();
        let looked = visit_expressions(&self.rows.selection, |expr| {
            match expr {
                Expr::Identifier(name) => columns.push(name.value.clone()),
                Expr::CompoundIdentifier(parts) => {
                    columns.extend(parts.last().map(|part| part.value.clone()));
                }
                Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => {
                    return ControlFlow::Break(());
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        looked.is_continue().then_some(columns)
    }

    /// The query of the rows to be changed, for EXPLAIN.
    pub fn found(&self) -> Select {
        self.limited(self.query(vec![Expr::Value(Value::Number("1".into(), false).into())]))
    }

    /// The query of the values of these columns in the rows to be changed. `present` is a column
    /// of the table that is never NULL: it is where an outer join has found no row of the table.
    /// The hidden [`ROW_ID`] is seen where the statement names the table that it changes, alone.
    pub fn candidates(&self, columns: &[&str], present: Option<&str>) -> Select {
        let mut query = self.query(columns.iter().map(|column| self.column(column)).collect());
        let present = joined::is_outer(&self.rows.from).then(|| present.unwrap_or(joined::MARK));
        if let Some(view) = &self.view {
            let beside = present.filter(|name| !columns.contains(name));
            self.show(&mut query, view, columns.iter().copied().chain(beside).collect());
        } else {
            if columns.contains(&ROW_ID) {
                joined::on_table(body_of(&mut query), &self.name, joined::with_row_id);
                self.without_database(&mut query);
            }
            if present == Some(joined::MARK) {
                joined::on_table(body_of(&mut query), &self.name, joined::mark);
            }
        }
        if let Some(present) = present {
            self.keep_found(&mut query, present);
        }
        self.limited(query)
    }

    /// Leaves out rows of an outer join that have none of the table.
    fn keep_found(&self, query: &mut Query, present: &str) {
        let found = Expr::IsNotNull(Box::new(self.column(present)));
        if let SetExpr::Select(select) = &mut *query.body {
            select.selection = Some(joined::and(select.selection.take(), found));
        }
    }

    fn order(&self) -> Option<OrderBy> {
        let order = &self.rows.order;
        let kind = || OrderByKind::Expressions(order.clone());
        (!order.is_empty()).then(|| OrderBy { kind: kind(), interpolate: None })
    }

    fn limited(&self, mut query: Query) -> Select {
        query.order_by = self.order();
        query.limit_clause = self.rows.limit.clone().map(|limit| LimitClause::LimitOffset {
            limit: Some(limit),
            offset: None,
            limit_by: Vec::new(),
        });
        Select(Box::new(query))
    }

    /// The query of [`ROW`] and new values over current rows, for those that are still to be
    /// changed. They stand where the statement names the table that it changes, and nowhere else.
    ///
    /// # Errors
    /// 1093 when the statement reads a table that it changes in a subquery.
    pub fn computed(&self, values: &[Scalar]) -> Result<Select> {
        let row = self.column(ROW);
        let values = values.iter().map(|value| value.0.clone());
        let mut query = self.query(std::iter::once(row).chain(values).collect());
        // Variables count the rows in the order of the statement.
        if !variables_assigned(&query).is_empty() {
            query.order_by = self.order();
        }
        // What WITH defines has its rows before any row is changed, as a derived table.
        let with = query.with.take();
        let changed = std::iter::once(&self.target).chain(&self.beside);
        if let Some(read) = self_reads::in_subquery(&query, changed) {
            let name = if *read == self.target { &self.name } else { &read.table };
            bail!(
                ChangesWhatItReads,
                "You can't specify target table '{name}' for update in FROM clause"
            );
        }
        query.with = with;
        match &self.view {
            Some(view) => self.show(&mut query, view, vec![ROW]),
            None => joined::on_table(body_of(&mut query), &self.name, joined::given),
        }
        if joined::is_outer(&self.rows.from) {
            self.keep_found(&mut query, ROW);
        }
        self.without_database(&mut query);
        Ok(Select(Box::new(query)))
    }

    /// Lets the view show these columns of its table.
    fn show(&self, query: &mut Query, view: &Through, names: Vec<&str>) {
        let below = Below { path: view.path.clone(), names };
        joined::on_table(body_of(query), &self.name, |factor| below.shown_by(factor));
        self.without_database(query);
    }

    /// Rows that are given stand under the name of the table alone.
    fn without_database(&self, query: &mut Query) {
        if let Some(database) = &self.target.database {
            stand_alone(query, database, &self.name);
        }
    }

    fn query(&self, exprs: Vec<Expr>) -> Query {
        let mut query = select_of(exprs);
        query.with.clone_from(&self.rows.with);
        if let SetExpr::Select(select) = &mut *query.body {
            select.from.clone_from(&self.rows.from);
            select.selection.clone_from(&self.rows.selection);
        }
        query
    }

    /// A column of the table.
    fn column(&self, name: &str) -> Expr {
        let name = match self.view {
            Some(_) => quoted(&format!("{BELOW}{name}")),
            None => quoted(name),
        };
        Expr::CompoundIdentifier(vec![quoted(&self.name), name])
    }
}

/// Takes the database from names of columns of a table.
fn stand_alone(query: &mut Query, database: &str, table: &str) {
    let _ = visit_expressions_mut(query, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() == 3
            && parts[0].value == database
            && parts[1].value.eq_ignore_ascii_case(table)
        {
            parts.remove(0);
        }
        ControlFlow::<()>::Continue(())
    });
}

fn has_partitions(table: &TableWithJoins) -> bool {
    matches!(&table.relation, TableFactor::Table { partitions, .. } if !partitions.is_empty())
}

/// The tables that a query reads.
fn body_of(query: &mut Query) -> &mut [TableWithJoins] {
    match &mut *query.body {
        SetExpr::Select(select) => &mut select.from,
        _ => &mut [],
    }
}

/// The only table of a query, and the name by which expressions refer to it.
fn single(from: &[TableWithJoins]) -> Option<(TableName, String)> {
    let [one] = from else { return None };
    if !one.joins.is_empty() {
        return None;
    }
    table_of(&one.relation)
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('`', name)
}

/// An expression of ON DUPLICATE KEY UPDATE over rows that also have the columns [`NEW`]:
/// VALUES(c), and columns of the `alias` of the new row or those in `aliased` with what they stand
/// for.
pub(crate) fn new_value(
    mut value: Scalar,
    table: &str,
    alias: Option<&str>,
    aliased: &[(String, String)],
) -> Scalar {
    let new = |column: &str| {
        let name = quoted(&format!("{NEW}{}", column.to_lowercase()));
        Expr::CompoundIdentifier(vec![quoted(table), name])
    };
    let known = |name: &str| {
        let found = aliased.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, column)| column.as_str())
    };
    let _ = visit_expressions_mut(&mut value.0, |expr| {
        let replaced = match &*expr {
            Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("values") => {
                column_of(&call.args).map(|column| new(&column))
            }
            Expr::CompoundIdentifier(parts) => match (alias, parts.as_slice()) {
                (Some(alias), [of, column]) if of.value.eq_ignore_ascii_case(alias) => {
                    Some(new(known(&column.value).unwrap_or(&column.value)))
                }
                _ => None,
            },
            Expr::Identifier(name) => known(&name.value).map(new),
            _ => None,
        };
        if let Some(replaced) = replaced {
            *expr = replaced;
        }
        ControlFlow::<()>::Continue(())
    });
    value
}

/// Stands for the name of a column of the new row that has this place in VALUES.
pub(crate) fn place_of_new(place: usize) -> String {
    format!("{PLACE}{place}")
}

/// The same with the names of columns where those of the new row are said by their place.
///
/// # Errors
/// 1353 where the list of their other names, which has `count`, is longer or shorter.
pub fn by_place(set: &Assignments, count: usize, names: &[&str]) -> Result<Assignments> {
    if names.len() != count {
        return Err(alias_count());
    }
    let named = |value: &Scalar| {
        let mut value = value.clone();
        let _ = visit_expressions_mut(&mut value.0, |expr| {
            if let Expr::CompoundIdentifier(parts) = expr
                && let Some(last) = parts.last_mut()
                && let Some(place) = last.value.strip_prefix(NEW)
                && let Some(place) = place.strip_prefix(PLACE).and_then(|at| at.parse().ok())
                && let Some(name) = names.get::<usize>(place)
            {
                *last = quoted(&format!("{NEW}{}", name.to_lowercase()));
            }
            ControlFlow::<()>::Continue(())
        });
        value
    };
    let one =
        |(column, value): &(String, Option<Scalar>)| (column.clone(), value.as_ref().map(named));
    Ok(set.iter().map(one).collect())
}

/// 1353.
pub(crate) fn alias_count() -> Error {
    err!(
        ViewColumns,
        "In definition of view, derived table or common table expression, SELECT list and column \
         names list have different column counts"
    )
}

/// Whether a value of ON DUPLICATE KEY UPDATE is that of the same column in the new row.
pub fn is_of_new(value: &Scalar, column: &str) -> bool {
    let Expr::CompoundIdentifier(parts) = &value.0 else { return false };
    let name = parts.last().and_then(|part| part.value.strip_prefix(NEW));
    name.is_some_and(|name| name == column.to_lowercase())
}

/// The column in `VALUES(column)`.
fn column_of(arguments: &FunctionArguments) -> Option<String> {
    let FunctionArguments::List(list) = arguments else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => match expr {
            Expr::Identifier(name) => Some(name.value.clone()),
            Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.clone()),
            // An argument was visited before its call.
            _ => None,
        },
        _ => None,
    }
}

/// The query of [`ROW`] and of expressions over rows that stand in place of a table.
pub fn over_rows(table: &TableName, values: &[Scalar]) -> Select {
    let row = Expr::CompoundIdentifier(vec![quoted(&table.table), quoted(ROW)]);
    let values = values.iter().map(|value| value.0.clone());
    let mut query = select_of(std::iter::once(row).chain(values).collect());
    let database = table.database.iter().map(|name| quoted(name));
    let name = database.chain([quoted(&table.table)]).map(ObjectNamePart::Identifier);
    let relation = table_factor(name.collect(), None);
    if let SetExpr::Select(select) = &mut *query.body {
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
    Select(Box::new(query))
}

/// As [`over_rows`], of rows that stand in place of the table behind a view, with the columns of
/// the view, and under its name.
pub fn over_rows_through(through: &Through, view: &TableName, values: &[Scalar]) -> Select {
    let table =
        TableName { database: Some(through.database.clone()), table: through.table.clone() };
    let mut select = over_rows(&table, &[]);
    let row = Expr::CompoundIdentifier(vec![quoted(&view.table), quoted(ROW)]);
    let items = std::iter::once(&row).chain(values.iter().map(|value| &value.0));
    if let SetExpr::Select(body) = &mut *select.0.body {
        body.projection = items.cloned().map(SelectItem::UnnamedExpr).collect();
        let name =
            TableAlias { explicit: true, name: quoted(&view.table), columns: Vec::new(), at: None };
        for table in &mut body.from {
            if let TableFactor::Table { alias, .. } = &mut table.relation {
                *alias = Some(name.clone());
            }
            joined::given(&mut table.relation);
        }
    }
    if let Some(database) = &view.database {
        stand_alone(&mut select.0, database, &view.table);
    }
    select
}

/// Whether a value of ON DUPLICATE KEY UPDATE reads anything but the new row.
pub fn reads_stored(value: &Scalar) -> bool {
    let found = visit_expressions(&value.0, |expr| {
        let is_stored = match expr {
            Expr::Identifier(name) => !name.value.starts_with('@'),
            Expr::CompoundIdentifier(parts) => {
                parts.last().is_some_and(|part| !part.value.starts_with(NEW))
            }
            _ => false,
        };
        if is_stored { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}
