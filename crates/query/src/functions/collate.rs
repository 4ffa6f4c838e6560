//! Functions of texts under a collation: what DataFusion's operators compare in place of the texts.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility, lit,
};
use freshet_schema::Collation;
use freshet_schema::collation::{column as columns, fold, weights};

use super::typed::TypeDependent;
use super::types::converted;
use super::udf::{FunctionImpl, Udf};
use super::vector::column;
use crate::convert::{self, is_text};
use crate::evaluation::Evaluation;

/// `text COLLATE name`: the text, whose collation is known to who has planned the comparison.
pub const COLLATE: &str = "mysql_collate";
/// The same for a text that has its collation as a column has.
pub const COLLATED: &str = "mysql_collated";
/// COLLATION(text), which is known where it is planned.
pub const COLLATION_OF: &str = "mysql_collation";
/// CHARSET(text), likewise.
pub const CHARSET_OF: &str = "mysql_charset";
/// WEIGHT_STRING(text), likewise.
pub const WEIGHTS_OF: &str = "mysql_weight_string";
/// COERCIBILITY(text), likewise.
pub const COERCIBILITY_OF: &str = "mysql_coercibility";

/// Rows between checks for cancellation.
const ROWS_BETWEEN_CHECKS: usize = 256;

/// Ends the weights in front of a text, in which a zero has a one behind it.
const END: [u8; 2] = [0, 0];
const ZERO: [u8; 2] = [0, 1];

/// What is made of a text.
#[derive(Clone, Copy, Debug)]
enum Made {
    /// Its weights.
    Weights,
    /// Its weights, and the text itself behind them.
    Packed,
    /// A text of as many characters, of which equal ones are the same.
    Folded,
}

#[derive(Debug)]
struct OfText {
    collation: Collation,
    made: Made,
}

impl FunctionImpl for OfText {
    fn field(&self, name: &str, _args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let ty = match self.made {
            Made::Weights | Made::Packed => DataType::BinaryView,
            Made::Folded => DataType::Utf8View,
        };
        Ok(Field::new(name, ty, true))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let texts = column(&args.args[0], rows)?;
        let evaluation = Evaluation::of(&args.config_options);
        let _guard = evaluation.enter()?;
        let check = |at: usize| match at % ROWS_BETWEEN_CHECKS {
            0 => evaluation.check(),
            _ => Ok(()),
        };
        let texts = convert::text(&texts)?;
        match self.made {
            Made::Weights => columns::weights(self.collation, &texts, check),
            Made::Folded => columns::folded(self.collation, &texts, check),
            Made::Packed => packed_texts(self.collation, &texts, check),
        }
    }
}

fn packed_texts(
    collation: Collation,
    texts: &StringViewArray,
    check: impl Fn(usize) -> Result<()>,
) -> Result<ArrayRef> {
    let mut out = BinaryViewBuilder::with_capacity(texts.len());
    let (mut bytes, mut packed) = (Vec::new(), Vec::new());
    for (at, text) in texts.iter().enumerate() {
        check(at)?;
        let Some(text) = text else {
            out.append_null();
            continue;
        };
        bytes.clear();
        weights::put(collation, text, &mut bytes);
        pack(&bytes, text, &mut packed);
        out.try_append_value(&packed)?;
    }
    Ok(Arc::new(out.finish()))
}

fn pack(weights: &[u8], text: &str, out: &mut Vec<u8>) {
    out.clear();
    for &byte in weights {
        match byte {
            0 => out.extend_from_slice(&ZERO),
            byte => out.push(byte),
        }
    }
    out.extend_from_slice(&END);
    out.extend_from_slice(text.as_bytes());
}

/// The text behind weights.
fn unpacked(packed: &[u8]) -> Option<&str> {
    let mut at = 0;
    loop {
        match packed.get(at..at + 2)? {
            [0, 0] => return std::str::from_utf8(&packed[at + 2..]).ok(),
            [0, _] => at += 2,
            _ => at += 1,
        }
    }
}

/// The text that was packed.
#[derive(Debug)]
struct Unpack;

impl FunctionImpl for Unpack {
    fn field(&self, name: &str, _args: &ReturnFieldArgs<'_>) -> Result<Field> {
        Ok(Field::new(name, DataType::Utf8View, true))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let packed = cast(&column(&args.args[0], rows)?, &DataType::BinaryView)?;
        let packed = packed.as_binary_view();
        let mut out = StringViewBuilder::with_capacity(packed.len());
        for value in packed {
            match value {
                Some(value) => {
                    let text = unpacked(value).expect("a text was packed with its weights");
                    out.try_append_value(text)?;
                }
                None => out.append_null(),
            }
        }
        Ok(Arc::new(out.finish()))
    }
}

/// What stands for a property of a text until it is planned.
#[derive(Debug)]
struct Property {
    ty: DataType,
}

impl FunctionImpl for Property {
    fn field(&self, name: &str, _args: &ReturnFieldArgs<'_>) -> Result<Field> {
        Ok(Field::new(name, self.ty.clone(), true))
    }

