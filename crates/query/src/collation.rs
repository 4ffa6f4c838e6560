//! Comparisons of texts by their collations.
//!
//! DataFusion compares texts by bytes. So wherever a plan compares, groups or orders texts of
//! another collation, these become their weights: bytes that are equal for equal texts, and in
//! their order. A group shows the first of its texts. What pruning and indexes know of a column are
//! its bytes, and they look for conditions on the column itself, so they never see one on weights.
//!
//! The collation of a column is in the metadata of its field ([`Derived`]).

mod exprs;
mod scope;

use std::sync::Arc;

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, Filter, Join, LogicalPlan, LogicalPlanBuilder, Sort,
    Subquery, Union, Values, Window, WindowFunctionDefinition, when,
};
use freshet_schema::Collation;

use crate::coercibility::{Derived, Strength};
use crate::convert::is_text;
use crate::dependent::references::has_subquery;
use crate::functions::collate::{packed, text_as, text_of, weights};
use crate::functions::shown_text::{extreme_text, first_text};
use scope::Scope;

/// Stand before the names of columns that only this module uses.
const FIRST: &str = "#first";
const EXTREME: &str = "#extreme";
const WEIGHTS: &str = "#key";

/// The plan with all comparisons by collation; `connection` is that of literals.
///
/// # Errors
/// 1267 and 1271 for texts that have no collation in common.
pub fn applied(plan: LogicalPlan, connection: Collation) -> Result<LogicalPlan> {
    Collating { connection, outer: Vec::new(), keys: 0, keeps: false }.node(plan)
}

struct Collating {
    connection: Collation,
    /// The columns of the queries around the node, the outermost first.
    outer: Vec<DFSchemaRef>,
    /// The number of computed columns so far.
    keys: usize,
    /// Whether the columns of the next node stay without marks.
    keeps: bool,
}

