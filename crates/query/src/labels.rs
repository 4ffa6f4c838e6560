//! ENUM and SET columns: texts that are sorted by their numbers, and are numbers where numbers are
//! wanted.

use std::sync::Arc;

use arrow::array::{Array, AsArray, UInt64Array};
use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeIterator};
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, GroupingSet, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use freshet_schema::ColumnType;
use freshet_schema::value::{number_of_label, number_of_set};

use crate::convert::is_text;
use crate::functions::in_set;
use crate::functions::written_years::full_in_list;
use crate::origin::ColumnOrigin;

/// Functions that take a number first, or compare the first argument with the others. The last ones
/// are of conditions.
const NUMERIC: [&str; 8] = [
    "mysql_decimal",
    "mysql_double",
    "mysql_float",
    "mysql_in",
    "mysql_int",
    "mysql_signed",
    "mysql_unsigned",
    "mysql_truth",
];

/// Functions of a number whose type is that of what they are planned with: of a text a DOUBLE.
const NUMERIC_AS_TEXTS: [&str; 9] = [
    "abs",
    "ceil",
    "floor",
    "mysql_distinct_summand",
    "mysql_negate",
    "mysql_summand",
    "round",
    "sign",
    "truncate",
];

/// Operands of which ENUM and SET columns are numbers, where the operator makes them so: in
/// arithmetic, and beside a number.
pub fn operands(
    op: &BinaryOperator,
    (left, right): (Expr, Expr),
    schema: &DFSchema,
) -> Result<(Expr, Expr)> {
    use BinaryOperator::{
        Arrow, Eq, Gt, GtEq, LongArrow, Lt, LtEq, NotEq, Spaceship, StringConcat,
    };
    if matches!(op, Arrow | LongArrow | StringConcat) {
        return Ok((left, right));
    }
    let compares = matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship);
    let is_beside = |other: &Expr| -> Result<bool> {
        Ok(!compares || is_number(other.to_field(schema)?.1.data_type()))
    };
    let wanted = (is_beside(&right)?, is_beside(&left)?);
    let of = |expr: Expr, wanted: bool| if wanted { number(expr, schema) } else { expr };
    Ok((of(left, wanted.0), of(right, wanted.1)))
}

fn is_number(ty: &DataType) -> bool {
    ty.is_numeric() || *ty == DataType::Boolean
}

/// The number of an ENUM or SET column; other expressions stay as they are.
fn number(expr: Expr, schema: &DFSchema) -> Expr {
    match Number::of(&expr, schema) {
        Some(number) => ScalarUDF::new_from_impl(number).call(vec![expr]),
        None => expr,
    }
}

/// Sorts by numbers, and passes them to the functions that want such.
///
/// # Errors
/// When the plan cannot be rewritten.
pub fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        if let LogicalPlan::Sort(mut sort) = node {
            if is_union(&sort.input) {
                return Ok(Transformed::no(LogicalPlan::Sort(sort)));
            }
            let schemas = [Arc::clone(sort.input.schema())];
            let mut changed = false;
            for by in &mut sort.expr {
                changed |= Number::of(&by.expr, &schemas[0]).is_some();
                let by_number = number(std::mem::take(&mut by.expr), &schemas[0]);
                let called = by_number.transform_up(|part| arguments(part, &schemas))?;
                changed |= called.transformed;
                by.expr = called.data;
            }
            return Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed));
        }
        let of_columns = node.inputs().into_iter().filter(|input| !is_union(input));
        let schemas = of_columns.map(|input| Arc::clone(input.schema())).collect::<Vec<_>>();
        let names = NamePreserver::new(&node);
        let called = |expr: Expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|part| arguments(part, &schemas))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        };
        node.map_expressions(|expr| match expr {
            // Each of them has a name of its own in the result.
            Expr::GroupingSet(set) => in_grouping_set(set, called),
            expr => called(expr),
        })
    })?;
    Ok(plan.data)
}

