use freshet_base::{Result, bail, err};
use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, UnaryOperator, Value,
};

use super::cast::converted;
use super::special::{self, special};
use super::values::{
    as_text, binary, call, case, double, int, is_short, literal, lower, not, null, number,
    of_variable, take, text,
};
use super::{Rewriter, function, interval, tuple};
use crate::by_row::VariableType;
use crate::functions::collate::COLLATED;
use crate::functions::user_variables;
use crate::session::Scope;
use crate::syntax::hex_of_bits;

/// Chains of AND, OR or XOR up to this length remain as they are.
const CHAIN_MAX: usize = 32;

impl Rewriter<'_> {
    /// Rewrites that come before those of an expression's operands.
    pub(super) fn before(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            // Adding or subtracting an interval becomes a function call.
            Expr::BinaryOp { left, op, right } => {
                let subtract = match op {
                    BinaryOperator::Plus => false,
                    BinaryOperator::Minus => true,
                    BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor => {
                        balance(expr);
                        return Ok(());
                    }
                    _ => return super::subquery::before(expr),
                };
                if let Expr::Interval(_) = **right {
                    *expr = interval::moved(take(left), take(right), subtract)?;
                } else if let (Expr::Interval(_), false) = (&**left, subtract) {
                    *expr = interval::moved(take(right), take(left), false)?;
                }
                Ok(())
            }
            Expr::Function(function) => {
                function::before(function)?;
                if let Some(data_type) = function::returning(function) {
                    let (kind, value) = (CastKind::Cast, Box::new(take(expr)));
                    *expr = Expr::Cast { kind, expr: value, data_type, array: false, format: None };
                }
                Ok(())
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                special::name_column(root, access_chain);
                Ok(())
            }
            _ => super::subquery::before(expr),
        }
    }

    /// Rewrites an expression after its operands.
    pub(super) fn after(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Identifier(ident) => {
                if ident.quote_style.is_none() && ident.value.starts_with('@') {
                    *expr = self.variable(std::slice::from_ref(ident))?;
                } else if let Some(bits) = bits_of(ident) {
                    *expr = bytes_of_bits(bits)?;
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
            Expr::Value(_) => value(expr)?,
            Expr::Function(_) => self.function(expr)?,
            Expr::UnaryOp { .. } => unary(expr),
            Expr::BinaryOp { .. } => self.binary(expr)?,
            Expr::Between { .. } => between(expr),
            Expr::Case { .. } => self.case(expr)?,
            Expr::Cast { .. } | Expr::Convert { .. } => converted(expr)?,
            Expr::InList { expr: body, list, .. } => {
                if let Expr::Tuple(_) = **body {
                    let count = list.len();
                    self.copied(body, count)?;
                }
                special(expr)?;
            }
            _ => special(expr)?,
        }
        Ok(())
    }

    fn binary(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(()) };
        match op {
            BinaryOperator::StringConcat if !self.session.mode.pipes_as_concat => {
                *op = BinaryOperator::Or;
            }
            BinaryOperator::Assignment => {
                let Some(name) = variable_read(left) else {
                    bail!(Syntax, "You have an error in your SQL syntax; ':=' is of user variables")
                };
                *expr = call(user_variables::SET, vec![text(name), number(take(right))]);
            }
            // `row = row` compares component by component.
            BinaryOperator::Eq | BinaryOperator::NotEq => {
                if let (Expr::Tuple(a), Expr::Tuple(b)) = (&mut **left, &mut **right) {
                    let equal = tuple::equal(std::mem::take(a), std::mem::take(b))?;
                    *expr = if *op == BinaryOperator::Eq { equal } else { not(equal) };
                }
            }
            BinaryOperator::Spaceship => {
                if let (Expr::Tuple(a), Expr::Tuple(b)) = (&mut **left, &mut **right) {
                    *expr = tuple::same(std::mem::take(a), std::mem::take(b))?;
                }
            }
            BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq => {
                if let (Expr::Tuple(a), Expr::Tuple(b)) = (&**left, &**right) {
                    let (a, b, op) = (a.clone(), b.clone(), op.clone());
                    // Each component but the last is compared twice.
                    self.copied(left, 1)?;
                    self.copied(right, 1)?;
                    *expr = tuple::ordered(a, &op, b, self.session.limits.depth)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `CASE x WHEN a ...` becomes a CASE with conditions `x = a`.
    fn case(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Case { operand, conditions, else_result, .. } = expr else { return Ok(()) };
        let operand = operand.take();
        if let Some(operand) = &operand {
            self.copied(operand, conditions.len())?;
        }
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
        Ok(())
    }

    /// `@@x`, `@@session.x`, `@@global.x` or `@x`.
    fn variable(&mut self, idents: &[Ident]) -> Result<Expr> {
        self.of_session = true;
        let first = &idents[0].value;
        let Some(system) = first.strip_prefix("@@") else {
            let name = first[1..].trim_matches(['`', '\'', '"']);
            let (name, variables) = (name.to_lowercase(), self.session.variables);
            let value = of_variable(variables.user(&name));
            if let Some((ty, _)) = self.assigned.iter().find(|(_, known)| *known == name) {
                let value = match ty {
                    None => value,
                    Some(VariableType::Int) => call("mysql_signed", vec![value]),
                    Some(VariableType::UInt) => call("mysql_unsigned", vec![value]),
                    Some(VariableType::Double) => call("mysql_double", vec![value]),
                    Some(VariableType::Text) => call("mysql_char", vec![value]),
                    Some(VariableType::Decimal(scale)) => {
                        call("mysql_decimal", vec![value, int(38), int((*scale).max(0))])
                    }
                };
                return Ok(call(user_variables::READ, vec![text(name), value]));
            }
            return Ok(match variables.user_collation(&name) {
                None => value,
                Some(collation) => call(COLLATED, vec![value, text(collation.name())]),
            });
        };
        // The names of variables of MySQL's components have a period.
        let is_scope = |name: &str| {
            ["global", "persist", "session", "local"]
                .iter()
                .any(|scope| scope.eq_ignore_ascii_case(name))
        };
        let parts = idents[1..].iter().map(|part| part.value.trim_matches('`'));
        let (scope, parts) = match is_scope(system) && idents.len() > 1 {
            true if system.eq_ignore_ascii_case("global") => (Scope::Global, parts.collect()),
            true => (Scope::Session, parts.collect()),
            false => (Scope::Any, std::iter::once(system).chain(parts).collect::<Vec<_>>()),
        };
        let name = parts.join(".").trim_matches('`').to_lowercase();
        self.session
            .variables
            .system(scope, &name)
            .map(of_variable)
            .ok_or_else(|| err!(UnknownVariable, "Unknown system variable '{name}'"))
    }
}

/// Gives a literal MySQL's type.
fn value(expr: &mut Expr) -> Result<()> {
    let Expr::Value(value) = expr else { return Ok(()) };
    let replaced = match &mut value.value {
        Value::DoubleQuotedString(body)
        | Value::NationalStringLiteral(body)
        | Value::EscapedStringLiteral(body) => text(std::mem::take(body)),
        Value::Boolean(value) => int(u8::from(*value)),
        Value::SingleQuotedByteStringLiteral(bits) => bytes_of_bits(bits)?,
        // A number with an exponent is a DOUBLE, others are DECIMAL or integer.
        Value::Number(digits, _) if digits.contains(['e', 'E']) => {
            if digits.parse().is_ok_and(f64::is_infinite) {
                bail!(IllegalSet, "Illegal double '{digits}' value found during parsing");
            }
            double(digits)
        }
        _ => return Ok(()),
    };
    *expr = replaced;
    Ok(())
}

/// The digits of `0b101`, which is parsed as a name.
fn bits_of(ident: &Ident) -> Option<&str> {
    let digits = ident.value.strip_prefix("0b").filter(|digits| !digits.is_empty())?;
    let plain = ident.quote_style.is_none() && digits.bytes().all(|b| matches!(b, b'0' | b'1'));
    plain.then_some(digits)
}

/// `b'101'` becomes bytes, padded with zeros on the left.
fn bytes_of_bits(bits: &str) -> Result<Expr> {
    let Some(hex) = hex_of_bits(bits) else {
        bail!(Syntax, "You have an error in your SQL syntax; near 'b\'{bits}\'' at line 1");
    };
    Ok(literal(Value::HexStringLiteral(hex)))
}

/// Functions that may be called without parentheses, which are parsed as names.
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

fn compound(idents: &mut [Ident]) {
    let count = idents.len();
    for (at, ident) in idents.iter_mut().enumerate() {
        if at + 1 == count || freshet_meta::is_reserved_database(&ident.value) {
            lower(ident);
        } else {
            ident.quote_style = Some('`');
        }
    }
}

/// Balances a long chain of AND, OR or XOR to a tree of logarithmic height: the passes of planner
/// and optimizer inspect the whole subtree of each node.
fn balance(expr: &mut Expr) {
    let Expr::BinaryOp { op: chained, .. } = &*expr else { return };
    let chained = chained.clone();
    if chain_length(expr, &chained) <= CHAIN_MAX {
        return;
    }
    let mut parts = Vec::new();
    let mut rest = take(expr);
    while let Expr::BinaryOp { left, op, right } = rest {
        if op != chained {
            rest = Expr::BinaryOp { left, op, right };
            break;
        }
        parts.push(*right);
        rest = *left;
    }
    parts.push(rest);
    parts.reverse();
    while parts.len() > 1 {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary(left, chained.clone(), right),
                None => left,
            });
        }
        parts = pairs;
    }
    *expr = parts.remove(0);
}

