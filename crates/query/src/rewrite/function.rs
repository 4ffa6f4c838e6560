//! Calls of functions.

use freshet_base::{Result, bail, err};
use sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
};

use super::expr::{extracted, moved, unit_name};
use super::values::{as_text, call, case, int, null, number, take, text};
use super::{Rewriter, aggregate};
use crate::temporal::SECOND;

/// Functions of the session and of this moment.
const OF_SESSION: [&str; 32] = [
    "benchmark",
    "charset",
    "coercibility",
    "collation",
    "connection_id",
    "curdate",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "curtime",
    "database",
    "found_rows",
    "get_lock",
    "is_free_lock",
    "is_used_lock",
    "last_insert_id",
    "localtime",
    "localtimestamp",
    "now",
    "release_lock",
    "row_count",
    "schema",
    "session_user",
    "sysdate",
    "system_user",
    "user",
    "utc_date",
    "utc_time",
    "utc_timestamp",
    "version",
];

/// The name of a function, lower case.
fn name_of(function: &Function) -> String {
    function.name.0.last().map_or_else(String::new, |part| {
        part.as_ident().map_or_else(|| part.to_string(), |ident| ident.value.clone()).to_lowercase()
    })
}

/// The arguments, where they are plain expressions.
fn args_of(function: &mut Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &mut function.args else { return Some(Vec::new()) };
    list.args
        .iter_mut()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(take(expr)),
            _ => None,
        })
        .collect()
}

/// What must happen before the arguments are rewritten: units are not names of columns.
pub fn before(function: &mut Function) -> Result<()> {
    let name = name_of(function);
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let mut args = list.args.iter_mut().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    match name.as_str() {
        "timestampdiff" | "timestampadd" | "extract" => {
            if let Some(unit) = args.next() {
                *unit = text(unit_name(unit).ok_or_else(|| wrong_unit(unit))?);
            }
        }
        "date_trunc" | "datetrunc" => {}
        "get_format" => {
            bail!(NotSupported, "This version of Freshet doesn't yet support 'GET_FORMAT'")
        }
        "date_add" | "date_sub" | "adddate" | "subdate" => {
            let subtract = name.ends_with("sub") || name.starts_with("sub");
            let (Some(value), Some(amount)) = (args.next(), args.next()) else { return Ok(()) };
            let (value, amount) = (take(value), take(amount));
            let moved = match amount {
                Expr::Interval(_) => moved(value, amount, subtract)?,
                days => {
                    let sign = int(if subtract { -1 } else { 1 });
                    call("mysql_date_add", vec![value, days, text("DAY"), sign])
                }
            };
            if let Expr::Function(new) = moved {
                *function = new;
            }
        }
        _ => {}
    }
    Ok(())
}

fn wrong_unit(unit: &Expr) -> freshet_base::Error {
    err!(Syntax, "You have an error in your SQL syntax; '{unit}' is no unit of time")
}

