//! The files of the repository, read once into memory, so that rules are pure functions.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

/// Folders without source: builds, version control, data of a server, generated inputs.
const FOLDERS_SKIPPED: [&str; 7] =
    ["target", ".git", ".build", "freshet-data", "node_modules", "corpus", "artifacts"];

/// A text file.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub text: String,
    /// Whether its owner may execute it.
    pub executable: bool,
}

/// All files of the repository by their path from the root, separated by `/`.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    /// Reads the repository at `root`. Files that are not UTF-8 are kept with an empty text, so
    /// that links to them are valid.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !FOLDERS_SKIPPED.contains(&name.as_str()) {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                let executable = entry.metadata()?.permissions().mode() & 0o100 != 0;
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.files.insert(path, File { text, executable });
            }
        }
        Ok(())
    }

    /// A tree of `(path, text)` pairs, none executable, for tests.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.insert(path, text, false);
        }
        tree
    }

    pub fn insert(&mut self, path: &str, text: &str, executable: bool) {
        self.files.insert(path.to_owned(), File { text: text.to_owned(), executable });
    }

    /// The content of the file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|file| file.text.as_str())
    }

    /// Whether `path` is a file or a folder with files in it; the empty path is the root.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.contains_key(path) || self.any_below(&folder)
    }

    fn any_below(&self, folder: &str) -> bool {
        let mut after = self.files.range(folder.to_owned()..);
        after.next().is_some_and(|(path, _)| path.starts_with(folder))
    }

    /// All files, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The files with this extension.
    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&str, &File)> {
        let ending = format!(".{extension}");
        self.files().filter(move |(path, _)| path.ends_with(&ending))
    }
}

/// The folder of a path, without the last `/`; empty for a file in the root.
pub fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Joins a folder and a relative path, resolving `.` and `..`. A path that leaves the repository
/// keeps its `..` in front.
pub fn join(folder: &str, relative: &str) -> String {
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in relative.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|last| *last != "..") => {
                names.pop();
            }
            _ => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_resolves_dots() {
        assert_eq!(join("a/b", "../c.md"), "a/c.md");
        assert_eq!(join("", "./x"), "x");
        assert_eq!(join("a", "../../x"), "../x");
    }

    #[test]
    fn a_folder_is_there_if_it_has_files() {
        let tree = Tree::of(&[("a/b/c.rs", "")]);
        assert!(tree.has("a/b") && tree.has("a") && tree.has("") && tree.has("a/b/c.rs"));
        assert!(!tree.has("a/bc") && !tree.has("a/b/c"));
    }
}
