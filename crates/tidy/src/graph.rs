//! Rules about the crate graph: allowed dependencies, and where versions are declared.

use crate::manifest::{Dependency, dependencies};
use crate::{Finding, Tree};

/// The document whose table of crates is the graph.
const MAP: &str = "ARCHITECTURE.md";

/// Crates that the tests of every crate may use, beside those below it.
const TESTS_MAY_USE: [&str; 3] = ["sim", "testkit", "torture"];

/// The only crate that uses DataFusion and its parser, so that all other crates build and test in
/// seconds, and another version of them is the matter of one crate.
const ENGINE_IN: &str = "query";
pub const ENGINE: [&str; 2] = ["datafusion", "sqlparser"];

/// A row of the table of crates in ARCHITECTURE.md: `| name | what it is | what it uses |`.
struct Row<'a> {
    name: &'a str,
    line: usize,
    uses: Vec<&'a str>,
}

/// Checks the manifests of all crates against the graph, in both directions.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let graph = rows(tree.text(MAP).unwrap_or_default());
    let mut findings = order(&graph);
    for (path, file) in tree.files() {
        let parts: Vec<&str> = path.split('/').collect();
        let ["crates", name, "Cargo.toml"] = parts[..] else { continue };
        let Some(row) = graph.iter().find(|row| row.name == name) else {
            let advice = format!("not in the graph; add a row to the table of crates in {MAP}");
            findings.push(Finding::new(path, 1, "crate-graph", advice));
            continue;
        };
        let dependencies = dependencies(&file.text);
        for dependency in &dependencies {
            let advice = edge(&graph, row, dependency).or_else(|| version(dependency));
            let finding = |advice| Finding::new(path, dependency.line, "crate-graph", advice);
            findings.extend(advice.map(finding));
        }
        for used in &row.uses {
            let is_used = |d: &Dependency| !d.dev && d.name.strip_prefix("freshet-") == Some(*used);
            if !dependencies.iter().any(is_used) {
                let advice = format!("`{name}` does not use `{used}`; take it out of this row");
                findings.push(Finding::new(MAP, row.line, "crate-graph", advice));
            }
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            let advice = "add `[lints]` with `workspace = true`";
            findings.push(Finding::new(path, 1, "crate-graph", advice));
        }
    }
    findings
}

/// The rows of the table whose header is `| crate | what it is | uses |`.
fn rows(map: &str) -> Vec<Row<'_>> {
    let lines = map.lines().enumerate().skip_while(|(_, line)| !line.starts_with("| crate |"));
    let table = lines.skip(2).take_while(|(_, line)| line.starts_with('|'));
    table.filter_map(|(index, line)| row(index + 1, line)).collect()
}

fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let mut cells = text.trim_matches('|').split('|');
    let name = cells.next()?.trim().trim_matches('`');
    let uses = cells.nth(1)?.split('`').skip(1).step_by(2).collect();
    Some(Row { name, line, uses })
}

/// Every crate uses only crates of rows above its own.
fn order(graph: &[Row<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, row) in graph.iter().enumerate() {
        for used in &row.uses {
            if !graph[..index].iter().any(|before| before.name == *used) {
                let advice = format!("`{}` uses `{used}`, which has no row above it", row.name);
                findings.push(Finding::new(MAP, row.line, "crate-graph", advice));
            }
        }
    }
    findings
}

