//! Short names for long expressions.
//!
//! To derive the type of an expression, DataFusion also builds its name and that of each of its
//! parts: planning a chain of n operators costs n^3 characters. So an expression with a long name
//! is wrapped in an identity function with a short name. Names of calls contain those of their
//! arguments, once for each enclosing call, so calls with long names also get short ones.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Names up to this length are kept.
const NAME_BYTES_MAX: usize = 256;

/// Wraps an expression with a long name in a function with a short one.
pub fn with_short_name(expr: Expr) -> Expr {
    let name = Name::of(&expr);
    if name.bytes <= NAME_BYTES_MAX { expr } else { name.short(expr) }
}

/// Wraps an expression in a function, so that the optimizer does not see what it is.
pub fn hidden(expr: Expr) -> Expr {
    Name::of(&expr).short(expr)
}

/// Replaces a long name by a short one with its hash.
pub fn short_name(name: String) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    let mut hash = DefaultHasher::new();
    name.hash(&mut hash);
    format!("whole#{:016x}", hash.finish())
}

/// `mysql_part(expression, text)`, which the rewriter wraps around parts of deep expressions: an
/// identity function whose name is `text`, so that names do not nest further.
pub fn all() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(NamedPart {
        signature: Signature::any(2, Volatility::Immutable),
    })]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedPart {
    signature: Signature,
}

impl ScalarUDFImpl for NamedPart {
    fn name(&self) -> &'static str {
        "mysql_part"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("part#{}", args[1].schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        exec_err!("the type of a part is that of its expression")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(FieldRef::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}

/// The length and hash of a name.
struct Name {
    bytes: usize,
    hash: DefaultHasher,
}

impl Name {
    fn of(expr: &Expr) -> Self {
        let mut name = Self { bytes: 0, hash: DefaultHasher::new() };
        write!(name, "{}", expr.schema_name()).expect("a name can be counted");
        name
    }

    /// The expression in an identity function with a short name.
    fn short(&self, expr: Expr) -> Expr {
        let whole = ShortNamed {
            shown: format!("whole#{:016x}", self.hash.finish()),
            signature: Signature::any(1, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(whole).call(vec![expr])
    }
}

impl Write for Name {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.bytes += part.len();
        self.hash.write(part.as_bytes());
        Ok(())
    }
}

/// An identity function with a name of its own.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ShortNamed {
    shown: String,
    signature: Signature,
}

impl ScalarUDFImpl for ShortNamed {
    fn name(&self) -> &'static str {
        "mysql_whole"
    }

    fn schema_name(&self, _args: &[Expr]) -> Result<String> {
        Ok(self.shown.clone())
    }

    fn display_name(&self, _args: &[Expr]) -> Result<String> {
        Ok(self.shown.clone())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        exec_err!("the type of '{}' is that of its argument", self.shown)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(FieldRef::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn sum(count: i64) -> Expr {
        (0..count).fold(col("a"), |sum, n| with_short_name(sum + lit(n)))
    }

    #[test]
    fn names_stay_short_and_differ_where_expressions_do() {
        assert_eq!(sum(3), col("a") + lit(0_i64) + lit(1_i64) + lit(2_i64));
        let names = (0..300).map(|count| sum(count).schema_name().to_string()).collect::<Vec<_>>();
        assert!(names.iter().all(|name| name.len() <= NAME_BYTES_MAX + 20));
        let distinct = names.iter().collect::<std::collections::HashSet<_>>();
        assert_eq!(distinct.len(), names.len());
        assert_eq!(sum(300), sum(300));
    }
}
