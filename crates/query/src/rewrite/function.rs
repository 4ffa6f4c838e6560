use freshet_base::{Error, Result, bail, err};
use sqlparser::ast::{
    BinaryOperator, CaseWhen, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, ObjectName, UnaryOperator, Value,
};

use super::Rewriter;
use super::aggregate::{self, GroupLimits};
use super::cast::{bytes_of_converted, within};
use super::interval::{extracted, moved, unit_name};
use super::values::{as_text, binary, call, case, int, null, number, take, text};
use crate::convert;
use crate::functions::collate::{CHARSET_OF, COERCIBILITY_OF, COLLATION_OF, WEIGHTS_OF};
use crate::functions::column_default::DEFAULT_OF;
use crate::functions::math::SEEDED;
use crate::functions::meaning::digits_of_text;
use crate::functions::misc::NOTE_INSERT_ID;
use crate::functions::nested::ELEMENTS;
use crate::functions::string::{BYTES_OF_CODES, bytes_of_code};
use crate::functions::sys::{OfSys, part_of_version};
use crate::functions::{crypt, password, sys};
use crate::session::{self, Scope};
use crate::temporal::SECOND;

/// Functions that depend on the session or the current time.
const OF_SESSION: [&str; 29] = [
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
    "ps_current_thread_id",
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

/// The name of a function in lower case.
fn name_of(function: &Function) -> String {
    function.name.0.last().map_or_else(String::new, |part| {
        part.as_ident().map_or_else(|| part.to_string(), |ident| ident.value.clone()).to_lowercase()
    })
}

/// What it is if it is one of `sys`.
fn of_sys(function: &Function) -> Option<OfSys> {
    let has_database = function.name.0.len() > 1;
    let name = || function.name.to_string().replace('`', "").to_lowercase();
    has_database.then(name).and_then(|name| sys::named(&name))
}

/// The arguments, if all are plain expressions.
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

/// Rewrites that come before those of the arguments: a unit is not a column name.
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
            if let Some(kind @ Expr::Identifier(_)) = args.next() {
                *kind = text(kind.to_string().to_uppercase());
            }
        }
        // In JSON functions TRUE is a boolean, everywhere else the number 1.
        name if name.starts_with("json_") => {
            for arg in args.filter(|arg| is_boolean(arg)) {
                *arg = call("mysql_truth", vec![take(arg)]);
            }
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

/// Takes the type of `JSON_VALUE(document, path RETURNING type)`, to which its text is to be cast;
/// what is JSON is not cast.
pub fn returning(function: &mut Function) -> Option<DataType> {
    if name_of(function) != "json_value" {
        return None;
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let is_type = |clause: &mut FunctionArgumentClause| {
        matches!(clause, FunctionArgumentClause::JsonReturningClause(_))
    };
    let said = list.clauses.extract_if(.., is_type).find_map(|clause| match clause {
        FunctionArgumentClause::JsonReturningClause(returning) => Some(returning.data_type),
        _ => None,
    })?;
    if matches!(said, DataType::JSON) {
        function.name = ObjectName::from(vec![Ident::new("json_extract")]);
        return None;
    }
    Some(said)
}

/// Whether a call is `LAST_INSERT_ID(value)`, which is of a row.
fn notes_id(name: &str, function: &Function) -> bool {
    name == "last_insert_id"
        && matches!(&function.args, FunctionArguments::List(list) if !list.args.is_empty())
}

fn is_boolean(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Boolean(_)))
}

fn wrong_unit(unit: &Expr) -> Error {
    err!(Syntax, "You have an error in your SQL syntax; '{unit}' is no unit of time")
}

fn wrong_count(name: &str) -> Error {
    err!(ParameterCount, "Incorrect parameter count in the call to native function '{name}'")
}

