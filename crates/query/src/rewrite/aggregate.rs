//! Aggregates: argument types of SUM and AVG, GROUP_CONCAT, JSON lists, COUNT of several columns.

use freshet_base::{Result, bail};
use sqlparser::ast::{
    BinaryOperator, CaseWhen, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, NullTreatment, ObjectName,
};

use super::values::{argument, call, case, int, take, text};
use crate::evaluation::Bounds;
use crate::functions::list;
use crate::session::Session;

/// Maximum length in bytes of results that concatenate the values of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    text_bytes_max: u64,
    json_bytes_max: u64,
}

impl GroupLimits {
    /// The limits of a session: `group_concat_max_len` and `max_allowed_packet`.
    pub fn of(session: &Session<'_>) -> Self {
        let packet = Bounds::of(session).packet_bytes_max as u64;
        let text = session.number("group_concat_max_len").unwrap_or(packet);
        Self { text_bytes_max: text.min(packet), json_bytes_max: packet }
    }
}

/// Names of aggregates in MySQL and Doris, and in DataFusion.
const NAMES: [(&str, &str); 12] = [
    ("std", "stddev_pop"),
    ("stddev", "stddev_pop"),
    ("variance", "var_pop"),
    ("any_value", "first_value"),
    ("approx_count_distinct", "approx_distinct"),
    ("hll_raw_agg", "hll_union"),
    ("ndv", "approx_distinct"),
    ("var_samp", "var_sample"),
    ("group_concat", "mysql_group_concat"),
    ("collect_list", "array_agg"),
    ("group_array", "array_agg"),
    ("collect_set", "array_agg"),
];

/// Whether an expression calls an aggregate, by its name before or after it is rewritten.
pub fn is_call(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let name = function.name.to_string().replace('`', "").to_lowercase();
    let is_renamed = NAMES.iter().any(|(_, renamed)| *renamed == name);
    function.over.is_none() && (is_renamed || list::is_aggregate(&name))
}

/// Whether an aggregate is called in an expression, outside of its subqueries.
pub fn has_call(expr: &Expr) -> bool {
    super::having::find_own(expr, |part, _| is_call(part).then_some(())).is_some()
}

/// Whether an expression is GROUPING of keys.
pub fn is_grouping(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("grouping"))
}

fn rename(function: &mut Function, name: &str) {
    function.name = ObjectName::from(vec![Ident::new(name)]);
}

fn exprs(function: &mut Function) -> Vec<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return Vec::new() };
    list.args
        .iter_mut()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

fn is_distinct(function: &Function) -> bool {
    match &function.args {
        FunctionArguments::List(list) => {
            list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
        }
        _ => false,
    }
}

/// Rewrites an aggregate: in place, or by returning a replacement.
pub fn replaced(name: &str, function: &mut Function, limits: GroupLimits) -> Result<Option<Expr>> {
    if let Some((_, wanted)) = NAMES.iter().find(|(other, _)| *other == name) {
        rename(function, wanted);
    }
    match name {
        "sum" => {
            summand(function);
            Ok(None)
        }
        "avg" => Ok(Some(average(function))),
        "count" => {
            count(function)?;
            Ok(None)
        }
        "group_concat" if is_limited(function) => {
            bail!(Syntax, "You have an error in your SQL syntax; GROUP_CONCAT has no LIMIT")
        }
        "group_concat" => Ok(Some(group_concat(function, limits.text_bytes_max))),
        "json_arrayagg" | "json_objectagg" => {
            let object = name == "json_objectagg";
            Ok(Some(json_list(function, object, limits.json_bytes_max)))
        }
        "std" | "stddev" | "stddev_pop" | "stddev_samp" | "variance" | "var_pop" | "var_samp" => {
            for arg in exprs(function) {
                *arg = call("mysql_double", vec![take(arg)]);
            }
            Ok(None)
        }
        "collect_list" | "group_array" | "collect_set" => {
            // Those of NULL are left out.
            function.null_treatment = Some(NullTreatment::IgnoreNulls);
            if let (FunctionArguments::List(list), "collect_set") = (&mut function.args, name) {
                list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            }
            Ok(None)
        }
        "bit_and" | "bit_or" | "bit_xor" => Ok(Some(bits(name, function))),
        "bitmap_agg" | "bitmap_union_int" | "bitmap_union_count" | "hll_union_agg" => {
            Ok(Some(sketched(name, function)))
        }
        "intersect_count" => Ok(Some(intersect_count(function))),
        _ => Ok(None),
    }
}

fn summand(function: &mut Function) {
    let name = match is_distinct(function) {
        true => "mysql_distinct_summand",
        false => "mysql_summand",
    };
    for arg in exprs(function) {
        *arg = call(name, vec![take(arg)]);
    }
}

/// AVG is the sum divided by the count, with a scale of four more than the argument's.
fn average(function: &mut Function) -> Expr {
    let mut count = function.clone();
    rename(&mut count, "count");
    rename(function, "sum");
    summand(function);
    call("mysql_divide", vec![Expr::Function(function.clone()), Expr::Function(count)])
}

/// COUNT(DISTINCT a, b) counts distinct rows without NULL.
fn count(function: &mut Function) -> Result<()> {
    let distinct = is_distinct(function);
    let mut args = exprs(function);
    if args.len() > 1 && !distinct {
        bail!(Syntax, "You have an error in your SQL syntax; COUNT of several values is DISTINCT");
    }
    if args.len() > 1 {
        let parts = args.iter_mut().map(|arg| take(arg)).collect();
        if let FunctionArguments::List(list) = &mut function.args {
            list.args = vec![argument(call("mysql_row_key", parts))];
        }
    }
    Ok(())
}