impl Collating {
    fn node(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let keeps = match &plan {
            // What recursion reads was planned with the columns of its first query.
            LogicalPlan::RecursiveQuery(_) => true,
            LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Filter(_) => self.keeps,
            _ => false,
        };
        let marks = !self.keeps;
        let inputs = plan.inputs().into_iter().cloned().map(|input| {
            self.keeps = keeps;
            self.node(input)
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        self.keeps = false;
        Ok(match plan {
            LogicalPlan::Join(join) => self.join(join, inputs)?,
            LogicalPlan::Union(union) => self.union(&union, inputs)?,
            LogicalPlan::Distinct(Distinct::All(_)) => self.distinct(only(inputs))?,
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, only(inputs))?,
            LogicalPlan::Window(window) => self.window(window, only(inputs))?,
            LogicalPlan::Sort(sort) => self.sort(sort, only(inputs))?,
            LogicalPlan::Filter(Filter { predicate, .. }) => {
                self.filter(predicate, only(inputs))?
            }
            LogicalPlan::Projection(projection) => {
                let input = only(inputs);
                let items = projection.expr.into_iter().map(|item| {
                    let changed = self.named(item, input.schema())?;
                    if marks { self.marked(changed, input.schema()) } else { Ok(changed) }
                });
                let items = items.collect::<Result<Vec<_>>>()?;
                LogicalPlanBuilder::from(input).project(items)?.build()?
            }
            LogicalPlan::RecursiveQuery(query) => {
                let [first, next] =
                    <[LogicalPlan; 2]>::try_from(inputs).expect("a recursion has two inputs");
                let next = like(next, first.schema())?;
                LogicalPlan::RecursiveQuery(query).with_new_exprs(Vec::new(), vec![first, next])?
            }
            LogicalPlan::Values(values) if marks => self.values(values)?,
            other if inputs.is_empty() => other,
            other => {
                let schema = Arc::clone(inputs[0].schema());
                let exprs = other.expressions().into_iter();
                let exprs = exprs.map(|expr| self.expr(expr, &schema)).collect::<Result<_>>()?;
                other.with_new_exprs(exprs, inputs)?
            }
        })
    }

    fn scope<'a>(&'a self, schema: &'a DFSchema) -> Scope<'a> {
        Scope { connection: self.connection, schema, outer: &self.outer }
    }

    /// An expression over these columns, with its subqueries.
    fn expr(&mut self, expr: Expr, schema: &DFSchemaRef) -> Result<Expr> {
        let expr = expr.transform_up(|part| {
            Ok(match part {
                Expr::ScalarSubquery(subquery) => {
                    Transformed::yes(Expr::ScalarSubquery(self.subquery(subquery, schema)?))
                }
                Expr::Exists(mut exists) => {
                    exists.subquery = self.subquery(exists.subquery, schema)?;
                    Transformed::yes(Expr::Exists(exists))
                }
                Expr::InSubquery(mut membership) => {
                    membership.subquery = self.subquery(membership.subquery, schema)?;
                    Transformed::yes(Expr::InSubquery(membership))
                }
                other => Transformed::no(other),
            })
        });
        self.scope(schema).changed(expr?.data)
    }

    fn subquery(&mut self, subquery: Subquery, schema: &DFSchemaRef) -> Result<Subquery> {
        self.outer.push(Arc::clone(schema));
        let changed = self.node(subquery.subquery.as_ref().clone());
        self.outer.pop();
        Ok(Subquery { subquery: Arc::new(changed?), ..subquery })
    }

    /// An expression that keeps its name.
    fn named(&mut self, expr: Expr, schema: &DFSchemaRef) -> Result<Expr> {
        let name = NamePreserver::new_for_projection().save(&expr);
        Ok(name.restore(self.expr(expr, schema)?))
    }

    /// An item with its collation in the metadata, where that is not there already.
    fn marked(&self, item: Expr, schema: &DFSchema) -> Result<Expr> {
        let (qualifier, field) = item.to_field(schema)?;
        let scope = self.scope(schema);
        if !matches!(scope.class(&item), scope::Class::Text) {
            return Ok(item);
        }
        let derived = outside(scope.of(&item)?);
        let said = Derived::decode(&field);
        let is_said = match said {
            None => derived.collation.is_by_bytes() && derived.strength == Strength::Implicit,
            Some(said) => said == derived,
        };
        Ok(if is_said { item } else { with_collation(item, qualifier, field.name(), derived) })
    }

    /// In a correlated subquery, the keys of conditions become columns: DataFusion makes joins of
    /// such conditions where one side is a column.
    fn filter(&mut self, predicate: Expr, input: LogicalPlan) -> Result<LogicalPlan> {
        let predicate = self.expr(predicate, input.schema())?;
        if self.outer.is_empty() {
            return Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?));
        }
        let mut keys = Vec::new();
        let predicate = predicate.transform_down(|part| {
            let Expr::BinaryExpr(mut binary) = part else { return Ok(Transformed::no(part)) };
            let outside = |side: &Expr| !side.any_column_refs() && side.contains_outer();
            if outside(&binary.right) {
                self.computed(&mut binary.left, &mut keys);
            } else if outside(&binary.left) {
                self.computed(&mut binary.right, &mut keys);
            }
            Ok(Transformed::yes(Expr::BinaryExpr(binary)))
        })?;
        if keys.is_empty() {
            return Ok(LogicalPlan::Filter(Filter::try_new(predicate.data, Arc::new(input))?));
        }
        let own = input.schema().columns().into_iter().map(Expr::Column);
        let items = own.chain(keys).collect::<Vec<_>>();
        LogicalPlanBuilder::from(input).project(items)?.filter(predicate.data)?.build()
    }

    /// Keys that are weights become columns, so that they are made once for all that looks at them.
    fn sort(&mut self, sort: Sort, input: LogicalPlan) -> Result<LogicalPlan> {
        let shown = input.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
        let mut keys = Vec::new();
        // A subquery may read columns that only the projection below has.
        let computes = !sort.expr.iter().any(|by| has_subquery(&by.expr));
        let expr = sort.expr.into_iter().map(|by| {
            let changed = self.expr(by.expr.clone(), input.schema())?;
            let mut key = self.scope(input.schema()).key(changed)?;
            if computes {
                self.computed(&mut key, &mut keys);
            }
            Ok(by.with_expr(key))
        });
        let expr = expr.collect::<Result<Vec<_>>>()?;
        if keys.is_empty() {
            let input = Arc::new(input);
            return Ok(LogicalPlan::Sort(Sort { expr, input, fetch: sort.fetch }));
        }
        let items = shown.iter().cloned().chain(keys).collect::<Vec<_>>();
        let input = Arc::new(LogicalPlanBuilder::from(input).project(items)?.build()?);
        let sorted = LogicalPlan::Sort(Sort { expr, input, fetch: sort.fetch });
        LogicalPlanBuilder::from(sorted).project(shown)?.build()
    }

    /// Makes weights of columns a column of their own.
    fn computed(&mut self, side: &mut Expr, keys: &mut Vec<Expr>) {
        let is_weights = matches!(side, Expr::ScalarFunction(call) if
            call.func.name().starts_with("weights_") && side.any_column_refs());
        if is_weights {
            let name = format!("{WEIGHTS}{}", self.keys);
            self.keys += 1;
            let weights = std::mem::replace(side, Expr::Column(Column::from_name(&name)));
            keys.push(weights.alias(name));
        }
    }

    /// A column of VALUES has the collation that its expressions have in common.
    fn values(&self, values: Values) -> Result<LogicalPlan> {
        let schema = DFSchema::empty();
        let scope = self.scope(&schema);
        let fields = values.schema.iter().enumerate();
        let items = fields.map(|(at, (qualifier, field))| {
            let item = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            if !is_text(field.data_type()) {
                return Ok(item);
            }
            let texts = values.values.iter().map(|row| &row[at]).collect::<Vec<_>>();
            let derived = outside(scope.together(&texts, "VALUES")?);
            Ok(with_collation(item, qualifier.cloned(), field.name(), derived))
        });
        let items = items.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(LogicalPlan::Values(values)).project(items)?.build()
    }

    fn join(&mut self, join: Join, inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
        let [left, right] = <[LogicalPlan; 2]>::try_from(inputs).expect("a join has two inputs");
        let schema = Arc::new(joined(left.schema(), right.schema()));
        let on = join.on.into_iter().map(|(a, b)| {
            let (a, b) = (self.expr(a, left.schema())?, self.expr(b, right.schema())?);
            let both = self.scope(&schema).compared(&[&a, &b], "=")?;
            Ok(match both {
                None => (a, b),
                Some(by) => (weights(by, a), weights(by, b)),
            })
        });
        let on = on.collect::<Result<Vec<_>>>()?;
        let filter = join.filter.map(|filter| self.expr(filter, &schema)).transpose()?;
        let (left, right) = (Arc::new(left), Arc::new(right));
        LogicalPlan::Join(Join { left, right, on, filter, ..join }).recompute_schema()
    }

    /// The columns of all operands have the collation that they have in common.
    fn union(&self, union: &Union, inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
        let has_any = |input: &LogicalPlan| {
            input.schema().fields().iter().any(|field| Derived::decode(field).is_some())
        };
        if !inputs.iter().any(has_any) {
            let inputs = inputs.into_iter().map(Arc::new).collect();
            return Union::try_new(inputs).map(LogicalPlan::Union);
        }
        let mut wanted = Vec::with_capacity(union.schema.fields().len());
        for at in 0..union.schema.fields().len() {
            let fields = inputs.iter().map(|input| input.schema().field(at));
            let said = fields.filter(|field| is_text(field.data_type()));
            let said = said.map(|field| Derived::decode(field).unwrap_or(Derived::BYTES));
            wanted.push(said.reduce(|all, next| all.joined(next).unwrap_or(all)));
        }
        let inputs = inputs.into_iter().map(|input| {
            let fields = input.schema().iter().zip(&wanted);
            let items = fields.map(|((qualifier, field), wanted)| {
                let item = Expr::Column(Column::new(qualifier.cloned(), field.name()));
                match wanted {
                    Some(wanted) if is_text(field.data_type()) => {
                        with_collation(item, qualifier.cloned(), field.name(), *wanted)
                    }
                    _ => item,
                }
            });
            let items = items.collect::<Vec<_>>();
            LogicalPlanBuilder::from(input).project(items)?.build().map(Arc::new)
        });
        Union::try_new(inputs.collect::<Result<_>>()?).map(LogicalPlan::Union)
    }

    /// DISTINCT groups by all columns.
    fn distinct(&mut self, input: LogicalPlan) -> Result<LogicalPlan> {
        let columns = input.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
        let scope = self.scope(input.schema());
        let mut keyed = false;
        for column in &columns {
            keyed |= scope.of_key(column)?.is_some();
        }
        if !keyed {
            return Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input))));
        }
        let aggregate = Aggregate::try_new(Arc::new(input.clone()), columns, Vec::new())?;
        self.aggregate(aggregate, input)
    }

    fn aggregate(&mut self, aggregate: Aggregate, input: LogicalPlan) -> Result<LogicalPlan> {
        let schema = Arc::clone(input.schema());
        let Aggregate { group_expr, aggr_expr, schema: shown, .. } = aggregate;
        let groups = group_expr.into_iter().map(|group| self.named(group, &schema));
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let sets = matches!(groups[..], [Expr::GroupingSet(_)]);
        let mut calls = Vec::with_capacity(aggr_expr.len());
        let mut items = Vec::with_capacity(shown.fields().len());
        let fields = shown.iter().map(|(qualifier, field)| (qualifier.cloned(), field.name()));
        let mut fields = fields.collect::<Vec<_>>().into_iter();
        let mut keyed = false;
        for (at, group) in grouping_set_to_exprlist(&groups)?.into_iter().enumerate() {
            let (qualifier, name) = fields.next().expect("a column for each group");
            let scope = self.scope(&schema);
            let Some(_) = scope.of_key(group)? else {
                items.push(Expr::Column(Column::new(qualifier, name)));
                continue;
            };
            keyed = true;
            let derived = outside(scope.of(group)?);
            let key = scope.key(group.clone().unalias())?;
            let first = format!("{FIRST}{at}");
            let (_, field) = group.to_field(&schema)?;
            calls.push(first_text().call(vec![group.clone().unalias()]).alias(&first));
            let value = text_as(Expr::Column(Column::from_name(first)), field.data_type());
            let key = Expr::Column(Column::from_name(key.schema_name().to_string()));
            // The rows of ROLLUP that sum up groups have no value.
            let value = if sets { when(key.is_not_null(), value).end()? } else { value };
            items.push(with_collation(value, qualifier, name, derived));
        }
        if sets {
            // The number of a grouping set is for GROUPING() alone, which becomes a call below.
            fields.next().expect("the column of grouping sets");
        }
        let added = calls.len();
        let mut own = Vec::with_capacity(aggr_expr.len());
        for (call, (qualifier, name)) in aggr_expr.into_iter().zip(fields) {
            let call = self.named(call, &schema)?;
            let call = call.transform_up(|part| self.grouping(part, &schema))?.data;
            match self.extreme(&call, &schema, own.len() + added)? {
                Some((extreme, item)) => {
                    keyed = true;
                    own.push(extreme);
                    items.push(item);
                }
                None => {
                    own.push(self.marked(restored(call, qualifier.as_ref(), name), &schema)?);
                    items.push(Expr::Column(Column::new(qualifier, name)));
                }
            }
        }
        own.extend(calls);
        let keys = groups.into_iter().map(|group| self.group(group, &schema));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let changed = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), keys, own)?);
        match keyed {
            true => LogicalPlanBuilder::from(changed).project(items)?.build(),
            false => Ok(changed),
        }
    }

    /// The keys of a group.
    fn group(&self, group: Expr, schema: &DFSchemaRef) -> Result<Expr> {
        let scope = self.scope(schema);
        let key = |group: Expr| match scope.of_key(&group)? {
            Some(_) => scope.key(group.unalias()),
            None => Ok(group),
        };
        match group {
            Expr::GroupingSet(_) => {
                let sets = group.map_children(|group| key(group).map(Transformed::yes))?;
                Ok(sets.data)
            }
            other => key(other),
        }
    }

    /// GROUPING() is of the key of a group.
    fn grouping(&self, part: Expr, schema: &DFSchemaRef) -> Result<Transformed<Expr>> {
        match part {
            Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
                for arg in &mut call.params.args {
                    *arg = self.group(std::mem::take(arg), schema)?;
                }
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// MIN or MAX of texts by their collation, and the item that shows it.
    fn extreme(
        &self,
        call: &Expr,
        schema: &DFSchemaRef,
        at: usize,
    ) -> Result<Option<(Expr, Expr)>> {
        let (qualifier, field) = call.to_field(schema)?;
        let scope = self.scope(schema);
        let name = format!("{EXTREME}{at}");
        let column = Expr::Column(Column::from_name(&name));
        let mut found = None;
        let changed = call.clone().unalias().transform_down(|mut part| {
            let is_window = matches!(part, Expr::WindowFunction(_));
            let Some((text, greatest)) = of_extreme(&mut part) else {
                return Ok(Transformed::no(part));
            };
            let Some(collation) = scope.of_key(text)? else { return Ok(Transformed::no(part)) };
            let derived = outside(scope.of(text)?);
            let mut item = text_as(column.clone(), field.data_type());
            if is_window {
                // Frames that move need what a window can give back: weights with the text
                // behind them.
                *text = packed(collation, std::mem::take(text));
                item = text_of(column.clone(), field.data_type());
            } else if let Expr::AggregateFunction(call) = &mut part {
                call.func = extreme_text(collation, greatest);
                call.params.distinct = false;
            }
            found = Some(with_collation(item, qualifier.clone(), field.name(), derived));
            Ok(Transformed::new(part, true, TreeNodeRecursion::Jump))
        })?;
        Ok(found.map(|item| (changed.data.alias(name), item)))
    }

    fn window(&mut self, window: Window, input: LogicalPlan) -> Result<LogicalPlan> {
        let schema = Arc::clone(input.schema());
        let own = schema.columns().into_iter().map(Expr::Column);
        let mut items = own.collect::<Vec<_>>();
        let mut calls = Vec::with_capacity(window.window_expr.len());
        let mut keyed = false;
        for call in window.window_expr {
            let call = self.named(call, &schema)?;
            match self.extreme(&call, &schema, calls.len())? {
                Some((extreme, item)) => {
                    keyed = true;
                    calls.push(extreme);
                    items.push(item);
                }
                None => {
                    let call = self.marked(call, &schema)?;
                    let (qualifier, field) = call.to_field(&schema)?;
                    calls.push(call);
                    items.push(Expr::Column(Column::new(qualifier, field.name())));
                }
            }
        }
        let changed = LogicalPlan::Window(Window::try_new(calls, Arc::new(input))?);
        match keyed {
            true => LogicalPlanBuilder::from(changed).project(items)?.build(),
            false => Ok(changed),
        }
    }
}

/// The plan with the metadata of these columns, as DataFusion wants it of a recursion.
fn like(plan: LogicalPlan, wanted: &DFSchema) -> Result<LogicalPlan> {
    let mut fields = plan.schema().fields().iter().zip(wanted.fields());
    if fields.all(|(own, wanted)| own.metadata() == wanted.metadata()) {
        return Ok(plan);
    }
    let fields = plan.schema().iter().zip(wanted.fields());
    let items = fields.map(|((qualifier, own), wanted)| {
        let item = Expr::Column(Column::new(qualifier.cloned(), own.name()));
        let metadata = FieldMetadata::new_from_field(wanted);
        item.alias_qualified_with_metadata(qualifier.cloned(), own.name(), Some(metadata))
    });
    let items = items.collect::<Vec<_>>();
    LogicalPlanBuilder::from(plan).project(items)?.build()
}

fn only(inputs: Vec<LogicalPlan>) -> LogicalPlan {
    inputs.into_iter().next().expect("a node of this kind has one input")
}

/// What MIN or MAX is of, if an expression is one, and whether it is MAX.
fn of_extreme(expr: &mut Expr) -> Option<(&mut Expr, bool)> {
    let (name, args) = match expr {
        Expr::AggregateFunction(call) => (call.func.name(), &mut call.params.args),
        Expr::WindowFunction(window) => match &window.fun {
            WindowFunctionDefinition::AggregateUDF(call) => (call.name(), &mut window.params.args),
            WindowFunctionDefinition::WindowUDF(_) => return None,
        },
        _ => return None,
    };
    let greatest = name == "max";
    (greatest || name == "min").then(|| args.first_mut())?.map(|arg| (arg, greatest))
}

/// As a query around it sees the collation of a column.
fn outside(derived: Derived) -> Derived {
    match derived.strength {
        Strength::Explicit => Derived::column(derived.collation),
        _ => derived,
    }
}

fn with_collation(
    item: Expr,
    qualifier: Option<TableReference>,
    name: &str,
    derived: Derived,
) -> Expr {
    item.unalias().alias_qualified_with_metadata(qualifier, name, Some(derived.metadata()))
}

fn restored(call: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    let (now_qualifier, now) = call.qualified_name();
    match now_qualifier.as_ref() == qualifier && now == name {
        true => call,
        false => call.unalias().alias_qualified(qualifier.cloned(), name),
    }
}

/// The columns of both sides, of which names may be the same.
fn joined(left: &DFSchema, right: &DFSchema) -> DFSchema {
    left.join(right).unwrap_or_else(|_| left.clone())
}
