//! Parsed queries and expressions, as the server passes them on: what they are made of is known
//! inside this crate alone.

use std::fmt;
use std::ops::ControlFlow;

use freshet_base::Result;
use freshet_meta::is_reserved_database;
use freshet_schema::{Charset, bytes_of_hex};
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, LimitClause,
    ObjectName, ObjectNamePart, Query, SelectFlavor, SelectItem, SetExpr, TableAlias, TableFactor,
    UnaryOperator, Value, Visit, helpers::attached_token::AttachedToken,
};

use crate::threads::Portion;
use crate::visit::{visit_expressions, visit_expressions_mut, visit_relations};

/// A parsed query: SELECT, VALUES, TABLE, WITH, and their unions.
#[derive(Clone, PartialEq, Debug)]
pub struct Select(pub(crate) Box<Query>);

/// A parsed expression outside of a query.
#[derive(Clone, PartialEq, Debug)]
pub struct Scalar(pub(crate) Expr);

/// A table name, optionally qualified by its database.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TableName {
    pub database: Option<String>,
    pub table: String,
}

/// The value of an expression that needs no evaluation.
#[derive(PartialEq, Debug)]
pub enum Constant<'a> {
    Null,
    Bool(bool),
    /// A number as written, without a sign.
    Number(&'a str),
    Text(&'a str),
    /// The bytes of `x'..'`, `0x..` or `b'..'`, which are a number where one is wanted.
    Bits(Vec<u8>),
    /// The bytes of a binary string: `_binary'..'`.
    Bytes(Vec<u8>),
}

impl Select {
    /// `SELECT` of these expressions, without a table.
    pub fn of(exprs: Vec<Scalar>) -> Self {
        Self(Box::new(select_of(exprs.into_iter().map(|expr| expr.0).collect())))
    }

    /// Whether any table is named in it.
    pub fn reads_tables(&self) -> bool {
        reads_tables(&self.0)
    }

    /// Whether it says itself how many rows it returns at most.
    pub fn is_limited(&self) -> bool {
        self.0.limit_clause.is_some() || self.0.fetch.is_some()
    }

    /// Without its LIMIT, and which rows that asks for, if all are to be counted
    /// (SQL_CALC_FOUND_ROWS). `None` if not, or if the LIMIT has other numbers than literals.
    pub fn counted(&self) -> Option<(Self, Portion)> {
        let counts = match &*self.0.body {
            SetExpr::Select(select) => select.select_modifiers.as_ref()?.sql_calc_found_rows,
            _ => false,
        };
        let (limit, offset) = match self.0.limit_clause.as_ref().filter(|_| counts)? {
            LimitClause::LimitOffset { limit, offset, .. } => {
                (limit.as_ref()?, offset.as_ref().map(|offset| &offset.value))
            }
            LimitClause::OffsetCommaLimit { offset, limit } => (limit, Some(offset)),
        };
        let number = |expr: &Expr| match expr {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => digits.parse::<u64>().ok(),
                _ => None,
            },
            _ => None,
        };
        let portion =
            Portion { skip: offset.map_or(Some(0), number)?, take: number(limit)?, counts: true };
        let mut all = self.clone();
        all.0.limit_clause = None;
        Some((all, portion))
    }

    /// Whether it names a table that is not one of the system's, where `database` is the current
    /// one.
    pub fn reads_stored(&self, database: Option<&str>) -> bool {
        visit_relations(&self.0, |name| {
            let home = match &name.0[..] {
                [home, _] => home.as_ident().map(|ident| ident.value.as_str()),
                _ => database,
            };
            match home.is_some_and(is_reserved_database) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })
        .is_break()
    }

    /// Whether it has user variables, system variables or parameters.
    pub fn has_variables(&self) -> bool {
        let is_one = |expr: &Expr| match expr {
            Expr::Identifier(name) => name.value.starts_with('@') && name.quote_style.is_none(),
            Expr::CompoundIdentifier(names) => names[0].value.starts_with("@@"),
            Expr::Value(value) => matches!(value.value, ast::Value::Placeholder(_)),
            _ => false,
        };
        visit_expressions(&self.0, |expr: &Expr| match is_one(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
        .is_break()
    }

    /// Whether its select list has a `*`.
    pub fn has_wildcard(&self) -> bool {
        has_wildcard(&self.0.body)
    }
}

fn has_wildcard(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.projection.iter().any(|item| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        }),
        SetExpr::Query(query) => has_wildcard(&query.body),
        SetExpr::SetOperation { left, right, .. } => has_wildcard(left) || has_wildcard(right),
        SetExpr::Table(_) => true,
        _ => false,
    }
}

impl Scalar {
    /// Whether any table is named in it.
    pub fn reads_tables(&self) -> bool {
        reads_tables(&self.0)
    }

    /// The same expression, where the column `from` is called `to`.
    #[must_use]
    pub fn renamed(mut self, from: &str, to: &str) -> Self {
        let _ = visit_expressions_mut(&mut self.0, |expr| {
            if let Expr::Identifier(name) = expr
                && name.value.eq_ignore_ascii_case(from)
            {
                to.clone_into(&mut name.value);
            }
            ControlFlow::<()>::Continue(())
        });
        self
    }

