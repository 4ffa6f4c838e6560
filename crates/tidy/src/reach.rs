//! The Rust files that are compiled, found by following `mod name;` from the roots of targets.

use std::collections::BTreeMap;

use crate::mask::mask;
use crate::rust::{self, Module};
use crate::tree::{folder_of, join};
use crate::{Finding, Tree};

/// The compiled Rust files, each with whether only tests use it.
#[derive(Debug, Default)]
pub struct Reached {
    files: BTreeMap<String, bool>,
}

impl Reached {
    /// Whether `path` is compiled for tests only; false for a file that is not compiled.
    pub fn is_test(&self, path: &str) -> bool {
        self.files.get(path).copied().unwrap_or(false)
    }

    /// The files, each with whether only tests use it.
    pub fn files(&self) -> impl Iterator<Item = (&str, bool)> {
        self.files.iter().map(|(path, test)| (path.as_str(), *test))
    }
}

/// Follows the modules of all targets.
pub fn modules(tree: &Tree) -> Reached {
    let paths = tree.with_extension("rs").map(|(path, _)| path);
    follow(tree, paths.filter_map(|path| Some((path.to_owned(), root_of_target(tree, path)?))))
}

/// Follows the modules of the targets of one package.
pub fn of_package(tree: &Tree, package: &str) -> Reached {
    let paths = tree.with_extension("rs").map(|(path, _)| path);
    let own = paths.filter(|path| package_of(tree, path).is_some_and(|(of, _)| of == package));
    follow(tree, own.filter_map(|path| Some((path.to_owned(), root_of_target(tree, path)?))))
}

fn follow(tree: &Tree, roots: impl Iterator<Item = (String, bool)>) -> Reached {
    let mut reached = Reached::default();
    let mut todo: Vec<(String, bool)> = roots.collect();
    while let Some((path, test)) = todo.pop() {
        let known = reached.files.get(&path).copied();
        let Some(text) = tree.text(&path).filter(|_| known.is_none_or(|was| was && !test)) else {
            continue;
        };
        reached.files.insert(path.clone(), test);
        let masked = mask(text);
        for module in rust::modules(text, &masked) {
            let only_tests = test || module.test;
            todo.extend(files_of(&path, &module).into_iter().map(|file| (file, only_tests)));
        }
        let included = included(text, &masked).into_iter();
        todo.extend(included.map(|file| (join(folder_of(&path), file), test)));
    }
    reached
}

/// For the root of a target, whether only tests use the target; `None` for other files.
fn root_of_target(tree: &Tree, path: &str) -> Option<bool> {
    let (package, inside) = package_of(tree, path)?;
    let named = format!("path = \"{inside}\"");
    let manifest = tree.text(&join(package, "Cargo.toml")).unwrap_or_default();
    let parts: Vec<&str> = inside.split('/').collect();
    match parts[..] {
        ["src", "lib.rs" | "main.rs"] | ["src", "bin", _] | ["build.rs"] => Some(false),
        ["src", "bin", _, "main.rs"] => Some(false),
        ["tests" | "benches" | "examples", _] => Some(true),
        ["tests" | "benches" | "examples", _, "main.rs"] => Some(true),
        _ => manifest.lines().any(|line| line.contains(&named)).then_some(false),
    }
}

/// The folder of the package that `path` belongs to, and the path inside it. In tests of rules, a
/// folder in `crates/` counts as a package even without a manifest.
fn package_of<'a>(tree: &Tree, path: &'a str) -> Option<(&'a str, &'a str)> {
    let mut folder = folder_of(path);
    while !folder.is_empty() {
        if tree.has(&join(folder, "Cargo.toml")) || folder_of(folder) == "crates" {
            return Some((folder, &path[folder.len() + 1..]));
        }
        folder = folder_of(folder);
    }
    None
}

/// The possible files of `module`, which is declared in the file at `path`.
fn files_of(path: &str, module: &Module) -> Vec<String> {
    if let Some(named) = &module.path {
        return vec![join(folder_of(path), named)];
    }
    let folder = folder_of(path);
    let stem = path[folder.len()..].trim_start_matches('/').trim_end_matches(".rs");
    let in_target_folder = ["tests", "benches", "examples", "bin"]
        .iter()
        .any(|name| folder == *name || folder.ends_with(&format!("/{name}")));
    let own_folder = ["mod", "lib", "main", "build"].contains(&stem) || in_target_folder;
    let base = if own_folder { folder.to_owned() } else { join(folder, stem) };
    let inside = join(&join(&base, &module.parents.join("/")), &module.name);
    vec![format!("{inside}.rs"), format!("{inside}/mod.rs")]
}

/// The files named by `include!("..")`.
fn included<'a>(text: &'a str, masked: &str) -> Vec<&'a str> {
    let calls = masked.match_indices("include!");
    calls.filter_map(|(at, _)| text[at..].split('"').nth(1)).collect()
}

/// Every Rust file must be part of a target.
pub fn check(tree: &Tree, reached: &Reached) -> Vec<Finding> {
    let dead = tree.with_extension("rs").filter(|(path, _)| !reached.files.contains_key(*path));
    let advice =
        "no `mod` leads here, so nobody compiles it; declare the module or delete the file";
    dead.map(|(path, _)| Finding::new(path, 1, "dead-file", advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn dead(files: &[(&str, &str)], expected: &[&str]) {
        let tree = Tree::of(files);
        let found = check(&tree, &modules(&tree));
        assert_eq!(found.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_file_without_a_mod_is_dead() {
        let files = [("crates/a/src/lib.rs", "mod b;"), ("crates/a/src/b.rs", "")];
        dead(&files, &[]);
        dead(&[files[0], files[1], ("crates/a/src/c.rs", "")], &["crates/a/src/c.rs"]);
        dead(&[("crates/a/src/lib.rs", "// mod b;"), files[1]], &["crates/a/src/b.rs"]);
    }

    #[test]
    fn modules_are_found_where_the_compiler_looks() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod b;\nmod inline { mod d; }\n#[path = \"odd/e.rs\"]\nmod e;",
            ),
            ("crates/a/src/b/mod.rs", "mod c;"),
            ("crates/a/src/b/c.rs", "mod deep;"),
            ("crates/a/src/b/c/deep.rs", ""),
            ("crates/a/src/inline/d.rs", "include!(\"made.rs\");"),
            ("crates/a/src/inline/made.rs", ""),
            ("crates/a/src/odd/e.rs", ""),
            ("crates/a/tests/t.rs", "mod common;"),
            ("crates/a/tests/common/mod.rs", ""),
        ];
        dead(&files, &[]);
    }

    #[test]
    fn a_manifest_can_name_a_root() {
        let files =
            [("fuzz/Cargo.toml", "[[bin]]\npath = \"targets/x.rs\""), ("fuzz/targets/x.rs", "")];
        dead(&files, &[]);
        dead(&[("fuzz/Cargo.toml", ""), files[1]], &["fuzz/targets/x.rs"]);
    }

    #[test]
    fn what_only_tests_reach_is_a_test() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;"),
            ("crates/a/src/b.rs", ""),
            ("crates/a/src/tests.rs", "mod more;"),
            ("crates/a/src/tests/more.rs", ""),
        ]);
        let reached = modules(&tree);
        assert!(reached.is_test("crates/a/src/tests.rs"));
        assert!(reached.is_test("crates/a/src/tests/more.rs"));
        assert!(!reached.is_test("crates/a/src/b.rs"));
    }
}
