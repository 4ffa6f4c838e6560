//! Blanks comments, strings and character literals in Rust text, so that rules find only code.
//! Offsets and lines are those of the original.

/// Replaces every byte of comments and literals, and every non-ASCII byte, by a space; line ends
/// are kept.
pub fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut masked = String::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = opaque_end(bytes, at);
        if end == at {
            masked.push(if bytes[at].is_ascii() { bytes[at] as char } else { ' ' });
            at += 1;
        } else {
            masked.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    masked
}

/// The end of the comment or literal that begins at `at`; `at` if there is none.
fn opaque_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let length = match rest[0] {
        b'/' if rest.starts_with(b"//") => until(rest, b"\n"),
        b'/' if rest.starts_with(b"/*") => block_comment(rest),
        b'"' => quoted(rest, b'"'),
        b'\'' => character(rest),
        b'r' if at == 0 || !is_word(bytes[at - 1]) || b"bc".contains(&bytes[at - 1]) => {
            raw_string(rest)
        }
        _ => 0,
    };
    at + length
}

/// The offset of the first `needle`, or the length of `rest`.
fn until(rest: &[u8], needle: &[u8]) -> usize {
    rest.windows(needle.len()).position(|window| window == needle).unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of a character literal; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => quoted(rest, b'\''),
        Some(&first) => {
            let width = match first {
                0x00..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xff => 4,
            };
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        None => 0,
    }
}

/// The length of `r"..."` or `r#"..."#`; 0 for anything else that begins with an `r`.
fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let open = hashes + 2;
    (open + until(&rest[open..], &close) + close.len()).min(rest.len())
}

/// Whether `byte` is part of an identifier.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[track_caller]
    fn masks(text: &str, code: &str) {
        let masked = mask(text);
        assert_eq!(masked.len(), text.len());
        assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), code);
    }

    #[test]
    fn comments_go() {
        masks("a // b\nc /* d /* e */ f */ g", "a c g");
        masks("a /* never closed", "a");
    }

    #[test]
    fn strings_go() {
        masks(r#"a "b \" c" d"#, "a d");
        masks("a r#\"b \" c\"# d r\"e\\\" f", "a d f");
        masks("a br##\"b \"# \"## c", "a b c");
    }

    #[test]
    fn characters_go_and_lifetimes_stay() {
        masks(r"a '{' b '\'' c '\u{7b}' d", "a b c d");
        masks("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)");
        masks("a '\u{e9}' b", "a b");
    }

    #[test]
    fn raw_identifiers_stay() {
        masks("let r#type = for_r;", "let r#type = for_r;");
    }

    #[test]
    fn lines_stay() {
        assert_eq!(mask("\"a\nb\" c").lines().count(), 2);
    }
}
