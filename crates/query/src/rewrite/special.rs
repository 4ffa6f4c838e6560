//! Expressions with a syntax of their own.

use freshet_base::{Result, bail};
use freshet_schema::Collation;
use freshet_schema::collation::Named;
use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CeilFloorKind, DataType, Expr, Subscript, TrimWhereField,
    Value, ValueWithSpan,
};

use super::cast::using;
use super::interval::extracted;
use super::tuple;
use super::values::{call, int, literal, not, take, text, truth};
use crate::functions::collate::COLLATE;
use crate::functions::in_set::SET_FROM;
use crate::functions::nested::ELEMENT_AT;

/// Rewrites an expression after its parts.
pub fn special(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Nested(inner) => *expr = take(inner),
        Expr::Collate { expr: inner, collation } => {
            let name = collation.0.last().map_or_else(String::new, ToString::to_string);
            *expr = collated(take(inner), name.trim_matches(['`', '\'', '"']))?;
        }
        Expr::Prefixed { prefix, value } if prefix.value.starts_with('_') => {
            *expr = introduced(&prefix.value, take(value))?;
        }
        Expr::Interval(_) => bail!(
            Syntax,
            "You have an error in your SQL syntax; INTERVAL stands beside + or - or in a date \
             function only"
        ),
        Expr::MatchAgainst { .. } => {
            bail!(NotSupported, "This version of Freshet doesn't yet support 'MATCH AGAINST'")
        }
        Expr::Like { .. } | Expr::RLike { .. } => pattern(expr),
        Expr::InList { .. } => list(expr)?,
        Expr::Array(array) => *expr = call("make_array", std::mem::take(&mut array.elem)),
        Expr::CompoundFieldAccess { root, access_chain } => {
            *expr = element(take(root), std::mem::take(access_chain))?;
        }
        _ => {
            if let Some(new) = tested(expr).or_else(|| called(expr)) {
                *expr = new;
            }
        }
    }
    Ok(())
}

/// The column of `t.a[1]`, whose name is parsed as a chain.
pub fn name_column(root: &mut Expr, chain: &mut Vec<AccessExpr>) {
    let Expr::Identifier(first) = root else { return };
    let is_name = |access: &&AccessExpr| matches!(access, AccessExpr::Dot(Expr::Identifier(_)));
    let count = chain.iter().take_while(is_name).count();
    let names = chain.drain(..count).filter_map(|access| match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name),
        _ => None,
    });
    let names = std::iter::once(first.clone()).chain(names).collect::<Vec<_>>();
    if count > 0 {
        *root = Expr::CompoundIdentifier(names);
    }
}

/// `root[1]['k'].a`.
fn element(root: Expr, chain: Vec<AccessExpr>) -> Result<Expr> {
    chain.into_iter().try_fold(root, |container, access| {
        let key = match access {
            AccessExpr::Subscript(Subscript::Index { index }) => index,
            AccessExpr::Dot(Expr::Identifier(name)) => text(name.value),
            other => bail!(
                Syntax,
                "You have an error in your SQL syntax; '{other}' is no subscript of one element: \
                 use ARRAY_SLICE"
            ),
        };
        Ok(call(ELEMENT_AT, vec![container, key]))
    })
}

/// A literal after a character set introducer: the text of the bytes of a hexadecimal literal, and
/// after `_binary` bytes.
fn introduced(charset: &str, value: Expr) -> Result<Expr> {
    let binary = charset.eq_ignore_ascii_case("_binary");
    let bytes = match &value {
        Expr::Value(value) => match &value.value {
            Value::HexStringLiteral(_) => true,
            Value::SingleQuotedString(_) => binary,
            _ => false,
        },
        _ => false,
    };
    let value = if bytes { call("mysql_binary", vec![value]) } else { value };
    match bytes && !binary {
        true => using(value, &charset[1..]),
        false => Ok(value),
    }
}

/// IS TRUE, IS FALSE, IS UNKNOWN and their negations, of any type of operand.
fn tested(expr: &mut Expr) -> Option<Expr> {
    let test = |inner: &mut Box<Expr>| Box::new(truth(take(inner)));
    Some(match expr {
        Expr::IsTrue(inner) => Expr::IsTrue(test(inner)),
        Expr::IsNotTrue(inner) => Expr::IsNotTrue(test(inner)),
        Expr::IsFalse(inner) => Expr::IsFalse(test(inner)),
        Expr::IsNotFalse(inner) => Expr::IsNotFalse(test(inner)),
        Expr::IsUnknown(inner) => Expr::IsNull(Box::new(take(inner))),
        Expr::IsNotUnknown(inner) => Expr::IsNotNull(Box::new(take(inner))),
        _ => return None,
    })
}

