//! Dependencies between modules: no cycles within a crate, no calls that bypass a layer, and no
//! facade that is the sum of its crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::mask::mask;
use crate::{Finding, Tree};

/// Calls that are forbidden in a folder, and what to use instead.
const FORBIDDEN_CALLS: [(&str, &str, &str); 3] = [
    ("crates/server/src/", "engine.meta()", ASK_THE_ENGINE),
    ("crates/server/src/", "&Meta", ASK_THE_ENGINE),
    ("crates/freshet/src/", "engine.meta()", ASK_THE_ENGINE),
];
const ASK_THE_ENGINE: &str = "metadata is the engine's own; ask the engine";

/// The files that may have methods of the engine: others call each other through it in circles that
/// their `use` does not show.
const FACADE: (&str, &str, [&str; 5]) = (
    "crates/ingest/src/",
    "impl Engine {",
    ["engine.rs", "load.rs", "open.rs", "transaction.rs", "two_phases.rs"],
);

/// The modules that each module uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = circles_of_all(tree);
    let (facade, methods, may) = FACADE;
    for (path, file) in tree.with_extension("rs") {
        let inside = path.strip_prefix(facade).filter(|inside| !may.contains(inside));
        if inside.is_some() && code_of(&file.text).contains(methods) {
            let advice = "has methods of the engine; give a service of its own what it needs";
            findings.push(Finding::new(path, 1, "facade", advice));
        }
        for (folder, call, advice) in FORBIDDEN_CALLS {
            if !path.starts_with(folder) {
                continue;
            }
            let code = code_of(&file.text);
            let Some(at) = code.find(call) else { continue };
            let line = code[..at].lines().count();
            findings.push(Finding::new(
                path,
                line,
                "forbidden-call",
                format!("calls `{call}`: {advice}"),
            ));
        }
    }
    findings
}

fn circles_of_all(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, graph) in graphs(tree) {
        for circle in circles(&graph) {
            let path = format!("crates/{name}/src/{}.rs", circle[0].replace("::", "/"));
            let others = circle[1..].join(", ");
            let advice =
                format!("uses itself by way of {others}; let one of them own what they share");
            findings.push(Finding::new(&path, 1, "module-circle", advice));
        }
    }
    findings
}

/// The modules of every crate.
fn graphs(tree: &Tree) -> BTreeMap<String, Graph> {
    let mut texts: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (path, file) in tree.with_extension("rs") {
        let parts: Vec<&str> = path.split('/').collect();
        let ["crates", name, "src", inside @ ..] = &parts[..] else { continue };
        let module = inside.join("::");
        let module = module.trim_end_matches(".rs").trim_end_matches("::mod");
        if !["lib", "main"].contains(&module) {
            let of_crate = texts.entry((*name).to_owned()).or_default();
            of_crate.insert(module.to_owned(), file.text.clone());
        }
    }
    let graph = |modules: BTreeMap<String, String>| {
        let used = |module: &String, text: &String| {
            let paths = paths_in(&code_of(text), module).into_iter();
            let found = paths.filter_map(|path| module_of(&path, &modules));
            found.filter(|used| used != module).collect()
        };
        modules.iter().map(|(module, text)| (module.clone(), used(module, text))).collect()
    };
    texts.into_iter().map(|(name, modules)| (name, graph(modules))).collect()
}

/// Code without comments, literals and tests.
fn code_of(text: &str) -> String {
    let mut code = mask(text);
    if let Some(at) = code.find("#[cfg(test)]\nmod tests {") {
        code.truncate(at);
    }
    code
}

/// The module that the longest prefix of `path` names.
fn module_of(path: &str, modules: &BTreeMap<String, String>) -> Option<String> {
    let mut path = path;
    loop {
        if modules.contains_key(path) {
            return Some(path.to_owned());
        }
        path = path.rsplit_once("::")?.0;
    }
}

