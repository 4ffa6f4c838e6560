//! Functions with side effects on the session, such as SLEEP and GET_LOCK. They never appear in a
//! plan: for a SELECT without FROM, the server runs them one by one in the order of the text and
//! substitutes their results for the calls. LOAD_FILE of a name that is no row's is run so anywhere
//! in a SELECT, in VALUES of INSERT, and in SET of UPDATE.

use std::fmt::Write;
use std::ops::ControlFlow;

use freshet_base::{Result, bail, err};
use sqlparser::ast::{
    self, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    SelectItem, SetExpr, TableFactor, Value, ValueWithSpan,
};

use crate::syntax::{Scalar, Select, TableName};
use crate::visit::{visit_expressions, visit_expressions_mut};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// `SLEEP(seconds)`: returns 0.
    Sleep,
    /// `GET_LOCK(name, seconds)`: 1, or 0 on timeout.
    GetLock,
    /// `RELEASE_LOCK(name)`: 1, 0 if another session holds it, NULL if no session does.
    ReleaseLock,
    /// `RELEASE_ALL_LOCKS()`: the number of locks released.
    ReleaseAllLocks,
    /// `IS_FREE_LOCK(name)`: 1 or 0.
    IsFreeLock,
    /// `IS_USED_LOCK(name)`: the id of the connection that holds it, or NULL.
    IsUsedLock,
    /// `LAST_INSERT_ID(value)`: the value, which LAST_INSERT_ID() returns from then on.
    SetLastInsertId,
    /// `s.NEXTVAL`, `NEXTVAL(s)`: the next value of a sequence.
    NextValue,
    /// `s.CURRVAL`, `CURRVAL(s)`: the value that the session took last.
    CurrentValue,
    /// `LOAD_FILE(name)`: the bytes of a file of the server, or NULL.
    LoadFile,
}

/// What a call returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Returned {
    Null,
    Number(u64),
    Bytes(Vec<u8>),
}

impl From<Option<u64>> for Returned {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::Null, Self::Number)
    }
}

/// Each action with its function name and number of arguments.
const ACTIONS: [(Action, &str, usize); 8] = [
    (Action::Sleep, "sleep", 1),
    (Action::GetLock, "get_lock", 2),
    (Action::ReleaseLock, "release_lock", 1),
    (Action::ReleaseAllLocks, "release_all_locks", 0),
    (Action::IsFreeLock, "is_free_lock", 1),
    (Action::IsUsedLock, "is_used_lock", 1),
    (Action::SetLastInsertId, "last_insert_id", 1),
    (Action::LoadFile, "load_file", 1),
];

/// A call of one of these functions.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    pub action: Action,
    pub arguments: Vec<Scalar>,
    /// Of NEXTVAL and CURRVAL.
    pub sequence: Option<TableName>,
}

/// NEXTVAL or CURRVAL of a sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceCall {
    pub action: Action,
    pub sequence: TableName,
}

/// Whether the server runs functions of a query before it: a SELECT without FROM calls one of
/// these, or any other nothing but LOAD_FILE.
pub fn has_side_effects(query: &Select) -> bool {
    let acts_alone = matches!(&*query.0.body, SetExpr::Select(select) if reads_nothing(select));
    let (mut calls, mut files) = (0, 0);
    let _ = visit_expressions(&query.0, |expr| {
        calls += usize::from(is_call(expr));
        files += usize::from(file_of(expr).is_some());
        ControlFlow::<()>::Continue(())
    });
    calls > 0 && (acts_alone || calls == files && !query.locks())
}

