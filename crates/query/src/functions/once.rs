//! Expressions that use a part twice and compute it once.
//!
//! `x BETWEEN a AND b` is `x >= a AND x <= b`, and where `x` is itself such an expression each
//! level would be twice the one before, to plan as to compute. So where a part is more than a few
//! nodes, what is made of it is a function of it.

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

/// Nodes of an expression that is rather computed twice than by another function.
const SHORT_NODES_MAX: usize = 8;

/// Whether an expression may be used twice.
pub fn is_short(expr: &Expr) -> bool {
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

/// What `body` makes of the arguments, each of which is computed once.
///
/// # Errors
/// When the body cannot be computed with values of these types.
pub fn once(
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
    let once = Once {
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

/// A function of its arguments.
#[derive(Debug)]
struct Once {
    shown: String,
    returns: DataType,
    computed: Arc<dyn PhysicalExpr>,
    /// The arguments as `computed` names them.
    schema: SchemaRef,
    signature: Signature,
}

impl PartialEq for Once {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

impl Eq for Once {}

impl Hash for Once {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shown.hash(state);
    }
}

impl ScalarUDFImpl for Once {
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

/// What an expression makes of arguments, which are its columns; of constants a constant.
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
    // Functions inside of it know of no statement: their losses are heard here.
    let values = losses::heard(&args.config_options, || expr.evaluate(&batch))?;
    match (constant, values) {
        (true, ColumnarValue::Array(array)) => {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
        }
        (_, values) => Ok(values),
    }
}