fn chain_length(expr: &Expr, chained: &BinaryOperator) -> usize {
    let (mut length, mut at) = (0, expr);
    while let Expr::BinaryOp { left, op, .. } = at
        && op == chained
    {
        (length, at) = (length + 1, left);
    }
    length
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
            {
                let positive = digits.strip_prefix('-');
                *expr = int(positive.map_or_else(|| format!("-{digits}"), str::to_owned));
            } else {
                *expr = negated(take(inner));
            }
        }
        _ => {}
    }
}

/// `-inner`. Of three signs only one is kept: two have the effect of a conversion to a number, more
/// add nothing.
fn negated(mut inner: Expr) -> Expr {
    const NEGATE: &str = "mysql_negate";
    if let Some(once) = argument_of(&mut inner, NEGATE)
        && let Some(twice) = argument_of(once, NEGATE)
    {
        return call(NEGATE, vec![take(twice)]);
    }
    call(NEGATE, vec![inner])
}

/// The argument of a call of this unary function.
fn argument_of<'a>(expr: &'a mut Expr, name: &str) -> Option<&'a mut Expr> {
    let Expr::Function(Function { name: called, args: FunctionArguments::List(list), .. }) = expr
    else {
        return None;
    };
    match &mut list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] if called.to_string() == name => {
            Some(argument)
        }
        _ => None,
    }
}

