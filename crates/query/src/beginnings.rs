//! LIKE by a collation, as pruning and indexes see it: what all texts begin with that it accepts
//! bounds their weights (RFC 0033).

use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, lit};
use freshet_schema::collation::bounds::of_beginning;
use freshet_schema::{Collation, TableSchema};

use crate::functions::{collate, like};

/// The same condition, with bounds of the weights of columns beside each LIKE of their texts. It
/// accepts the same rows; only what looks for conditions on weights is to see it.
pub fn with_bounds(filter: Expr, schema: &TableSchema) -> Expr {
    let bounds = split_conjunction(&filter).into_iter().filter_map(|part| bounds(part, schema));
    let bounds = bounds.collect::<Vec<_>>();
    bounds.into_iter().fold(filter, Expr::and)
}

fn bounds(condition: &Expr, schema: &TableSchema) -> Option<Expr> {
    let (text, pattern) = match condition {
        Expr::Like(like) if like.negated || like.case_insensitive => return None,
        Expr::Like(like) if like.escape_char.is_some_and(|sign| sign != '\\') => return None,
        Expr::Like(like) => (&*like.expr, &*like.pattern),
        Expr::ScalarFunction(call) if call.func.name() == like::MYSQL_LIKE => {
            let [text, pattern] = &call.args[..] else { return None };
            (text, pattern)
        }
        _ => return None,
    };
    let (column, collation) = text_of_column(text, schema)?;
    let Expr::Literal(pattern, _) = pattern else { return None };
    let beginning = like::beginning(pattern.try_as_str()??);
    let (lower, upper) = of_beginning(collation, &beginning)?;
    let weights = || collate::weights(collation, column.clone());
    let end = |bytes: Vec<u8>| lit(ScalarValue::BinaryView(Some(bytes)));
    Some(weights().gt_eq(end(lower)).and(weights().lt(end(upper))))
}

/// The column whose text is compared, and its collation: where characters are equal by it, or are
/// the same.
fn text_of_column<'a>(text: &'a Expr, schema: &TableSchema) -> Option<(&'a Expr, Collation)> {
    let (column, folded) = match text {
        Expr::ScalarFunction(call) => match &call.args[..] {
            [column] => (column, Some(call.func.name())),
            _ => return None,
        },
        column => (column, None),
    };
    let Expr::Column(named) = column else { return None };
    let stored = &schema.columns[schema.position(&named.name)?];
    let collation = stored.collation;
    let is_text = stored.ty.is_collated() && !collation.is_by_bytes();
    let is_folded = folded.is_none_or(|name| name == collate::folded_name(collation));
    (is_text && is_folded).then_some((column, collation))
}
