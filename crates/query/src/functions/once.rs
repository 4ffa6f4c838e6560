//! Expressions that use a subexpression repeatedly but compute it once.
//!
//! `x BETWEEN a AND b` is `x >= a AND x <= b`; if `x` is itself such an expression, planning and
//! evaluation double with each level. So if a subexpression has more than a few nodes, the whole
//! becomes a function with it as an argument.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use super::evaluated::computed;
use super::in_set;
use super::whole::short_name;

/// Expressions up to this number of nodes are duplicated instead.
const SHORT_NODES_MAX: usize = 8;

/// Expressions of more nodes than this are never duplicated, even where that computes arguments
/// which MySQL might not need, or hides a condition from the optimizer.
const LONG_NODES_MIN: usize = 64;

/// Whether an expression has at most this number of nodes.
fn is_within(expr: &Expr, most: usize) -> bool {
    let mut count = 0;
    let counted = expr.apply(|_| {
        count += 1;
        Ok(match count > most {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    counted.is_ok() && count <= most
}

/// Whether an expression is so large that it must not be duplicated.
pub fn is_long(expr: &Expr) -> bool {
    !is_within(expr, LONG_NODES_MIN)
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
    let is_short = |arg: &Expr| is_within(arg, SHORT_NODES_MAX);
    if args.iter().all(is_short) { body(args) } else { once(args, types, body) }
}

/// The result of `body` on these arguments, each of which is computed once. The body gets literals
/// as they are, and columns in place of the other arguments.
///
/// # Errors
/// When the body cannot be evaluated on these types.
pub fn once(
    args: Vec<Expr>,
    types: &[DataType],
    body: impl FnOnce(Vec<Expr>) -> Result<Expr>,
) -> Result<Expr> {
    let (mut fields, mut passed) = (Vec::new(), Vec::new());
    let column = |(arg, ty): (Expr, &DataType)| {
        if matches!(arg, Expr::Literal(..)) {
            return arg;
        }
        let name = format!("#{}", passed.len());
        fields.push(Field::new(&name, ty.clone(), true));
        passed.push(arg);
        Expr::Column(Column::from_name(name))
    };
    let columns = args.into_iter().zip(types).map(column).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(fields));
    let named = Arc::new(DFSchema::try_from(Arc::clone(&schema))?);
    let context = SimplifyContext::builder().with_schema(Arc::clone(&named)).build();
    let simplifier = ExprSimplifier::new(context);
    let body = simplifier.coerce(simplifier.simplify(body(columns)?)?, &named)?;
    let once = SharedSubexpressions {
        returns: body.get_type(&*named)?,
        computed: create_physical_expr(
            &body,
            &named,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )?,
        body,
        schema,
        signature: Signature::any(passed.len(), Volatility::Immutable),
    };
    Ok(ScalarUDF::new_from_impl(once).call(passed))
}

/// A function whose body is a physical expression.
#[derive(Debug)]
struct SharedSubexpressions {
    body: Expr,
    returns: DataType,
    computed: Arc<dyn PhysicalExpr>,
    /// The arguments as columns of `computed`.
    schema: SchemaRef,
    signature: Signature,
}

impl PartialEq for SharedSubexpressions {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body && self.schema == other.schema
    }
}

impl Eq for SharedSubexpressions {}

impl Hash for SharedSubexpressions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.body.hash(state);
    }
}

impl ScalarUDFImpl for SharedSubexpressions {
    fn name(&self) -> &str {
        "mysql_once"
    }

    // The body is part of the name: columns of a plan with the same name are the same.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut body = DefaultHasher::new();
        (&self.body, &self.schema).hash(&mut body);
        let args = args.iter().map(in_set::shown).collect::<Vec<_>>();
        Ok(short_name(format!("once#{:016x}({})", body.finish(), args.join(","))))
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
