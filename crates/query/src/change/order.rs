//! Assignments that read what earlier ones of the statement assign.

use std::ops::ControlFlow;

use freshet_base::{Result, bail};
use sqlparser::ast::{Expr, Query, Value, VisitorMut};

use super::Assignments;
use crate::nesting::count_queries;
use crate::visit::{visit_expressions, walk_mut};

/// The parts that are put in place of columns in one statement. As each may have what those before
/// it have, a short statement could make very many.
const PARTS_MAX: usize = 20_000;
/// Bytes of a literal that count as a part.
const PART_BYTES: usize = 1024;

/// The values of assignments that are carried out one after the other, as MySQL does: what a later
/// one reads of an earlier one's column is the new value. `None`, DEFAULT, is left to the caller.
/// Where tables are joined, `of` is the name of the one that gets the values.
///
/// # Errors
/// 3170 where values become too large by what they read of each other.
pub fn in_order(set: &Assignments, of: Option<&str>) -> Result<Assignments> {
    let mut done: Assignments = Vec::with_capacity(set.len());
    let mut parts = 0;
    for (column, value) in set {
        let mut value = value.clone();
        if let Some(value) = &mut value {
            let mut before = Before { done: &done, of, queries: 0, parts };
            if walk_mut(&mut value.0, &mut before).is_break() {
                bail!(
                    TooLarge,
                    "The values of the statement become more than {PARTS_MAX} expressions by what \
                     they read of each other: assign to '{column}' in a statement of its own"
                );
            }
            parts = before.parts;
        }
        // The last of several values for a column counts.
        done.retain(|(known, _)| !known.eq_ignore_ascii_case(column));
        done.push((column.clone(), value));
    }
    Ok(done)
}

/// Puts the values of earlier assignments in place of their columns.
struct Before<'a> {
    done: &'a Assignments,
    of: Option<&'a str>,
    /// The nesting of subqueries, in which a name alone is one of their own columns.
    queries: usize,
    /// The parts that were put so far.
    parts: usize,
}

impl VisitorMut for Before<'_> {
    type Break = ();

    count_queries!(&mut Query);

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let name = match expr {
            Expr::Identifier(name) if self.queries == 0 => &name.value,
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, column]
                    if self.of.is_none_or(|of| of.eq_ignore_ascii_case(&table.value)) =>
                {
                    &column.value
                }
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        let before = self.done.iter().rfind(|(column, _)| column.eq_ignore_ascii_case(name));
        if let Some((_, Some(before))) = before {
            self.parts = self.parts.saturating_add(parts_of(&before.0));
            if self.parts > PARTS_MAX {
                return ControlFlow::Break(());
            }
            *expr = Expr::Nested(Box::new(before.0.clone()));
        }
        ControlFlow::Continue(())
    }
}

fn parts_of(expr: &Expr) -> usize {
    let mut parts = 0;
    let _ = visit_expressions(expr, |part| {
        parts += 1;
        if let Expr::Value(value) = part {
            parts += match &value.value {
                Value::HexStringLiteral(text)
                | Value::SingleQuotedString(text)
                | Value::DoubleQuotedString(text) => text.len() / PART_BYTES,
                _ => 0,
            };
        }
        ControlFlow::<()>::Continue(())
    });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Statement, parse};

    /// What an UPDATE assigns, in order.
    fn ordered(set: &str) -> Result<Vec<String>> {
        let sql = format!("UPDATE t SET {set}");
        let Statement::Change(change) = parse(&sql, Default::default())?.remove(0).statement else {
            panic!("{sql}")
        };
        let crate::change::ChangeKind::Update { set } = change.kind else { panic!("{sql}") };
        let ordered = in_order(&set, None)?;
        let shown = ordered.into_iter().map(|(name, value)| match value {
            Some(value) => format!("{name} = {}", value.0),
            None => format!("{name} = DEFAULT"),
        });
        Ok(shown.collect())
    }

    #[test]
    fn later_ones_read_what_earlier_ones_assign() {
        let all = ordered("a = a + 1, b = a, a = 7, c = t.a + b").unwrap();
        assert_eq!(all, ["b = (a + 1)", "a = 7", "c = (7) + ((a + 1))"]);
    }

    #[test]
    fn short_statements_do_not_become_long_ones() {
        for set in [vec!["a = a + a"; 40], vec!["a = a + 1"; 20_000]] {
            let refused = ordered(&set.join(", ")).unwrap_err();
            assert_eq!(refused.code().errno(), 3170);
        }
        let file = format!("a = X'{}'", "00".repeat(2 << 20));
        let copies = ["b = CONCAT(a, a)", "c = CONCAT(b, b)"].join(", ");
        assert_eq!(ordered(&format!("{file}, {copies}")).unwrap_err().code().errno(), 3170);
        assert_eq!(ordered(&vec!["a = a + 1"; 50].join(", ")).unwrap().len(), 1);
    }
}