impl Rewriter<'_> {
    /// Rewrites a call whose arguments are rewritten.
    pub(super) fn function(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else { return Ok(()) };
        let name = name_of(function);
        if function.name.0.len() == 1 {
            function.name = ObjectName::from(vec![sqlparser::ast::Ident::new(name.clone())]);
        }
        if OF_SESSION.contains(&name.as_str()) {
            let args = args_of(function).unwrap_or_default();
            if let Some(value) = self.session_function(&name, &args)? {
                *expr = value;
            }
            return Ok(());
        }
        if let Some(replaced) = aggregate::replaced(&name, function)? {
            *expr = replaced;
            return Ok(());
        }
        if let Some(replaced) = self.scalar(&name, function)? {
            *expr = replaced;
        }
        Ok(())
    }

    /// Scalar functions that become something else.
    fn scalar(&mut self, name: &str, function: &mut Function) -> Result<Option<Expr>> {
        const CHANGED: [&str; 31] = [
            "if",
            "ifnull",
            "nvl",
            "coalesce",
            "nullif",
            "greatest",
            "least",
            "date",
            "time",
            "timestamp",
            "timestampadd",
            "extract",
            "unix_timestamp",
            "from_unixtime",
            "insert",
            "json_object",
            "json_array",
            "json_set",
            "json_insert",
            "json_replace",
            "decode",
            "sleep",
            "regexp",
            "position",
            "binary",
            "if_null",
            "to_date",
            "json_value",
            "values",
            "convert",
            "date_trunc",
        ];
        if !CHANGED.contains(&name) {
            return Ok(None);
        }
        let Some(mut args) = args_of(function) else { return Ok(None) };
        let count = args.len();
        let wrong = || {
            err!(
                WrongArguments,
                "Incorrect parameter count in the call to native function '{name}'"
            )
        };
        let needs = |min: usize, max: usize| {
            if (min..=max).contains(&count) { Ok(()) } else { Err(wrong()) }
        };
        Ok(Some(match name {
            "if" => {
                needs(3, 3)?;
                let otherwise = args.pop();
                let result = args.pop().ok_or_else(wrong)?;
                let condition = args.pop().ok_or_else(wrong)?;
                case(vec![CaseWhen { condition, result }], otherwise)
            }
            "ifnull" | "nvl" | "if_null" | "coalesce" => {
                needs(1, usize::MAX)?;
                call("coalesce", args.into_iter().map(number).collect())
            }
            "nullif" | "greatest" | "least" => call(name, args.into_iter().map(number).collect()),
            "date" | "to_date" => call("mysql_date", args),
            "time" => call("mysql_time", args),
            "timestamp" => {
                needs(1, 2)?;
                let time = (count == 2).then(|| args.pop()).flatten();
                let datetime = call("mysql_datetime", args);
                match time {
                    Some(time) => call("mysql_addtime", vec![datetime, time]),
                    None => datetime,
                }
            }
            "timestampadd" => {
                needs(3, 3)?;
                let (unit, amount) = (args.remove(0), args.remove(0));
                call("mysql_date_add", vec![args.remove(0), amount, unit, int(1)])
            }
            "extract" => {
                needs(2, 2)?;
                let unit = as_text(&args[0]).unwrap_or("DAY").to_owned();
                extracted(&unit, args.remove(1))
            }
            "unix_timestamp" | "from_unixtime" => return self.unix_time(name, args).map(Some),
            "insert" => call("mysql_insert", args),
            "json_object" | "json_array" | "json_set" | "json_insert" | "json_replace" => {
                let quoted = args.into_iter().enumerate().map(|(at, arg)| {
                    // Of (document, path, value, path, value, ...) only values are made JSON.
                    let makes = name == "json_object" || name == "json_array";
                    let value = makes || (at > 0 && at % 2 == 0);
                    if value { call("mysql_json_literal", vec![arg]) } else { arg }
                });
                call(&format!("mysql_{name}"), quoted.collect())
            }
            "json_value" => {
                needs(2, 2)?;
                call("json_unquote", vec![call("json_extract", args)])
            }
            "date_trunc" => {
                needs(2, 2)?;
                // Doris has the unit behind the value, others before it.
                if as_text(&args[1]).is_some() {
                    args.swap(0, 1);
                }
                call("date_trunc", vec![args.remove(0), call("mysql_datetime", args)])
            }
            "sleep" => bail!(
                NotSupported,
                "This version of Freshet doesn't yet support 'SLEEP inside a query'"
            ),
            _ => {
                function.args = super::values::arguments(args);
                return Ok(None);
            }
        }))
    }

    fn unix_time(&mut self, name: &str, mut args: Vec<Expr>) -> Result<Expr> {
        self.of_session = true;
        let zone = text(self.session.zone_name);
        if name == "unix_timestamp" {
            if args.is_empty() {
                return Ok(int(self.session.now_micros.div_euclid(SECOND)));
            }
            return Ok(call("unix_timestamp", vec![args.remove(0), zone]));
        }
        if args.is_empty() {
            bail!(
                WrongArguments,
                "Incorrect parameter count in the call to native function 'from_unixtime'"
            );
        }
        let format = (args.len() > 1).then(|| args.remove(1));
        let datetime = call("from_unixtime", vec![args.remove(0), zone]);
        Ok(match format {
            Some(format) => call("date_format", vec![datetime, format]),
            None => datetime,
        })
    }

    /// A function of the session, or of this moment, as a literal.
    pub(super) fn session_function(&mut self, name: &str, args: &[Expr]) -> Result<Option<Expr>> {
        self.of_session = true;
        let session = self.session;
        let now = |local: bool| {
            let micros = session.now_micros;
            let micros = if local { session.zone.local(micros) } else { micros };
            let digits = args.first().map_or(0, |arg| arg.to_string().parse().unwrap_or(0_u8));
            let mut shown = String::new();
            crate::format::datetime(&mut shown, micros, digits.min(6));
            shown
        };
        let part = |local: bool, range: std::ops::Range<usize>, name: &str| {
            let shown = now(local);
            Some(call(name, vec![text(&shown[range.start..range.end.min(shown.len())])]))
        };
        Ok(match name {
            "now" | "current_timestamp" | "localtime" | "localtimestamp" | "sysdate" => {
                part(true, 0..26, "mysql_datetime")
            }
            "utc_timestamp" => part(false, 0..26, "mysql_datetime"),
            "curdate" | "current_date" => part(true, 0..10, "mysql_date"),
            "utc_date" => part(false, 0..10, "mysql_date"),
            "curtime" | "current_time" => part(true, 11..26, "mysql_time"),
            "utc_time" => part(false, 11..26, "mysql_time"),
            "database" | "schema" => Some(session.database.map_or_else(null, text)),
            "user" | "session_user" | "system_user" => Some(text(session.user)),
            "current_user" => Some(text(session.current_user)),
            "version" => Some(text(session.version)),
            "current_role" => Some(text("NONE")),
            "connection_id" => Some(int(session.connection_id)),
            "last_insert_id" => Some(int(session.last_insert_id)),
            "row_count" => Some(int(session.row_count)),
            "found_rows" => Some(int(session.found_rows)),
            "charset" => Some(text("utf8mb4")),
            "collation" => Some(text("utf8mb4_bin")),
            "coercibility" => Some(int(4)),
            other => {
                bail!(NotSupported, "This version of Freshet doesn't yet support '{other}()'")
            }
        })
    }
}
