//! `value IN (items)` with items of any types.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, lit, when};

use super::in_set;
use super::once::{is_long, once, shared};
use super::operators::comparable;
use super::types::{Operand, TypedExpr, common_of, converted, exact_digits};
use crate::convert::is_text;
use crate::interrupt;

/// `value IN (items)`, of these types in this order. A long value is computed once, however many
/// ways there are in which items are compared to it.
///
/// # Errors
/// When an expression cannot be traversed.
pub fn membership(args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    let test = |args: Vec<Expr>| {
        let mut operands = args.into_iter().zip(types);
        let value = operands.next().expect("arity is checked");
        in_list(value, operands.collect())
    };
    if is_long(&args[0]) { once(args, types, test) } else { test(args) }
}

/// `value IN (items)`, each item compared to the value by MySQL's rules; items compared in the same
/// way are combined into one list.
///
/// # Errors
/// When an expression cannot be traversed.
fn in_list(value: Operand<'_>, items: Vec<Operand<'_>>) -> Result<Expr> {
    let mut lists = Lists::default();
    for item in items {
        let Some(literals) = in_set::literals_of(&item.0) else {
            lists.put(value.clone(), item);
            continue;
        };
        for list in literals {
            if is_as_it_is(value.1, list.data_type()) {
                lists.tests.push(in_set::in_set(value.clone(), &list)?);
                continue;
            }
            for at in 0..list.len() {
                interrupt::check()?;
                let item = lit(ScalarValue::try_from_array(&list, at)?);
                lists.put(value.clone(), (item, list.data_type()));
            }
        }
    }
    lists.test()
}

/// `FIELD(value, items)`: the position of the item that equals the value. If any argument is a
/// number, all are compared as numbers, otherwise as text.
///
/// # Errors
/// When arguments that are used repeatedly cannot be turned into a function.
pub fn field(args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    let is_number = |ty: &DataType| ty.is_numeric() || *ty == DataType::Boolean;
    if !types.iter().any(is_number) {
        return Ok(super::call("mysql_field", args));
    }
    let exact = types.iter().all(|ty| exact_digits(ty).is_some());
    let wanted = if exact { common_of(types) } else { DataType::Float64 };
    shared(args, types, |args| {
        let mut numbers = args.into_iter().zip(types).map(|(arg, ty)| converted(arg, ty, &wanted));
        let value = numbers.next().expect("arity is checked");
        let mut cases = when(lit(false), lit(0_i64));
        for (item, place) in numbers.zip(1_i64..) {
            cases.when(value.clone().eq(item), lit(place));
        }
        cases.otherwise(lit(0_i64))
    })
}

/// Whether a value can be compared with literals of this type without conversion.
fn is_as_it_is(value: &DataType, literal: &DataType) -> bool {
    value == literal
        || (is_text(value) && is_text(literal))
        || (value.is_integer() && literal.is_integer())
}

/// The comparisons of a value with its items.
#[derive(Default)]
struct Lists {
    tests: Vec<Expr>,
    /// The converted value, the type of the items and the items.
    alike: Vec<(TypedExpr, DataType, Vec<Expr>)>,
}

impl Lists {
    fn put(&mut self, value: Operand<'_>, item: Operand<'_>) {
        let (value, (item, ty)) = comparable(value, item);
        // DataFusion checks whether a list is constant by evaluating it on a batch without rows,
        // for which CASE returns a constant; and a subquery may be replaced by an expression that
        // reads columns.
        if item.any_column_refs() || has_subquery(&item) {
            self.tests.push(value.0.eq(item));
            return;
        }
        match self.alike.iter_mut().find(|(compared, of, _)| *compared == value && *of == ty) {
            Some((.., list)) => list.push(item),
            None => self.alike.push((value, ty, vec![item])),
        }
    }

    fn test(self) -> Result<Expr> {
        let Self { mut tests, alike } = self;
        for ((value, of), ty, list) in alike {
            let many = list.len() >= in_set::SET_FROM;
            let set = many.then(|| in_set::literal_values(&list, &ty)).flatten();
            tests.push(match set {
                Some(set) => in_set::in_set((value, &of), &set)?,
                None => value.in_list(list, false),
            });
        }
        Ok(tests.into_iter().reduce(Expr::or).unwrap_or_else(|| lit(false)))
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let found = expr.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_))));
    found.expect("nothing that looks at an expression fails")
}
