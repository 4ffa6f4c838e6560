//! Recognises, without the parser, a SELECT of columns of one table by equality of some columns.

use super::scanner::{Compared, Operand, Scanner};

/// `SELECT columns FROM table WHERE column = value AND column IN (values) ..`, also DISTINCT and
/// with ORDER BY columns, or of one aggregate.
///
/// Only the planner knows whether names exist, so this is of use for a text that it has planned, or
/// for one of the same shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointText<'a> {
    /// The text with `?` in place of values. Texts of one shape differ in their values only.
    pub shape: Vec<u8>,
    pub items: Items<'a>,
    pub database: Option<&'a [u8]>,
    pub table: &'a [u8],
    pub compared: Vec<Compared<'a>>,
    /// The columns by which rows are sorted, and which of them descending.
    pub order: Vec<(&'a [u8], bool)>,
    pub operands: Vec<Operand<'a>>,
}

/// What a query selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Items<'a> {
    Columns,
    DistinctColumns,
    /// COUNT(*).
    Count,
    /// SUM of a column.
    Sum(&'a [u8]),
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
        let items = items(&mut scanner)?;
        let (database, table) = table(&mut scanner)?;
        let compared = scanner.conditions()?;
        let order = order(&mut scanner)?;
        let (shape, operands) = scanner.finish()?;
        Some(Self { shape, items, database, table, compared, order, operands })
    }
}

/// The items of the select list, and FROM.
fn items<'a>(scanner: &mut Scanner<'a>) -> Option<Items<'a>> {
    if scanner.call("count").is_some() {
        scanner.take(b'*')?;
        scanner.take(b')')?;
        return aliased(scanner).map(|()| Items::Count);
    }
    if scanner.call("sum").is_some() {
        let column = scanner.column()?;
        scanner.take(b')')?;
        return aliased(scanner).map(|()| Items::Sum(column));
    }
    let is_distinct = scanner.word("distinct").is_some();
    columns(scanner)?;
    Some(if is_distinct { Items::DistinctColumns } else { Items::Columns })
}

/// The alias of the last item, and FROM.
fn aliased(scanner: &mut Scanner<'_>) -> Option<()> {
    if scanner.word("from").is_none() {
        scanner.word("as");
        scanner.name()?;
        scanner.word("from")?;
    }
    Some(())
}

/// The columns of the select list, and FROM.
fn columns(scanner: &mut Scanner<'_>) -> Option<()> {
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

/// ORDER BY, if there is one.
fn order<'a>(scanner: &mut Scanner<'a>) -> Option<Vec<(&'a [u8], bool)>> {
    let mut order = Vec::new();
    if scanner.word("order").is_none() {
        return Some(order);
    }
    scanner.word("by")?;
    loop {
        let (column, _) = scanner.name()?;
        let is_descending = scanner.word("desc").is_some();
        if !is_descending {
            scanner.word("asc");
        }
        order.push((column, is_descending));
        if scanner.take(b',').is_none() {
            return Some(order);
        }
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
    use super::super::scanner::Values;
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
        assert_eq!(text.compared[1], Compared { column: b"b", values: Values::Of(1, 3) });
        assert!(shape("select * from t where a=1").is_some());
        assert!(shape("select t.*, a from t where a=1").is_some());
    }

    #[test]
    fn ranges_orders_and_aggregates_are_read() {
        let parse = |sql: &'static str| PointText::parse(sql.as_bytes()).unwrap();
        let text = parse("SELECT DISTINCT c FROM t WHERE id BETWEEN 3 AND ? ORDER BY c desc, d");
        assert_eq!(text.items, Items::DistinctColumns);
        let wanted = b"SELECT DISTINCT c FROM t WHERE id BETWEEN ? AND ? ORDER BY c desc, d";
        assert_eq!(text.shape, wanted);
        assert_eq!(text.order, [(&b"c"[..], true), (&b"d"[..], false)]);
        assert_eq!(text.compared[0], Compared { column: b"id", values: Values::Between(0) });
        assert_eq!(text.operands, [Operand::Int(3), Operand::Parameter(0)]);
        let text = parse("select sum(k) as total from t where id between 1 and 2 and a = 3");
        assert_eq!((text.items, text.compared.len()), (Items::Sum(b"k"), 2));
        assert_eq!(parse("select count(*) from t where id in (1)").items, Items::Count);
        assert_eq!(parse("select `count` from t where id in (1)").items, Items::Columns);
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
            "select count(c) from t where id = 1",
            "select count (*) from t where id = 1",
            "select sum(distinct c) from t where id = 1",
            "select sum(c), c from t where id = 1",
            "select sum(c + 1) from t where id = 1",
            "select distinct all c from t where id = 1",
            "select c from t where id = 1 order by 1",
            "select c from t where id = 1 order by c + 1",
            "select c from t where id = 1 order by t.c",
            "select c from t where id = 1 order by c limit 1",
            "select c from t where id between 1",
            "select c from t where id between 1 and 2 and",
            "select c from t where id not between 1 and 2",
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
