//! Expressions.

use freshet_base::{Result, bail, err};
use sqlparser::ast::{
    BinaryOperator, CaseWhen, CeilFloorKind, DataType, DateTimeField, Expr, Ident, TrimWhereField,
    UnaryOperator, Value,
};

use super::values::{
    as_text, call, case, int, literal, null, number, of_variable, take, text, truth,
};
use super::{Rewriter, function};
use crate::session::Scope;

impl Rewriter<'_> {
    /// What must happen before the parts of an expression are rewritten.
    pub(super) fn before(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            // Intervals vanish into the function that adds them.
            Expr::BinaryOp { left, op, right } => {
                let subtract = match op {
                    BinaryOperator::Plus => false,
                    BinaryOperator::Minus => true,
                    _ => return Ok(()),
                };
                if let Expr::Interval(_) = **right {
                    *expr = moved(take(left), take(right), subtract)?;
                } else if let (Expr::Interval(_), false) = (&**left, subtract) {
                    *expr = moved(take(right), take(left), false)?;
                }
                Ok(())
            }
            Expr::Function(function) => function::before(function),
            _ => Ok(()),
        }
    }

    /// Rewrites an expression whose parts are rewritten.
    pub(super) fn after(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Identifier(ident) => {
                if ident.quote_style.is_none() && ident.value.starts_with('@') {
                    *expr = self.variable(std::slice::from_ref(ident))?;
                } else if let Some(name) = niladic(ident) {
                    *expr = self.session_function(name, &[])?.unwrap_or_else(null);
                } else {
                    lower(ident);
                }
            }
            Expr::CompoundIdentifier(idents) => {
                if idents[0].quote_style.is_none() && idents[0].value.starts_with("@@") {
                    *expr = self.variable(idents)?;
                } else {
                    compound(idents);
                }
            }
            Expr::Value(value) => self.value(&mut value.value),
            Expr::Function(_) => self.function(expr)?,
            Expr::UnaryOp { .. } => unary(expr),
            Expr::BinaryOp { .. } => self.binary(expr)?,
            Expr::Between { .. } => between(expr),
            Expr::Case { .. } => rewritten_case(expr),
            Expr::Cast { .. } | Expr::Convert { .. } => converted(expr)?,
            _ => self.special(expr)?,
        }
        Ok(())
    }

    /// Expressions with syntax of their own.
    fn special(&mut self, expr: &mut Expr) -> Result<()> {
        *expr = match expr {
            Expr::Nested(inner) => take(inner),
            Expr::IsTrue(inner) => Expr::IsTrue(Box::new(truth(take(inner)))),
            Expr::IsNotTrue(inner) => Expr::IsNotTrue(Box::new(truth(take(inner)))),
            Expr::IsFalse(inner) => Expr::IsFalse(Box::new(truth(take(inner)))),
            Expr::IsNotFalse(inner) => Expr::IsNotFalse(Box::new(truth(take(inner)))),
            Expr::IsUnknown(inner) => Expr::IsNull(Box::new(take(inner))),
            Expr::IsNotUnknown(inner) => Expr::IsNotNull(Box::new(take(inner))),
            Expr::Like { expr: body, pattern, .. } => {
                **body = call("mysql_like_text", vec![take(body)]);
                **pattern = call("mysql_like_text", vec![take(pattern)]);
                return Ok(());
            }
            Expr::RLike { negated, expr, pattern, .. } => {
                let matched = call("regexp_like", vec![take(expr), take(pattern)]);
                if *negated { not(matched) } else { matched }
            }
            Expr::InList { expr: body, list, negated } => {
                return in_list(expr_of_tuple(body), list, *negated).map(|new| {
                    if let Some(new) = new {
                        *expr = new;
                    }
                });
            }
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
            Expr::Collate { expr, .. } => take(expr),
            Expr::Prefixed { prefix, value } if prefix.value.starts_with('_') => take(value),
            Expr::TypedString(typed) => {
                let name = match typed.data_type {
                    DataType::Date => "mysql_date",
                    DataType::Time(..) => "mysql_time",
                    DataType::Datetime(_) | DataType::Timestamp(..) => "mysql_datetime",
                    _ => return Ok(()),
                };
                call(name, vec![literal(typed.value.value.clone())])
            }
            Expr::Interval(_) => bail!(
                Syntax,
                "You have an error in your SQL syntax; INTERVAL stands beside + or - or in a \
                 date function only"
            ),
            Expr::MatchAgainst { .. } => {
                bail!(NotSupported, "This version of Freshet doesn't yet support 'MATCH AGAINST'")
            }
            Expr::MemberOf(member) => call(
                "json_contains",
                vec![take(&mut member.array), call("json_quote", vec![take(&mut member.value)])],
            ),
            _ => return Ok(()),
        };
        Ok(())
    }

    fn value(&self, value: &mut Value) {
        let replaced = match value {
            Value::DoubleQuotedString(text)
            | Value::NationalStringLiteral(text)
            | Value::EscapedStringLiteral(text) => Value::SingleQuotedString(std::mem::take(text)),
            Value::Boolean(value) => Value::Number(u8::from(*value).to_string(), false),
            _ => return,
        };
        *value = replaced;
    }

    fn binary(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(()) };
        match op {
            BinaryOperator::StringConcat if !self.session.mode.pipes_as_concat => {
                *op = BinaryOperator::Or;
            }
            BinaryOperator::Assignment => {
                bail!(
                    NotSupported,
                    "This version of Freshet doesn't yet support 'assignment of user variables \
                     inside a query'"
                );
            }
            // `row = row` compares the parts.
            BinaryOperator::Eq | BinaryOperator::NotEq => {
                if let (Expr::Tuple(a), Expr::Tuple(b)) = (&mut **left, &mut **right) {
                    let equal = tuples_equal(std::mem::take(a), std::mem::take(b))?;
                    *expr = if *op == BinaryOperator::Eq { equal } else { not(equal) };
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `@@x`, `@@session.x`, `@@global.x` or `@x`.
    fn variable(&mut self, idents: &[Ident]) -> Result<Expr> {
        self.of_session = true;
        let first = &idents[0].value;
        let Some(system) = first.strip_prefix("@@") else {
            let name = first[1..].trim_matches(['`', '\'', '"']);
            return Ok(of_variable(self.session.variables.user(&name.to_lowercase())));
        };
        let (scope, name) = match idents {
            [_] => (Scope::Any, system),
            [_, name] if system.eq_ignore_ascii_case("global") => (Scope::Global, &*name.value),
            [_, name] => (Scope::Session, &*name.value),
            _ => (Scope::Any, ""),
        };
        let name = name.trim_matches('`').to_lowercase();
        self.session
            .variables
            .system(scope, &name)
            .map(of_variable)
            .ok_or_else(|| err!(UnknownVariable, "Unknown system variable '{name}'"))
    }
}

/// Functions that MySQL lets be written without parentheses, which parse as names.
fn niladic(ident: &Ident) -> Option<&'static str> {
    if ident.quote_style.is_some() {
        return None;
    }
    [
        "current_date",
        "current_time",
        "current_timestamp",
        "current_user",
        "localtime",
        "localtimestamp",
        "utc_date",
        "utc_time",
        "utc_timestamp",
    ]
    .into_iter()
    .find(|name| ident.value.eq_ignore_ascii_case(name))
}

/// Makes the name of a column lower case.
pub fn lower(ident: &mut Ident) {
    ident.value = ident.value.to_lowercase();
    ident.quote_style = Some('`');
}

fn compound(idents: &mut [Ident]) {
    let count = idents.len();
    for (at, ident) in idents.iter_mut().enumerate() {
        if at + 1 == count || super::select::is_system(&ident.value) {
            lower(ident);
        } else {
            ident.quote_style = Some('`');
        }
    }
}

pub fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(truth(expr)) }
}