/// The argument of LOAD_FILE, where it is known without a row.
fn file_of(expr: &Expr) -> Option<&Expr> {
    let (Action::LoadFile, _, function) = action_of(expr)? else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(name))] = &list.args[..] else { return None };
    let is_of_row = |expr: &Expr| match expr {
        Expr::Identifier(name) => !name.value.starts_with('@'),
        Expr::CompoundIdentifier(parts) => !parts[0].value.starts_with('@'),
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => true,
        expr => is_call(expr),
    };
    let found = visit_expressions(name, |expr| match is_of_row(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_continue().then_some(name)
}

/// The names of files in an expression that LOAD_FILE reads, in the order of its text.
pub fn files(expr: &Scalar) -> Vec<Scalar> {
    let mut names = Vec::new();
    let _ = visit_expressions(&expr.0, |expr| {
        names.extend(file_of(expr).cloned().map(Scalar));
        ControlFlow::<()>::Continue(())
    });
    names
}

/// Replaces each LOAD_FILE of [`files`] by the next of these values.
///
/// # Panics
/// When there are fewer values than calls.
pub fn with_files(mut expr: Scalar, values: &mut impl Iterator<Item = Returned>) -> Scalar {
    let _ = visit_expressions_mut(&mut expr.0, |expr| {
        if file_of(expr).is_some() {
            *expr = literal(values.next().expect("there is a value for each call"));
        }
        ControlFlow::<()>::Continue(())
    });
    expr
}

pub(crate) fn reads_nothing(select: &ast::Select) -> bool {
    match &select.from[..] {
        [] => true,
        [one] if one.joins.is_empty() => {
            matches!(&one.relation, TableFactor::Table { name, .. }
                if name.to_string().eq_ignore_ascii_case("dual"))
        }
        _ => false,
    }
}

fn is_call(expr: &Expr) -> bool {
    sequence_call(expr).is_some() || action_of(expr).is_some()
}

/// The calls in a query, in the order of its text.
///
/// # Errors
/// Wrong numbers of arguments, and a call nested in the arguments of another.
pub fn calls(query: &Select) -> Result<Vec<Call>> {
    let mut calls = Vec::new();
    let failed = visit_expressions(&query.0, |expr| match call(expr) {
        None => ControlFlow::Continue(()),
        Some(Ok(call)) => {
            calls.push(call);
            ControlFlow::Continue(())
        }
        Some(Err(error)) => ControlFlow::Break(error),
    });
    match failed {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(calls),
    }
}

/// Replaces the query's calls by these values, in order.
///
/// # Panics
/// When there are fewer values than calls.
pub fn with_values(mut query: Select, values: Vec<Returned>) -> Select {
    let mut values = values.into_iter();
    let _ = visit_expressions_mut(&mut query.0, |expr| {
        if is_call(expr) {
            *expr = literal(values.next().expect("there is a value for each call"));
        }
        ControlFlow::<()>::Continue(())
    });
    query
}

/// A value as it is written.
pub(crate) fn literal(value: Returned) -> Expr {
    let value = match value {
        Returned::Null => Value::Null,
        Returned::Number(number) => Value::Number(number.to_string(), false),
        Returned::Bytes(bytes) => {
            let mut digits = String::with_capacity(2 * bytes.len());
            for byte in bytes {
                write!(digits, "{byte:02X}").expect("writing to a string cannot fail");
            }
            let hex = Value::HexStringLiteral(digits).with_empty_span();
            return Expr::Prefixed {
                prefix: Ident::new("_binary"),
                value: Box::new(Expr::Value(hex)),
            };
        }
    };
    Expr::Value(value.with_empty_span())
}

fn action_of(expr: &Expr) -> Option<(Action, usize, &Function)> {
    let Expr::Function(function) = expr else { return None };
    let [name] = &function.name.0[..] else { return None };
    let name = &name.as_ident()?.value;
    let (action, _, width) = ACTIONS.iter().find(|(_, of, _)| name.eq_ignore_ascii_case(of))?;
    // Without an argument it has no side effect.
    let is_empty = matches!(&function.args, FunctionArguments::List(list) if list.args.is_empty());
    if *action == Action::SetLastInsertId && is_empty {
        return None;
    }
    Some((*action, *width, function))
}

/// NEXTVAL or CURRVAL, as `s.NEXTVAL` or `NEXTVAL(s)`.
pub(crate) fn sequence_call(expr: &Expr) -> Option<SequenceCall> {
    let (name, word) = match expr {
        Expr::CompoundIdentifier(names) => {
            let (word, name) = names.split_last()?;
            (name, word)
        }
        Expr::Function(function) => {
            let [word] = &function.name.0[..] else { return None };
            let FunctionArguments::List(list) = &function.args else { return None };
            let [FunctionArg::Unnamed(FunctionArgExpr::Expr(name))] = &list.args[..] else {
                return None;
            };
            let name = match name {
                Expr::Identifier(name) => std::slice::from_ref(name),
                Expr::CompoundIdentifier(names) => names,
                _ => return None,
            };
            (name, word.as_ident()?)
        }
        _ => return None,
    };
    let action = match () {
        () if word.quote_style.is_some() => return None,
        () if word.value.eq_ignore_ascii_case("nextval") => Action::NextValue,
        () if word.value.eq_ignore_ascii_case("currval") => Action::CurrentValue,
        () => return None,
    };
    let (database, table) = match name {
        [table] => (None, table),
        [database, table] => (Some(database.value.clone()), table),
        _ => return None,
    };
    let is_variable = name[0].value.starts_with('@') && name[0].quote_style.is_none();
    let sequence = TableName { database, table: table.value.clone() };
    (!is_variable).then_some(SequenceCall { action, sequence })
}

/// NEXTVAL or CURRVAL, if an expression is nothing else.
pub fn sequence_value(expr: &Scalar) -> Option<SequenceCall> {
    sequence_call(&expr.0)
}

/// NEXTVAL and CURRVAL in an expression, in the order of its text.
pub fn sequence_calls(expr: &Scalar) -> Vec<SequenceCall> {
    let mut calls = Vec::new();
    let _ = visit_expressions(&expr.0, |expr| {
        calls.extend(sequence_call(expr));
        ControlFlow::<()>::Continue(())
    });
    calls
}

/// Replaces NEXTVAL and CURRVAL in an expression by the next of these values.
///
/// # Panics
/// When there are fewer values than calls.
pub fn with_sequence_values(mut expr: Scalar, values: &mut impl Iterator<Item = u64>) -> Scalar {
    let _ = visit_expressions_mut(&mut expr.0, |expr| {
        if sequence_call(expr).is_some() {
            let value = values.next().expect("there is a value for each call").to_string();
            *expr = Expr::Value(Value::Number(value, false).with_empty_span());
        }
        ControlFlow::<()>::Continue(())
    });
    expr
}

/// `SELECT s.NEXTVAL [AS a] [FROM DUAL] WHERE COUNT = n` of PolarDB-X.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    pub sequence: TableName,
    pub count: u64,
    pub alias: Option<String>,
}

