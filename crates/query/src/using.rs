//! USING and NATURAL: such a join shows a column that both sides share once, with the value of the
//! side that keeps all its rows, and before all others, in the order of that side.
//!
//! DataFusion has no place for it where it looks up names. So joins get conditions, `*` becomes a
//! list of columns, and the name of a shared column becomes that of the side which shows it. This
//! needs the columns of the tables, which the planner tells.

mod aliases;
mod levels;
mod names;
mod outer;
mod scopes;

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::ContextProvider;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use freshet_base::{Error, ErrorCode, Result, bail};
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select,
    SetExpr, Statement, TableFactor, TableWithJoins, Value, Visitor, VisitorMut,
};

use crate::dependence;
use crate::error::mapped;
use crate::rewrite::join_condition;
use crate::session::SqlMode;
use crate::visit::{walk, walk_mut};
use scopes::Scopes;

/// Tells the names of the columns of a query.
type ColumnsOf<'a> = &'a dyn Fn(Query) -> Result<Vec<String>>;

/// The plan of a rewritten query; `context` has the types of its placeholders.
///
/// # Errors
/// 1052 and 1054 for shared columns that do not stand once on each side; 1140 for a column beside
/// an aggregate where nothing is grouped; those of planning.
pub fn planned<S: ContextProvider>(
    query: Box<Query>,
    planner: &SqlToRel<'_, S>,
    mode: SqlMode,
    context: impl Fn() -> PlannerContext,
) -> Result<LogicalPlan> {
    let groups = dependence::groups(&query);
    planned_grouped(query, planner, mode, context).map_err(|error| match error.code() {
        ErrorCode::NotGrouped if !groups => dependence::mixed(&error),
        _ => error,
    })
}

fn planned_grouped<S: ContextProvider>(
    mut query: Box<Query>,
    planner: &SqlToRel<'_, S>,
    mode: SqlMode,
    context: impl Fn() -> PlannerContext,
) -> Result<LogicalPlan> {
    let plan = |query| {
        let (statement, mut context) = (Statement::Query(query), context());
        planner.sql_statement_to_plan_with_context(statement, &mut context).map_err(mapped)
    };
    let columns_of = |query| {
        let fields = plan(Box::new(query))?;
        let fields = fields.schema().fields().iter();
        Ok(fields.map(|field| field.name().clone()).collect())
    };
    written_out(&mut query, &columns_of)?;
    aliases::told_apart(&mut query, &columns_of)?;
    let kept = outer::may_be_in(&query).then(|| query.clone());
    let planned = dependence::planned(query, mode.loose_group_by, plan);
    let Some(mut query) = kept else { return planned };
    let (needs, all_read) = match &planned {
        Ok(plan) => (outer::is_in(plan)?, false),
        Err(error) => (true, error.code() == ErrorCode::NotGrouped),
    };
    if !needs || !outer::raised(&mut query, all_read, &columns_of) {
        return planned;
    }
    let raised = dependence::planned(query, mode.loose_group_by, plan);
    match planned {
        Err(refused) => raised.map_err(|_| refused),
        Ok(_) => raised,
    }
}

/// Writes out the joins of a rewritten query that share columns.
fn written_out(query: &mut Query, columns_of: ColumnsOf<'_>) -> Result<()> {
    if walk(query, &mut Shares).is_continue() {
        return Ok(());
    }
    match walk_mut(query, &mut Using { scopes: Scopes::new(columns_of) }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A column that expressions can refer to without the name of its table.
#[derive(Clone)]
struct Visible {
    /// In lower case.
    name: String,
    /// Its table.
    of: Vec<Ident>,
    /// Whether it stands for those of two sides.
    is_shared: bool,
}

impl Visible {
    fn expr(&self) -> Expr {
        let name = Ident::with_quote('`', &self.name);
        Expr::CompoundIdentifier(self.of.iter().cloned().chain([name]).collect())
    }
}

/// Shared columns by name, as the columns that show them.
type Shared = HashMap<String, Expr>;

/// Those of these columns whose names say which is meant.
fn shared(visible: &[Visible]) -> Shared {
    let mut counts = HashMap::<&str, usize>::new();
    for column in visible {
        *counts.entry(&column.name).or_default() += 1;
    }
    let is_clear = |column: &&Visible| column.is_shared && counts[column.name.as_str()] == 1;
    let clear = visible.iter().filter(is_clear);
    clear.map(|column| (column.name.clone(), column.expr())).collect()
}

/// Finds a join that shares columns.
struct Shares;

impl Visitor for Shares {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match select.from.iter().any(shares) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn shares(table: &TableWithJoins) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => shares(table_with_joins),
        _ => false,
    };
    let is_shared = |join: &Join| {
        let constraint = constraint(&join.join_operator);
        matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
    };
    nested(&table.relation)
        || table.joins.iter().any(|join| is_shared(join) || nested(&join.relation))
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint) => Some(constraint),
        _ => None,
    }
}

struct Using<'a> {
    scopes: Scopes<'a>,
}