fn unary(expr: &mut Expr) {
    let Expr::UnaryOp { op, expr: inner } = expr else { return };
    match op {
        UnaryOperator::Not | UnaryOperator::BangNot => *expr = not(take(inner)),
        UnaryOperator::BitwiseNot => *expr = call("mysql_bit_not", vec![take(inner)]),
        UnaryOperator::Plus => *expr = take(inner),
        UnaryOperator::Minus => {
            if let Expr::Value(value) = &**inner
                && let Value::Number(digits, _) = &value.value
                && !digits.starts_with('-')
            {
                *expr = int(format!("-{digits}"));
            } else {
                // Not a negation of DataFusion's, which has no text.
                *expr = Expr::BinaryOp {
                    left: Box::new(int(0)),
                    op: BinaryOperator::Minus,
                    right: Box::new(take(inner)),
                };
            }
        }
        _ => {}
    }
}

fn between(expr: &mut Expr) {
    let Expr::Between { expr: body, negated, low, high } = expr else { return };
    let body = take(body);
    let compare =
        |op, bound| Expr::BinaryOp { left: Box::new(body.clone()), op, right: Box::new(bound) };
    let both = Expr::BinaryOp {
        left: Box::new(compare(BinaryOperator::GtEq, take(low))),
        op: BinaryOperator::And,
        right: Box::new(compare(BinaryOperator::LtEq, take(high))),
    };
    *expr = if *negated { not(both) } else { both };
}

