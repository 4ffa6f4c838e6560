//! `value IN (items)`, where items may be of any types.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, lit, when};

use super::in_set;
use super::operators::{Operand, Typed, comparable};
use super::typed::{common_of, converted, exact_digits, shared};
use crate::convert::is_text;
use crate::interrupt;

/// `value IN (items)`, each item compared as MySQL compares it with the value; those that are
/// compared alike are one list.
///
/// # Errors
/// An expression that cannot be walked through.
pub fn in_list(value: Operand<'_>, items: Vec<Operand<'_>>) -> Result<Expr> {
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

/// `FIELD(value, items)`: the place of the item that equals the value. Texts and times are compared
/// as texts where all are such, and everything as numbers where one is.
///
/// # Errors
/// What cannot be computed once where it is used for each item.
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

/// Whether a value of one type is compared with all literals of another as both are.
fn is_as_it_is(value: &DataType, literal: &DataType) -> bool {
    value == literal
        || (is_text(value) && is_text(literal))
        || (value.is_integer() && literal.is_integer())
}

/// What a value is compared with, item by item.
#[derive(Default)]
struct Lists {
    tests: Vec<Expr>,
    /// The value as it is compared, and items of one type.
    alike: Vec<(Typed, DataType, Vec<Expr>)>,
}

impl Lists {
    fn put(&mut self, value: Operand<'_>, item: Operand<'_>) {
        let (value, (item, ty)) = comparable(value, item);
        // DataFusion finds out whether a list is the same for all rows by asking for no rows, for
        // which CASE answers with a constant; a subquery may become one that reads columns.
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
