//! Rules about the crate graph: allowed dependencies, and where versions are declared.

use crate::manifest::{Dependency, dependencies};
use crate::{Finding, Tree};

/// The crates that each crate may use; ARCHITECTURE.md has the picture.
const MAY_USE: [(&str, &[&str]); 16] = [
    ("base", &[]),
    ("schema", &["base"]),
    ("wire", &["base", "schema"]),
    ("wal", &["base"]),
    ("meta", &["base", "schema"]),
    ("storage", &["base", "schema", "meta"]),
    ("ingest", &["base", "schema", "meta", "wal", "storage"]),
    ("query", &["base", "schema", "meta", "storage", "ingest"]),
    ("server", &["base", "schema", "wire", "meta", "storage", "ingest", "query"]),
    ("freshet", &["base", "schema", "wire", "wal", "meta", "storage", "ingest", "query", "server"]),
    ("sim", &["base", "schema", "wal", "meta", "storage", "ingest"]),
    ("bench", &["base", "schema", "wire"]),
    ("torture", &["wire"]),
    ("differential", &["wire", "torture"]),
    ("threads", &["base", "schema", "wal", "meta", "storage"]),
    ("tidy", &[]),
];

/// Additional crates that the tests of every crate may use.
const TESTS_MAY_USE: [&str; 2] = ["sim", "torture"];

/// The only crate that uses DataFusion, so that all crates below build and test in seconds.
const DATAFUSION_IN: &str = "query";

/// Checks the manifests of all crates.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.files() {
        let parts: Vec<&str> = path.split('/').collect();
        let ["crates", name, "Cargo.toml"] = parts[..] else { continue };
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            let advice = "not in the graph; add it to ARCHITECTURE.md and crates/tidy/src/graph.rs";
            findings.push(Finding::new(path, 1, "crate-graph", advice));
            continue;
        };
        for dependency in dependencies(&file.text) {
            let advice = edge(name, may_use, &dependency).or_else(|| version(&dependency));
            let finding = |advice| Finding::new(path, dependency.line, "crate-graph", advice);
            findings.extend(advice.map(finding));
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            let advice = "add `[lints]` with `workspace = true`";
            findings.push(Finding::new(path, 1, "crate-graph", advice));
        }
    }
    findings
}

/// Why the crate `name` must not use `dependency`, if so.
fn edge(name: &str, may_use: &[&str], dependency: &Dependency) -> Option<String> {
    let used = dependency.name.as_str();
    if used.starts_with("datafusion") && name != DATAFUSION_IN {
        return Some(format!(
            "`{used}` belongs in `{DATAFUSION_IN}` alone; define a trait here, implement it there"
        ));
    }
    let ours = used.strip_prefix("freshet-")?;
    let allowed = may_use.contains(&ours) || (dependency.dev && TESTS_MAY_USE.contains(&ours));
    (!allowed).then(|| {
        format!("`{name}` must not use `{ours}`; the caller owns the trait, the crate above has it")
    })
}

fn version(dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    (!dependency.from_workspace).then(|| {
        format!(
            "write `{name}.workspace = true`, its version in the root's [workspace.dependencies]"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(name: &str, dependencies: &str, words: &[&str]) {
        let path = format!("crates/{name}/Cargo.toml");
        let text = format!("[lints]\nworkspace = true\n{dependencies}");
        let findings = check(&Tree::of(&[(&path, &text)]));
        assert_eq!(findings.len(), words.len(), "{findings:?}");
        for (finding, word) in findings.iter().zip(words) {
            assert!(finding.advice.contains(word), "{finding}");
        }
    }

    #[test]
    fn the_graph_has_no_cycle() {
        for (index, (name, uses)) in MAY_USE.iter().enumerate() {
            let before = &MAY_USE[..index];
            assert!(uses.iter().all(|used| before.iter().any(|(b, _)| b == used)), "{name}");
        }
    }

    #[test]
    fn edges_point_down_only() {
        finds("wal", "[dependencies]\nfreshet-base.workspace = true\n", &[]);
        finds("wal", "[dependencies]\nfreshet-meta.workspace = true\n", &["must not use `meta`"]);
        finds("wal", "[dev-dependencies]\nfreshet-sim.workspace = true\n", &[]);
        finds("wal", "[dependencies]\nfreshet-sim.workspace = true\n", &["must not use `sim`"]);
    }

    #[test]
    fn datafusion_stays_in_query() {
        finds("query", "[dependencies]\ndatafusion.workspace = true\n", &[]);
        finds("server", "[dependencies]\ndatafusion-expr.workspace = true\n", &["query"]);
    }

    #[test]
    fn versions_lints_and_new_crates() {
        finds("wal", "[dependencies]\nbytes = \"1\"\n", &["bytes.workspace"]);
        finds("cellar", "", &["not in the graph"]);
        let bare = check(&Tree::of(&[("crates/wal/Cargo.toml", "[package]\n")]));
        assert_eq!(bare.len(), 1);
    }
}