/// Whether a query asks for several values of a sequence.
pub fn counted(query: &Select) -> Option<Counted> {
    let SetExpr::Select(select) = &*query.0.body else { return None };
    let Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }) = &select.selection else {
        return None;
    };
    let (expr, alias) = match &select.projection[..] {
        [SelectItem::UnnamedExpr(expr)] => (expr, None),
        [SelectItem::ExprWithAlias { expr, alias }] => (expr, Some(alias.value.clone())),
        _ => return None,
    };
    let is_count = matches!(&**left, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("count"));
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = &**right else {
        return None;
    };
    let call = sequence_call(expr).filter(|call| call.action == Action::NextValue)?;
    let count = digits.parse().ok()?;
    let fits = is_count && reads_nothing(select);
    fits.then_some(Counted { sequence: call.sequence, count, alias })
}

fn call(expr: &Expr) -> Option<Result<Call>> {
    if let Some(SequenceCall { action, sequence }) = sequence_call(expr) {
        return Some(Ok(Call { action, arguments: Vec::new(), sequence: Some(sequence) }));
    }
    let (action, width, function) = action_of(expr)?;
    let arguments = match &function.args {
        FunctionArguments::List(list) => list.args.iter().map(argument).collect(),
        FunctionArguments::None | FunctionArguments::Subquery(_) => Ok(Vec::new()),
    };
    Some(arguments.and_then(|arguments| {
        if arguments.len() != width {
            bail!(
                ParameterCount,
                "Incorrect parameter count in the call to native function '{}'",
                function.name
            );
        }
        Ok(Call { action, arguments, sequence: None })
    }))
}

