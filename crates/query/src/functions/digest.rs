//! STATEMENT_DIGEST and STATEMENT_DIGEST_TEXT: what statements have in common that differ in values
//! alone.

use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use freshet_base::{ErrorCode, comment, err};
use sha2::Digest;

use super::row::{Kind, Out, Row, RowFunction};
use crate::error::external;
use crate::parser::parse;
use crate::session::SqlMode;

/// Words that are never names, and those that begin a statement or a clause of one.
const WORDS: &str = " ACCESSIBLE ADD ALL ALTER ANALYZE AND ANY AS ASC BEFORE BEGIN BETWEEN BIGINT \
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
    XOR ZEROFILL ";

/// Functions that the syntax of statements knows, where a parenthesis follows.
const CALLED: &str = " ADDDATE BIT_AND BIT_OR BIT_XOR CAST COUNT CURDATE CURTIME DATE_ADD DATE_SUB \
    EXTRACT GROUP_CONCAT MAX MID MIN NOW POSITION SESSION_USER STD STDDEV STDDEV_POP STDDEV_SAMP \
    SUBDATE SUBSTR SUBSTRING SUM SYSDATE SYSTEM_USER TRIM VARIANCE VAR_POP VAR_SAMP ";

const VALUE: &str = "?";
const VALUES: &str = "?, ...";
const ONE: &str = "(?)";
const SOME: &str = "(...)";
const ONES: &str = "(?) /* , ... */";
const SOMES: &str = "(...) /* , ... */";

/// A piece of a statement.
enum Piece<'a> {
    Word(&'a str),
    /// A name in quotes, without them.
    Name(String),
    Value,
    Sign(&'a str),
}

/// The text of a statement without its values: names in quotes, words in capitals, a blank between
/// all; `None` if a text or comment has no end.
fn text_of(sql: &str) -> Option<String> {
    let mut pieces = Vec::new();
    let mut rest = sql;
    while let Some((piece, behind)) = next(rest)? {
        pieces.push(piece);
        rest = behind;
    }
    while let Some(Piece::Sign(";")) = pieces.last() {
        pieces.pop();
    }
    let mut out = Digested::default();
    for (at, piece) in pieces.iter().enumerate() {
        let is_called = matches!(pieces.get(at + 1), Some(Piece::Sign("(")));
        match piece {
            Piece::Word(word) => {
                let upper = word.to_ascii_uppercase();
                let is_in = |words: &str| words.contains(&format!(" {upper} "));
                let behind_is = out.parts.last().is_some_and(|part| part == "IS" || part == "NOT");
                match upper.as_str() {
                    "NULL" | "TRUE" | "FALSE" if !behind_is => out.value(),
                    _ if is_in(WORDS) || is_called && is_in(CALLED) => out.parts.push(upper),
                    _ => out.parts.push(format!("`{word}`")),
                }
            }
            Piece::Name(name) => out.parts.push(format!("`{}`", name.replace('`', "``"))),
            Piece::Value => out.value(),
            Piece::Sign(")") => out.closed(),
            Piece::Sign(sign) => out.parts.push((*sign).to_owned()),
        }
    }
    Some(out.parts.join(" "))
}

#[derive(Default)]
struct Digested {
    parts: Vec<String>,
}

impl Digested {
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
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\n', '\t']));
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

fn digested(row: &Row<'_>) -> Result<String> {
    let sql = row.text(0);
    let failed = |why: &str| {
        external(err!(DigestArgument, "Could not parse argument to digest function: \"{why}\"."))
    };
    match parse(sql, SqlMode::default()) {
        Err(error) if matches!(error.code(), ErrorCode::Syntax | ErrorCode::EmptyQuery) => {
            return Err(failed(error.message()));
        }
        // What is not supported has a text all the same.
        Ok(_) | Err(_) => {}
    }
    text_of(sql).ok_or_else(|| failed("a text or comment has no end"))
}

fn digest_text(row: &Row<'_>) -> Result<Option<Out>> {
    digested(row).map(|text| Some(Out::Text(text)))
}

fn digest_hash(row: &Row<'_>) -> Result<Option<Out>> {
    let hash = sha2::Sha256::digest(digested(row)?);
    let hex = hash.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    Ok(Some(Out::Text(hex)))
}

pub fn all() -> Vec<ScalarUDF> {
    let (of, one) = (&[Kind::Text], (1, 1));
    vec![
        RowFunction::fallible("statement_digest_text", of, one, Kind::Text, digest_text).udf(),
        RowFunction::fallible("statement_digest", of, one, Kind::Text, digest_hash).udf(),
    ]
}

#[cfg(test)]
mod tests {
    use super::text_of;

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
}
