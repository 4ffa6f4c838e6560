//! The digest of a statement: what statements have in common that differ in values alone.

use std::collections::HashSet;
use std::sync::LazyLock;

use freshet_base::comment;
use sha2::Digest;

/// Words that are never names, and those that begin a statement or a clause of one.
const WORD_LIST: &str = "\
    ACCESSIBLE ADD ALL ALTER ANALYZE AND ANY AS ASC BEFORE BEGIN BETWEEN BIGINT \
    BINARY BLOB BOTH BY CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN COMMIT \
    CONSTRAINT CONVERT CREATE CROSS CUBE CUME_DIST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP \
    CURRENT_USER CURSOR DATABASE DATABASES DATETIME DEALLOCATE DECIMAL DECLARE DEFAULT DELAYED \
    DELETE DENSE_RANK DESC DESCRIBE DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL DUPLICATE EACH ELSE \
    ELSEIF EMPTY ENCLOSED END ENGINE ESCAPED EXCEPT EXECUTE EXISTS EXIT EXPLAIN FALSE FETCH \
    FIRST_VALUE FLOAT FOR FORCE FOREIGN FROM FULLTEXT FUNCTION GENERATED GLOBAL GRANT GROUP \
    GROUPING GROUPS HAVING HIGH_PRIORITY IF IGNORE IN INDEX INFILE INNER INSERT INT INTEGER \
    INTERSECT INTERVAL INTO IS ITERATE JOIN JSON_TABLE KEY KEYS KILL LAG LAST_VALUE LATERAL LEAD \
    LEADING LEAVE LEFT LIKE LIMIT LINES LOAD LOCALTIME LOCALTIMESTAMP LOCK LONGBLOB LONGTEXT LOOP \
    LOW_PRIORITY MATCH MEDIUMBLOB MEDIUMINT MEDIUMTEXT MOD NATURAL NOT NTH_VALUE NTILE NULL \
    NUMERIC OF OFFSET ON OPTIMIZE OPTION OPTIONALLY OR ORDER OUT OUTER OUTFILE OVER PARTITION \
    PERCENT_RANK \
    PRECISION PREPARE PRIMARY PROCEDURE PURGE RANGE RANK READ REAL RECURSIVE REFERENCES REGEXP \
    RELEASE RENAME REPEAT REPLACE REQUIRE RESTRICT RETURN REVOKE RIGHT RLIKE ROLLBACK ROW ROWS \
    ROW_NUMBER SAVEPOINT SCHEMA SCHEMAS SELECT SEPARATOR SESSION SET SHOW SMALLINT SPATIAL \
    SQL_BIG_RESULT SQL_CALC_FOUND_ROWS SQL_SMALL_RESULT START STARTING STORED STRAIGHT_JOIN SYSTEM \
    TABLE TABLES TEMPORARY TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO TRAILING TRANSACTION \
    TRIGGER TRUE TRUNCATE UNION UNIQUE UNLOCK UNSIGNED UPDATE USAGE USE USING UTC_DATE UTC_TIME \
    UTC_TIMESTAMP VALUES VARBINARY VARCHAR VARYING VIEW VIRTUAL WHEN WHERE WHILE WINDOW WITH WRITE \
    XOR ZEROFILL";

/// Functions that the syntax of statements knows, where a parenthesis follows.
const CALLED_LIST: &str = "\
    ADDDATE BIT_AND BIT_OR BIT_XOR CAST COUNT CURDATE CURTIME DATE_ADD DATE_SUB \
    EXTRACT GROUP_CONCAT MAX MID MIN NOW POSITION SESSION_USER STD STDDEV STDDEV_POP STDDEV_SAMP \
    SUBDATE SUBSTR SUBSTRING SUM SYSDATE SYSTEM_USER TRIM VARIANCE VAR_POP VAR_SAMP";

static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| set_of(WORD_LIST));
static CALLED: LazyLock<HashSet<&str>> = LazyLock::new(|| set_of(CALLED_LIST));

