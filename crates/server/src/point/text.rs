//! Recognises, without the parser, a SELECT of columns of one table by equality of some columns.

use super::scanner::{Compared, Operand, Scanner};

/// `SELECT columns FROM table WHERE column = value AND column IN (values) ..`.
///
/// Only the planner knows whether names exist, so this is of use for a text that it has planned, or
/// for one of the same shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointText<'a> {
    /// The text with `?` in place of values. Texts of one shape differ in their values only.
    pub shape: Vec<u8>,
    pub database: Option<&'a [u8]>,
    pub table: &'a [u8],
    pub compared: Vec<Compared<'a>>,
    pub operands: Vec<Operand<'a>>,
}

/// Words behind SELECT that are no columns.
const MODIFIERS: [&str; 11] = [
    "all",
    "distinct",
    "distinctrow",
    "high_priority",
    "straight_join",
    "sql_big_result",
    "sql_buffer_result",
    "sql_cache",
    "sql_calc_found_rows",
    "sql_no_cache",
    "sql_small_result",
];

impl<'a> PointText<'a> {
    /// Reads a statement; `None` if it is anything else.
    pub fn parse(sql: &'a [u8]) -> Option<Self> {
        let mut scanner = Scanner::new(sql);
        scanner.word("select")?;
        items(&mut scanner)?;
        let (database, table) = table(&mut scanner)?;
        let compared = scanner.conditions()?;
        let (shape, operands) = scanner.finish()?;
        Some(Self { shape, database, table, compared, operands })
    }
}

/// The items of the select list, and FROM.
fn items(scanner: &mut Scanner<'_>) -> Option<()> {
    let mut is_first = true;
    loop {
        if scanner.take(b'*').is_none() {
            let (name, quoted) = scanner.name()?;
            let is_modifier = |word: &&str| name.eq_ignore_ascii_case(word.as_bytes());
            if is_first && !quoted && MODIFIERS.iter().any(is_modifier) {
                return None;
            }
            while scanner.take(b'.').is_some() {
                if scanner.take(b'*').is_none() {
                    scanner.name()?;
                }
            }
        }
        is_first = false;
        if scanner.word("from").is_some() {
            return Some(());
        }
        if scanner.take(b',').is_some() {
            continue;
        }
        // An alias.
        scanner.word("as");
        scanner.name()?;
        if scanner.word("from").is_some() {
            return Some(());
        }
        scanner.take(b',')?;
    }
}

/// The table with its database, its alias, and WHERE.
fn table<'a>(scanner: &mut Scanner<'a>) -> Option<(Option<&'a [u8]>, &'a [u8])> {
    let named = scanner.table()?;
    if scanner.word("where").is_none() {
        scanner.word("as");
        scanner.name()?;
        scanner.word("where")?;
    }
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sql: &str) -> Option<String> {
        let text = PointText::parse(sql.as_bytes())?;
        Some(String::from_utf8(text.shape).unwrap())
    }

    #[test]
    fn texts_of_one_shape_differ_in_their_values_only() {
        let wanted = "SELECT c FROM sbtest1 WHERE id=?";
        assert_eq!(shape("SELECT c FROM sbtest1 WHERE id=5").as_deref(), Some(wanted));
        assert_eq!(shape("SELECT c FROM sbtest1 WHERE id='x' ; ").as_deref(), Some(wanted));
        assert_eq!(shape("SELECT c FROM sbtest1 WHERE id=?").as_deref(), Some(wanted));
        let two = "select `a`, t.b as x from d.t u where u.a = ? and b in (?, ?)";
        let sql = "select `a`, t.b as x from d.t u where u.a = -1 and b in ('', ?)";
        assert_eq!(shape(sql).as_deref(), Some(two));
        let text = PointText::parse(sql.as_bytes()).unwrap();
        assert_eq!((text.database, text.table), (Some(&b"d"[..]), &b"t"[..]));
        let operands = [Operand::Int(-1), Operand::Text(b""), Operand::Parameter(0)];
        assert_eq!(text.operands, operands);
        assert_eq!(text.compared[1], Compared { column: b"b", from: 1, to: 3 });
        assert!(shape("select * from t where a=1").is_some());
        assert!(shape("select t.*, a from t where a=1").is_some());
    }

    #[test]
    fn everything_else_is_left_to_the_parser() {
        for sql in [
            "",
            "select",
            "select 1",
            "select c from t",
            "select c from t where",
            "select c from t where id",
            "select c from t where id = ",
            "select c from t where id = 1 or id = 2",
            "select c from t where id = 1 limit 0",
            "select c from t where id = 1 for update",
            "select c from t where id = 1; select 2",
            "select c from t where id = 1.5",
            "select c from t where id = 1e3",
            "select c from t where id = 0x10",
            "select c from t where id = 1 + 1",
            "select c from t where id = null",
            "select c from t where id = 'a' 'b'",
            "select c from t where id = 'a''b'",
            "select c from t where id = 'a\\'b'",
            "select c from t where id = 'a",
            "select c from t where id = \"a\"",
            "select c from t where id = _binary'a'",
            "select c from t where id > 1",
            "select c from t where id <=> 1",
            "select c from t where id in ()",
            "select c from t where id in (select 1)",
            "select c from t where not id = 1",
            "select c + 1 from t where id = 1",
            "select count(*) from t where id = 1",
            "select distinct c from t where id = 1",
            "select sql_calc_found_rows c from t where id = 1",
            "select c from t, u where id = 1",
            "select c from t join u where id = 1",
            "select c from t partition (p) where id = 1",
            "select /*+ set_var(a=1) */ c from t where id = 1",
            "select c from t where id = 1 -- x",
            "select c from t where id = 1 /* x */",
            "selectc from t where id = 1",
            "select `c``d` from t where id = 1",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
    }
}