/// Whether a call has a LIMIT, which is one of MariaDB.
fn is_limited(function: &Function) -> bool {
    let is_limit =
        |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::Limit(_));
    matches!(&function.args, FunctionArguments::List(list) if list.clauses.iter().any(is_limit))
}

/// `GROUP_CONCAT(DISTINCT a, b ORDER BY c DESC SEPARATOR ';')` becomes
/// `mysql_group_cut(mysql_group_concat(text, ';', '1024 distinct desc', c), 1024, ';')`: it sorts
/// by itself, because several aggregates in one SELECT may have different orders.
fn group_concat(function: &mut Function, bytes_max: u64) -> Expr {
    let FunctionArguments::List(list) = &mut function.args else {
        return Expr::Function(function.clone());
    };
    let mut separator = text(",");
    let mut orders = Vec::new();
    for clause in list.clauses.drain(..) {
        match clause {
            FunctionArgumentClause::Separator(value) => {
                separator = text(value.value.into_string().unwrap_or_default());
            }
            FunctionArgumentClause::OrderBy(by) => orders = by,
            _ => {}
        }
    }
    let parts = list.args.drain(..).filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    let parts = parts.collect::<Vec<_>>();
    let mut options = vec![bytes_max.to_string()];
    if list.duplicate_treatment.take() == Some(DuplicateTreatment::Distinct) {
        options.push("distinct".to_owned());
    }
    let mut keys = Vec::new();
    for order in orders {
        let descending = order.options.asc == Some(false);
        options.push(if descending { "desc" } else { "asc" }.to_owned());
        // A number is the position of an argument.
        let place = order.expr.to_string().parse::<usize>().ok();
        let argument = place.and_then(|place| parts.get(place.checked_sub(1)?)).cloned();
        keys.push(argument.unwrap_or(order.expr));
    }
    let body = call("concat", parts);
    let args = [body, separator.clone(), text(options.join(" "))].into_iter().chain(keys);
    list.args = args.map(argument).collect();
    call("mysql_group_cut", vec![Expr::Function(function.clone()), int(bytes_max), separator])
}

/// JSON_ARRAYAGG and JSON_OBJECTAGG concatenate the JSON of their items.
fn json_list(function: &mut Function, object: bool, bytes_max: u64) -> Expr {
    let item = |value: &mut Expr| call("mysql_json_item", vec![take(value)]);
    let listed = match (&mut exprs(function)[..], object) {
        ([key, value], true) => {
            call("concat", vec![call("json_quote", vec![take(key)]), text(": "), item(value)])
        }
        ([value], false) => item(value),
        _ => return Expr::Function(function.clone()),
    };
    if let FunctionArguments::List(list) = &mut function.args {
        let options = text(format!("{bytes_max} whole"));
        list.args = [listed, text(", "), options].map(argument).to_vec();
    }
    rename(function, "mysql_group_concat");
    let (open, close) = if object { ("{", "}") } else { ("[", "]") };
    let parts = vec![text(open), Expr::Function(function.clone()), text(close)];
    call("mysql_json", vec![call("concat", parts)])
}

/// The union of sketches, or of numbers as such, and perhaps how many values it has.
fn sketched(name: &str, function: &mut Function) -> Expr {
    if matches!(name, "bitmap_agg" | "bitmap_union_int") {
        for arg in exprs(function) {
            *arg = call("to_bitmap", vec![take(arg)]);
        }
    }
    let (union, counted) = match name {
        "hll_union_agg" => ("hll_union", Some("hll_cardinality")),
        "bitmap_agg" => ("bitmap_union", None),
        _ => ("bitmap_union", Some("bitmap_count")),
    };
    rename(function, union);
    let union = Expr::Function(function.clone());
    counted.map_or(union.clone(), |counted| call(counted, vec![union]))
}

/// `INTERSECT_COUNT(b, d, v, ...)`: how many numbers the bitmaps have in common that are united
/// for each of the values of `d`.
fn intersect_count(function: &mut Function) -> Expr {
    let mut args = exprs(function).into_iter().map(take);
    let (Some(bitmap), Some(by)) = (args.next(), args.next()) else {
        return Expr::Function(function.clone());
    };
    let values = args.collect::<Vec<_>>();
    rename(function, "bitmap_union");
    let united = values.into_iter().map(|value| {
        let is_it = Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(by.clone()))),
            op: BinaryOperator::Eq,
            right: Box::new(Expr::Nested(Box::new(value))),
        };
        let when = CaseWhen { condition: is_it, result: bitmap.clone() };
        let of_value = case(vec![when], None);
        let mut union = function.clone();
        if let FunctionArguments::List(list) = &mut union.args {
            list.args = vec![argument(of_value)];
        }
        Expr::Function(union)
    });
    call("bitmap_and_count", united.collect())
}

/// BIT_AND, BIT_OR and BIT_XOR are unsigned 64-bit integers, and not NULL for an empty group.
fn bits(name: &str, function: &mut Function) -> Expr {
    for arg in exprs(function) {
        *arg = call("mysql_unsigned", vec![call("mysql_signed", vec![take(arg)])]);
    }
    let empty = if name == "bit_and" { int(u64::MAX) } else { int(0) };
    call("coalesce", vec![Expr::Function(function.clone()), call("mysql_unsigned", vec![empty])])
}
