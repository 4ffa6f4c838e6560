//! Statements of Doris about row policies.

use std::ops::ControlFlow;

use freshet_base::{Result, err};
use freshet_meta::{Account, PolicySpec};
use sqlparser::ast::Expr;
use sqlparser::tokenizer::Token;

use super::TableName;
use super::cursor::{Cursor, refuse};
use super::load::load_condition;
use super::users::account;
use crate::actions::has_side_effects;
use crate::syntax::{Scalar, Select};
use crate::visit::visit_expressions_mut;

/// A statement about row policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyStatement {
    Create {
        table: TableName,
        policy: PolicySpec,
        if_not_exists: bool,
    },
    Drop {
        name: String,
        /// ON; otherwise the only policy of this name.
        table: Option<TableName>,
        /// FOR.
        holder: Option<Account>,
        if_exists: bool,
    },
}

/// Parses the part after CREATE ROW POLICY.
pub fn create(cursor: &mut Cursor<'_>) -> Result<PolicyStatement> {
    let if_not_exists = cursor.words("IF NOT EXISTS");
    let name = cursor.name()?;
    cursor.expect_words("ON")?;
    let table = cursor.table()?;
    cursor.expect_words("AS")?;
    let kind = cursor.one_of(&["RESTRICTIVE", "PERMISSIVE"]).ok_or_else(|| cursor.error())?;
    cursor.expect_words("TO")?;
    let is_of_role = cursor.words("ROLE");
    let holder = account(cursor)?;
    cursor.expect_words("USING")?;
    cursor.expect(&Token::LParen)?;
    let condition = cursor.expr()?;
    cursor.expect(&Token::RParen)?;
    let (text, columns) = condition_of(condition)?;
    let is_restrictive = kind == "RESTRICTIVE";
    let policy = PolicySpec { name, is_restrictive, holder, is_of_role, text, columns };
    Ok(PolicyStatement::Create { table, policy, if_not_exists })
}

/// Parses the part after DROP ROW POLICY.
pub fn drop(cursor: &mut Cursor<'_>) -> Result<PolicyStatement> {
    let if_exists = cursor.words("IF EXISTS");
    let name = cursor.name()?;
    let table = cursor.words("ON").then(|| cursor.table()).transpose()?;
    Ok(PolicyStatement::Drop { name, table, holder: holder(cursor)?, if_exists })
}

/// Parses FOR and an account or role, if it is next.
pub fn holder(cursor: &mut Cursor<'_>) -> Result<Option<Account>> {
    if !cursor.words("FOR") {
        return Ok(None);
    }
    cursor.words("ROLE");
    account(cursor).map(Some)
}

/// The text of a condition, and the columns that it names, in which the name of the table is left
/// out.
fn condition_of(mut condition: Scalar) -> Result<(String, Vec<String>)> {
    let whole = Select::of(vec![condition.clone()]);
    if has_side_effects(&whole) {
        return Err(refused("what has side effects"));
    }
    if whole.has_variables() {
        return Err(refused("variables and parameters, which whoever reads could set"));
    }
    let mut columns: Vec<String> = Vec::new();
    let outcome = visit_expressions_mut(&mut condition.0, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(last) = parts.pop()
        {
            *expr = Expr::Identifier(last);
        }
        match expr {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                return ControlFlow::Break(());
            }
            Expr::Identifier(name)
                if !columns.iter().any(|known| known.eq_ignore_ascii_case(&name.value)) =>
            {
                columns.push(name.value.clone());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    if outcome.is_break() {
        return Err(refused("subqueries"));
    }
    while let Expr::Nested(inner) = condition.0 {
        condition.0 = *inner;
    }
    let text = condition.0.to_string();
    // It is read again from its text.
    if !load_condition(&text).is_ok_and(|again| again == condition) {
        return Err(refuse(&format!("USING ({text})")));
    }
    Ok((text, columns))
}

fn refused(what: &str) -> freshet_base::Error {
    err!(NotSupported, "The condition of a row policy is of columns of its table, and not {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Statement, parse};
    use crate::session::SqlMode;

    fn parsed(sql: &str) -> Result<Statement> {
        Ok(parse(sql, SqlMode::default())?.remove(0).statement)
    }

    #[test]
    fn policies_are_parsed_as_doris_writes_them() {
        let sql = "create row policy if not exists p on d.t as restrictive to jack using \
                   ((t.a = 1 or d.t.`B` in ('x', 'y')))";
        let Statement::Policy(statement) = parsed(sql).unwrap() else { panic!("{sql}") };
        let PolicyStatement::Create { table, policy, if_not_exists } = *statement else {
            panic!("{sql}")
        };
        assert_eq!((table.database.as_deref(), if_not_exists), (Some("d"), true));
        assert_eq!(policy.text, "a = 1 OR `B` IN ('x', 'y')");
        assert_eq!(policy.columns, ["a", "B"]);
        assert!(policy.is_restrictive && !policy.is_of_role);
        let sql = "CREATE ROW POLICY p ON t AS PERMISSIVE TO ROLE r USING (a = CURRENT_USER())";
        let Statement::Policy(statement) = parsed(sql).unwrap() else { panic!("{sql}") };
        assert!(matches!(*statement, PolicyStatement::Create { policy, .. } if policy.is_of_role));
        for sql in ["drop row policy p", "drop row policy if exists p on d.t for role r"] {
            assert!(matches!(parsed(sql), Ok(Statement::Policy(_))), "{sql}");
        }
        for refused in ["a = (select 1)", "exists (select 1)", "a = @x", "a = @@port", "sleep(1)"] {
            let sql = format!("create row policy p on t as permissive to u using ({refused})");
            assert_eq!(parsed(&sql).unwrap_err().code().errno(), 1235, "{refused}");
        }
        for wrong in ["", "as permissive to u", "as any to u using (1)", "to u using (1)"] {
            let sql = format!("create row policy p on t {wrong}");
            assert_eq!(parsed(&sql).unwrap_err().code().errno(), 1064, "{wrong}");
        }
    }
}
