//! Recognises, without the parser, UPDATE and DELETE of rows by equality of some columns.

use super::scanner::{Compared, Operand, Scanner};

/// `UPDATE table SET column = value, column = column + value .. WHERE column = value AND ..`, and
/// DELETE of the same form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeText<'a> {
    /// The text with `?` in place of values. Texts of one shape differ in their values only.
    pub shape: Vec<u8>,
    pub database: Option<&'a [u8]>,
    pub table: &'a [u8],
    /// What columns get, in the order of the statement; nothing in a DELETE.
    pub set: Vec<(&'a [u8], NewValue<'a>)>,
    pub compared: Vec<Compared<'a>>,
    pub operands: Vec<Operand<'a>>,
}

/// What a column gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewValue<'a> {
    /// The value with this index.
    Operand(usize),
    /// The value of a column, and the value with this index added to it, or taken from it.
    Moved { column: &'a [u8], by: usize, is_less: bool },
}

/// Words in place of the name of the table, or behind it.
const MODIFIERS: [&str; 6] = ["low_priority", "quick", "ignore", "from", "set", "where"];

impl<'a> ChangeText<'a> {
    /// Reads a statement; `None` if it is anything else.
    pub fn parse(sql: &'a [u8]) -> Option<Self> {
        let mut scanner = Scanner::new(sql);
        let is_delete = scanner.word("delete").is_some();
        match is_delete {
            true => scanner.word("from")?,
            false => scanner.word("update")?,
        }
        if MODIFIERS.iter().any(|word| scanner.word(word).is_some()) {
            return None;
        }
        let (database, table) = scanner.table()?;
        let mut set = Vec::new();
        if !is_delete {
            scanner.word("set")?;
            assignments(&mut scanner, &mut set)?;
        }
        scanner.word("where")?;
        let compared = scanner.conditions()?;
        // Only the planner knows whether that is the table.
        if scanner.is_qualified {
            return None;
        }
        let (shape, operands) = scanner.finish()?;
        Some(Self { shape, database, table, set, compared, operands })
    }

    pub fn is_delete(&self) -> bool {
        self.set.is_empty()
    }
}

fn assignments<'a>(
    scanner: &mut Scanner<'a>,
    set: &mut Vec<(&'a [u8], NewValue<'a>)>,
) -> Option<()> {
    loop {
        let column = scanner.column()?;
        scanner.take(b'=')?;
        let value = match scanner.column() {
            Some(column) => {
                let is_less = scanner.take(b'-').is_some();
                if !is_less {
                    scanner.take(b'+')?;
                }
                NewValue::Moved { column, by: scanner.value()?, is_less }
            }
            None => NewValue::Operand(scanner.value()?),
        };
        set.push((column, value));
        if scanner.take(b',').is_none() {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sql: &str) -> Option<String> {
        let text = ChangeText::parse(sql.as_bytes())?;
        Some(String::from_utf8(text.shape).unwrap())
    }

    #[test]
    fn texts_of_one_shape_differ_in_their_values_only() {
        let wanted = "UPDATE sbtest1 SET k=k+? WHERE id=?";
        assert_eq!(shape("UPDATE sbtest1 SET k=k+1 WHERE id=5").as_deref(), Some(wanted));
        assert_eq!(shape("UPDATE sbtest1 SET k=k+? WHERE id=?;").as_deref(), Some(wanted));
        let sql = "update d.`t` set a = -1, `b` = 'x' , c=c - ? where id = 7 and k = 'y'";
        let text = ChangeText::parse(sql.as_bytes()).unwrap();
        assert_eq!((text.database, text.table), (Some(&b"d"[..]), &b"t"[..]));
        let moved = NewValue::Moved { column: b"c", by: 2, is_less: true };
        let set = [
            (&b"a"[..], NewValue::Operand(0)),
            (&b"b"[..], NewValue::Operand(1)),
            (&b"c"[..], moved),
        ];
        assert_eq!(text.set, set);
        let operands =
            [Operand::Int(-1), Operand::Text(b"x"), Operand::Parameter(0), Operand::Int(7)];
        assert_eq!(text.operands[..4], operands);
        assert_eq!(text.compared.len(), 2);
        let deletes = ChangeText::parse(b"DELETE FROM sbtest1 WHERE id=4").unwrap();
        assert!(deletes.is_delete());
        assert_eq!(deletes.shape, b"DELETE FROM sbtest1 WHERE id=?");
    }

    #[test]
    fn everything_else_is_left_to_the_parser() {
        for sql in [
            "",
            "update",
            "update t set a = 1",
            "update t set a = 1 where id > 1",
            "update t set a = 1 where id = 1 limit 1",
            "update t set a = 1 where id = 1 order by id",
            "update t set a = null where id = 1",
            "update t set a = default where id = 1",
            "update t set a = b where id = 1",
            "update t set a = a * 2 where id = 1",
            "update t set a = a + 1 + 1 where id = 1",
            "update t set a = a + b where id = 1",
            "update t set a = (1) where id = 1",
            "update t set a = 1.5 where id = 1",
            "update t set a = now() where id = 1",
            "update t set a = 'it''s' where id = 1",
            "update t set where id = 1",
            "update t set t.a = 1 where id = 1",
            "update t set a = 1 where u.id = 1",
            "update t as x set a = 1 where id = 1",
            "update t, u set a = 1 where id = 1",
            "update ignore t set a = 1 where id = 1",
            "update low_priority t set a = 1 where id = 1",
            "update t partition (p) set a = 1 where id = 1",
            "update t set a = 1 where id = 1; delete from t",
            "update /*+ set_var(a=1) */ t set a = 1 where id = 1",
            "delete from t",
            "delete t from t where id = 1",
            "delete quick from t where id = 1",
            "delete from t as x where id = 1",
            "delete from t where id = 1 limit 1",
            "delete from t using t where id = 1",
            "delete from t where id = 1 returning id",
            "with x as (select 1) delete from t where id = 1",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
    }
}