/// A function's name, its minimum and maximum number of arguments, and its rewrite.
type Changed = (&'static str, (usize, usize), fn(&str, Vec<Expr>) -> Result<Expr>);

const MANY: usize = usize::MAX;

/// The variables with what a password needs, in the order of [`password::STRENGTH`].
const PASSWORD_RULES: [&str; 4] = [
    "validate_password.length",
    "validate_password.mixed_case_count",
    "validate_password.number_count",
    "validate_password.special_char_count",
];

/// Functions that are replaced by another one, or called with other arguments.
const CHANGED: [Changed; 49] = [
    ("char", (1, MANY), char_of),
    (BYTES_OF_CODES, (1, MANY), codes_of),
    ("charset", (1, 1), |_, args| Ok(call(CHARSET_OF, args))),
    ("collation", (1, 1), |_, args| Ok(call(COLLATION_OF, args))),
    ("weight_string", (1, 1), |_, args| Ok(call(WEIGHTS_OF, args))),
    ("coercibility", (1, 1), |_, args| Ok(call(COERCIBILITY_OF, args))),
    ("if", (3, 3), if_else),
    ("ifnull", (2, 2), |_, args| Ok(of_numbers("coalesce", args))),
    ("nvl", (2, 2), |_, args| Ok(of_numbers("coalesce", args))),
    ("coalesce", (1, MANY), |name, args| Ok(of_numbers(name, args))),
    ("nullif", (2, 2), |name, args| Ok(of_numbers(name, args))),
    ("greatest", (2, MANY), |name, args| Ok(of_numbers(name, args))),
    ("least", (2, MANY), |name, args| Ok(of_numbers(name, args))),
    ("date", (1, 1), |_, args| Ok(call("mysql_date", args))),
    ("to_date", (1, 1), |_, args| Ok(call("mysql_date", args))),
    ("time", (1, 1), |_, args| Ok(call("mysql_time", args))),
    ("timestamp", (1, 2), timestamp),
    ("timestampadd", (3, 3), timestamp_add),
    ("extract", (2, 2), extract),
    ("insert", (4, 4), |_, args| Ok(call("mysql_insert", args))),
    ("md5", (1, 1), |name, args| Ok(call(name, vec![call("mysql_binary", args)]))),
    ("json_value", (2, 2), |_, args| Ok(call("json_unquote", vec![call("json_extract", args)]))),
    ("date_trunc", (2, 2), date_trunc),
    ("array", (0, MANY), |_, args| Ok(call("make_array", args))),
    ("cardinality", (1, 1), |_, args| Ok(call("array_size", args))),
    ("size", (1, 1), |_, args| Ok(call("array_size", args))),
    ("map", (0, MANY), map),
    ("struct", (1, MANY), structure),
    ("explode", (1, 1), |_, args| Ok(call("unnest", vec![call(ELEMENTS, args)]))),
    ("explode_outer", (1, 1), |_, args| Ok(call("unnest_outer", vec![call(ELEMENTS, args)]))),
    ("explode_map", (1, 1), of_view),
    ("explode_map_outer", (1, 1), of_view),
    ("posexplode", (1, 1), of_view),
    ("posexplode_outer", (1, 1), of_view),
    ("map_contains_key", (2, 2), |_, args| Ok(map_has("map_keys", args))),
    ("map_contains_value", (2, 2), |_, args| Ok(map_has("map_values", args))),
    ("array_contains", (2, 2), |_, args| Ok(call("array_has", args))),
    ("array_position", (2, 2), array_position),
    ("benchmark", (2, 2), |_, args| Ok(call("mysql_benchmark", args))),
    ("default", (1, 1), default_of),
    ("name_const", (2, 2), |_, mut args| Ok(args.remove(1))),
    ("last_insert_id", (1, 1), |_, args| Ok(call(NOTE_INSERT_ID, args))),
    ("sleep", (1, 1), acts),
    ("load_file", (1, 1), acts),
    ("get_lock", (2, 2), acts),
    ("release_lock", (1, 1), acts),
    ("release_all_locks", (0, 0), acts),
    ("is_free_lock", (1, 1), acts),
    ("is_used_lock", (1, 1), acts),
];

/// Functions that look at the bytes of a text.
const OF_BYTES: [&str; 10] = [
    "bit_length",
    "crc32",
    "hex",
    "length",
    "md5",
    "octet_length",
    "sha",
    "sha1",
    "sha2",
    "to_base64",
];

/// Functions with side effects are executed before planning, and only in a SELECT without FROM.
fn acts(name: &str, _: Vec<Expr>) -> Result<Expr> {
    let name = name.to_uppercase();
    bail!(NotSupported, "This version of Freshet doesn't yet support '{name} inside a query'")
}

/// `DEFAULT(column)`, which has no other argument.
fn default_of(_: &str, args: Vec<Expr>) -> Result<Expr> {
    match &args[..] {
        [Expr::Identifier(_) | Expr::CompoundIdentifier(_)] => Ok(call(DEFAULT_OF, args)),
        _ => bail!(
            Syntax,
            "You have an error in your SQL syntax; DEFAULT() is of a column of a table"
        ),
    }
}

/// What has several columns stands in LATERAL VIEW alone.
fn of_view(name: &str, _: Vec<Expr>) -> Result<Expr> {
    bail!(
        NotSupported,
        "This version of Freshet doesn't yet support '{name} outside of LATERAL VIEW'; write \
         FROM .. LATERAL VIEW {name}(..) v AS a, b"
    )
}

/// `MAP(key, value, ..)`.
fn map(_: &str, args: Vec<Expr>) -> Result<Expr> {
    if !args.len().is_multiple_of(2) {
        return Err(wrong_count("map"));
    }
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (at, arg) in args.into_iter().enumerate() {
        if at % 2 == 0 { keys.push(arg) } else { values.push(arg) }
    }
    Ok(call("map", vec![call("make_array", keys), call("make_array", values)]))
}

/// `STRUCT(value, ..)`, whose fields are called as in Doris.
fn structure(_: &str, args: Vec<Expr>) -> Result<Expr> {
    let fields = args.into_iter().zip(1..);
    let parts = fields.flat_map(|(value, at)| [text(format!("col{at}")), value]);
    Ok(call("named_struct", parts.collect()))
}

/// Whether a MAP has a key or value.
fn map_has(of: &str, mut args: Vec<Expr>) -> Expr {
    let wanted = args.remove(1);
    call("array_has", vec![call(of, args), wanted])
}

/// The place from 1 on, or 0.
fn array_position(name: &str, args: Vec<Expr>) -> Result<Expr> {
    let size = call("array_size", vec![args[0].clone()]);
    let none = binary(size, BinaryOperator::Multiply, int(0));
    Ok(call("coalesce", vec![call("mysql_signed", vec![call(name, args)]), none]))
}

/// Converts boolean arguments to 1 and 0.
fn of_numbers(name: &str, args: Vec<Expr>) -> Expr {
    call(name, args.into_iter().map(number).collect())
}

/// `CHAR(72, 105)`. Of literals whose bytes are UTF-8 it is a text, as in `CONCAT(name, CHAR(10))`,
/// which MySQL makes a text of because its bytes are weaker than a column; all else is bytes.
fn char_of(name: &str, args: Vec<Expr>) -> Result<Expr> {
    let code = |arg: &Expr| match arg {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            Value::HexStringLiteral(digits) => i64::from_str_radix(digits, 16).ok(),
            _ => None,
        },
        _ => None,
    };
    let codes = args.iter().map(code).collect::<Option<Vec<i64>>>();
    let bytes = codes.map(|codes| codes.into_iter().flat_map(bytes_of_code).collect::<Vec<_>>());
    Ok(match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(known) => text(known),
        None => codes_of(name, args)?,
    })
}

