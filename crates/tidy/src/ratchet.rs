//! Sizes of files and functions. Those that were too large when the rule was added are listed with
//! their size in `ratchet.txt`; an entry may only shrink, and is removed when it is no longer
//! needed.

use std::collections::BTreeMap;

use crate::mask::mask;
use crate::{Finding, Tree, rust};

/// The list of exceptions, one `what lines` per line; `what` is `path` or `path::function`.
const LIST: &str = "crates/tidy/ratchet.txt";
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// A file, or the functions of one name in a file, of which the largest counts.
struct Sized {
    path: String,
    line: usize,
    lines: usize,
    limit: usize,
    rule: &'static str,
}

/// Compares every file and function with its limit or its entry in the list.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let (mut entries, mut findings) = entries(tree.text(LIST).unwrap_or_default());
    for (name, item) in sizes(tree) {
        let allowed = entries.remove(&name).map(|(_, lines)| lines);
        let Sized { lines, limit, rule, .. } = item;
        let advice = match allowed {
            None if lines > limit => format!("{lines} lines, at most {limit}; split it"),
            Some(old) if lines > old => {
                format!("grew from {old} to {lines} lines; it may only shrink, so split it")
            }
            Some(_) if lines <= limit => format!("fits now; delete `{name}` from {LIST}"),
            Some(old) if lines < old => format!("shrank; write `{name} {lines}` in {LIST}"),
            _ => continue,
        };
        findings.push(Finding::new(&item.path, item.line, rule, advice));
    }
    let stale = entries.into_iter().map(|(name, (line, _))| {
        Finding::new(LIST, line, "ratchet", format!("`{name}` is gone; delete its line"))
    });
    findings.extend(stale);
    findings
}

/// The entries by name, with their line in the list and the allowed size; malformed lines are
/// findings.
fn entries(list: &str) -> (BTreeMap<String, (usize, usize)>, Vec<Finding>) {
    let mut entries = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in list.lines().enumerate() {
        let entry = line.rsplit_once(' ').and_then(|(name, n)| Some((name, n.parse().ok()?)));
        match entry {
            _ if line.is_empty() || line.starts_with('#') => {}
            Some((name, lines)) => {
                entries.insert(name.to_owned(), (index + 1, lines));
            }
            None => {
                let advice = "not `path lines` or `path::function lines`; correct it";
                findings.push(Finding::new(LIST, index + 1, "ratchet", advice));
            }
        }
    }
    (entries, findings)
}

fn sizes(tree: &Tree) -> BTreeMap<String, Sized> {
    let mut sizes: BTreeMap<String, Sized> = BTreeMap::new();
    for (path, file) in tree.with_extension("rs") {
        let lines = file.text.lines().count();
        let sized =
            |line, lines, limit, rule| Sized { path: path.to_owned(), line, lines, limit, rule };
        sizes.insert(path.to_owned(), sized(1, lines, FILE_LINES_MAX, "file-size"));
        for function in rust::functions(&mask(&file.text)) {
            let name = format!("{path}::{}", function.name);
            if sizes.get(&name).is_none_or(|other| other.lines < function.lines) {
                let rule = "function-size";
                let item = sized(function.line, function.lines, FUNCTION_LINES_MAX, rule);
                sizes.insert(name, item);
            }
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[track_caller]
    fn finds(text: &str, list: &str, expected: &[(&str, &str)]) {
        let findings = check(&Tree::of(&[("a.rs", text), (LIST, list)]));
        let found: Vec<_> = findings.iter().map(|f| (f.path.as_str(), f.rule)).collect();
        assert_eq!(found, expected, "{findings:?}");
    }

    #[test]
    fn limits_hold_to_the_line() {
        finds(&function_of(70), "", &[]);
        finds(&function_of(71), "", &[("a.rs", "function-size")]);
        finds(&"\n".repeat(600), "", &[]);
        finds(&"\n".repeat(601), "", &[("a.rs", "file-size")]);
    }

    #[test]
    fn an_entry_may_only_shrink() {
        finds(&function_of(80), "# why\na.rs::f 80\n", &[]);
        finds(&function_of(81), "a.rs::f 80", &[("a.rs", "function-size")]);
        finds(&function_of(79), "a.rs::f 80", &[("a.rs", "function-size")]);
        finds(&function_of(70), "a.rs::f 80", &[("a.rs", "function-size")]);
        finds("", "a.rs::f 80", &[(LIST, "ratchet")]);
        finds("", "a.rs::f eighty", &[(LIST, "ratchet")]);
    }
}