fn rewritten_case(expr: &mut Expr) {
    let Expr::Case { operand, conditions, else_result, .. } = expr else { return };
    let operand = operand.take();
    let whens = std::mem::take(conditions)
        .into_iter()
        .map(|when| CaseWhen {
            condition: match &operand {
                Some(operand) => Expr::BinaryOp {
                    left: operand.clone(),
                    op: BinaryOperator::Eq,
                    right: Box::new(when.condition),
                },
                None => when.condition,
            },
            result: when.result,
        })
        .collect();
    *expr = case(whens, else_result.take().map(|otherwise| *otherwise));
}

fn tuples_equal(left: Vec<Expr>, right: Vec<Expr>) -> Result<Expr> {
    if left.len() != right.len() {
        bail!(OperandColumns, "Operand should contain {} column(s)", left.len());
    }
    let equal = |(left, right)| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::Eq,
        right: Box::new(right),
    };
    let all = left.into_iter().zip(right).map(equal).reduce(|all, next| Expr::BinaryOp {
        left: Box::new(all),
        op: BinaryOperator::And,
        right: Box::new(next),
    });
    all.ok_or_else(|| err!(OperandColumns, "Operand should contain 1 column(s)"))
}

fn expr_of_tuple(expr: &mut Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(parts) => Some(parts),
        _ => None,
    }
}

/// `(a, b) IN ((1, 2), (3, 4))` compares the parts.
fn in_list(tuple: Option<&[Expr]>, list: &mut [Expr], negated: bool) -> Result<Option<Expr>> {
    let Some(tuple) = tuple else { return Ok(None) };
    let mut any = None;
    for item in list.iter_mut() {
        let Expr::Tuple(parts) = item else {
            bail!(OperandColumns, "Operand should contain {} column(s)", tuple.len());
        };
        let equal = tuples_equal(tuple.to_vec(), std::mem::take(parts))?;
        any = Some(match any {
            None => equal,
            Some(any) => Expr::BinaryOp {
                left: Box::new(any),
                op: BinaryOperator::Or,
                right: Box::new(equal),
            },
        });
    }
    Ok(any.map(|any| if negated { not(any) } else { any }))
}

/// The unit of an interval, in MySQL's words.
fn unit(field: &DateTimeField) -> String {
    let name = field.to_string().to_uppercase();
    name.strip_suffix('S').filter(|name| !name.is_empty()).map_or(name.clone(), str::to_owned)
}

/// `value + INTERVAL amount unit`.
pub fn moved(value: Expr, interval: Expr, subtract: bool) -> Result<Expr> {
    let Expr::Interval(interval) = interval else {
        bail!(Syntax, "You have an error in your SQL syntax; an INTERVAL is wanted");
    };
    let unit = interval.leading_field.as_ref().map_or_else(|| "DAY".to_owned(), unit);
    let sign = int(if subtract { -1 } else { 1 });
    Ok(call("mysql_date_add", vec![value, *interval.value, text(unit), sign]))
}