/// Whether `crate` or a crate below it uses `used`.
fn is_below(graph: &[Row<'_>], row: &Row<'_>, used: &str) -> bool {
    row.uses.iter().any(|direct| {
        let below = graph.iter().find(|below| below.name == *direct && below.line < row.line);
        *direct == used || below.is_some_and(|below| is_below(graph, below, used))
    })
}

/// Why the crate of `row` must not use `dependency`, if so.
fn edge(graph: &[Row<'_>], row: &Row<'_>, dependency: &Dependency) -> Option<String> {
    let (name, used) = (row.name, dependency.name.as_str());
    let engine = ENGINE.iter().any(|engine| used.starts_with(engine));
    let compares = dependency.dev && used == "sqlparser";
    if engine && name != ENGINE_IN && !compares {
        return Some(format!(
            "`{used}` belongs in `{ENGINE_IN}` alone; define a type or trait there, use it here"
        ));
    }
    let ours = used.strip_prefix("freshet-")?;
    let allowed = match dependency.dev {
        true => TESTS_MAY_USE.contains(&ours) || is_below(graph, row, ours),
        false => row.uses.contains(&ours),
    };
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

    const TABLE: &str = "| crate | what it is | uses |\n| --- | --- | --- |\n\
        | `base` | ids | |\n| `meta` | the catalog | `base` |\n| `wal` | the log | `base` |\n\
        | `query` | plans | `meta` |\n| `server` | sockets | `base`, `query` |\n";

    #[track_caller]
    fn finds(name: &str, dependencies: &str, words: &[&str]) {
        let path = format!("crates/{name}/Cargo.toml");
        let text = format!("[lints]\nworkspace = true\n{dependencies}");
        found_in(&Tree::of(&[(&path, &text), (MAP, TABLE)]), words);
    }

    #[track_caller]
    fn found_in(tree: &Tree, words: &[&str]) {
        let findings = check(tree);
        assert_eq!(findings.len(), words.len(), "{findings:?}");
        for (finding, word) in findings.iter().zip(words) {
            assert!(finding.advice.contains(word), "{finding}");
        }
    }

    #[test]
    fn a_crate_uses_crates_of_rows_above() {
        let circle = TABLE.replace("| ids | |", "| ids | `wal` |");
        found_in(&Tree::of(&[(MAP, &circle)]), &["`base` uses `wal`, which has no row above"]);
    }

    #[test]
    fn the_table_is_the_graph_of_the_manifests() {
        finds("wal", "", &["`wal` does not use `base`"]);
        let only_in_tests = "[dev-dependencies]\nfreshet-base.workspace = true\n";
        finds("wal", only_in_tests, &["`wal` does not use `base`"]);
    }

    #[test]
    fn tests_may_use_what_is_below() {
        let uses =
            "[dependencies]\nfreshet-base.workspace = true\nfreshet-query.workspace = true\n";
        let tests =
            |used: &str| format!("{uses}[dev-dependencies]\nfreshet-{used}.workspace = true\n");
        finds("server", &tests("meta"), &[]);
        finds("server", &tests("wal"), &["must not use `wal`"]);
    }

    #[test]
    fn edges_point_down_only() {
        finds("wal", "[dependencies]\nfreshet-base.workspace = true\n", &[]);
        let uses = "[dependencies]\nfreshet-base.workspace = true\n";
        let meta = format!("{uses}freshet-meta.workspace = true\n");
        finds("wal", &meta, &["must not use `meta`"]);
        let sim = "freshet-sim.workspace = true\n";
        finds("wal", &format!("{uses}[dev-dependencies]\n{sim}"), &[]);
        finds("wal", &format!("{uses}{sim}"), &["must not use `sim`"]);
    }

    #[test]
    fn datafusion_stays_in_query() {
        let uses = "[dependencies]\nfreshet-meta.workspace = true\n";
        finds("query", &format!("{uses}datafusion.workspace = true\n"), &[]);
        let uses =
            "[dependencies]\nfreshet-base.workspace = true\nfreshet-query.workspace = true\n";
        finds("server", &format!("{uses}datafusion-expr.workspace = true\n"), &["query"]);
        finds("server", &format!("{uses}sqlparser.workspace = true\n"), &["query"]);
        let tests = "[dev-dependencies]\nsqlparser.workspace = true\n";
        finds("server", &format!("{uses}{tests}"), &[]);
    }

    #[test]
    fn versions_lints_and_new_crates() {
        let uses = "[dependencies]\nfreshet-base.workspace = true\n";
        finds("wal", &format!("{uses}bytes = \"1\"\n"), &["bytes.workspace"]);
        finds("cellar", "", &["not in the graph"]);
        let bare = Tree::of(&[("crates/base/Cargo.toml", "[package]\n"), (MAP, TABLE)]);
        found_in(&bare, &["[lints]"]);
    }
}
