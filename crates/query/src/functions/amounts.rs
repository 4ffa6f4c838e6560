//! Amounts for people: FORMAT_BYTES and FORMAT_PICO_TIME.

use datafusion::logical_expr::ScalarUDF;

use super::row::{Kind, Out, RowFunction};

const BYTES: [(f64, &str); 6] = [
    (1_152_921_504_606_846_976.0, "EiB"),
    (1_125_899_906_842_624.0, "PiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_073_741_824.0, "GiB"),
    (1_048_576.0, "MiB"),
    (1024.0, "KiB"),
];

/// Units of time in picoseconds.
const TIMES: [(f64, &str); 7] = [
    (86_400e12, "d"),
    (3600e12, "h"),
    (60e12, "min"),
    (1e12, "s"),
    (1e9, "ms"),
    (1e6, "us"),
    (1e3, "ns"),
];

/// The amount in the largest unit of which it has at least one.
fn shown(amount: f64, units: &[(f64, &str)], smallest: impl FnOnce(f64) -> String) -> String {
    let Some((unit, name)) = units.iter().find(|(unit, _)| amount.abs() >= *unit) else {
        return smallest(amount);
    };
    let count = amount / unit;
    if count.abs() < 100_000.0 {
        return format!("{count:.2} {name}");
    }
    let digits = format!("{count:.2e}");
    let (digits, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    format!("{digits}e+{exponent:0>2} {name}")
}

/// A time in picoseconds in the largest unit of which it has at least one.
pub fn pico_time_shown(picos: f64) -> String {
    shown(picos, &TIMES, |picos| format!("{picos:3.0} ps"))
}

pub fn all() -> Vec<ScalarUDF> {
    let double: &[Kind] = &[Kind::Double];
    [
        RowFunction::new("format_bytes", double, (1, 1), Kind::Text, |row| {
            let text = shown(row.double(0), &BYTES, |bytes| format!("{bytes:4.0} bytes"));
            Some(Out::Text(text))
        }),
        RowFunction::new("format_pico_time", double, (1, 1), Kind::Text, |row| {
            Some(Out::Text(pico_time_shown(row.double(0))))
        }),
    ]
    .map(RowFunction::udf)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_largest_unit_that_fits() {
        let bytes = |amount| shown(amount, &BYTES, |bytes| format!("{bytes:4.0} bytes"));
        assert_eq!(bytes(512.0), " 512 bytes");
        assert_eq!(bytes(1024.0), "1.00 KiB");
        assert_eq!(bytes(18_446_644_073_709_551_615.0), "16.00 EiB");
        assert_eq!(bytes(1.152_921_504_606_847e24), "1.00e+06 EiB");
        let time = |amount| shown(amount, &TIMES, |picos| format!("{picos:3.0} ps"));
        assert_eq!(time(3501.0), "3.50 ns");
        assert_eq!(time(188_732_396_662_000.0), "3.15 min");
    }
}
