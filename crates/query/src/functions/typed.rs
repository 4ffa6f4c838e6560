//! Functions whose semantics depend on the types of their arguments. They remain in the plan until
//! types are known and then expand to ordinary expressions, so that the optimizer and the
//! vectorized kernels only see these.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::conditional_expressions::CaseBuilder;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    Case, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    Volatility, cast, lit, when,
};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use freshet_base::err;

use super::meaning::{
    DIGITS_MAX, joined_scale, most_digits, showing, shown_digits, with_digits, with_scale,
};
use super::nested::{check_alike, check_ordered};
use super::once::{is_long, once, shared};
use super::operators::compare;
use super::types::{
    TEMPORAL_NUMBER, common_of, converted, integer_digits, is_clock, is_decimal, truth,
};
use super::udf::{FunctionImpl, MANY, Udf};
use crate::convert::{self, is_binary, is_text};
use crate::error::external;

/// Derives the result type from the types of the arguments.
type Returns = fn(&[DataType]) -> Result<DataType>;
/// Builds the expression that computes the result.
type Expand = fn(Vec<Expr>, &[DataType]) -> Result<Expr>;

/// Whether the argument at this index, of this many, contributes to the result's value, as the
/// branches of CASE do.
type Joins = fn(usize, usize) -> bool;

/// A function that expands after types are known.
#[derive(Debug)]
pub struct TypeDependent {
    returns: Returns,
    expand: Expand,
    joins: Joins,
}

impl TypeDependent {
    /// A function with `arity.0` to `arity.1` arguments, all of which contribute to the result's
    /// value.
    pub fn udf(
        name: &'static str,
        arity: (usize, usize),
        returns: Returns,
        expand: Expand,
    ) -> ScalarUDF {
        Self::joined(name, arity, returns, expand, |_, _| true)
    }

    /// Like [`Self::udf`], for a function whose result is combined from only some of its arguments.
    fn joined(
        name: &'static str,
        arity: (usize, usize),
        returns: Returns,
        expand: Expand,
        joins: Joins,
    ) -> ScalarUDF {
        Udf::scalar(name, arity, Volatility::Immutable, Self { returns, expand, joins })
    }
}

impl FunctionImpl for TypeDependent {
    // Only the selected branch of CASE must be evaluated.
    const SHORT_CIRCUITS: bool = true;

    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let types = args.arg_fields.iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
        let field = Field::new(name, (self.returns)(&types)?, true);
        let fields = args.arg_fields.iter().zip(args.scalar_arguments.iter().copied());
        let joined = fields.enumerate().filter(|(at, _)| (self.joins)(*at, types.len()));
        let joined = joined.map(|(_, arg)| arg);
        Ok(match field.data_type() {
            DataType::Timestamp(_, _) | DataType::Duration(_) => {
                with_digits(field, most_digits(joined))
            }
            // A time converted to a number displays as many fractional digits as the time.
            ty if *ty == TEMPORAL_NUMBER && types.iter().all(is_clock) => {
                let shown = most_digits(joined).unwrap_or(DIGITS_MAX);
                with_scale(field, shown)
            }
            ty if is_decimal(ty) => joined_scale(field, joined.map(|(field, _)| field)),
            _ => field,
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let fields = args.iter().map(|arg| Ok(arg.to_field(info.schema())?.1));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        let types = fields.iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        let literals = args.iter().map(|arg| match arg {
            Expr::Literal(value, _) => Some(value.clone()),
            _ => None,
        });
        let literals = literals.collect::<Vec<_>>();
        let literals = literals.iter().map(Option::as_ref).collect::<Vec<_>>();
        let call = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &literals };
        let wanted = self.field("", &call)?;
        let expanded = (self.expand)(args, &types)?;
        check_nodes(&expanded)?;
        // The plan is already coerced, so the expansion is coerced by the same rules here.
        let mut coercion = TypeCoercionRewriter::new(info.schema());
        let expanded = expanded.rewrite(&mut coercion)?.data;
        let expanded = if info.get_data_type(&expanded)? == *wanted.data_type() {
            expanded
        } else {
            cast(expanded, wanted.data_type().clone())
        };
        Ok(ExprSimplifyResult::Simplified(showing(expanded, shown_digits(&wanted))))
    }