/// Changes each expression of a grouping set.
fn in_grouping_set(
    set: GroupingSet,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let mut of_all = |exprs: Vec<Expr>| exprs.into_iter().map_until_stop_and_collect(&mut change);
    let set = match set {
        GroupingSet::Rollup(exprs) => of_all(exprs)?.update_data(GroupingSet::Rollup),
        GroupingSet::Cube(exprs) => of_all(exprs)?.update_data(GroupingSet::Cube),
        GroupingSet::GroupingSets(sets) => {
            let sets = sets.into_iter().map_until_stop_and_collect(of_all)?;
            sets.update_data(GroupingSet::GroupingSets)
        }
    };
    Ok(set.update_data(Expr::GroupingSet))
}

/// Whether rows are those of a UNION, which makes texts of ENUM and SET columns.
fn is_union(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Union(_) => true,
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Distinct(_) => plan.inputs().into_iter().any(is_union),
        _ => false,
    }
}

/// A call with numbers of ENUM and SET columns among its arguments, or in the order of its window.
fn arguments(expr: Expr, schemas: &[Arc<DFSchema>]) -> Result<Transformed<Expr>> {
    let mut call = match expr {
        Expr::ScalarFunction(call) => call,
        Expr::WindowFunction(window) => return Ok(ordered(window, schemas)),
        _ => return Ok(Transformed::no(expr)),
    };
    let name = call.func.name();
    let is_as_text = NUMERIC_AS_TEXTS.contains(&name);
    if !is_as_text && !NUMERIC.contains(&name) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let known = |first: &Expr| {
        schemas.iter().find(|schema| Number::of(first, schema).is_some()).map(Arc::clone)
    };
    if name == "mysql_in"
        && let Some(args) = full_in_list(&call.args, schemas)
    {
        call.args = args;
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    let Some(schema) = call.args.first().and_then(known) else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let of_texts = |arg: &Expr| match in_set::literals_of(arg) {
        Some(lists) => lists.iter().any(|list| is_text(list.data_type())),
        None => arg.get_type(&schema).is_ok_and(|ty| is_text(&ty)),
    };
    if name == "mysql_in" && call.args[1..].iter().any(of_texts) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let of_first = number(std::mem::take(&mut call.args[0]), &schema);
    call.args[0] = if is_as_text { cast(of_first, DataType::Float64) } else { of_first };
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

/// A window function whose window is in the order of numbers.
fn ordered(mut window: Box<WindowFunction>, schemas: &[Arc<DFSchema>]) -> Transformed<Expr> {
    let mut changed = false;
    for by in &mut window.params.order_by {
        let known = schemas.iter().find(|schema| Number::of(&by.expr, schema).is_some());
        if let Some(schema) = known {
            by.expr = number(std::mem::take(&mut by.expr), schema);
            changed = true;
        }
    }
    match changed {
        true => Transformed::yes(Expr::WindowFunction(window)),
        false => Transformed::no(Expr::WindowFunction(window)),
    }
}

/// The function from the text of a value to its number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Number {
    labels: Vec<String>,
    is_set: bool,
    signature: Signature,
}

impl Number {
    /// The function for a column; `None` for another expression.
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        let column = match expr {
            Expr::Alias(alias) => return Self::of(&alias.expr, schema),
            Expr::Column(_) | Expr::OuterReferenceColumn(..) => expr.to_field(schema).ok()?.1,
            _ => return None,
        };
        Self::of_field(&column)
    }

    fn of_field(field: &Field) -> Option<Self> {
        let ColumnOrigin { ty, labels, .. } = ColumnOrigin::decode(field)?;
        let is_set = matches!(ty, ColumnType::Set { .. });
        let signature = Signature::any(1, Volatility::Immutable);
        let is_shown_as_text = is_text(field.data_type());
        (ty.is_labelled() && is_shown_as_text).then_some(Self { labels, is_set, signature })
    }
}

impl ScalarUDFImpl for Number {
    fn name(&self) -> &'static str {
        "mysql_number_of_label"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let texts = args.args[0].to_array(args.number_rows)?;
        let number = |text| match self.is_set {
            true => number_of_set(&self.labels, text),
            false => number_of_label(&self.labels, text),
        };
        let numbers: UInt64Array = match texts.data_type() {
            DataType::Utf8View => {
                texts.as_string_view().iter().map(|text| text.map(number)).collect()
            }
            DataType::Utf8 => {
                texts.as_string::<i32>().iter().map(|text| text.map(number)).collect()
            }
            other => return exec_err!("values of an ENUM are texts, and not {other}"),
        };
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    }
}