fn between(expr: &mut Expr) {
    let Expr::Between { expr: body, negated, low, high } = expr else { return };
    let body = take(body);
    // With literal bounds of one kind, separate comparisons give the same result as a joint one.
    if !is_short(&body) || !of_one_kind(low, high) {
        let within = call("mysql_between", vec![body, take(low), take(high)]);
        *expr = if *negated { not(within) } else { within };
        return;
    }
    let compare =
        |op, bound| Expr::BinaryOp { left: Box::new(body.clone()), op, right: Box::new(bound) };
    let both = Expr::BinaryOp {
        left: Box::new(compare(BinaryOperator::GtEq, take(low))),
        op: BinaryOperator::And,
        right: Box::new(compare(BinaryOperator::LtEq, take(high))),
    };
    *expr = if *negated { not(both) } else { both };
}

/// Whether both are literals or parameters of the same kind.
fn of_one_kind(low: &Expr, high: &Expr) -> bool {
    match (low, high) {
        (Expr::Value(low), Expr::Value(high)) => {
            std::mem::discriminant(&low.value) == std::mem::discriminant(&high.value)
        }
        _ => false,
    }
}

/// The variable that a call of [`user_variables::READ`] reads.
fn variable_read(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(name)), _] = &list.args[..] else {
        return None;
    };
    let is_read = function.name.to_string() == user_variables::READ;
    as_text(name).filter(|_| is_read).map(str::to_owned)
}
