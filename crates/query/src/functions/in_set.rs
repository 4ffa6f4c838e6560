//! `value IN (..)` with many literals.
//!
//! Every planner pass visits every node of a plan, and a list of 200,000 literals would be that
//! many nodes. So the literals of a long list are parsed into a single literal, and the list
//! becomes a function of the value that contains them as a set, which is built once.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::scalar::ScalarStructBuilder;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
    lit,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, InListExpr};

use super::evaluated::computed;

/// Lists from this length on become sets. For a shorter list, pruning tests each literal; for a
/// set, only its minimum and maximum.
pub const SET_FROM: usize = 100;

/// Literals displayed by EXPLAIN, and characters of each.
const SHOWN_MAX: usize = 3;
const SHOWN_CHARACTERS_MAX: usize = 32;

/// Combines many literals into one, grouped by type.
pub fn literals_as_one(literals: Vec<Expr>) -> Result<Expr> {
    let mut lists = BTreeMap::<DataType, Vec<ScalarValue>>::new();
    for literal in literals {
        let Expr::Literal(value, _) = literal else {
            return internal_err!("a literal is planned as '{literal}'");
        };
        lists.entry(value.data_type()).or_default().push(value);
    }
    of_lists(lists.into_values().map(ScalarValue::iter_to_array).collect::<Result<_>>()?)
}

/// The lists in a literal made by [`literals_as_one`], one per type.
pub fn literals_of(expr: &Expr) -> Option<Vec<ArrayRef>> {
    let Expr::Literal(ScalarValue::Struct(lists), _) = expr else { return None };
    Some(lists.columns().iter().map(|list| list.as_list::<i32>().value(0)).collect())
}

/// Divides a literal made by [`literals_as_one`]: one with the lists of the types that `is_of`
/// takes, changed by `change`, and one with the others, if there are any.
///
/// # Errors
/// Those of `change`.
pub fn divided(
    expr: &Expr,
    is_of: impl Fn(&DataType) -> bool,
    change: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<(Expr, Option<Expr>)> {
    let lists = literals_of(expr).unwrap_or_default();
    let (with, without): (Vec<_>, Vec<_>) =
        lists.into_iter().partition(|list| is_of(list.data_type()));
    let with = with.iter().map(change).collect::<Result<Vec<_>>>()?;
    let without = if without.is_empty() { None } else { Some(of_lists(without)?) };
    Ok((of_lists(with)?, without))
}

/// One literal with these lists.
fn of_lists(lists: Vec<ArrayRef>) -> Result<Expr> {
    let mut one = ScalarStructBuilder::new();
    for (at, values) in lists.into_iter().enumerate() {
        let list = SingleRowListArrayBuilder::new(values).build_list_scalar();
        one = one.with_scalar(Field::new(at.to_string(), list.data_type(), true), list);
    }
    Ok(lit(one.build()?))
}

/// The text that identifies an argument in the name of a column.
pub fn shown(arg: &Expr) -> String {
    match arg {
        Expr::Literal(one @ ScalarValue::Struct(_), _) => format!("#{:016x}", hash_of(one)),
        other => other.schema_name().to_string(),
    }
}

/// The values of these literals, all of the same type; `None` if some are not literals.
pub fn literal_values(literals: &[Expr], ty: &DataType) -> Option<ArrayRef> {
    let value = |literal: &Expr| match literal {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(cast) => match &*cast.expr {
            Expr::Literal(value, _) => value.cast_to(cast.field.data_type()).ok(),
            _ => None,
        },
        _ => None,
    };
    let values = literals.iter().map(value).collect::<Option<Vec<_>>>()?;
    let alike = values.iter().all(|value| value.data_type() == *ty);
    ScalarValue::iter_to_array(values).ok().filter(|_| alike)
}

/// `value IN (list)`, where both have a common type for comparison.
///
/// # Errors
/// When they have none.
pub fn in_set(value: (Expr, &DataType), list: &ArrayRef) -> Result<Expr> {
    let (value, ty) = value;
    let Some(common) = comparison_coercion(ty, list.data_type()) else {
        return plan_err!("'{ty}' is not compared with '{}'", list.data_type());
    };
    let value = if *ty == common { value } else { cast(value, common.clone()) };
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let list = cast_with_options(list, &common, &exact)?;
    let schema = Arc::new(Schema::new(vec![Field::new("value", common, true)]));
    let column = Arc::new(Column::new("value", 0));
    let set = InListExpr::try_new_from_array(column, Arc::clone(&list), false, &schema)?;
    let of = SingleRowListArrayBuilder::new(Arc::clone(&list)).build_list_scalar();
    let hash = hash_of(&of);
    let signature = Signature::any(1, Volatility::Immutable);
    let name = format!("in_set{{{}}}", first_of(&list)?);
    let among = InSet { name, of, hash, set: Arc::new(set), schema, signature };
    let bounds = bounds(&value, &list)?;
    let among = ScalarUDF::new_from_impl(among).call(vec![value]);
    Ok(bounds.into_iter().fold(among, Expr::and))
}

/// The first literals of a list, and their total number, for display.
fn first_of(list: &dyn Array) -> Result<String> {
    let shown = (0..list.len().min(SHOWN_MAX)).map(|at| ScalarValue::try_from_array(list, at));
    let short = |literal: ScalarValue| -> String {
        literal.to_string().chars().take(SHOWN_CHARACTERS_MAX).collect()
    };
    let shown = shown.map(|literal| literal.map(short)).collect::<Result<Vec<_>>>()?;
    Ok(format!("{}, .. {} values", shown.join(", "), list.len()))
}

/// The condition that a column lies between the minimum and maximum of the list, for pruning.
fn bounds(value: &Expr, list: &dyn Array) -> Result<Option<Expr>> {
    let column = match value {
        Expr::Cast(cast) => &*cast.expr,
        other => other,
    };
    if !matches!(column, Expr::Column(_)) || list.is_empty() {
        return Ok(None);
    }
    let first = ScalarValue::try_from_array(list, 0)?;
    let (mut least, mut greatest) = (first.clone(), first);
    for at in 1..list.len() {
        let literal = ScalarValue::try_from_array(list, at)?;
        match (literal.partial_cmp(&least), literal.partial_cmp(&greatest)) {
            (Some(Ordering::Less), _) => least = literal,
            (_, Some(Ordering::Greater)) => greatest = literal,
            (Some(_), Some(_)) => {}
            _ => return Ok(None),
        }
    }
    Ok(Some(value.clone().between(lit(least), lit(greatest))))
}

fn hash_of(value: &ScalarValue) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Tests whether a value is in a list.
#[derive(Debug)]
struct InSet {
    /// The function with its first literals, for EXPLAIN.
    name: String,
    of: ScalarValue,
    hash: u64,
    set: Arc<dyn PhysicalExpr>,
    /// The schema of the value as the argument of `set`.
    schema: SchemaRef,
    signature: Signature,
}

impl PartialEq for InSet {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.of == other.of
    }
}

impl Eq for InSet {}

impl Hash for InSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl ScalarUDFImpl for InSet {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} in #{:016x}", args[0].schema_name(), self.hash))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&*self.set, &self.schema, &args)
    }
}
