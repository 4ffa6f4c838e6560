//! Functions of numbers with a fixed result type.

use std::sync::Arc;

use arrow::array::Float32Array;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;

use super::meaning::Digits;
use super::random::Sequence;
use super::row::{Kind, Out, Row, RowFunction};
use super::vector::Vector;
use crate::{convert, losses};

/// The function behind RAND of a constant.
pub const SEEDED: &str = "mysql_seeded_rand";

const D: &[Kind] = &[Kind::Double];
const I: &[Kind] = &[Kind::Int];

/// Infinite and NaN results are an error (1690) as in MySQL, not NULL.
fn in_range(function: &str, value: f64) -> Result<Option<Out>> {
    if value.is_finite() {
        return Ok(Some(Out::Double(value)));
    }
    exec_err!("DOUBLE value is out of range in '{function}'")
}

/// A function of a double; NULL outside of its domain.
macro_rules! double {
    ($name:literal, $domain:expr, $body:expr) => {
        RowFunction::fallible($name, D, (1, 1), Kind::Double, |row| {
            let (domain, body): (fn(f64) -> bool, fn(f64) -> f64) = ($domain, $body);
            let value = row.double(0);
            if domain(value) { in_range($name, body(value)) } else { Ok(None) }
        })
        .udf()
    };
    ($name:literal, $body:expr) => {
        double!($name, |_| true, $body)
    };
}

macro_rules! bitwise {
    ($name:literal, $body:expr) => {
        RowFunction::new($name, I, (2, 2), Kind::UInt, |row| {
            let body: fn(u64, u64) -> u64 = $body;
            Some(Out::UInt(body(row.int(0).cast_unsigned(), row.int(1).cast_unsigned())))
        })
        .udf()
    };
}

/// Shifting by 64 or more results in 0.
fn shift(value: u64, by: u64, shift: fn(u64, u32) -> Option<u64>) -> u64 {
    u32::try_from(by).ok().and_then(|by| shift(value, by)).unwrap_or(0)
}

/// `LOG(x)` or `LOG(base, x)`.
fn log(row: &Row<'_>) -> Option<Out> {
    let value = row.double(row.count() - 1);
    if row.count() == 1 {
        return positive(value).then(|| Out::Double(value.ln()));
    }
    let base = row.double(0);
    if base == 1.0 {
        losses::note_no_logarithm();
        return None;
    }
    (positive(value) && positive(base)).then(|| Out::Double(value.ln() / base.ln()))
}

/// Whether a value has a logarithm; if not, it is recorded.
fn positive(value: f64) -> bool {
    if value <= 0.0 {
        losses::note_no_logarithm();
    }
    value > 0.0
}

/// Whether a value is in the domain of ASIN and ACOS.
fn is_sine(value: f64) -> bool {
    (-1.0..=1.0).contains(&value)
}

/// `CONV(number, from, to)`.
fn conv(row: &Row<'_>) -> Option<Out> {
    in_other_base(row.text(0), row.int(1), row.int(2))
}

/// Converts the number that `text` starts with from one base to another.
fn in_other_base(text: &str, from: i64, to: i64) -> Option<Out> {
    let base =
        |base: i64| u32::try_from(base.unsigned_abs()).ok().filter(|base| (2..=36).contains(base));
    let (from_base, to_base) = (base(from)?, base(to)?);
    if text.is_empty() {
        return None;
    }
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut digits = digits.chars().map_while(|digit| digit.to_digit(from_base));
    let value = digits.try_fold(0_u64, |value, digit| {
        value.checked_mul(from_base.into())?.checked_add(digit.into())
    });
    // On overflow all bits are set, regardless of the sign.
    let value = match value {
        Some(value) if negative => value.wrapping_neg(),
        value => value.unwrap_or(u64::MAX),
    };
    let (sign, value) = match value.cast_signed() {
        signed if to < 0 && signed < 0 => ("-", signed.unsigned_abs()),
        _ => ("", value),
    };
    Some(Out::Text(format!("{sign}{}", in_base(value, to_base))))
}

fn in_base(mut value: u64, base: u32) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = u32::try_from(value % u64::from(base)).expect("less than the base");
        digits.push(char::from_digit(digit, base).expect("a base is at most 36"));
        value /= u64::from(base);
        if value == 0 {
            break;
        }
    }
    digits.iter().rev().collect::<String>().to_uppercase()
}

fn curves() -> [ScalarUDF; 13] {
    [
        double!("sqrt", |x| x >= 0.0, f64::sqrt),
        double!("exp", f64::exp),
        double!("sin", f64::sin),
        double!("cos", f64::cos),
        double!("tan", f64::tan),
        double!("cot", |x| 1.0 / x.tan()),
        double!("asin", is_sine, f64::asin),
        double!("acos", is_sine, f64::acos),
        double!("radians", f64::to_radians),
        double!("degrees", f64::to_degrees),
        double!("ln", positive, f64::ln),
        double!("log2", positive, f64::log2),
        double!("log10", positive, f64::log10),
    ]
}

