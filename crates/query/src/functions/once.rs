//! Expressions that use a subexpression repeatedly but compute it once.
//!
//! `x BETWEEN a AND b` is `x >= a AND x <= b`; if `x` is itself such an expression, planning and
//! evaluation double with each level. So if a subexpression has more than a few nodes, the whole
//! becomes a function with it as an argument.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use crate::losses;

/// Expressions up to this number of nodes are duplicated instead.
const SHORT_NODES_MAX: usize = 8;

/// Whether an expression is small enough to be duplicated.
fn is_short(expr: &Expr) -> bool {
    let mut count = 0;
    let counted = expr.apply(|_| {
        count += 1;
        Ok(match count > SHORT_NODES_MAX {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    counted.is_ok() && count <= SHORT_NODES_MAX
}

/// Builds an expression that uses its arguments repeatedly; long arguments are computed once.
///
/// # Errors
/// Those of `body`.
pub fn shared(
    args: Vec<Expr>,
    types: &[DataType],
    body: impl FnOnce(Vec<Expr>) -> Result<Expr>,
) -> Result<Expr> {
    if args.iter().all(is_short) { body(args) } else { once(args, types, body) }
}

/// The result of `body` on these arguments, each of which is computed once.
///
/// # Errors
/// When the body cannot be evaluated on these types.
fn once(
    args: Vec<Expr>,
    types: &[DataType],
    body: impl FnOnce(Vec<Expr>) -> Result<Expr>,
) -> Result<Expr> {
    let name = |at: usize| format!("#{at}");
    let fields = types.iter().enumerate().map(|(at, ty)| Field::new(name(at), ty.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let named = Arc::new(DFSchema::try_from(Arc::clone(&schema))?);
    let columns = (0..types.len()).map(|at| Expr::Column(Column::from_name(name(at))));
    let context = SimplifyContext::builder().with_schema(Arc::clone(&named)).build();
    let simplifier = ExprSimplifier::new(context);
    let body = simplifier.coerce(simplifier.simplify(body(columns.collect())?)?, &named)?;
    let once = SharedSubexpressions {
        shown: format!("once({body}){types:?}"),
        returns: body.get_type(&*named)?,
        computed: create_physical_expr(
            &body,
            &named,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )?,
        schema,
        signature: Signature::any(types.len(), Volatility::Immutable),
    };
    Ok(ScalarUDF::new_from_impl(once).call(args))
}

/// A function whose body is a physical expression.
#[derive(Debug)]
struct SharedSubexpressions {
    shown: String,
    returns: DataType,
    computed: Arc<dyn PhysicalExpr>,
    /// The arguments as columns of `computed`.
    schema: SchemaRef,
    signature: Signature,
}

impl PartialEq for SharedSubexpressions {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

impl Eq for SharedSubexpressions {}

impl Hash for SharedSubexpressions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shown.hash(state);
    }
}

impl ScalarUDFImpl for SharedSubexpressions {
    fn name(&self) -> &str {
        "mysql_once"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&*self.computed, &self.schema, &args)
    }
}

/// Evaluates an expression with the arguments as its columns; constants give a constant.
pub fn computed(
    expr: &dyn PhysicalExpr,
    schema: &SchemaRef,
    args: &ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?;
    // Functions inside the expression have no access to the statement, so their losses are
    // collected here.
    let values = losses::collecting(&args.config_options, || expr.evaluate(&batch))?;
    match (constant, values) {
        (true, ColumnarValue::Array(array)) => {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
        }
        (_, values) => Ok(values),
    }
}
