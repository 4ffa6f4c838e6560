//! A minimal parser of `Cargo.toml`: its dependencies.

/// A dependency of a package.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The name of the crate as written.
    pub name: String,
    /// The line of the manifest, counted from 1.
    pub line: usize,
    /// Whether it is a dev-dependency.
    pub dev: bool,
    /// Whether its version comes from the workspace.
    pub from_workspace: bool,
}

/// The dependencies in a manifest, in order.
pub fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut section = "";
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            if let Some((name, dev)) = section.rsplit_once('.').and_then(named_section) {
                let name = name.to_owned();
                found.push(Dependency { name, line: index + 1, dev, from_workspace: false });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let from_workspace = key.contains("workspace") || value.contains("workspace = true");
        if let Some(dev) = is_dependencies(section) {
            let name =
                key.split(['.', ' ']).next().unwrap_or_default().trim_matches('"').to_owned();
            found.push(Dependency { name, line: index + 1, dev, from_workspace });
        } else if section.rsplit_once('.').and_then(named_section).is_some() && from_workspace {
            found.iter_mut().next_back().expect("its section came first").from_workspace = true;
        }
    }
    found
}

/// The crate and kind of a section such as `dependencies.tokio`, split at its last dot.
fn named_section<'a>((table, name): (&str, &'a str)) -> Option<(&'a str, bool)> {
    is_dependencies(table).map(|dev| (name, dev))
}

/// For a table of dependencies, whether they are dev-dependencies; `None` for other tables.
fn is_dependencies(section: &str) -> Option<bool> {
    match section.rsplit('.').next() {
        Some("dependencies" | "build-dependencies") => Some(false),
        Some("dev-dependencies") => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_dependency_is_seen() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n\
            b = { workspace = true, features = [\"f\"] }\nc = \"1\"\n# d = \"1\"\n\
            [target.'cfg(unix)'.dependencies]\ne = \"1\"\n[dev-dependencies]\nf = \"1\"\n\
            [dependencies.g]\nworkspace = true\n[build-dependencies]\nh = \"1\"\n";
        let found: Vec<_> = dependencies(manifest)
            .into_iter()
            .map(|d| (d.name, d.line, d.dev, d.from_workspace))
            .collect();
        let expected = [
            ("a", 4, false, true),
            ("b", 5, false, true),
            ("c", 6, false, false),
            ("e", 9, false, false),
            ("f", 11, true, false),
            ("g", 12, false, true),
            ("h", 15, false, false),
        ];
        assert_eq!(found, expected.map(|(n, l, d, w)| (n.to_owned(), l, d, w)));
    }
}
