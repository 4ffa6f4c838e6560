//! Where BITMAP and HLL may stand: as arguments of their functions, and in what is selected or
//! stored. Nothing else has a meaning for them, so it is refused in the words of Doris.

use arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use freshet_base::err;

use crate::convert::SKETCH;
use crate::error::external;

/// Aggregates that take sketches, by their names behind the rewriter.
const AGGREGATES: [&str; 6] =
    ["bitmap_union", "bitmap_intersect", "hll_union", "count", "first_value", "last_value"];
/// Functions that give one of their arguments, whatever its type is.
const CHOICES: [&str; 3] = ["mysql_case", "coalesce", "nullif"];
/// Functions of BITMAP or HLL that are called otherwise, or take none.
const OTHERS: [&str; 2] = ["sub_bitmap", "isnull"];
const MAKERS: [&str; 9] = [
    "bitmap_empty",
    "bitmap_from_array",
    "bitmap_from_base64",
    "bitmap_from_string",
    "bitmap_hash",
    "bitmap_hash64",
    "hll_empty",
    "hll_from_base64",
    "hll_hash",
];

/// Checks an argument that has to be a sketch.
///
/// # Errors
/// For any other type.
pub fn check(function: &str, ty: &DataType) -> Result<()> {
    match ty {
        DataType::Null => Ok(()),
        ty if *ty == SKETCH => Ok(()),
        _ => Err(external(err!(
            Unknown,
            "{function} wants a BITMAP or HLL, as a column of that type or TO_BITMAP and HLL_HASH \
             give it"
        ))),
    }
}

/// Checks the operands of an operator, none of which is a sketch.
///
/// # Errors
/// When one is.
pub fn check_operands(left: &Field, right: &Field) -> Result<()> {
    match *left.data_type() == SKETCH || *right.data_type() == SKETCH {
        true => Err(wrong_use()),
        false => Ok(()),
    }
}

/// The analyzer rule that refuses other uses.
#[derive(Debug)]
pub struct SketchUses;

impl AnalyzerRule for SketchUses {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if has_sketches(node)? {
                check_node(node)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "uses_of_sketches"
    }
}

/// Whether a column that a node reads, or a function that it calls, is or makes a sketch.
fn has_sketches(node: &LogicalPlan) -> Result<bool> {
    let is_sketched = |input: &&LogicalPlan| {
        input.schema().fields().iter().any(|field| *field.data_type() == SKETCH)
    };
    if node.inputs().iter().any(is_sketched) {
        return Ok(true);
    }
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| {
            Ok(matches!(part, Expr::ScalarFunction(call)
            if call.name() == "to_bitmap" || MAKERS.contains(&call.name())))
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn check_node(node: &LogicalPlan) -> Result<()> {
    let schema = merge_schema(&node.inputs());
    let refused = match node {
        LogicalPlan::Sort(sort) => any_sketch(sort.expr.iter().map(|by| &by.expr), &schema)?,
        LogicalPlan::Aggregate(aggregate) => groups(aggregate, &schema)?,
        LogicalPlan::Filter(filter) => any_sketch([&filter.predicate], &schema)?,
        LogicalPlan::Join(join) => {
            any_sketch(join.on.iter().flat_map(|(left, right)| [left, right]), &schema)?
        }
        LogicalPlan::Distinct(_) => {
            schema.fields().iter().any(|field| *field.data_type() == SKETCH)
        }
        _ => false,
    };
    if refused {
        return Err(wrong_use());
    }
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            check_part(part, &schema)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// Whether rows are grouped by a sketch. One that is known from the other columns is none of those
/// that tell groups apart: DataFusion adds what depends on a key.
fn groups(aggregate: &Aggregate, schema: &DFSchema) -> Result<bool> {
    let input = aggregate.input.schema();
    let place = |expr: &Expr| match expr {
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    };
    let places = aggregate.group_expr.iter().filter_map(place).collect::<Vec<_>>();
    let is_known = |at: usize| {
        input.functional_dependencies().iter().any(|known| {
            let from = &known.source_indices;
            known.target_indices.contains(&at)
                && !from.contains(&at)
                && from.iter().all(|from| places.contains(from))
        })
    };
    let others = aggregate.group_expr.iter().filter(|expr| !place(expr).is_some_and(is_known));
    any_sketch(others, schema)
}

/// Checks the direct operands of an expression.
fn check_part(part: &Expr, schema: &DFSchema) -> Result<()> {
    let takes = match part {
        Expr::Alias(_) | Expr::IsNull(_) | Expr::IsNotNull(_) => true,
        Expr::ScalarFunction(call) => {
            let name = call.name();
            let is_own = name.starts_with("bitmap_") || name.starts_with("hll_");
            match CHOICES.contains(&name) {
                true => is_sketch(part, schema)?,
                false => is_own && !MAKERS.contains(&name) || OTHERS.contains(&name),
            }
        }
        Expr::AggregateFunction(call) => {
            let params = &call.params;
            let ordered = any_sketch(params.order_by.iter().map(|by| &by.expr), schema)?;
            AGGREGATES.contains(&call.func.name()) && !params.distinct && !ordered
        }
        Expr::WindowFunction(call) => {
            let params = &call.params;
            let keys = params.partition_by.iter().chain(params.order_by.iter().map(|by| &by.expr));
            match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    AGGREGATES.contains(&function.name()) && !any_sketch(keys, schema)?
                }
                WindowFunctionDefinition::WindowUDF(_) => false,
            }
        }
        _ => false,
    };
    let mut found = false;
    if !takes {
        part.apply_children(|child| {
            found |= is_sketch(child, schema)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if found { Err(wrong_use()) } else { Ok(()) }
}

fn any_sketch<'a>(exprs: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Result<bool> {
    for expr in exprs {
        if is_sketch(expr, schema)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an expression gives a sketch; operators never do, so their types are not looked for.
fn is_sketch(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(match expr {
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::Literal(..)
        | Expr::Alias(_)
        | Expr::Cast(_)
        | Expr::ScalarFunction(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::ScalarSubquery(_) => expr.get_type(schema)? == SKETCH,
        _ => false,
    })
}

/// The error where a sketch stands that has no meaning there.
pub fn wrong_use() -> DataFusionError {
    external(err!(
        Unknown,
        "Doris hll, bitmap, array, map, struct, jsonb, variant column must use with specific \
         function, and don't support filter, group by or order by: BITMAP_COUNT, BITMAP_TO_STRING \
         and HLL_CARDINALITY are such functions"
    ))
}
