//! Where comments of SQL end. Every reader of statements asks it here, for texts of millions of
//! comments as for long ones.

use memchr::memchr;

/// The offset behind the first `*/` of `text`, which begins behind the mark that opened the
/// comment; `None` if the comment stays open.
pub fn end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr(b'*', text.get(at..)?)? + 1;
        if text.get(at) == Some(&b'/') {
            return Some(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::end;

    #[test]
    fn a_comment_ends_behind_its_first_mark() {
        let cases: [(&[u8], Option<usize>); 7] = [
            (b"*/", Some(2)),
            (b" a */ b */", Some(5)),
            (b"***/", Some(4)),
            (b"", None),
            (b"*", None),
            (b"* /", None),
            (b"/", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(end(text), wanted, "{}", text.escape_ascii());
        }
    }
}