fn argument(argument: &FunctionArg) -> Result<Scalar> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else {
        bail!(WrongArguments, "'{argument}' is no argument of a native function");
    };
    let nested = visit_expressions(expr, |inner| match is_call(inner) {
        true => ControlFlow::Break(err!(
            NotSupported,
            "This version of Freshet doesn't yet support '{inner} in an argument'"
        )),
        false => ControlFlow::Continue(()),
    });
    match nested {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(Scalar(expr.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Statement, parse};
    use crate::session::SqlMode;

    fn query(sql: &str) -> Option<Select> {
        match parse(sql, SqlMode::default()).unwrap().remove(0).statement {
            Statement::SideEffects(query) => Some(query),
            _ => None,
        }
    }

    #[test]
    fn calls_are_found_in_the_order_of_the_text_and_replaced() {
        let query =
            query("SELECT IF(get_lock('a', 1 + 1) = 1, 'yes', 'no'), SLEEP(?) AS s, 5").unwrap();
        let found = calls(&query).unwrap();
        let actions = found.iter().map(|call| call.action).collect::<Vec<_>>();
        assert_eq!(actions, [Action::GetLock, Action::Sleep]);
        assert_eq!(found[0].arguments[1].to_string(), "1 + 1");
        let values = vec![Returned::Number(1), Returned::Null];
        let replaced = with_values(query, values).to_string();
        assert_eq!(replaced, "SELECT IF(1 = 1, 'yes', 'no'), NULL AS s, 5");
    }

    #[test]
    fn other_queries_do_not_act() {
        assert_eq!(query("SELECT SLEEPY(1)"), None);
        assert_eq!(query("SELECT 'SLEEP(1)'"), None);
        assert_eq!(query("SELECT SLEEP(1) FROM t"), None);
        assert_eq!(query("SELECT LOAD_FILE(name) FROM t"), None);
        assert_eq!(query("SELECT LOAD_FILE('a'), SLEEP(1) FROM t"), None);
    }

    #[test]
    fn files_whose_names_are_known_are_read_before() {
        let read = query("SELECT a, LOAD_FILE(CONCAT('a', @n)) FROM t UNION SELECT 1, 2").unwrap();
        let found = calls(&read).unwrap();
        assert_eq!(found.len(), 1);
        let replaced = with_values(read, vec![Returned::Bytes(b"xy".to_vec())]).to_string();
        assert_eq!(replaced, "SELECT a, _binary X'7879' FROM t UNION SELECT 1, 2");
        let expr = Scalar(Expr::Nested(Box::new(file("a"))));
        assert_eq!(files(&expr)[0].to_string(), "'a'");
        let put = with_files(expr, &mut [Returned::Null].into_iter());
        assert_eq!(put.to_string(), "(NULL)");
    }

    /// `LOAD_FILE('name')`.
    fn file(name: &str) -> Expr {
        let query = query(&format!("SELECT LOAD_FILE('{name}')")).unwrap();
        let SetExpr::Select(select) = *query.0.body else { panic!("it is a SELECT") };
        let SelectItem::UnnamedExpr(expr) = select.projection[0].clone() else { panic!("a call") };
        expr
    }

    #[test]
    fn wrong_counts_and_calls_in_arguments_are_refused() {
        for (sql, errno) in [
            ("SELECT GET_LOCK('a')", 1582),
            ("SELECT SLEEP()", 1582),
            ("SELECT GET_LOCK('a', SLEEP(1))", 1235),
        ] {
            let error = calls(&query(sql).unwrap()).unwrap_err();
            assert_eq!(error.code().errno(), errno, "{sql}");
        }
    }

    #[test]
    fn values_of_sequences_are_asked_for_in_all_spellings() {
        let name = |database: Option<&str>| TableName {
            database: database.map(str::to_owned),
            table: "s".to_owned(),
        };
        for (sql, action, database) in [
            ("SELECT s.NEXTVAL", Action::NextValue, None),
            ("SELECT nextval(s) AS n FROM dual", Action::NextValue, None),
            ("SELECT d.`s`.nextval + 1", Action::NextValue, Some("d")),
            ("SELECT NEXTVAL(d.s)", Action::NextValue, Some("d")),
            ("SELECT s.currval FROM DUAL", Action::CurrentValue, None),
        ] {
            let found = calls(&query(sql).unwrap()).unwrap();
            assert_eq!(found.len(), 1, "{sql}");
            assert_eq!(found[0].action, action, "{sql}");
            assert_eq!(found[0].sequence, Some(name(database)), "{sql}");
        }
        for sql in ["SELECT s.nextval FROM s", "SELECT s.`nextval`", "SELECT @@session.nextval"] {
            assert_eq!(query(sql), None, "{sql}");
        }
        let several = query("SELECT s.NEXTVAL AS n FROM DUAL WHERE COUNT = 3").unwrap();
        let alias = Some("n".to_owned());
        assert_eq!(counted(&several), Some(Counted { sequence: name(None), count: 3, alias }));
        assert_eq!(counted(&query("SELECT s.NEXTVAL, 1 FROM DUAL WHERE COUNT = 3").unwrap()), None);
    }
}