    fn eval(&self, args: &ScalarFunctionArgs, _rows: usize) -> Result<ArrayRef> {
        exec_err!("'{}' was not replaced by the planner", args.return_field.name())
    }
}

/// The names of the functions of a collation.
const fn names(collation: Collation) -> [&'static str; 3] {
    macro_rules! of {
        ($name:literal) => {
            [concat!("weights_", $name), concat!("packed_", $name), concat!("folded_", $name)]
        };
    }
    match collation {
        Collation::Binary => of!("binary"),
        Collation::Utf8mb4Bin => of!("utf8mb4_bin"),
        Collation::Utf8mb40900Bin => of!("utf8mb4_0900_bin"),
        Collation::Utf8mb40900AiCi => of!("utf8mb4_0900_ai_ci"),
        Collation::Utf8mb40900AsCi => of!("utf8mb4_0900_as_ci"),
        Collation::Utf8mb40900AsCs => of!("utf8mb4_0900_as_cs"),
        Collation::Utf8mb4GeneralCi => of!("utf8mb4_general_ci"),
        Collation::Utf8mb4UnicodeCi => of!("utf8mb4_unicode_ci"),
        Collation::Utf8mb4Unicode520Ci => of!("utf8mb4_unicode_520_ci"),
    }
}

fn made(collation: Collation, made: Made, text: Expr) -> Expr {
    let [weights, packed, folded] = names(collation);
    let name = match made {
        Made::Weights => weights,
        Made::Packed => packed,
        Made::Folded => folded,
    };
    let does = OfText { collation, made };
    Udf::scalar(name, (1, 1), Volatility::Immutable, does).call(vec![text])
}

/// The name of the function of weights.
pub const fn weights_name(collation: Collation) -> &'static str {
    names(collation)[0]
}

/// The name of the function of texts with equal characters made the same.
pub const fn folded_name(collation: Collation) -> &'static str {
    names(collation)[2]
}

/// The weights of a text, as bytes; those of a literal are a literal.
pub fn weights(collation: Collation, text: Expr) -> Expr {
    match &text {
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => {
                let mut bytes = Vec::new();
                weights::put(collation, text, &mut bytes);
                lit(ScalarValue::BinaryView(Some(bytes)))
            }
            _ => lit(ScalarValue::BinaryView(None)),
        },
        _ => made(collation, Made::Weights, text),
    }
}

/// Bytes in the order of the collation that have the text.
pub fn packed(collation: Collation, text: Expr) -> Expr {
    made(collation, Made::Packed, text)
}

/// The text in the result of [`packed`], with this type.
pub fn text_of(packed: Expr, ty: &DataType) -> Expr {
    let unpacked = Udf::scalar("unpacked", (1, 1), Volatility::Immutable, Unpack);
    text_as(unpacked.call(vec![packed]), ty)
}

/// A `Utf8View` with this type.
pub fn text_as(text: Expr, ty: &DataType) -> Expr {
    match ty {
        DataType::Utf8View => text,
        other => datafusion::logical_expr::cast(text, other.clone()),
    }
}

/// The text with equal characters made the same.
pub fn folded_text(collation: Collation, text: Expr) -> Expr {
    match &text {
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => lit(fold::folded(collation, text).as_ref()),
            _ => text,
        },
        _ => made(collation, Made::Folded, text),
    }
}

/// The weights of a list of texts.
///
/// # Errors
/// When there are too many.
pub fn weights_of(collation: Collation, texts: &ArrayRef) -> Result<ArrayRef> {
    columns::weights(collation, &convert::text(texts)?, |_| Ok(()))
}

pub fn all() -> Vec<ScalarUDF> {
    let collate = |name| {
        TypeDependent::udf(
            name,
            (2, 2),
            |types| Ok(if is_text(&types[0]) { types[0].clone() } else { DataType::Utf8View }),
            |mut args, types| {
                let wanted = if is_text(&types[0]) { &types[0] } else { &DataType::Utf8View };
                Ok(converted(args.remove(0), &types[0], wanted))
            },
        )
    };
    let property = |name, ty| Udf::scalar(name, (1, 1), Volatility::Immutable, Property { ty });
    vec![
        collate(COLLATE),
        collate(COLLATED),
        property(COLLATION_OF, DataType::Utf8View),
        property(CHARSET_OF, DataType::Utf8View),
        property(COERCIBILITY_OF, DataType::Int64),
        property(WEIGHTS_OF, DataType::BinaryView),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_text_comes_back_and_weights_decide_its_order() {
        let mut all = Vec::new();
        for (weights, text) in [(&b"B"[..], "b"), (b"A\0", "a\0"), (b"A", "a"), (b"A", "A")] {
            let mut packed = Vec::new();
            pack(weights, text, &mut packed);
            assert_eq!(unpacked(&packed), Some(text));
            all.push((packed, text));
        }
        all.sort();
        assert_eq!(all.iter().map(|(_, text)| *text).collect::<Vec<_>>(), ["A", "a", "a\0", "b"]);
        assert_eq!(unpacked(b"A"), None);
    }
}
