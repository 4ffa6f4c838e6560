//! Rules about documents: links and paths exist, and ARCHITECTURE.md mentions every crate.

use crate::tree::{folder_of, join};
use crate::{Finding, Tree};

const MAP: &str = "ARCHITECTURE.md";

/// The maximum length of a document in the root, except for the changelog.
const ROOT_LINES_MAX: usize = 200;
const GROWS: &str = "CHANGELOG.md";

/// Paths in backticks that begin with one of these folders must exist.
const FOLDERS: [&str; 6] = ["crates/", "scripts/", "docs/", "tests/", "fuzz/", ".ci/"];

/// Checks links and paths of all Markdown files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = map(tree);
    for (path, file) in tree.with_extension("md") {
        let lines = file.text.lines().count();
        if lines > ROOT_LINES_MAX && !path.contains('/') && path != GROWS {
            let advice = format!("{lines} lines, at most {ROOT_LINES_MAX}; move parts to docs/");
            findings.push(Finding::new(path, 1, "document-size", advice));
        }
        for (index, line) in file.text.lines().enumerate() {
            let missing = links(line).map(|link| join(folder_of(path), link)).chain(paths(line));
            for target in missing.filter(|target| !tree.has(target)) {
                let advice = format!("`{target}` does not exist; correct it or write that file");
                findings.push(Finding::new(path, index + 1, "link", advice));
            }
        }
    }
    findings
}

/// The targets of `[text](target)` that are files, without their `#fragment`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    files.map(|target| target.split('#').next().unwrap_or_default()).filter(|t| !t.is_empty())
}

/// Paths in backticks that begin with one of [`FOLDERS`] and are no pattern.
fn paths(line: &str) -> impl Iterator<Item = String> {
    let quoted = line.split('`').skip(1).step_by(2);
    let ours = quoted.filter(|text| FOLDERS.iter().any(|folder| text.starts_with(folder)));
    ours.filter(|text| !text.contains(['*', '<', '{', ' ', '$'])).map(|text| {
        let without_line = text.split(':').next().unwrap_or(text);
        without_line.trim_end_matches('/').to_owned()
    })
}

/// Every crate is mentioned in ARCHITECTURE.md.
fn map(tree: &Tree) -> Vec<Finding> {
    let map = tree.text(MAP).unwrap_or_default();
    let crates = tree.files().filter_map(|(path, _)| {
        path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml").filter(|name| !name.contains('/'))
    });
    let unknown = crates.filter(|name| !map.contains(&format!("`{name}`")));
    unknown
        .map(|name| Finding::new(MAP, 1, "map", format!("say what the crate `{name}` is for")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(line: &str, targets: &[&str]) {
        let tree = Tree::of(&[("docs/a.md", line), ("docs/b.md", ""), ("crates/x/src/lib.rs", "")]);
        let findings = check(&tree);
        assert_eq!(findings.len(), targets.len(), "{findings:?}");
        for (finding, target) in findings.iter().zip(targets) {
            assert!(finding.advice.contains(target), "{finding}");
        }
    }

    #[test]
    fn links_lead_to_files() {
        finds("[b](b.md) [b](b.md#part) [root](../crates/x) [web](https://x.y/z) [here](#a)", &[]);
        finds("[c](c.md) and [d](../d.md)", &["docs/c.md", "d.md"]);
    }

    #[test]
    fn paths_in_backticks_exist() {
        finds("`crates/x/src/lib.rs` `crates/x/` `crates/x/src/lib.rs:12` `docs/*.md` `a/b`", &[]);
        finds("`crates/y`", &["crates/y"]);
    }

    #[test]
    fn documents_in_the_root_are_short() {
        let (fits, long) = ("\n".repeat(200), "\n".repeat(201));
        assert_eq!(check(&Tree::of(&[("A.md", &fits), ("docs/a.md", &long), (GROWS, &long)])), []);
        assert_eq!(check(&Tree::of(&[("A.md", &long)])).len(), 1);
    }

    #[test]
    fn the_map_shows_every_crate() {
        let manifest = ("crates/x/Cargo.toml", "");
        assert_eq!(check(&Tree::of(&[manifest, (MAP, "nothing")])).len(), 1);
        assert_eq!(check(&Tree::of(&[manifest, (MAP, "`x` is good")])), []);
    }
}