/// The paths within the crate that the code of `module` uses, in `use` declarations and elsewhere.
fn paths_in(code: &str, module: &str) -> Vec<String> {
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let mut paths = Vec::new();
    for (word, base) in [("crate::", ""), ("super::", parent), ("self::", module)] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_none_or(|c| !c.is_alphanumeric() && !"_:$".contains(c)) {
                expand(base, &code[at + word.len()..], &mut paths);
            }
        }
    }
    paths
}

/// Adds the paths of a use tree at the beginning of `text`, one for each name in braces; returns
/// the text after it.
fn expand<'a>(base: &str, text: &'a str, paths: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    let join = |name: &str| match base {
        "" => name.to_owned(),
        base => format!("{base}::{name}"),
    };
    if let Some(mut rest) = text.strip_prefix('{') {
        while !rest.trim_start().starts_with('}') && !rest.trim().is_empty() {
            let after = expand(base, rest, paths).trim_start();
            rest = after.strip_prefix(',').unwrap_or_else(|| {
                after.find(['}', ',']).map_or("", |end| after[end..].trim_start_matches(','))
            });
        }
        return rest.trim_start().strip_prefix('}').unwrap_or_default();
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match rest.strip_prefix("::") {
        Some(rest) => expand(&join(name), rest, paths),
        None => {
            paths.push(join(name));
            rest
        }
    }
}

/// The strongly connected components of more than one module.
fn circles(graph: &Graph) -> Vec<Vec<&str>> {
    let reach = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut todo: Vec<&String> = graph[from].iter().collect();
        while let Some(module) = todo.pop() {
            if seen.insert(module.as_str()) {
                todo.extend(&graph[module]);
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reach(module))).collect();
    let circle_of = |module: &&str| -> Vec<&str> {
        let others = reached[module].iter();
        others.filter(|other| reached[*other].contains(module)).copied().collect()
    };
    let circles: BTreeSet<Vec<&str>> = reached.keys().map(circle_of).collect();
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(files: &[(&str, &str)], expected: &[(&str, &str)]) {
        let findings = check(&Tree::of(files));
        let found: Vec<_> = findings.iter().map(|f| (f.path.as_str(), f.rule)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle() {
        let a = ("crates/x/src/a.rs", "use crate::{b::{self, B}, d as e};");
        let b = ("crates/x/src/b.rs", "use super::c::C;");
        let c = ("crates/x/src/c.rs", "fn f() { crate::a::f() }");
        let d = "// use crate::a;\n#[cfg(test)]\nmod tests { use crate::a; }";
        let d = ("crates/x/src/d.rs", d);
        found(&[a, b, c, d], &[("crates/x/src/a.rs", "module-circle")]);
        found(&[a, b, d], &[]);
    }

    #[test]
    fn what_stands_inside_of_a_module_is_a_module_too() {
        let a = ("crates/x/src/a.rs", "mod b;\nuse b::B;");
        let b = ("crates/x/src/a/b.rs", "use super::super::c;\nuse super::A;");
        found(&[a, b, ("crates/x/src/c.rs", "")], &[]);
        let a = ("crates/x/src/a.rs", "use self::b::B;");
        found(&[a, b], &[("crates/x/src/a.rs", "module-circle")]);
    }

    #[test]
    fn few_files_have_methods_of_the_engine() {
        let methods = "impl Engine {}";
        found(&[("crates/ingest/src/a.rs", methods)], &[("crates/ingest/src/a.rs", "facade")]);
        found(&[("crates/ingest/src/open.rs", methods), ("crates/x/src/a.rs", methods)], &[]);
    }

    #[test]
    fn a_server_asks_the_engine() {
        let path = "crates/server/src/a.rs";
        found(&[(path, "fn f() {\n    engine.meta().users()\n}")], &[(path, "forbidden-call")]);
        found(&[(path, "// engine.meta()"), ("crates/sim/src/a.rs", "engine.meta()")], &[]);
    }
}
