//! A minimal parser of Rust files: functions, modules, tests.

use crate::mask::is_word;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// The name without its type.
    pub name: String,
    /// The line of its `fn`.
    pub line: usize,
    /// The number of lines from `fn` to the closing brace, inclusive.
    pub lines: usize,
}

/// A declaration `mod name;` of a module in another file.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// The folders of the enclosing inline modules, outermost first: their names, or their `#[path
    /// = ".."]`.
    pub parents: Vec<String>,
    pub name: String,
    /// The value of `#[path = ".."]`.
    pub path: Option<String>,
    /// Whether it is compiled for tests only.
    pub test: bool,
}

/// The functions of a file, in order; `masked` comes from [`mask`].
pub fn functions(masked: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, word) in words(masked).filter(|(_, word)| *word == "fn") {
        let name = identifier(masked, at + word.len());
        if let Some((open, b'{')) = item_open(masked, at).filter(|_| !name.is_empty()) {
            let line = line_of(masked, at);
            let last = line_of(masked, block_end(masked, open));
            found.push(Function { name: name.to_owned(), line, lines: last - line + 1 });
        }
    }
    found
}

/// The modules that a file declares in other files.
pub fn modules(text: &str, masked: &str) -> Vec<Module> {
    let tests = test_ranges(masked);
    let mut inline: Vec<(usize, usize, String)> = Vec::new();
    let mut found = Vec::new();
    for (at, word) in words(masked).filter(|(_, word)| *word == "mod") {
        let name = identifier(masked, at + word.len());
        match item_open(masked, at) {
            Some((open, b'{')) => {
                let folder = path_attribute(text, masked, at).unwrap_or_else(|| name.to_owned());
                inline.push((open, block_end(masked, open), folder));
            }
            Some((_, b';')) if !name.is_empty() => {
                let around = inline.iter().filter(|(open, end, _)| *open < at && at < *end);
                found.push(Module {
                    parents: around.map(|(_, _, folder)| folder.clone()).collect(),
                    name: name.to_owned(),
                    path: path_attribute(text, masked, at),
                    test: in_any(&tests, at),
                });
            }
            _ => {}
        }
    }
    found
}

/// The value of `#[path = ".."]` on the item at `at`.
fn path_attribute(text: &str, masked: &str, at: usize) -> Option<String> {
    let begin = masked[..at].rfind([';', '}', '{']).map_or(0, |before| before + 1);
    let attribute = begin + masked[begin..at].find("#[path")?;
    text[attribute..at].split('"').nth(1).map(str::to_owned)
}

/// The byte ranges of items under `#[cfg(test)]`.
pub fn test_ranges(masked: &str) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test"] {
        for (at, _) in masked.match_indices(attribute) {
            let end = match item_open(masked, at) {
                Some((open, b'{')) => block_end(masked, open),
                Some((semicolon, _)) => semicolon,
                None => masked.len(),
            };
            ranges.push((at, end));
        }
    }
    ranges
}

pub fn in_any(ranges: &[(usize, usize)], at: usize) -> bool {
    ranges.iter().any(|(begin, end)| *begin <= at && at <= *end)
}

/// The offset of the brace or semicolon that ends the signature of the item at `at`.
fn item_open(masked: &str, at: usize) -> Option<(usize, u8)> {
    let mut depth = 0;
    for (offset, byte) in masked.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' | b';' if depth == 0 => return Some((offset, byte)),
            _ => {}
        }
    }
    None
}

/// The offset of the brace that closes the one at `open`; the last byte if there is none.
fn block_end(masked: &str, open: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in masked.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return offset;
        }
    }
    masked.len().saturating_sub(1)
}

/// Every word of `masked` with its offset.
fn words(masked: &str) -> impl Iterator<Item = (usize, &str)> {
    let begin = masked.as_ptr() as usize;
    masked
        .split(|c: char| !c.is_ascii() || !is_word(c as u8))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - begin, word))
}

/// The identifier after `at`; empty if there is none.
fn identifier(masked: &str, at: usize) -> &str {
    let rest = masked[at..].trim_start();
    let end = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
    &rest[..end]
}

/// The line of the byte at `at`, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests;
