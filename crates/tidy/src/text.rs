//! Rules about lines: width, ASCII, and notes about postponed work.

use crate::tree::File;
use crate::{Finding, Tree};

/// The maximum number of characters of a line.
const LINE_CHARACTERS_MAX: usize = 100;

/// Marks of postponed work, written so that this file does not match itself.
const PUT_OFF: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let source = |path: &str| [".rs", ".sh", ".toml"].iter().any(|end| path.ends_with(end));
    tree.files()
        .filter(|(path, _)| source(path))
        .flat_map(|(path, file)| lines(path, file))
        .collect()
}

fn lines(path: &str, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut add = |rule, advice| findings.push(Finding::new(path, index + 1, rule, advice));
        let characters = line.chars().count();
        if characters > LINE_CHARACTERS_MAX && !path.ends_with(".toml") {
            add(
                "line-width",
                format!("{characters} characters, at most {LINE_CHARACTERS_MAX}; break the line"),
            );
        }
        if let Some(odd) = line.chars().find(|c| !c.is_ascii()) {
            let code = odd as u32;
            add("ascii", format!("`{odd}`; write ASCII, in a literal `\\u{{{code:x}}}`"));
        }
        if let Some(word) = PUT_OFF.iter().find(|word| has_word(line, word)) {
            add("put-off", format!("`{word}`; do it now, or say in a sentence why it is not done"));
        }
    }
    findings
}

/// Whether `word` occurs in `line` and is not part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word)
            && (word.ends_with('(') || !after.is_some_and(part_of_word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(text: &str, expected: &[(usize, &str)]) {
        let findings = check(&Tree::of(&[("a.rs", text)]));
        assert_eq!(findings.iter().map(|f| (f.line, f.rule)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn long_lines() {
        finds(&"x".repeat(100), &[]);
        finds(&format!("a\n{}", "x".repeat(101)), &[(2, "line-width")]);
    }

    #[test]
    fn foreign_letters() {
        finds("// caf\u{e9}", &[(1, "ascii")]);
    }

    #[test]
    fn work_put_off() {
        for word in PUT_OFF {
            finds(&format!("a\n// {word}"), &[(2, "put-off")]);
        }
        finds(&format!("{}S {0}x \"{0}\u{5f}\"", PUT_OFF[0]), &[]);
    }
}