fn of_bits() -> Vec<ScalarUDF> {
    let of = |name, kind, body| RowFunction::new(name, I, (1, 1), kind, body).udf();
    vec![
        bitwise!("mysql_bit_and", |a, b| a & b),
        bitwise!("mysql_bit_or", |a, b| a | b),
        bitwise!("mysql_bit_xor", |a, b| a ^ b),
        bitwise!("mysql_shift_left", |a, b| shift(a, b, u64::checked_shl)),
        bitwise!("mysql_shift_right", |a, b| shift(a, b, u64::checked_shr)),
        of("mysql_bit_not", Kind::UInt, |row| Some(Out::UInt(!row.int(0).cast_unsigned()))),
        of("bit_count", Kind::Int, |row| Some(Out::Int(row.int(0).count_ones().into()))),
        RowFunction::new("bin", &[Kind::Text], (1, 1), Kind::Text, |row| {
            in_other_base(row.text(0), 10, 2)
        })
        .udf(),
        RowFunction::new("oct", &[Kind::Text], (1, 1), Kind::Text, |row| {
            in_other_base(row.text(0), 10, 8)
        })
        .udf(),
        RowFunction::new("conv", &[Kind::Text, Kind::Int], (3, 3), Kind::Text, conv).udf(),
    ]
}

fn of_numbers() -> [RowFunction; 10] {
    let of = RowFunction::new;
    let one_or_two = (1, 2);
    [
        of("pi", D, (0, 0), Kind::Double, |_| Some(Out::Double(std::f64::consts::PI)))
            .showing(Digits::Fixed(6)),
        RowFunction::fallible("pow", D, (2, 2), Kind::Double, |row| {
            in_range("pow", row.double(0).powf(row.double(1)))
        }),
        of("log", D, one_or_two, Kind::Double, log),
        of("atan", D, one_or_two, Kind::Double, |row| {
            let y = row.double(0);
            Some(Out::Double(if row.count() == 2 { y.atan2(row.double(1)) } else { y.atan() }))
        }),
        of("sign", D, (1, 1), Kind::Int, |row| {
            let value = row.double(0);
            Some(Out::Int(i64::from(value > 0.0) - i64::from(value < 0.0)))
        }),
        of("rand", I, (0, 1), Kind::Double, |row| {
            Some(Out::Double(match row.count() {
                0 => rand::random(),
                _ => Sequence::of(if row.null(0) { 0 } else { row.int(0) }).draw(),
            }))
        })
        .sees_null()
        .volatile(),
        // RAND of a constant, and the number of the call in its statement.
        of(SEEDED, I, (2, 2), Kind::Double, |row| {
            let seed = if row.null(0) { 0 } else { row.int(0) };
            Some(Out::Double(row.random(row.int(1), seed)))
        })
        .sees_null()
        .volatile(),
        of("mysql_int", I, (1, 1), Kind::Int, |row| Some(Out::Int(row.int(0)))),
        of("mysql_double", D, (1, 1), Kind::Double, |row| Some(Out::Double(row.double(0)))),
        of("mysql_bits", &[Kind::Bytes], (1, 1), Kind::UInt, |row| {
            let last = row.bytes(0).iter().rev().take(8).rev();
            Some(Out::UInt(last.fold(0, |bits, byte| bits << 8 | u64::from(*byte))))
        }),
    ]
}

pub fn all() -> Vec<ScalarUDF> {
    let numbers = of_numbers().map(RowFunction::udf);
    let unsigned = Vector::udf(
        "mysql_unsigned",
        (1, 1),
        |_, _| Ok(DataType::UInt64),
        |args, _| Ok(Arc::new(convert::unsigned(&args[0])?)),
    );
    let float = Vector::udf(
        "mysql_float",
        (1, 1),
        |_, _| Ok(DataType::Float32),
        |args, _| {
            let values = convert::double(&args[0])?;
            #[allow(clippy::cast_possible_truncation)] // overflow is an error below
            let floats: Float32Array = values.iter().map(|v| v.map(|v| v as f32)).collect();
            match floats.iter().flatten().all(f32::is_finite) {
                true => Ok(Arc::new(floats)),
                false => exec_err!("FLOAT value is out of range in 'CAST'"),
            }
        },
    );
    curves().into_iter().chain(of_bits()).chain(numbers).chain([unsigned, float]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_any_base() {
        assert_eq!(in_base(255, 16), "FF");
        assert_eq!(in_base(0, 2), "0");
        assert_eq!(shift(1, 64, u64::checked_shl), 0);
        assert_eq!(shift(1, 3, u64::checked_shl), 8);
    }
}
