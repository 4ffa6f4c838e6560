//! The rules of STYLE.md that a program can check, checked on this repository by one test.
//!
//! It is not a linter of Rust: rustfmt and clippy know the language, this knows the house (sizes,
//! the graphs of crates and modules, files that nothing reaches, scripts, links of documents). It
//! has no dependencies, so that it builds in a second and can never be in the way.
//!
//! Invariants: a rule reads the [`Tree`] and returns [`Finding`]s, nothing else; every finding
//! names file, line and what to do instead; every rule has a test in which it fails.
//!
//! To test: `cargo test -p freshet-tidy`; its `tests/repository.rs` is the check itself.

// The house is checked from outside the running system: there is no simulated file system here.
#![allow(clippy::disallowed_methods)]

mod documents;
mod graph;
mod manifest;
mod mask;
mod ratchet;
mod reach;
mod rooms;
mod rust;
mod scripts;
mod text;
mod tree;
mod unused;

use std::fmt;

pub use tree::{File, Tree};

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the repository.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Short name of the rule.
    pub rule: &'static str,
    /// What is wrong and what to do instead.
    pub advice: String,
}

impl Finding {
    fn new(path: &str, line: usize, rule: &'static str, advice: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}

/// Applies every rule to `tree` and returns what they found, sorted by place.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let reached = reach::modules(tree);
    let mut findings = text::check(tree);
    findings.extend(reach::check(tree, &reached));
    findings.extend(rust::check(tree, &reached));
    findings.extend(ratchet::check(tree));
    findings.extend(graph::check(tree));
    findings.extend(rooms::check(tree));
    findings.extend(unused::check(tree));
    findings.extend(scripts::check(tree));
    findings.extend(documents::check(tree));
    findings.sort();
    findings
}
