//! Units of time, and INTERVAL.

use freshet_base::{Result, bail};
use sqlparser::ast::{DateTimeField, Expr};

use super::values::{as_text, call, int, text};

/// The MySQL name of an interval unit.
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

/// A unit given as a name or as text.
pub fn unit_name(expr: &Expr) -> Option<String> {
    let name = match expr {
        Expr::Identifier(ident) => &ident.value,
        other => as_text(other)?,
    };
    let name = name.to_uppercase();
    Some(name.strip_prefix("SQL_TSI_").map_or(name.clone(), str::to_owned))
}