/// `EXTRACT(unit FROM value)`.
pub fn extracted(unit: &str, value: Expr) -> Expr {
    let unit = unit.to_uppercase();
    if unit.contains('_') {
        return call("mysql_extract", vec![text(unit), value]);
    }
    call(&unit.to_lowercase(), vec![value])
}

fn with_digits(expr: Expr, field: &CeilFloorKind) -> Vec<Expr> {
    match field {
        CeilFloorKind::Scale(digits) => vec![expr, literal(digits.value.clone())],
        CeilFloorKind::DateTimeField(_) => vec![expr],
    }
}

/// CAST and CONVERT.
fn converted(expr: &mut Expr) -> Result<()> {
    let (inner, data_type) = match expr {
        Expr::Cast { expr, data_type, .. } => (expr, Some(data_type.clone())),
        Expr::Convert { expr, data_type, .. } => (expr, data_type.clone()),
        _ => return Ok(()),
    };
    let inner = number(take(inner));
    let Some(data_type) = data_type else {
        // CONVERT(x USING charset): everything is UTF-8.
        *expr = call("mysql_text", vec![inner]);
        return Ok(());
    };
    *expr = cast_to(inner, &data_type)?;
    Ok(())
}

fn cast_to(inner: Expr, data_type: &DataType) -> Result<Expr> {
    use sqlparser::ast::{CharacterLength, ExactNumberInfo};
    let decimal = |info: &ExactNumberInfo| match info {
        ExactNumberInfo::None => (10, 0),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    let of_length = |length: &Option<CharacterLength>| {
        let text = call("mysql_text", vec![inner.clone()]);
        match length {
            Some(CharacterLength::IntegerLength { length, .. }) => {
                call("left", vec![text, int(length)])
            }
            _ => text,
        }
    };
    let name = data_type.to_string().to_uppercase();
    Ok(match data_type {
        DataType::Decimal(info) | DataType::Dec(info) | DataType::Numeric(info) => {
            let (precision, scale) = decimal(info);
            let precision = precision.min(38);
            call("mysql_decimal", vec![inner, int(precision), int(scale)])
        }
        DataType::Char(length) | DataType::Character(length) => of_length(length),
        DataType::Varchar(length) | DataType::Nvarchar(length) => of_length(length),
        DataType::Text | DataType::String(_) => call("mysql_text", vec![inner]),
        DataType::Date => call("mysql_date", vec![inner]),
        DataType::Datetime(_) | DataType::Timestamp(..) => call("mysql_datetime", vec![inner]),
        DataType::Time(..) => call("mysql_time", vec![inner]),
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float(_) | DataType::Real => {
            call("mysql_double", vec![inner])
        }
        DataType::JSON => call("mysql_json", vec![inner]),
        DataType::Binary(_) | DataType::Varbinary(_) | DataType::Blob(_) => {
            call("mysql_binary", vec![inner])
        }
        _ if name.contains("UNSIGNED") => call("mysql_unsigned", vec![inner]),
        _ if name.starts_with("DATEV2") => call("mysql_date", vec![inner]),
        _ if name.starts_with("SIGNED") || name.contains("INT") || name.starts_with("BOOL") => {
            call("mysql_signed", vec![inner])
        }
        _ if name.starts_with("YEAR") => call("year", vec![inner]),
        other => {
            bail!(NotSupported, "This version of Freshet doesn't yet support 'CAST AS {other}'")
        }
    })
}

/// The text of a unit that was written as a name or in quotes.
pub fn unit_name(expr: &Expr) -> Option<String> {
    let name = match expr {
        Expr::Identifier(ident) => &ident.value,
        other => as_text(other)?,
    };
    let name = name.to_uppercase();
    Some(name.strip_prefix("SQL_TSI_").map_or(name.clone(), str::to_owned))
}