impl VisitorMut for Using<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.scopes.open(query);
        ControlFlow::Continue(())
    }

    /// What stands inside the query is written out already.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let done = self.query(query);
        self.scopes.close(query);
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Using<'_> {
    fn query(&self, query: &mut Query) -> Result<()> {
        let Query { body, order_by, .. } = query;
        match &mut **body {
            SetExpr::Select(select) if select.from.iter().any(shares) => {
                let visible = self.tables(&mut select.from)?;
                names::resolve(select, order_by.as_mut(), &visible, &self.scopes)
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.operand(left)?;
                self.operand(right)
            }
            _ => Ok(()),
        }
    }

    fn operand(&self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::Select(select) if select.from.iter().any(shares) => {
                let visible = self.tables(&mut select.from)?;
                names::resolve(select, None, &visible, &self.scopes)
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.operand(left)?;
                self.operand(right)
            }
            _ => Ok(()),
        }
    }

    /// The columns of FROM, in the order of `*`.
    fn tables(&self, from: &mut [TableWithJoins]) -> Result<Vec<Visible>> {
        let mut all = Vec::new();
        for table in from {
            all.extend(self.joined(table)?);
        }
        Ok(all)
    }

    fn joined(&self, table: &mut TableWithJoins) -> Result<Vec<Visible>> {
        let mut left = self.factor(&mut table.relation)?;
        for join in &mut table.joins {
            let right = self.factor(&mut join.relation)?;
            left = self.join(&mut join.join_operator, left, right)?;
        }
        Ok(left)
    }

    fn factor(&self, factor: &mut TableFactor) -> Result<Vec<Visible>> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            return self.joined(table_with_joins);
        }
        let Some(of) = name_of(factor) else {
            bail!(NotSupported, "USING and NATURAL JOIN of something else than a table");
        };
        let names = self.scopes.columns(factor)?.into_iter();
        Ok(names.map(|name| Visible { name, of: of.clone(), is_shared: false }).collect())
    }

    fn join(
        &self,
        operator: &mut JoinOperator,
        left: Vec<Visible>,
        right: Vec<Visible>,
    ) -> Result<Vec<Visible>> {
        let both = || left.iter().chain(&right).cloned().collect::<Vec<_>>();
        let names = match join_condition(operator) {
            Some(JoinConstraint::Using(columns)) => {
                let idents = columns.iter().flat_map(|name| &name.0);
                let idents = idents.filter_map(|part| part.as_ident());
                idents.map(|ident| ident.value.clone()).collect::<Vec<_>>()
            }
            Some(JoinConstraint::Natural) => {
                let is_right = |name: &&String| right.iter().any(|column| column.name == **name);
                left.iter().map(|column| &column.name).filter(is_right).cloned().collect()
            }
            Some(JoinConstraint::On(condition)) => {
                let all = both();
                names::replace(condition, &shared(&all), &self.scopes);
                return Ok(all);
            }
            _ => return Ok(both()),
        };
        let keeps_right = matches!(operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_));
        let mut conditions = Vec::with_capacity(names.len());
        for name in &names {
            let (one, other) = (only(&left, name)?, only(&right, name)?);
            conditions.push(Expr::BinaryOp {
                left: Box::new(one.expr()),
                op: BinaryOperator::Eq,
                right: Box::new(other.expr()),
            });
        }
        set_condition(operator, conditions);
        let (first, second) = if keeps_right { (right, left) } else { (left, right) };
        let mut shown = Vec::with_capacity(first.len() + second.len());
        let shared = first.iter().filter(|column| names.contains(&column.name));
        shown.extend(shared.map(|column| Visible { is_shared: true, ..column.clone() }));
        let rest = first.into_iter().chain(second);
        shown.extend(rest.filter(|column| !names.contains(&column.name)));
        Ok(shown)
    }
}

/// The name by which expressions refer to a table; `None` for what is no table or derived table.
fn name_of(factor: &TableFactor) -> Option<Vec<Ident>> {
    match factor {
        TableFactor::Table { name: ObjectName(parts), alias: None, .. } => {
            Some(parts.iter().filter_map(|part| part.as_ident().cloned()).collect())
        }
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(vec![alias.name.clone()]),
        _ => None,
    }
}

/// The column of this name, of which there is one.
fn only<'a>(columns: &'a [Visible], name: &str) -> Result<&'a Visible> {
    let mut found = columns.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (None, _) => bail!(UnknownColumn, "Unknown column '{name}' in 'from clause'"),
        (Some(_), Some(_)) => bail!(AmbiguousColumn, "Column '{name}' in from clause is ambiguous"),
    }
}

fn set_condition(operator: &mut JoinOperator, conditions: Vec<Expr>) {
    let condition = conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    });
    match condition {
        Some(condition) => {
            if let Some(constraint) = join_condition(operator) {
                *constraint = JoinConstraint::On(condition);
            }
        }
        // A NATURAL JOIN without shared columns.
        None if matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_)) => {
            *operator = JoinOperator::CrossJoin(JoinConstraint::None);
        }
        None => {
            if let Some(constraint) = join_condition(operator) {
                *constraint = JoinConstraint::On(Expr::Value(Value::Boolean(true).into()));
            }
        }
    }
}
