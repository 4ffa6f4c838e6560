//! The collation of each expression, from those of what it is computed of.

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFunctionDefinition};
use freshet_base::err;
use freshet_schema::Collation;

use crate::coercibility::{Derived, Strength};
use crate::convert::is_text;
use crate::error::external;
use crate::functions::collate::{COLLATE, COLLATED};
use crate::functions::meaning::is_json;

/// What the expressions of a node refer to.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The collation of literals.
    pub connection: Collation,
    /// The columns of the node's inputs.
    pub schema: &'a DFSchema,
    /// Those of the queries around it, the outermost first.
    pub outer: &'a [DFSchemaRef],
}

/// What a value is for a comparison.
pub enum Class {
    Text,
    Null,
    Other,
}

impl Scope<'_> {
    /// Whether an expression is a text; JSON is not. What has no type yet is no text.
    pub fn class(&self, expr: &Expr) -> Class {
        match expr.to_field(self.schema) {
            Ok((_, field)) if is_text(field.data_type()) && !is_json(&field) => Class::Text,
            Ok((_, field)) if *field.data_type() == DataType::Null => Class::Null,
            _ => Class::Other,
        }
    }

    fn literal(&self) -> Derived {
        Derived { collation: self.connection, strength: Strength::Coercible }
    }

    fn number(&self) -> Derived {
        Derived { collation: self.connection, strength: Strength::Numeric }
    }

    fn column(&self, schema: &DFSchema, column: &Column) -> Option<Derived> {
        let field = schema.field_from_column(column).ok()?;
        let bytes = if is_text(field.data_type()) { Derived::BYTES } else { self.number() };
        Some(Derived::decode(field).unwrap_or(bytes))
    }

    /// The collation of an expression.
    ///
    /// # Errors
    /// 1267 and 1271 where collations are given that differ.
    pub fn of(&self, expr: &Expr) -> Result<Derived> {
        Ok(match expr {
            Expr::Alias(alias) => match Derived::said(alias.metadata.as_ref()) {
                Some(derived) => derived,
                None => self.of(&alias.expr)?,
            },
            Expr::Column(column) => self.column(self.schema, column).unwrap_or(Derived::BYTES),
            Expr::OuterReferenceColumn(field, column) => {
                let mut outer = self.outer.iter().rev();
                let found = outer.find_map(|schema| self.column(schema, column));
                found.or_else(|| Derived::decode(field)).unwrap_or(Derived::BYTES)
            }
            Expr::Literal(value, metadata) => {
                match (Derived::said(metadata.as_ref()), value.data_type()) {
                    (Some(derived), _) => derived,
                    (None, DataType::Null) => {
                        Derived { collation: Collation::Binary, strength: Strength::Ignorable }
                    }
                    (None, ty) if is_text(&ty) => self.literal(),
                    _ => self.number(),
                }
            }
            Expr::Cast(cast) if is_text(cast.field.data_type()) => {
                self.together(&[&*cast.expr], "cast")?
            }
            Expr::Cast(_) => self.number(),
            Expr::Case(case) => {
                let results = case.when_then_expr.iter().map(|(_, result)| &**result);
                let results = results.chain(case.else_expr.as_deref()).collect::<Vec<_>>();
                self.together(&results, "case")?
            }
            Expr::ScalarFunction(call) => self.function(call)?,
            Expr::AggregateFunction(AggregateFunction { func, params }) => {
                let first = params.args.iter().take(1).collect::<Vec<_>>();
                self.together(&first, func.name())?
            }
            Expr::WindowFunction(window) => {
                let args = window.params.args.iter().collect::<Vec<_>>();
                let name = match &window.fun {
                    WindowFunctionDefinition::AggregateUDF(function) => function.name(),
                    WindowFunctionDefinition::WindowUDF(function) => function.name(),
                };
                self.together(&args, name)?
            }
            Expr::ScalarSubquery(subquery) => {
                let column = Column::from(subquery.subquery.schema().qualified_field(0));
                self.column(subquery.subquery.schema(), &column).unwrap_or(Derived::BYTES)
            }
            _ => self.literal(),
        })
    }

    fn function(&self, call: &ScalarFunction) -> Result<Derived> {
        let name = call.func.name();
        let args = call.args.iter().collect::<Vec<_>>();
        let count = args.len();
        match name {
            COLLATE | COLLATED => {
                let name = match &args[1] {
                    Expr::Literal(name, _) => name.try_as_str().flatten().unwrap_or_default(),
                    _ => "",
                };
                let collation = match name == Collation::Binary.name() {
                    true => Collation::Binary,
                    false => Collation::standing_for(name).unwrap_or(Collation::Utf8mb4Bin),
                };
                let is_said = call.func.name() == COLLATE;
                let strength = if is_said { Strength::Explicit } else { Strength::Implicit };
                Ok(Derived { collation, strength })
            }
            "mysql_case" => {
                let results = args.into_iter().enumerate();
                let results = results.filter(|(at, _)| at % 2 == 1 || at + 1 == count);
                self.together(&results.map(|(_, result)| result).collect::<Vec<_>>(), "case")
            }
            "nullif" => self.together(&args[..1.min(count)], name),
            "mysql_binary" => {
                let strength = match args.first() {
                    Some(Expr::Literal(..)) => Strength::Coercible,
                    _ => Strength::Implicit,
                };
                Ok(Derived { collation: Collation::Binary, strength })
            }
            // JSON is compared by bytes, and so are its parts.
            _ if name.starts_with("json_") => Ok(Derived::BYTES),
            _ => self.together(&args, name),
        }
    }

    /// That of a text that is made of all of these.
    ///
    /// # Errors
    /// 1267 and 1271 where collations are given that differ.
    pub fn together(&self, args: &[&Expr], operation: &str) -> Result<Derived> {
        let mut all: Option<Derived> = None;
        for arg in args {
            let one = self.of(arg)?;
            all = Some(match all {
                None => one,
                Some(before) => match before.joined(one) {
                    Some(joined) => joined,
                    None => return Err(illegal_mix(&[before, one], args.len(), operation)),
                },
            });
        }
        let weak = |derived: &Derived| derived.strength >= Strength::Numeric;
        Ok(all.filter(|derived| !weak(derived)).unwrap_or_else(|| self.literal()))
    }

    /// The collation by which these are compared; `None` for bytes, and where not all are texts.
    ///
    /// # Errors
    /// 1267 and 1271 where they have none in common.
    pub fn compared(&self, args: &[&Expr], operation: &str) -> Result<Option<Collation>> {
        let mut texts = Vec::with_capacity(args.len());
        for arg in args {
            match self.class(arg) {
                Class::Text => texts.push(*arg),
                Class::Null => {}
                Class::Other => return Ok(None),
            }
        }
        if texts.is_empty() {
            return Ok(None);
        }
        let found = self.together(&texts, operation)?;
        if found.strength == Strength::Conflict {
            let each = texts.iter().map(|text| self.of(text)).collect::<Result<Vec<_>>>()?;
            return Err(illegal_mix(&each, each.len(), operation));
        }
        Ok(Some(found.collation).filter(|collation| !collation.is_by_bytes()))
    }

    /// The collation by which a key is grouped or ordered; `None` for bytes, and for other types.
    ///
    /// # Errors
    /// Those of [`Self::of`].
    pub fn of_key(&self, key: &Expr) -> Result<Option<Collation>> {
        if !matches!(self.class(key), Class::Text) {
            return Ok(None);
        }
        let collation = self.of(key)?.collation;
        Ok(Some(collation).filter(|collation| !collation.is_by_bytes()))
    }
}

/// The error for texts that have no collation in common.
fn illegal_mix(
    each: &[Derived],
    count: usize,
    operation: &str,
) -> datafusion::common::DataFusionError {
    let operation = operation.trim_start_matches("mysql_");
    external(match (each, count) {
        ([left, right], 2) => err!(
            CollationMix,
            "Illegal mix of collations {} and {} for operation '{operation}'",
            left.shown(),
            right.shown()
        ),
        _ => err!(CollationMixOfMany, "Illegal mix of collations for operation '{operation}'"),
    })
}
