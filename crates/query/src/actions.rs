//! Functions with side effects on the session, such as SLEEP and GET_LOCK. They never appear in a
//! plan: for a SELECT without FROM, the server runs them one by one in the order of the text and
//! substitutes their results for the calls.

use std::ops::ControlFlow;

use freshet_base::{Result, bail, err};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, SetExpr, Value,
    visit_expressions, visit_expressions_mut,
};

use crate::syntax::{Scalar, Select};

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
}

/// Each action with its function name and number of arguments.
const ACTIONS: [(Action, &str, usize); 7] = [
    (Action::Sleep, "sleep", 1),
    (Action::GetLock, "get_lock", 2),
    (Action::ReleaseLock, "release_lock", 1),
    (Action::ReleaseAllLocks, "release_all_locks", 0),
    (Action::IsFreeLock, "is_free_lock", 1),
    (Action::IsUsedLock, "is_used_lock", 1),
    (Action::SetLastInsertId, "last_insert_id", 1),
];

/// A call of one of these functions.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    pub action: Action,
    pub arguments: Vec<Scalar>,
}

/// Whether a query is a SELECT without FROM that calls one of these functions.
pub fn has_side_effects(query: &Select) -> bool {
    let SetExpr::Select(select) = &*query.0.body else { return false };
    select.from.is_empty()
        && visit_expressions(&query.0, |expr| match action_of(expr) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        })
        .is_break()
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

/// Replaces the query's calls by these values, in order; `None` is NULL.
///
/// # Panics
/// When there are fewer values than calls.
pub fn with_values(mut query: Select, values: &[Option<u64>]) -> Select {
    let mut values = values.iter();
    let _ = visit_expressions_mut(&mut query.0, |expr| {
        if action_of(expr).is_some() {
            let value = values.next().expect("there is a value for each call");
            let value = value.map_or(Value::Null, |value| Value::Number(value.to_string(), false));
            *expr = Expr::Value(value.with_empty_span());
        }
        ControlFlow::<()>::Continue(())
    });
    query
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

fn call(expr: &Expr) -> Option<Result<Call>> {
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
        Ok(Call { action, arguments })
    }))
}

fn argument(argument: &FunctionArg) -> Result<Scalar> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else {
        bail!(WrongArguments, "'{argument}' is no argument of a native function");
    };
    let nested = visit_expressions(expr, |inner| match action_of(inner) {
        Some((_, _, function)) => ControlFlow::Break(err!(
            NotSupported,
            "This version of Freshet doesn't yet support '{} in an argument'",
            function.name
        )),
        None => ControlFlow::Continue(()),
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
        let replaced = with_values(query, &[Some(1), None]).to_string();
        assert_eq!(replaced, "SELECT IF(1 = 1, 'yes', 'no'), NULL AS s, 5");
    }

    #[test]
    fn other_queries_do_not_act() {
        assert_eq!(query("SELECT SLEEPY(1)"), None);
        assert_eq!(query("SELECT 'SLEEP(1)'"), None);
        assert_eq!(query("SELECT SLEEP(1) FROM t"), None);
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
}