/// The bytes of codes, of which a literal as `0x41` is a number.
fn codes_of(_: &str, args: Vec<Expr>) -> Result<Expr> {
    let code = |arg: Expr| {
        let Expr::Value(value) = &arg else { return arg };
        let Value::HexStringLiteral(digits) = &value.value else { return arg };
        match u64::from_str_radix(digits, 16) {
            Ok(code) => int(code & u64::from(u32::MAX)),
            Err(_) => arg,
        }
    };
    Ok(call(BYTES_OF_CODES, args.into_iter().map(code).collect()))
}

/// `IF(condition, result, otherwise)`.
fn if_else(_: &str, mut args: Vec<Expr>) -> Result<Expr> {
    let otherwise = args.pop();
    let result = args.remove(1);
    Ok(case(vec![CaseWhen { condition: args.remove(0), result }], otherwise))
}

/// `TIMESTAMP(value[, time])`.
fn timestamp(_: &str, mut args: Vec<Expr>) -> Result<Expr> {
    let time = (args.len() == 2).then(|| args.remove(1));
    let datetime = call("mysql_datetime", args);
    Ok(match time {
        Some(time) => call("mysql_addtime", vec![datetime, time]),
        None => datetime,
    })
}

/// `TIMESTAMPADD(unit, amount, value)`.
fn timestamp_add(_: &str, mut args: Vec<Expr>) -> Result<Expr> {
    let (unit, amount) = (args.remove(0), args.remove(0));
    Ok(call("mysql_date_add", vec![args.remove(0), amount, unit, int(1)]))
}

