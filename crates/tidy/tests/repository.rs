//! Checks this repository by the rules of STYLE.md.

use std::path::Path;

use freshet_tidy::{Tree, check};

#[test]
fn the_repository_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Tree::read(&root).expect("the repository can be read");
    let findings = check(&tree);
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} findings; STYLE.md has the rules\n{}",
        lines.len(),
        lines.join("\n")
    );
}
