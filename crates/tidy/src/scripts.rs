//! Rules about shell scripts and the Makefile.

use crate::{Finding, Tree};

const STRICT: &str = "set -euo pipefail";

/// Checks all scripts (by shebang or `.sh`), and the targets of the Makefile.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.files() {
        let mut add = |line, advice| findings.push(Finding::new(path, line, "script", advice));
        let begins = file.text.lines().next().unwrap_or_default();
        let is_bash = begins.starts_with("#!") && begins.contains("bash");
        if is_bash && !file.text.contains(STRICT) {
            add(1, format!("begin with `{STRICT}`, so that it stops at the first failure"));
        }
        if begins.starts_with("#!") && !begins.starts_with("#![") && !file.executable {
            add(1, format!("not executable; run `chmod +x {path}`"));
        }
        if path.ends_with(".sh") && !is_bash && !begins.starts_with("# Sourced ") {
            add(1, "begin with `#!/usr/bin/env bash`, or `# Sourced by ...` if it is".to_owned());
        }
    }
    findings.extend(makefile(tree));
    findings
}

/// Scripts that the Makefile calls must exist, and targets must have a description.
fn makefile(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let text = tree.text("Makefile").unwrap_or_default();
    for (index, line) in text.lines().enumerate() {
        let mut add = |advice| findings.push(Finding::new("Makefile", index + 1, "target", advice));
        let first = line.trim_start_matches(['\t', '@']).split(' ').next().unwrap_or_default();
        if first.starts_with("scripts/") && !tree.has(first) {
            add(format!("`{first}` is missing; write it or delete the target"));
        }
        let target = line.split_once(':').map(|(target, _)| target).unwrap_or_default();
        let is_target = target.starts_with(|c: char| c.is_ascii_lowercase());
        if is_target && !line.contains(" ## ") {
            add(format!("say after `##` what `{target}` does, for `make help`"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(path: &str, text: &str, executable: bool, count: usize) {
        let mut tree = Tree::default();
        tree.insert(path, text, executable);
        let findings = check(&tree);
        assert_eq!(findings.len(), count, "{findings:?}");
    }

    #[test]
    fn scripts_are_strict_and_executable() {
        let good = format!("#!/usr/bin/env bash\n{STRICT}\n");
        finds("scripts/a.sh", &good, true, 0);
        finds("scripts/a.sh", &good, false, 1);
        finds(".ci/run", "#!/usr/bin/env bash\ntrue\n", true, 1);
        finds("scripts/a.sh", "true\n", false, 1);
        finds("scripts/a.sh", "# Sourced by b.sh: names.\n", false, 0);
        finds("crates/a/src/lib.rs", "#![allow(x)]\n", false, 0);
    }

    #[test]
    fn targets_are_real_and_explained() {
        finds("Makefile", "run: ## runs\n\t@scripts/run.sh\n", false, 1);
        finds("Makefile", "run:\n\t@cargo run\n", false, 1);
        finds("Makefile", ".PHONY: run\nrun: ## runs\n\t@cargo run\n", false, 0);
    }
}