/// LIKE and REGEXP.
fn pattern(expr: &mut Expr) {
    match expr {
        Expr::Like { negated, expr: body, pattern, escape_char, .. } => {
            let mut wanted = call("mysql_like_text", vec![take(pattern)]);
            if let Some(ValueWithSpan { value, .. }) = escape_char.take() {
                wanted = call("mysql_like_escape", vec![wanted, literal(value)]);
            }
            let body = call("mysql_like_text", vec![take(body)]);
            let matched = call("mysql_like", vec![body, wanted]);
            *expr = if *negated { not(matched) } else { matched };
        }
        Expr::RLike { negated, expr: body, pattern, .. } => {
            let matched = call("regexp_like", vec![take(body), take(pattern)]);
            *expr = if *negated { not(matched) } else { matched };
        }
        _ => {}
    }
}

/// `expr COLLATE name`.
fn collated(expr: Expr, name: &str) -> Result<Expr> {
    match Collation::named(name) {
        Some(Named::Known(collation)) => Ok(call(COLLATE, vec![expr, text(collation.name())])),
        Some(Named::OfCharset(_)) => {
            bail!(CollationCharset, "COLLATION '{name}' is not valid for CHARACTER SET 'utf8mb4'")
        }
        None => bail!(UnknownCollation, "Unknown collation: '{name}'"),
    }
}

/// `x IN (...)`, where `x` may be a row.
fn list(expr: &mut Expr) -> Result<()> {
    let Expr::InList { expr: body, list, negated } = expr else { return Ok(()) };
    if let Expr::Tuple(parts) = &**body {
        if let Some(new) = tuple::in_list(parts, list, *negated)? {
            *expr = new;
        }
        return Ok(());
    }
    let body = match take(body) {
        // A JSON string is compared by its text.
        json if is_json(&json) => call("json_unquote", vec![json]),
        other => other,
    };
    // Each item is compared by its type.
    let items = with_literals_as_one(std::mem::take(list));
    let found = call("mysql_in", std::iter::once(body).chain(items).collect());
    *expr = if *negated { not(found) } else { found };
    Ok(())
}

/// Combines the literals of a long list into one item.
fn with_literals_as_one(items: Vec<Expr>) -> Vec<Expr> {
    let is_literal = |item: &Expr| match item {
        Expr::Value(value) => {
            matches!(value.value, Value::Number(..) | Value::SingleQuotedString(_) | Value::Null)
        }
        _ => false,
    };
    if items.len() < SET_FROM {
        return items;
    }
    let (literals, mut items) = items.into_iter().partition::<Vec<_>, _>(is_literal);
    if !literals.is_empty() {
        items.push(Expr::Array(Array { elem: literals, named: false }));
    }
    items
}

fn is_json(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op, .. } => *op == BinaryOperator::Arrow,
        Expr::Function(function) => function.name.to_string().eq_ignore_ascii_case("json_extract"),
        _ => false,
    }
}

/// Functions with the syntax of an operator or with keywords in parentheses.
fn called(expr: &mut Expr) -> Option<Expr> {
    Some(match expr {
        Expr::Extract { field, expr, .. } => extracted(&field.to_string(), take(expr)),
        Expr::Ceil { expr, field } => call("ceil", with_digits(take(expr), field)),
        Expr::Floor { expr, field } => call("floor", with_digits(take(expr), field)),
        Expr::Position { expr, r#in } => call("locate", vec![take(expr), take(r#in)]),
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let mut args = vec![take(expr)];
            args.push(substring_from.as_deref_mut().map_or_else(|| int(1), take));
            args.extend(substring_for.as_deref_mut().map(take));
            call("substring", args)
        }
        Expr::Trim { trim_where, trim_what, expr, .. } => {
            let side = match trim_where {
                Some(TrimWhereField::Leading) => "LEADING",
                Some(TrimWhereField::Trailing) => "TRAILING",
                Some(TrimWhereField::Both) | None => "BOTH",
            };
            let what = trim_what.as_deref_mut().map_or_else(|| text(" "), take);
            call("mysql_trim", vec![take(expr), what, text(side)])
        }
        Expr::TypedString(typed) => {
            let name = match typed.data_type {
                DataType::Date => "mysql_date",
                DataType::Time(..) => "mysql_time",
                DataType::Datetime(_) | DataType::Timestamp(..) => "mysql_datetime",
                _ => return None,
            };
            call(name, vec![literal(typed.value.value.clone())])
        }
        Expr::MemberOf(member) => {
            call("mysql_member_of", vec![take(&mut member.value), take(&mut member.array)])
        }
        _ => return None,
    })
}

fn with_digits(expr: Expr, field: &CeilFloorKind) -> Vec<Expr> {
    match field {
        CeilFloorKind::Scale(digits) => vec![expr, literal(digits.value.clone())],
        CeilFloorKind::DateTimeField(_) => vec![expr],
    }
}
