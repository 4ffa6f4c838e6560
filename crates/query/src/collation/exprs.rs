//! Comparisons inside an expression: texts become their weights, or characters that are equal
//! become the same.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{InSubquery, ScalarFunction, Sort};
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, LogicalPlanBuilder, Operator, Subquery, lit,
};
use std::sync::Arc;

use super::scope::{Class, Scope};
use crate::convert::is_text;
use crate::functions::collate::{
    CHARSET_OF, COERCIBILITY_OF, COLLATION_OF, WEIGHTS_OF, folded_text, packed, text_of, weights,
    weights_of,
};
use crate::functions::group_concat::BY;
use crate::functions::once::{is_long, once};
use crate::functions::operators::compare;
use crate::functions::pattern::IGNORES_CASE;
use crate::functions::{call, in_set};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

/// The column of a subquery that is compared; no user column is named like this.
const MEMBER: &str = "#weights";

/// How many options GROUP_CONCAT has before its keys.
const GROUP_CONCAT_KEYS: usize = 3;

impl Scope<'_> {
    /// The expression with its comparisons by collation. Its subqueries are changed already.
    ///
    /// # Errors
    /// 1267 and 1271 for texts that have no collation in common.
    pub fn changed(&self, expr: Expr) -> Result<Expr> {
        expr.transform_up(|part| self.part(part)).map(|changed| changed.data)
    }

    /// A key of a group, an order or a join: its weights.
    ///
    /// # Errors
    /// 1267 and 1271.
    pub fn key(&self, key: Expr) -> Result<Expr> {
        Ok(match self.of_key(&key)? {
            Some(collation) => weights(collation, key),
            None => key,
        })
    }

    fn part(&self, part: Expr) -> Result<Transformed<Expr>> {
        match part {
            Expr::BinaryExpr(binary) if is_comparison(binary.op) => self.binary(binary),
            Expr::Between(between) => self.between(between),
            Expr::ScalarFunction(call) => self.call(call),
            Expr::AggregateFunction(mut call) => {
                let params = &mut call.params;
                let of_keys = params.distinct && call.func.name() == "count";
                if of_keys || call.func.name() == "approx_distinct" {
                    self.keys(&mut params.args)?;
                }
                if call.func.name() == "mysql_group_concat" {
                    self.keys(params.args.get_mut(GROUP_CONCAT_KEYS..).unwrap_or_default())?;
                    self.told_apart(&mut params.args)?;
                }
                self.orders(&mut params.order_by)?;
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            Expr::WindowFunction(mut window) => {
                self.keys(&mut window.params.partition_by)?;
                self.orders(&mut window.params.order_by)?;
                if window.params.distinct {
                    self.keys(&mut window.params.args)?;
                }
                Ok(Transformed::yes(Expr::WindowFunction(window)))
            }
            Expr::InSubquery(membership) => self.member(membership),
            other => Ok(Transformed::no(other)),
        }
    }

    /// Says GROUP_CONCAT(DISTINCT) by which collation its texts differ.
    fn told_apart(&self, args: &mut [Expr]) -> Result<()> {
        let Some(by) = self.of_key(&args[0])? else { return Ok(()) };
        if let [_, _, options @ Expr::Literal(..), ..] = args
            && let Expr::Literal(value, _) = &*options
            && let Some(Some(words)) = value.try_as_str()
            && words.split(' ').any(|word| word == "distinct")
        {
            *options = lit(format!("{words} {BY}{}", by.number()));
        }
        Ok(())
    }

    fn keys(&self, keys: &mut [Expr]) -> Result<()> {
        for key in keys {
            *key = self.key(std::mem::take(key))?;
        }
        Ok(())
    }

    fn orders(&self, orders: &mut [Sort]) -> Result<()> {
        for by in orders {
            by.expr = self.key(std::mem::take(&mut by.expr))?;
        }
        Ok(())
    }

    fn binary(&self, binary: BinaryExpr) -> Result<Transformed<Expr>> {
        let BinaryExpr { left, op, right } = binary;
        let operation = op.to_string();
        let operation = match op {
            Operator::IsNotDistinctFrom => "<=>",
            _ => operation.as_str(),
        };
        Ok(match self.compared(&[&left, &right], operation)? {
            Some(by) => {
                let (left, right) = (weights(by, *left), weights(by, *right));
                Transformed::yes(datafusion::logical_expr::binary_expr(left, op, right))
            }
            None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        })
    }

    fn between(&self, between: Between) -> Result<Transformed<Expr>> {
        let Between { expr, negated, low, high } = between;
        Ok(match self.compared(&[&expr, &low, &high], "BETWEEN")? {
            Some(by) => {
                let [expr, low, high] = [expr, low, high].map(|part| Box::new(weights(by, *part)));
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            None => Transformed::no(Expr::Between(Between { expr, negated, low, high })),
        })
    }

    fn call(&self, call: ScalarFunction) -> Result<Transformed<Expr>> {
        let ScalarFunction { func, args } = call;
        let same = |args| {
            Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction {
                func: Arc::clone(&func),
                args,
            })))
        };
        let name = func.name();
        match name {
            "mysql_in" => return self.list(args),
            COLLATION_OF | CHARSET_OF | COERCIBILITY_OF => {
                return Ok(Transformed::yes(self.property(name, &args[0])?));
            }
            WEIGHTS_OF => return self.weight_string(args).map(Transformed::yes),
            "mysql_row_key" => return self.row_key(args),
            "mysql_like" if is_truth(&args[0]) => return same(args),
            _ => {}
        }
        let compared = match name {
            "mysql_between" | "nullif" | "greatest" | "least" | "field" | "strcmp" => &args[..],
            "mysql_like" | "instr" | "locate" | "find_in_set" | "regexp_like"
            | "regexp_replace" | "regexp_substr" | "regexp_instr" => &args[..2.min(args.len())],
            _ => return same(args),
        };
        let compared = compared.iter().collect::<Vec<_>>();
        let operation = if name == "mysql_like" { "like" } else { name };
        let Some(by) = self.compared(&compared, operation)? else { return same(args) };
        let all = |args: Vec<Expr>| args.into_iter().map(|arg| weights(by, arg));
        let first_two = |mut args: Vec<Expr>| {
            for arg in args.iter_mut().take(2) {
                *arg = folded_text(by, std::mem::take(arg));
            }
            args
        };
        Ok(Transformed::yes(match name {
            "mysql_between" => func.call(all(args).collect()),
            "nullif" => self.copying(args, |args| {
                let value = args[0].clone();
                let equal = all(args).reduce(Expr::eq).expect("arity is checked");
                Ok(crate::functions::call("mysql_case", vec![equal, lit(ScalarValue::Null), value]))
            })?,
            "strcmp" => self.copying(args, |args| Ok(compared_signs(all(args).collect())))?,
            "field" => self.copying(args, |args| Ok(place(all(args).collect())))?,
            "greatest" | "least" => {
                let ty = func_type(self, &args);
                let args = args.into_iter().map(|arg| packed(by, arg)).collect();
                text_of(func.call(args), &ty)
            }
            "regexp_like" | "regexp_replace" | "regexp_substr" | "regexp_instr" => {
                if by.is_case_sensitive() || has_flags(name, args.len()) {
                    return same(args);
                }
                let mut args = args;
                let pattern = std::mem::take(&mut args[1]);
                args[1] = crate::functions::call("concat", vec![lit(IGNORES_CASE), pattern]);
                func.call(args)
            }
            _ if by.is_case_sensitive() => return same(args),
            _ => func.call(first_two(args)),
        }))
    }

    /// COLLATION, CHARSET or COERCIBILITY of a value.
    fn property(&self, name: &str, value: &Expr) -> Result<Expr> {
        let is_text = matches!(self.class(value), Class::Text);
        Ok(match name {
            COERCIBILITY_OF => lit(self.of(value)?.strength as i64),
            COLLATION_OF if is_text => lit(self.of(value)?.collation.name()),
            CHARSET_OF if is_text => lit("utf8mb4"),
            _ => lit("binary"),
        })
    }

    /// `WEIGHT_STRING(value)`: what texts are compared by, bytes themselves, and NULL for others.
    fn weight_string(&self, mut args: Vec<Expr>) -> Result<Expr> {
        let arg = args.remove(0);
        if matches!(self.class(&arg), Class::Text) {
            return Ok(weights(self.of(&arg)?.collation, arg));
        }
        let is_bytes = arg.to_field(self.schema).is_ok_and(|(_, field)| {
            matches!(
                field.data_type(),
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView
            )
        });
        Ok(match is_bytes {
            true => datafusion::logical_expr::cast(arg, DataType::BinaryView),
            false => lit(ScalarValue::BinaryView(None)),
        })
    }

    /// `value IN (items)`: texts are compared by their weights, other items as before.
    fn list(&self, args: Vec<Expr>) -> Result<Transformed<Expr>> {
        let same = |args| Ok(Transformed::no(call("mysql_in", args)));
        if !matches!(self.class(&args[0]), Class::Text) {
            return same(args);
        }
        let is_text_list = |item: &Expr| {
            let lists = in_set::literals_of(item);
            lists.is_some_and(|lists| lists.iter().any(|list| is_text(list.data_type())))
        };
        let is_text_item = |item: &Expr| matches!(self.class(item), Class::Text);
        let texts = args.iter().filter(|item| is_text_item(item)).collect::<Vec<_>>();
        let by = match texts.len() > 1 {
            true => self.compared(&texts, "IN")?,
            false => None,
        };
        let by = match by {
            None if args.iter().any(is_text_list) => self.compared(&[&args[0], &lit("")], "IN")?,
            by => by,
        };
        let Some(by) = by else { return same(args) };
        let are_texts = args.iter().map(is_text_item).collect::<Vec<_>>();
        let test = |args: Vec<Expr>| -> Result<Expr> {
            let mut args = args.into_iter();
            let value = args.next().expect("arity is checked");
            let weighed = weights(by, value.clone());
            let (mut texts, mut others) = (vec![weighed], vec![value]);
            for (item, is_one) in args.zip(are_texts.into_iter().skip(1)) {
                if is_one {
                    texts.push(weights(by, item));
                } else if is_text_list(&item) {
                    let weigh = |list: &ArrayRef| weights_of(by, list);
                    let (with, without) = in_set::divided(&item, is_text, weigh)?;
                    texts.push(with);
                    others.extend(without);
                } else {
                    others.push(item);
                }
            }
            let found = call("mysql_in", texts);
            Ok(match others.len() {
                1 => found,
                _ => found.or(call("mysql_in", others)),
            })
        };
        self.copying(args, test).map(Transformed::yes)
    }

    /// What `body` makes of arguments that it may use several times; if one is long, each is
    /// computed once.
    fn copying(
        &self,
        args: Vec<Expr>,
        body: impl FnOnce(Vec<Expr>) -> Result<Expr>,
    ) -> Result<Expr> {
        if !args.iter().any(is_long) {
            return body(args);
        }
        let types = args.iter().map(|arg| arg.get_type(self.schema)).collect::<Result<Vec<_>>>()?;
        once(args, &types, body)
    }

    /// Each text as the digits of its weights.
    fn row_key(&self, mut args: Vec<Expr>) -> Result<Transformed<Expr>> {
        for arg in &mut args {
            if let Some(by) = self.of_key(arg)? {
                *arg = call("mysql_hex_text", vec![weights(by, std::mem::take(arg))]);
            }
        }
        Ok(Transformed::yes(call("mysql_row_key", args)))
    }

    fn member(&self, membership: InSubquery) -> Result<Transformed<Expr>> {
        let InSubquery { expr, subquery, negated } = membership;
        let rows = &subquery.subquery;
        let value = Expr::ScalarSubquery(subquery.clone());
        let Some(by) = self.compared(&[&expr, &value], "IN")? else {
            return Ok(Transformed::no(Expr::InSubquery(InSubquery { expr, subquery, negated })));
        };
        let column = datafusion::common::Column::from(rows.schema().qualified_field(0));
        let weighed = weights(by, Expr::Column(column)).alias(MEMBER);
        let rows = LogicalPlanBuilder::from(rows.as_ref().clone()).project([weighed])?.build()?;
        let subquery = Subquery { subquery: Arc::new(rows), ..subquery };
        let expr = Box::new(weights(by, *expr));
        Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Whether a text is that of a truth value, a digit: it has no case, and chains of LIKE are soon
/// planned.
fn is_truth(text: &Expr) -> bool {
    let Expr::ScalarFunction(call) = text else { return false };
    let is_condition = |value: &Expr| match value {
        Expr::ScalarFunction(condition) => condition.func.name() == "mysql_like",
        Expr::BinaryExpr(binary) => is_comparison(binary.op),
        _ => false,
    };
    call.func.name() == "mysql_like_text" && call.args.first().is_some_and(is_condition)
}

/// Whether a call of a REGEXP function says itself whether case matters.
fn has_flags(name: &str, args: usize) -> bool {
    match name {
        "regexp_like" => args > 2,
        "regexp_replace" | "regexp_instr" => args > 5,
        "regexp_substr" => args > 4,
        _ => false,
    }
}

fn func_type(scope: &Scope<'_>, args: &[Expr]) -> DataType {
    use datafusion::logical_expr::ExprSchemable;
    let types = args.iter().map(|arg| arg.get_type(scope.schema).unwrap_or(DataType::Utf8View));
    crate::functions::types::common_of(&types.collect::<Vec<_>>())
}

/// STRCMP of weights.
fn compared_signs(both: Vec<Expr>) -> Expr {
    let [left, right] = <[Expr; 2]>::try_from(both).expect("arity is checked");
    let is = |op| {
        let ty = &DataType::BinaryView;
        compare((left.clone(), ty), op, (right.clone(), ty))
    };
    let cases = [(is(Operator::Eq), 0), (is(Operator::Lt), -1), (is(Operator::Gt), 1)];
    let cases = cases.into_iter().flat_map(|(when, sign)| [when, lit(i64::from(sign))]);
    call("mysql_case", cases.chain([lit(ScalarValue::Null)]).collect())
}

/// FIELD of weights.
fn place(all: Vec<Expr>) -> Expr {
    let (value, items) = all.split_first().expect("arity is checked");
    let cases = items.iter().zip(1_i64..);
    let cases = cases.flat_map(|(item, at)| [value.clone().eq(item.clone()), lit(at)]);
    call("mysql_case", cases.chain([lit(0_i64)]).collect())
}
