//! Opens comments that MySQL executes, `/*!50001 .. */`: their marks become blanks, so that what is
//! in them has its place in the text, as errors and the definitions of views need it.

use std::borrow::Cow;

use freshet_base::comment;

use super::size::{Piece, Pieces};
use crate::session::SqlMode;

/// Versions of so many digits are those of another server (MariaDB), and a comment here.
const DIGITS_OF_OTHERS: usize = 6;

/// The text without the marks of such comments.
pub fn opened(sql: &str, mode: SqlMode) -> Cow<'_, str> {
    if !sql.contains("/*!") {
        return Cow::Borrowed(sql);
    }
    let mut out = sql.to_owned().into_bytes();
    let mut pieces = Pieces::new(sql, mode);
    let mut is_open = false;
    loop {
        let at = pieces.at;
        let Some(piece) = pieces.next_piece() else { break };
        let Piece::Token(token) = piece else { continue };
        let rest = &sql[at..];
        let marks = match token {
            "/*!" => {
                let digits = rest[3..].bytes().take_while(u8::is_ascii_digit).count();
                is_open = digits < DIGITS_OF_OTHERS;
                match is_open {
                    true => 3 + digits,
                    false => comment::end(rest.as_bytes()).unwrap_or(rest.len()),
                }
            }
            "*" if is_open && rest.starts_with("*/") => {
                is_open = false;
                2
            }
            _ => continue,
        };
        // Lines stay what they are.
        let marks = at..at + marks;
        out[marks.clone()].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        pieces.at = marks.end;
    }
    Cow::Owned(String::from_utf8(out).expect("whole characters become blanks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expected: &str) {
        assert_eq!(opened(sql, SqlMode::default()), expected, "{sql}");
    }

    #[test]
    fn marks_become_blanks() {
        check("SELECT 1", "SELECT 1");
        check("/*!50001 DROP VIEW */ v", "         DROP VIEW    v");
        check("/*! STRAIGHT_JOIN*/", "    STRAIGHT_JOIN  ");
        check("a /*!40101 b*/ c /*!40102 d */", "a          b   c          d   ");
    }

    #[test]
    fn texts_and_other_comments_stay() {
        check("'/*!1 x */' /*!1 y */", "'/*!1 x */'      y   ");
        check("/* c */ /*+ h */ /*!5 a*b */", "/* c */ /*+ h */      a*b   ");
    }

    #[test]
    fn what_is_for_another_server_is_skipped() {
        check("/*!100100 \u{e9}\nb */ x", "            \n     x");
        check("/*!100100 never closed", "                      ");
    }
}
