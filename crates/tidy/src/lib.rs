//! The rules of STYLE.md that a program can check, applied to this repository by one test.
//!
//! It is not a Rust linter: rustfmt and clippy check the language, this checks the repository
//! (sizes, crate and module graphs, unreachable files, scripts, links of documents). It has no
//! dependencies, so that it builds in a second.
//!
//! Invariants: a rule reads the [`Tree`] and returns [`Finding`]s, nothing else; every finding
//! names file, line and what to do instead; every rule has a test in which it fails.
//!
//! Test it with `cargo test -p freshet-tidy`; `tests/repository.rs` checks the repository.

// The checks run on the real file system.
#![allow(clippy::disallowed_methods)]

mod code;
mod documents;
mod graph;
mod manifest;
mod mask;
mod modules;
mod ratchet;
mod reach;
mod rust;
mod scripts;
mod text;
mod tree;
mod unused;

use std::fmt;

pub use tree::{File, Tree};

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The path from the root of the repository.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    /// The short name of the rule.
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

/// Applies every rule to `tree`; the findings are sorted by path and line.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let reached = reach::modules(tree);
    let mut findings = text::check(tree);
    findings.extend(reach::check(tree, &reached));
    findings.extend(code::check(tree, &reached));
    findings.extend(ratchet::check(tree));
    findings.extend(graph::check(tree));
    findings.extend(modules::check(tree));
    findings.extend(unused::check(tree));
    findings.extend(scripts::check(tree));
    findings.extend(documents::check(tree));
    findings.sort();
    findings
}
