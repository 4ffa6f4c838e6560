//! Declared dependencies that no code of the package uses.

use crate::manifest::{Dependency, dependencies};
use crate::mask::mask;
use crate::reach;
use crate::tree::folder_of;
use crate::{Finding, Tree};

/// Checks the manifests of all packages and of the workspace.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = || tree.files().filter(|(path, _)| path.ends_with("Cargo.toml"));
    let mut findings = Vec::new();
    for (path, file) in manifests().filter(|(path, _)| path.contains('/')) {
        let code = Code::of_package(tree, folder_of(path));
        for dependency in dependencies(&file.text) {
            let advice = code.advice(&dependency);
            let finding = |advice| Finding::new(path, dependency.line, "dependency", advice);
            findings.extend(advice.map(finding));
        }
    }
    let declared: Vec<Dependency> =
        manifests().flat_map(|(_, file)| dependencies(&file.text)).collect();
    for shared in dependencies(tree.text("Cargo.toml").unwrap_or_default()) {
        let used = |other: &Dependency| other.name == shared.name && other.from_workspace;
        if !declared.iter().any(used) {
            let advice = format!("no crate uses `{}`; remove it", shared.name);
            findings.push(Finding::new("Cargo.toml", shared.line, "dependency", advice));
        }
    }
    findings
}

/// The code of a package, without comments and literals.
#[derive(Default)]
struct Code {
    product: String,
    tests: String,
}

impl Code {
    fn of_package(tree: &Tree, package: &str) -> Code {
        let mut code = Code::default();
        for (path, test) in reach::of_package(tree, package).files() {
            let to = if test { &mut code.tests } else { &mut code.product };
            let masked = mask(tree.text(path).unwrap_or_default());
            // A test module within a product file must be at its end.
            let (product, tests) = match masked.split_once("#[cfg(test)]\nmod ") {
                Some((product, tests)) if !test => (product, tests),
                _ => (masked.as_str(), ""),
            };
            to.push_str(product);
            code.tests.push_str(tests);
        }
        code
    }

    fn advice(&self, dependency: &Dependency) -> Option<String> {
        let (name, word) = (&dependency.name, dependency.name.replace('-', "_"));
        if names(&self.product, &word) {
            return None;
        }
        match (names(&self.tests, &word), dependency.dev) {
            (true, true) => None,
            (true, false) => Some(format!("only tests name `{name}`; see [dev-dependencies]")),
            (false, _) => Some(format!("no code of this package names `{name}`; remove it")),
        }
    }
}

/// Whether `word` occurs in `code` as a whole word.
fn names(code: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(part_of_word) && !code[at + word.len()..].starts_with(part_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(manifest: &str, library: &str, words: &[&str]) {
        let findings = check(&Tree::of(&[
            ("Cargo.toml", "[workspace.dependencies]\nab-c = \"1\"\n"),
            ("crates/x/Cargo.toml", manifest),
            ("crates/x/src/lib.rs", library),
            ("crates/x/tests/t.rs", "#[path = \"../../y/shared.rs\"]\nmod shared;"),
            ("crates/y/shared.rs", "use in_tests::It;"),
        ]));
        assert_eq!(findings.len(), words.len(), "{findings:?}");
        for (finding, word) in findings.iter().zip(words) {
            assert!(finding.advice.contains(word), "{finding}");
        }
    }

    #[test]
    fn a_dependency_that_no_code_names_is_found() {
        let manifest = "[dependencies]\nab-c.workspace = true\n";
        finds(manifest, "use ab_c::D;", &[]);
        finds(manifest, "// ab_c\nuse ab_cd::D;", &["no code of this package names `ab-c`"]);
        finds("[dependencies]\n", "", &["no crate uses `ab-c`"]);
    }

    #[test]
    fn what_only_tests_name_is_a_dependency_of_tests() {
        let both = |table: &str| {
            format!("[dependencies]\nab-c.workspace = true\n[{table}]\nin-tests = \"1\"\n")
        };
        finds(&both("dev-dependencies"), "use ab_c::D;", &[]);
        finds(&both("dependencies"), "use ab_c::D;", &["only tests name `in-tests`"]);
        let inline = "#[cfg(test)]\nmod tests { use ab_c::D; }";
        finds("[dependencies]\nab-c.workspace = true\n", inline, &["only tests name `ab-c`"]);
    }
}