fn set_of(words: &'static str) -> HashSet<&'static str> {
    words.split_ascii_whitespace().collect()
}

const VALUE: &str = "?";
const VALUES: &str = "?, ...";
const ONE: &str = "(?)";
const SOME: &str = "(...)";
const ONES: &str = "(?) /* , ... */";
const SOMES: &str = "(...) /* , ... */";
/// The word before rows of values.
const ROWS: &str = "VALUES";

/// A piece of a statement.
enum Piece<'a> {
    Word(&'a str),
    /// A name in quotes, without them.
    Name(String),
    Value,
    Sign(&'a str),
}

/// Of a statement of any length no more is read for its digest.
pub const READ_BYTES_MAX: usize = 4 << 10;
/// The longest text of such a digest, but for the dots behind it.
pub const TEXT_BYTES_MAX: usize = 1024;

/// The text of a statement without its values: names in quotes, words in capitals, a blank between
/// all; `None` if a text or comment has no end.
pub fn text_of(sql: &str) -> Option<String> {
    let mut pieces = Vec::new();
    let mut rest = sql;
    while let Some((piece, behind)) = next(rest)? {
        pieces.push(piece);
        rest = behind;
    }
    Some(Digested::of(&pieces).parts.join(" "))
}

/// The same of a statement of any length, `is_whole` or its beginning, and right or wrong. Where it
/// is cut it ends by dots; lists of values and rows that are cut are the same as shorter ones of
/// that kind.
pub fn beginning_of(sql: &str, mut is_whole: bool) -> String {
    let (mut pieces, mut rest) = (Vec::new(), sql);
    loop {
        match next(rest) {
            Some(Some((piece, behind))) => {
                pieces.push(piece);
                rest = behind;
            }
            Some(None) => {
                let is_open = !is_whole && !sql.ends_with(char::is_whitespace);
                if is_open && matches!(pieces.last(), Some(Piece::Word(_))) {
                    // Of which there may be more.
                    pieces.pop();
                }
                break;
            }
            None => {
                is_whole = false;
                break;
            }
        }
    }
    let mut digested = Digested::of(&pieces);
    if !is_whole {
        digested.cut();
    }
    let mut text = digested.parts.join(" ");
    if text.len() > TEXT_BYTES_MAX {
        let is_end = |at: &usize| text.is_char_boundary(*at);
        let end = (0..=TEXT_BYTES_MAX).rev().find(is_end).unwrap_or(0);
        text.truncate(end);
        is_whole = false;
    }
    if !is_whole {
        text.push_str(if text.is_empty() { "..." } else { " ..." });
    }
    text
}

/// SHA-256 of the text of a digest, in hexadecimal digits.
pub fn hash_of(text: &str) -> String {
    let hash = sha2::Sha256::digest(text);
    hash.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

#[derive(Default)]
struct Digested {
    parts: Vec<String>,
}

impl Digested {
    fn of(pieces: &[Piece<'_>]) -> Self {
        let is_end = |piece: &Piece<'_>| matches!(piece, Piece::Sign(";"));
        let end = pieces.iter().rposition(|piece| !is_end(piece)).map_or(0, |last| last + 1);
        let mut out = Self::default();
        for (at, piece) in pieces[..end].iter().enumerate() {
            match piece {
                Piece::Word(word) => {
                    let is_called = matches!(pieces.get(at + 1), Some(Piece::Sign("(")));
                    out.word(word, is_called);
                }
                Piece::Name(name) => out.parts.push(format!("`{}`", name.replace('`', "``"))),
                Piece::Value => out.value(),
                Piece::Sign(")") => out.closed(),
                Piece::Sign(sign) => out.parts.push((*sign).to_owned()),
            }
        }
        out
    }

    fn word(&mut self, word: &str, is_called: bool) {
        let upper = word.to_ascii_uppercase();
        let behind_is = self.parts.last().is_some_and(|part| part == "IS" || part == "NOT");
        let is_word = |words: &HashSet<&str>| words.contains(upper.as_str());
        match upper.as_str() {
            "NULL" | "TRUE" | "FALSE" if !behind_is => self.value(),
            _ if is_word(&WORDS) || is_called && is_word(&CALLED) => self.parts.push(upper),
            _ => self.parts.push(format!("`{word}`")),
        }
    }

    /// Leaves out a list that was not read to its end: how much was read says nothing, nor whether
    /// that was the first of several rows.
    fn cut(&mut self) {
        let is_open = |part: &String| {
            matches!(part.as_str(), "," | "(" | "-" | "+") || part == VALUE || part == VALUES
        };
        while self.parts.last().is_some_and(is_open) {
            self.parts.pop();
        }
        match self.parts.last_mut() {
            Some(last) if [ONE, SOME, ONES].contains(&last.as_str()) => SOMES.clone_into(last),
            Some(last) if last == ROWS => self.parts.push(SOMES.to_owned()),
            Some(_) | None => {}
        }
    }

    fn ends(&self, wanted: &[&str]) -> bool {
        let from = self.parts.len().checked_sub(wanted.len());
        from.is_some_and(|from| self.parts[from..].iter().zip(wanted).all(|(a, b)| a == b))
    }

    fn replace(&mut self, count: usize, by: &str) {
        self.parts.truncate(self.parts.len() - count);
        self.parts.push(by.to_owned());
    }

    /// A value; with those before it, it is a list.
    fn value(&mut self) {
        let is_sign = |part: Option<&String>| part.is_some_and(|part| part == "-" || part == "+");
        if is_sign(self.parts.last()) {
            let before = self.parts.len().checked_sub(2).map(|at| self.parts[at].as_str());
            let is_operand = before.is_some_and(|part| part.ends_with(['`', '?', ')']));
            if !is_operand {
                self.parts.pop();
            }
        }
        match self.ends(&[VALUE, ","]) || self.ends(&[VALUES, ","]) {
            true => self.replace(2, VALUES),
            false => self.parts.push(VALUE.to_owned()),
        }
    }

    /// A closing parenthesis; rows of values become one.
    fn closed(&mut self) {
        for (list, row, rows) in [(VALUE, ONE, ONES), (VALUES, SOME, SOMES)] {
            if !self.ends(&["(", list]) {
                continue;
            }
            self.parts.truncate(self.parts.len() - 2);
            match self.ends(&[row, ","]) || self.ends(&[rows, ","]) {
                true => self.replace(2, rows),
                false => self.parts.push(row.to_owned()),
            }
            return;
        }
        self.parts.push(")".to_owned());
    }
}

/// The first piece of a text and what is behind it; the inner `None` at its end.
#[allow(clippy::option_option)] // no end, and one without a last piece
fn next(sql: &str) -> Option<Option<(Piece<'_>, &str)>> {
    const SIGNS: [&str; 14] =
        ["<=>", "->>", "->", "<=", ">=", "<>", "!=", ":=", "&&", "||", "<<", ">>", "@@", "{"];
    let sql = behind_comments(sql)?;
    let Some(first) = sql.chars().next() else { return Some(None) };
    if matches!(first, '\'' | '"' | '`') {
        let (text, behind) = quoted(&sql[1..], first)?;
        let piece = if first == '`' { Piece::Name(text) } else { Piece::Value };
        return Some(Some((piece, behind)));
    }
    let is_digit = |sign: char| sign.is_ascii_digit();
    let is_number = is_digit(first) || first == '.' && sql[1..].starts_with(is_digit);
    if is_number {
        return Some(Some((Piece::Value, behind_number(sql))));
    }
    let in_word = |sign: char| sign.is_alphanumeric() || matches!(sign, '_' | '$');
    if in_word(first) {
        let end = sql.find(|sign| !in_word(sign)).unwrap_or(sql.len());
        let (word, behind) = sql.split_at(end);
        // `x'41'`, `b'1'` and `_utf8mb4'a'`.
        let is_prefix = matches!(word, "x" | "X" | "b" | "B" | "n" | "N") || first == '_';
        if is_prefix && behind.starts_with(['\'', '"']) {
            return next(behind);
        }
        return Some(Some((Piece::Word(word), behind)));
    }
    let sign =
        SIGNS.iter().find(|sign| sql.starts_with(**sign)).map_or(first.len_utf8(), |s| s.len());
    let (sign, behind) = sql.split_at(sign);
    Some(Some((if sign == "?" { Piece::Value } else { Piece::Sign(sign) }, behind)))
}

/// A text behind its blanks and comments; `None` if one has no end.
fn behind_comments(mut sql: &str) -> Option<&str> {
    loop {
        sql = sql.trim_start();
        let is_line = sql.starts_with('#')
            || sql
                .strip_prefix("--")
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_line {
            sql = sql.split_once('\n').map_or("", |(_, behind)| behind);
        } else if let Some(comment) = sql.strip_prefix("/*") {
            sql = &comment[comment::end(comment.as_bytes())?..];
        } else {
            return Some(sql);
        }
    }
}

/// The text up to its closing quote, and what is behind.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut signs = text.char_indices().peekable();
    while let Some((at, sign)) = signs.next() {
        if sign == '\\' && quote != '`' {
            signs.next();
        } else if sign == quote && signs.peek().is_some_and(|(_, next)| *next == quote) {
            signs.next();
            found.push(quote);
        } else if sign == quote {
            return Some((found, &text[at + quote.len_utf8()..]));
        } else {
            found.push(sign);
        }
    }
    None
}

fn behind_number(text: &str) -> &str {
    let mut before = ' ';
    let end = text.find(|sign: char| {
        let is_in = sign.is_ascii_alphanumeric()
            || sign == '.'
            || matches!(sign, '+' | '-') && matches!(before, 'e' | 'E') && !text.starts_with("0x");
        before = sign;
        !is_in
    });
    &text[end.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::{READ_BYTES_MAX, beginning_of, text_of};

    #[test]
    fn values_leave_the_text() {
        let text = |sql: &str| text_of(sql).unwrap();
        assert_eq!(
            text("select * from mytable where cola = 10 AND colb = 'x''y';"),
            "SELECT * FROM `mytable` WHERE `cola` = ? AND `colb` = ?"
        );
        assert_eq!(
            text("insert into `a``b` values (1, -2), (3, 'x')"),
            "INSERT INTO `a``b` VALUES (...) /* , ... */"
        );
        assert_eq!(text("insert t values (1),(2) -- end"), "INSERT `t` VALUES (?) /* , ... */");
        assert_eq!(
            text("select a-1, -1, count(*), f(x'41') from t where b in (1,2) and c is null"),
            "SELECT `a` - ?, ... , COUNT ( * ) , `f` (?) FROM `t` WHERE `b` IN (...) AND `c` IS \
             NULL"
        );
        assert_eq!(text("select 1.5e-3 /* c */ + 0xff # d"), "SELECT ? + ?");
        assert_eq!(text_of("select 'x"), None);
    }

    #[test]
    fn what_is_cut_does_not_say_where() {
        let rows = |count: usize| {
            let row = |at: usize| format!("({at}, 'it''s', {at}.5)");
            let rows = (0..count).map(row).collect::<Vec<_>>().join(", ");
            format!("insert into t (a, b, c) values {rows}")
        };
        let all = "INSERT INTO `t` ( `a` , `b` , `c` ) VALUES (...) /* , ... */";
        assert_eq!(beginning_of(&rows(9), true), all);
        let long = rows(2000);
        for end in READ_BYTES_MAX - 40..READ_BYTES_MAX {
            assert_eq!(beginning_of(&long[..end], false), format!("{all} ..."), "{end}");
        }
        let list = format!("select a from t where b in ({}", "1, ".repeat(400));
        for end in 60..list.len() {
            let text = beginning_of(&list[..end], false);
            assert_eq!(text, "SELECT `a` FROM `t` WHERE `b` IN ...", "{end}");
        }
        assert_eq!(beginning_of("select 'x", true), "SELECT ...");
        assert_eq!(beginning_of("", true), "");
        let names = format!("select {} from t", "n\u{e4}me, ".repeat(200));
        let text = beginning_of(&names, true);
        assert!(text.ends_with(" ...") && text.len() <= 1028, "{text}");
    }
}
