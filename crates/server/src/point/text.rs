//! Recognises, without the parser, a SELECT of columns of one table by equality of some columns.

/// A value that a column is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand<'a> {
    Int(i128),
    /// Text in single quotes, which has no escapes.
    Text(&'a [u8]),
    /// The placeholder with this index.
    Parameter(usize),
}

/// A column and the values that it may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compared<'a> {
    pub column: &'a [u8],
    /// Indices of its values.
    pub from: usize,
    pub to: usize,
}

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

/// The most values in a text, and the longest shape.
const OPERANDS_MAX: usize = 256;
const SHAPE_BYTES_MAX: usize = 4096;

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
        let mut scanner = Scanner { sql, at: 0, parameters: 0 };
        scanner.word("select")?;
        scanner.items()?;
        let (database, table) = scanner.table()?;
        let mut text =
            Self { shape: Vec::new(), database, table, compared: Vec::new(), operands: Vec::new() };
        let mut copied = 0;
        loop {
            let column = scanner.column()?;
            let from = text.operands.len();
            match scanner.take(b'=') {
                Some(()) => text.operand(&mut scanner, &mut copied)?,
                None => text.list(&mut scanner, &mut copied)?,
            }
            text.compared.push(Compared { column, from, to: text.operands.len() });
            if scanner.word("and").is_none() {
                break;
            }
        }
        let end = scanner.at;
        scanner.take(b';');
        scanner.skip_blanks();
        if scanner.at < sql.len() {
            return None;
        }
        text.shape.extend_from_slice(&sql[copied..end]);
        (text.shape.len() <= SHAPE_BYTES_MAX).then_some(text)
    }

    fn list(&mut self, scanner: &mut Scanner<'a>, copied: &mut usize) -> Option<()> {
        scanner.word("in")?;
        scanner.take(b'(')?;
        loop {
            self.operand(scanner, copied)?;
            if scanner.take(b',').is_none() {
                return scanner.take(b')');
            }
        }
    }

    fn operand(&mut self, scanner: &mut Scanner<'a>, copied: &mut usize) -> Option<()> {
        scanner.skip_blanks();
        self.shape.extend_from_slice(&scanner.sql[*copied..scanner.at]);
        self.shape.push(b'?');
        self.operands.push(scanner.operand()?);
        *copied = scanner.at;
        (self.operands.len() <= OPERANDS_MAX).then_some(())
    }
}

struct Scanner<'a> {
    sql: &'a [u8],
    at: usize,
    /// How many placeholders have come.
    parameters: usize,
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

impl<'a> Scanner<'a> {
    fn skip_blanks(&mut self) {
        let rest = &self.sql[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.sql.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let is_next = self.peek() == Some(byte);
        is_next.then(|| self.at += 1)
    }

    /// A word that is no quoted name.
    fn word(&mut self, wanted: &str) -> Option<()> {
        self.skip_blanks();
        let rest = &self.sql[self.at..];
        let length = rest.iter().take_while(|byte| is_of_name(**byte)).count();
        let is_it = rest[..length].eq_ignore_ascii_case(wanted.as_bytes());
        is_it.then(|| self.at += length)
    }

    /// A name, and whether it is quoted. What is not ASCII is left to the parser.
    fn name(&mut self) -> Option<(&'a [u8], bool)> {
        if self.take(b'`').is_some() {
            let rest = &self.sql[self.at..];
            let length = rest.iter().position(|byte| *byte == b'`')?;
            let name = &rest[..length];
            self.at += length + 1;
            let is_plain = !name.is_empty() && name.is_ascii();
            // A doubled quote stands for one.
            let ends = self.sql.get(self.at) != Some(&b'`');
            return (is_plain && ends).then_some((name, true));
        }
        let rest = &self.sql[self.at..];
        let length = rest.iter().take_while(|byte| is_of_name(**byte)).count();
        let name = &rest[..length];
        let begins = name.first().is_some_and(|byte| !byte.is_ascii_digit());
        let ends = rest.get(length).is_none_or(u8::is_ascii);
        (begins && ends).then(|| {
            self.at += length;
            (name, false)
        })
    }

    /// The items of the select list, and FROM.
    fn items(&mut self) -> Option<()> {
        let mut is_first = true;
        loop {
            if self.take(b'*').is_none() {
                let (name, quoted) = self.name()?;
                let is_modifier = |word: &&str| name.eq_ignore_ascii_case(word.as_bytes());
                if is_first && !quoted && MODIFIERS.iter().any(is_modifier) {
                    return None;
                }
                while self.take(b'.').is_some() {
                    if self.take(b'*').is_none() {
                        self.name()?;
                    }
                }
            }
            is_first = false;
            if self.word("from").is_some() {
                return Some(());
            }
            if self.take(b',').is_some() {
                continue;
            }
            // An alias.
            self.word("as");
            self.name()?;
            if self.word("from").is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    /// The table with its database, its alias, and WHERE.
    fn table(&mut self) -> Option<(Option<&'a [u8]>, &'a [u8])> {
        let (first, _) = self.name()?;
        let named = match self.take(b'.') {
            Some(()) => (Some(first), self.name()?.0),
            None => (None, first),
        };
        if self.word("where").is_none() {
            self.word("as");
            self.name()?;
            self.word("where")?;
        }
        Some(named)
    }

    /// A column, without what qualifies it.
    fn column(&mut self) -> Option<&'a [u8]> {
        let (mut column, _) = self.name()?;
        while self.take(b'.').is_some() {
            (column, _) = self.name()?;
        }
        Some(column)
    }

    fn operand(&mut self) -> Option<Operand<'a>> {
        match self.peek()? {
            b'?' => {
                self.at += 1;
                self.parameters += 1;
                Some(Operand::Parameter(self.parameters - 1))
            }
            b'\'' => {
                let rest = &self.sql[self.at + 1..];
                let special = |byte: &u8| matches!(byte, b'\'' | b'\\') || !byte.is_ascii();
                let length = rest.iter().position(special)?;
                self.at += 1 + length + 1;
                let text = &rest[..length];
                // Another string would go on with this one.
                let ends = rest[length] == b'\'' && !matches!(self.peek(), Some(b'\'' | b'"'));
                ends.then_some(Operand::Text(text))
            }
            byte => {
                let is_negative = byte == b'-';
                self.at += usize::from(is_negative);
                let rest = &self.sql[self.at..];
                let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let behind = rest.get(length).copied().unwrap_or(b' ');
                if length == 0 || length > 30 || is_of_name(behind) || behind == b'.' {
                    return None;
                }
                self.at += length;
                let digits = rest[..length].iter();
                let value = digits.fold(0, |value, digit| value * 10 + i128::from(digit - b'0'));
                Some(Operand::Int(if is_negative { -value } else { value }))
            }
        }
    }
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