    /// The same expression, where each `DEFAULT(column)` is what `default` says of the column: its
    /// default as a literal.
    ///
    /// # Errors
    /// Those of `default`.
    pub fn with_defaults(mut self, default: impl Fn(&str) -> Result<Literal>) -> Result<Self> {
        let replaced = visit_expressions_mut(&mut self.0, |expr| {
            let Some(column) = column_of_default(expr) else { return ControlFlow::Continue(()) };
            match default(&column) {
                Ok(literal) => *expr = literal.expr(),
                Err(error) => return ControlFlow::Break(error),
            }
            ControlFlow::Continue(())
        });
        match replaced {
            ControlFlow::Continue(()) => Ok(self),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// Its value, if it is a literal.
    pub fn constant(&self) -> Option<Constant<'_>> {
        constant(&self.0)
    }

    /// Whether it is a literal, with or without a sign.
    pub fn is_literal(&self) -> bool {
        let unsigned = match &self.0 {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => expr,
            other => other,
        };
        constant(unsigned).is_some()
    }
}

/// A value to put into an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Literal {
    Null,
    /// A number as it is written.
    Number(String),
    Text(String),
}

impl From<Literal> for Scalar {
    fn from(literal: Literal) -> Self {
        Self(literal.expr())
    }
}

impl Literal {
    pub(crate) fn expr(self) -> Expr {
        let value = match self {
            Self::Null => ast::Value::Null,
            Self::Number(digits) => ast::Value::Number(digits, false),
            Self::Text(text) => ast::Value::SingleQuotedString(text),
        };
        Expr::Value(value.into())
    }
}

/// The column in `DEFAULT(column)`.
pub(crate) fn column_of_default(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    let [ObjectNamePart::Identifier(name)] = &function.name.0[..] else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = &list.args[..] else {
        return None;
    };
    let column = match argument {
        Expr::Identifier(column) => column,
        Expr::CompoundIdentifier(parts) => parts.last()?,
        _ => return None,
    };
    let is_default = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("DEFAULT");
    is_default.then(|| column.value.clone())
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn reads_tables(parsed: &impl Visit) -> bool {
    visit_relations(parsed, |_| ControlFlow::Break(())).is_break()
}

fn constant(expr: &Expr) -> Option<Constant<'_>> {
    match expr {
        Expr::Value(value) => match &value.value {
            ast::Value::Null => Some(Constant::Null),
            ast::Value::Boolean(on) => Some(Constant::Bool(*on)),
            ast::Value::Number(digits, _) => Some(Constant::Number(digits)),
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => {
                Some(Constant::Text(text))
            }
            ast::Value::HexStringLiteral(digits) => bytes_of_hex(digits).map(Constant::Bits),
            ast::Value::SingleQuotedByteStringLiteral(bits) => {
                bytes_of_hex(&hex_of_bits(bits)?).map(Constant::Bits)
            }
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => match constant(expr)? {
            Constant::Bits(_) | Constant::Bytes(_) => None,
            other => Some(other),
        },
        Expr::Prefixed { prefix, value } if prefix.value.starts_with('_') => {
            match constant(value)? {
                Constant::Text(text) => Some(Constant::Bytes(text.as_bytes().to_vec())),
                Constant::Bits(_) if is_converted(&prefix.value) => None,
                Constant::Bits(bytes) => Some(Constant::Bytes(bytes)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether the bytes behind this introducer are those of another character set than UTF-8.
fn is_converted(introducer: &str) -> bool {
    Charset::named(&introducer[1..]).is_some_and(|charset| !charset.is_utf8())
}

/// Converts the digits of `b'101'` to hexadecimal digits, padded with zeros on the left to whole
/// bytes; `None` if there are other characters.
pub fn hex_of_bits(bits: &str) -> Option<String> {
    if !bits.bytes().all(|bit| matches!(bit, b'0' | b'1')) {
        return None;
    }
    let nibbles = bits.as_bytes().rchunks(4).rev().map(|digits| {
        let digits = std::str::from_utf8(digits).ok()?;
        u8::from_str_radix(digits, 2).ok().map(|nibble| format!("{nibble:X}"))
    });
    let mut hex = nibbles.collect::<Option<String>>()?;
    if hex.len() % 2 == 1 {
        hex.insert(0, '0');
    }
    Some(hex)
}

/// A table of this name, as it stands in FROM.
pub(crate) fn table_factor(name: Vec<ObjectNamePart>, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::Table {
        name: ObjectName(name),
        alias,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

pub(crate) fn select_of(exprs: Vec<Expr>) -> Query {
    let select = ast::Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: exprs.into_iter().map(SelectItem::UnnamedExpr).collect(),
        exclude: None,
        into: None,
        from: Vec::new(),
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        window_before_qualify: false,
        qualify: None,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    };
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