fn extract(_: &str, mut args: Vec<Expr>) -> Result<Expr> {
    let unit = as_text(&args[0]).unwrap_or("DAY").to_owned();
    Ok(extracted(&unit, args.remove(1)))
}

/// The unit of DATE_TRUNC comes second in Doris, first elsewhere.
fn date_trunc(name: &str, mut args: Vec<Expr>) -> Result<Expr> {
    if as_text(&args[1]).is_some() {
        args.swap(0, 1);
    }
    Ok(call(name, vec![args.remove(0), call("mysql_datetime", args)]))
}

impl Rewriter<'_> {
    /// Rewrites a call after its arguments.
    pub(super) fn function(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else { return Ok(()) };
        match of_sys(function) {
            Some(OfSys::Called(plain)) => {
                function.name = ObjectName::from(vec![Ident::new(plain)]);
            }
            Some(OfSys::Version(place)) => {
                let part = part_of_version(self.session.version, place);
                *expr = part.map_or_else(null, int);
                return Ok(());
            }
            None => {}
        }
        let name = name_of(function);
        if function.name.0.len() == 1 {
            function.name = ObjectName::from(vec![sqlparser::ast::Ident::new(name.clone())]);
        }
        if OF_SESSION.contains(&name.as_str()) && !notes_id(&name, function) {
            let args = args_of(function).unwrap_or_default();
            if let Some(value) = self.session_function(&name, &args)? {
                *expr = value;
            }
            return Ok(());
        }
        if let Some(replaced) = aggregate::replaced(&name, function, GroupLimits::of(self.session))?
        {
            *expr = replaced;
            return Ok(());
        }
        if let Some(replaced) = self.scalar(&name, function)? {
            *expr = replaced;
        }
        Ok(())
    }

    /// Rewrites scalar functions in [`CHANGED`], and conversions of Unix time.
    fn scalar(&mut self, name: &str, function: &mut Function) -> Result<Option<Expr>> {
        if name == "unix_timestamp" || name == "from_unixtime" {
            return match args_of(function) {
                Some(args) => self.unix_time(name, args).map(Some),
                None => Ok(None),
            };
        }
        if name == "validate_password_strength" {
            let Some(mut args) = args_of(function) else { return Ok(None) };
            self.of_session = true;
            args.extend(PASSWORD_RULES.map(|name| int(self.session.number(name).unwrap_or(0))));
            return Ok(Some(call(password::STRENGTH, args)));
        }
        match name {
            "week" => return Ok(self.week(function)),
            "rand" => return Ok(self.rand(function)),
            "aes_encrypt" => return self.aes(name, crypt::ENCRYPT, function),
            "aes_decrypt" => return self.aes(name, crypt::DECRYPT, function),
            _ => {}
        }
        if OF_BYTES.contains(&name)
            && let FunctionArguments::List(list) = &mut function.args
        {
            for arg in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg {
                    *value = bytes_of_converted(take(value));
                }
            }
        }
        let Some((_, (min, max), become_new)) = CHANGED.iter().find(|(known, ..)| *known == name)
        else {
            return Ok(None);
        };
        let Some(args) = args_of(function) else { return Ok(None) };
        if !(*min..=*max).contains(&args.len()) {
            return Err(wrong_count(name));
        }
        become_new(name, args).map(Some)
    }

    /// AES in the mode of `block_encryption_mode`.
    fn aes(&mut self, name: &str, new: &str, function: &mut Function) -> Result<Option<Expr>> {
        let Some(mut args) = args_of(function) else { return Ok(None) };
        if !(2..=3).contains(&args.len()) {
            return Err(wrong_count(name));
        }
        self.of_session = true;
        args.resize_with(3, null);
        args.push(match self.session.variables.system(Scope::Any, "block_encryption_mode") {
            Some(session::Value::Text(mode)) => text(mode),
            _ => text("aes-128-ecb"),
        });
        Ok(Some(call(new, args)))
    }

    /// RAND of a constant is a sequence, of which each row has the next number.
    fn rand(&self, function: &mut Function) -> Option<Expr> {
        let mut args = args_of(function)?;
        let unsigned = match args.first() {
            Some(Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr }) => &**expr,
            Some(seed) => seed,
            None => return Some(call("rand", args)),
        };
        if args.len() > 1 || !matches!(unsigned, Expr::Value(_)) {
            return Some(call("rand", args));
        }
        // No other call of the statement has this number.
        args.push(int(self.seen));
        Some(call(SEEDED, args))
    }

    /// `WEEK(date)` in the mode of `default_week_format`; 0 is that of the function itself.
    fn week(&mut self, function: &mut Function) -> Option<Expr> {
        let mode = self.session.number("default_week_format").filter(|mode| *mode != 0)?;
        let mut args = args_of(function)?;
        if args.len() == 1 {
            self.of_session = true;
            args.push(int(mode));
        }
        Some(call("week", args))
    }

    fn unix_time(&mut self, name: &str, mut args: Vec<Expr>) -> Result<Expr> {
        self.of_session = true;
        let zone = text(self.session.zone_name);
        if name == "unix_timestamp" {
            if args.is_empty() {
                return Ok(int(self.session.now_micros.div_euclid(SECOND)));
            }
            let digits = as_text(&args[0]).map(|text| digits_of_text(text, &convert::DATETIME));
            let digits = digits.map_or_else(null, int);
            return Ok(call("unix_timestamp", vec![args.remove(0), zone, digits]));
        }
        if args.is_empty() {
            return Err(wrong_count(name));
        }
        let format = (args.len() > 1).then(|| args.remove(1));
        let datetime = call("from_unixtime", vec![args.remove(0), zone]);
        Ok(match format {
            Some(format) => call("date_format", vec![datetime, format]),
            None => datetime,
        })
    }

    /// The literal value of a function of the session or the current time.
    pub(super) fn session_function(&mut self, name: &str, args: &[Expr]) -> Result<Option<Expr>> {
        self.of_session = true;
        let session = self.session;
        let digits = args.first().map_or(0, |arg| arg.to_string().parse().unwrap_or(0));
        let digits = if name.contains("time") || name == "now" || name == "sysdate" {
            u8::try_from(within(digits, 6)?).expect("at most 6")
        } else {
            0
        };
        let now = |local: bool| {
            let micros = session.now_micros;
            let micros = if local { session.zone.to_local(micros) } else { micros };
            let mut shown = String::new();
            crate::format::datetime(&mut shown, micros, digits);
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
            "current_role" => Some(text(session.current_role)),
            "connection_id" | "ps_current_thread_id" => Some(int(session.connection_id)),
            "last_insert_id" => Some(int(session.last_insert_id)),
            "row_count" => Some(int(session.row_count)),
            "found_rows" => Some(int(session.found_rows)),
            other => {
                bail!(NotSupported, "This version of Freshet doesn't yet support '{other}()'")
            }
        })
    }
}