    fn eval(&self, args: &ScalarFunctionArgs, _rows: usize) -> Result<ArrayRef> {
        exec_err!("function '{}' was not expanded by the planner", args.return_field.name())
    }
}

/// Decimals up to this precision are summed in 128 bits without overflow, however many rows.
pub const NARROW_SUMMAND_DIGITS: u8 = 28;

/// Maximum number of nodes of an expanded expression, without literals.
const NODES_MAX: usize = 50_000;

/// Rejects an expression that grew exponentially by nested expansions.
fn check_nodes(expr: &Expr) -> Result<()> {
    let mut count = 0;
    expr.apply(|node| {
        count += usize::from(!matches!(node, Expr::Literal(..)));
        Ok(if count > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if count > NODES_MAX {
        return Err(external(err!(
            TooLarge,
            "An expression becomes more than {NODES_MAX} operations; nest NULLIF, GREATEST, LEAST \
             and their like less deep"
        )));
    }
    Ok(())
}

fn all_common(types: &[DataType]) -> Result<DataType> {
    Ok(common_of(types))
}

fn all_converted(args: Vec<Expr>, types: &[DataType]) -> Vec<Expr> {
    let wanted = common_of(types);
    args.into_iter().zip(types).map(|(arg, ty)| converted(arg, ty, &wanted)).collect()
}

/// The first value that is not NULL, as a CASE that uses all arguments but the last twice. If one
/// of these is long, all are computed, and once.
fn coalesced(args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    let first = |args: Vec<Expr>| -> Result<Expr> {
        let mut args = all_converted(args, types);
        let last = args.pop().map(Box::new);
        let whens =
            args.into_iter().map(|arg| (Box::new(arg.clone().is_not_null()), Box::new(arg)));
        let whens = whens.collect::<Vec<_>>();
        Ok(match (whens.is_empty(), last) {
            (true, Some(alone)) => *alone,
            (_, last) => Expr::Case(Case::new(None, whens, last)),
        })
    };
    let twice = &args[..args.len() - 1];
    if twice.iter().any(is_long) { once(args, types, first) } else { first(args) }
}

/// `mysql_case(condition, result, condition, result, ..., otherwise)`.
fn case_type(types: &[DataType]) -> Result<DataType> {
    let results = types.iter().enumerate().filter(|(at, _)| is_result(*at, types.len()));
    Ok(common_of(results.map(|(_, ty)| ty)))
}

fn is_result(at: usize, count: usize) -> bool {
    at % 2 == 1 || at + 1 == count
}

fn expand_case(args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    let wanted = case_type(types)?;
    let mut typed = args.into_iter().zip(types);
    let mut builder = None;
    while let Some((condition, condition_type)) = typed.next() {
        let Some((result, result_type)) = typed.next() else {
            let otherwise = converted(condition, condition_type, &wanted);
            return match builder {
                None => Ok(otherwise),
                Some(mut builder) => {
                    let builder: &mut CaseBuilder = &mut builder;
                    builder.otherwise(otherwise)
                }
            };
        };
        let condition = truth(condition, condition_type);
        let result = converted(result, result_type, &wanted);
        builder = Some(match builder.take() {
            None => when(condition, result),
            Some(mut builder) => builder.when(condition, result),
        });
    }
    exec_err!("CASE without ELSE reached the planner")
}

/// The type of SUM: integers are summed as DECIMAL to avoid overflow, text as DOUBLE.
fn sum_type(types: &[DataType]) -> Result<DataType> {
    Ok(match &types[0] {
        ty if is_decimal(ty) => ty.clone(),
        DataType::Date32 => DataType::Decimal128(8, 0),
        DataType::Timestamp(_, _) | DataType::Duration(_) => TEMPORAL_NUMBER,
        ty => match integer_digits(ty) {
            Some(digits) => DataType::Decimal128(digits, 0),
            None => DataType::Float64,
        },
    })
}

/// SUM(DISTINCT) stores its values in the type of the sum, which must have room for it.
fn distinct_sum_type(types: &[DataType]) -> Result<DataType> {
    Ok(match sum_type(types)? {
        DataType::Decimal128(precision, scale) if precision > NARROW_SUMMAND_DIGITS => {
            DataType::Decimal256(precision, scale)
        }
        ty => ty,
    })
}

/// The result type of `-value`.
fn negated_type(types: &[DataType]) -> Result<DataType> {
    Ok(match &types[0] {
        ty if integer_digits(ty).is_some() => DataType::Int64,
        ty if is_decimal(ty) => ty.clone(),
        DataType::Null | DataType::Date32 => DataType::Int64,
        DataType::Timestamp(_, _) | DataType::Duration(_) => TEMPORAL_NUMBER,
        _ => DataType::Float64,
    })
}

fn text_type(types: &[DataType]) -> Result<DataType> {
    Ok(if is_text(&types[0]) { types[0].clone() } else { DataType::Utf8View })
}

/// Calls DataFusion's `date_part`, for which a condition on a part can become a range of the
/// column.
macro_rules! part {
    ($name:literal) => {
        TypeDependent::udf(
            $name,
            (1, 1),
            |_| Ok(DataType::Int64),
            |mut args, types| {
                let arg = args.remove(0);
                let arg = match types[0] {
                    DataType::Date32 => arg,
                    ref ty => converted(arg, ty, &convert::DATETIME),
                };
                let part = if $name == "dayofmonth" { "day" } else { $name };
                Ok(cast(super::call("date_part", vec![lit(part), arg]), DataType::Int64))
            },
        )
    };
}

/// Parts of the time; they are zero for a DATE, for which `date_part` would fail.
macro_rules! clock_part {
    ($name:literal, $divisor:literal, $modulus:literal) => {
        TypeDependent::udf(
            $name,
            (1, 1),
            |_| Ok(DataType::Int64),
            |mut args, types| {
                let arg = args.remove(0);
                if matches!(types[0], DataType::Timestamp(_, _)) {
                    return Ok(cast(
                        super::call("date_part", vec![lit($name), arg]),
                        DataType::Int64,
                    ));
                }
                let micros = super::call("mysql_time_micros", vec![arg]);
                Ok((micros / lit($divisor)) % lit($modulus))
            },
        )
    };
}

fn greatest_or_least(name: &'static str, kernel: &'static str) -> ScalarUDF {
    let (of, expand): (Returns, Expand) = if kernel == "greatest" {
        (|types| ordered("GREATEST", types), |args, types| strict("df_greatest", args, types))
    } else {
        (|types| ordered("LEAST", types), |args, types| strict("df_least", args, types))
    };
    TypeDependent::udf(name, (2, MANY), of, expand)
}

fn ordered(name: &str, types: &[DataType]) -> Result<DataType> {
    check_ordered(name, types)?;
    all_common(types)
}

/// NULL if any argument is NULL, otherwise the kernel's result.
fn strict(kernel: &str, args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    shared(args, types, |args| strictly(kernel, args, types))
}

fn strictly(kernel: &str, args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    let args = all_converted(args, types);
    let null = args.iter().cloned().map(Expr::is_null).reduce(Expr::or).unwrap_or(lit(false));
    let result = super::call(kernel, args);
    when(null, lit(ScalarValue::try_from(&common_of(types))?)).otherwise(result)
}

/// `NULLIF(left, right)`.
fn null_if(args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    shared(args, types, |args| {
        let [left, right] = <[Expr; 2]>::try_from(args).expect("arity is checked");
        let operands = ((left.clone(), &types[0]), (right, &types[1]));
        let equal = compare(operands.0, Operator::Eq, operands.1);
        when(equal, lit(ScalarValue::try_from(&types[0])?)).otherwise(left)
    })
}

/// `value BETWEEN low AND high`: text is compared to both bounds as a number if one of them is a
/// number, or as text if one is a TIME.
fn between(args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    let number = |ty: &DataType| ty.is_numeric() || *ty == DataType::Boolean;
    let time = |ty: &DataType| matches!(ty, DataType::Duration(_));
    let bounds = &types[1..];
    let alike = match is_text(&types[0]) {
        true if bounds.iter().any(number) => Some(DataType::Float64),
        true if bounds.iter().any(time) => Some(DataType::Utf8View),
        _ => None,
    };
    shared(args, types, |parts| {
        let as_one = |(part, ty): (Expr, &DataType)| match &alike {
            Some(wanted) => (converted(part, ty, wanted), wanted.clone()),
            None => (part, ty.clone()),
        };
        let parts = parts.into_iter().zip(types).map(as_one).collect::<Vec<_>>();
        let [value, low, high] =
            <[(Expr, DataType); 3]>::try_from(parts).expect("arity is checked");
        let above = compare((value.0.clone(), &value.1), Operator::GtEq, (low.0, &low.1));
        Ok(above.and(compare((value.0, &value.1), Operator::LtEq, (high.0, &high.1))))
    })
}

/// What compares values with one another.
fn comparisons() -> Vec<ScalarUDF> {
    // Many literals come as one struct of them.
    let of_alike: Returns = |types| match types[0].is_nested() {
        true => check_alike("IN", types).map(|()| DataType::Boolean),
        false => Ok(DataType::Boolean),
    };
    vec![
        TypeDependent::udf("mysql_in", (2, MANY), of_alike, super::in_list::membership),
        TypeDependent::udf(
            "field",
            (2, MANY),
            |types| check_ordered("FIELD", types).map(|()| DataType::Int64),
            super::in_list::field,
        ),
        TypeDependent::joined(
            "nullif",
            (2, 2),
            |types| check_alike("NULLIF", types).map(|()| types[0].clone()),
            null_if,
            |at, _| at == 0,
        ),
        TypeDependent::udf(
            "mysql_between",
            (3, 3),
            |types| check_ordered("BETWEEN", types).map(|()| DataType::Boolean),
            between,
        ),
        greatest_or_least("greatest", "greatest"),
        greatest_or_least("least", "least"),
    ]
}

pub fn all() -> Vec<ScalarUDF> {
    let boolean: Returns = |_| Ok(DataType::Boolean);
    let mut all = vec![
        TypeDependent::udf("mysql_truth", (1, 1), boolean, |mut args, types| {
            Ok(truth(args.remove(0), &types[0]))
        }),
        TypeDependent::joined("mysql_case", (2, MANY), case_type, expand_case, is_result),
        TypeDependent::udf("coalesce", (1, MANY), all_common, coalesced),
        TypeDependent::udf("mysql_summand", (1, 1), sum_type, |mut args, types| {
            Ok(converted(args.remove(0), &types[0], &sum_type(types)?))
        }),
        TypeDependent::udf(
            "mysql_distinct_summand",
            (1, 1),
            distinct_sum_type,
            |mut args, types| Ok(converted(args.remove(0), &types[0], &distinct_sum_type(types)?)),
        ),
        TypeDependent::udf("mysql_negate", (1, 1), negated_type, |mut args, types| {
            Ok(super::operators::negated(args.remove(0), &types[0]))
        }),
        TypeDependent::udf("mysql_like_text", (1, 1), text_type, |mut args, types| {
            Ok(converted(args.remove(0), &types[0], &text_type(types)?))
        }),
        TypeDependent::udf(
            "mysql_signed",
            (1, 1),
            |_| Ok(DataType::Int64),
            |mut args, types| {
                let arg = args.remove(0);
                Ok(match &types[0] {
                    // Numbers above `i64::MAX` keep their bits, as negative numbers.
                    ty if is_text(ty) || is_binary(ty) || *ty == DataType::UInt64 => {
                        super::call("mysql_int", vec![super::call("mysql_unsigned", vec![arg])])
                    }
                    ty => converted(arg, ty, &DataType::Int64),
                })
            },
        ),
    ];
    all.extend(comparisons());
    all.extend([part!("year"), part!("month"), part!("day"), part!("dayofmonth")]);
    all.extend([part!("quarter")]);
    all.extend([
        clock_part!("hour", 3_600_000_000_i64, 839_i64),
        clock_part!("minute", 60_000_000_i64, 60_i64),
        clock_part!("second", 1_000_000_i64, 60_i64),
    ]);
    all
}
