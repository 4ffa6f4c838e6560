//! What is to be loaded: files, patterns, standard input.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::args::{Ddl, FormatName, LoadArgs, TextArgs, Transport};
use crate::compress::{Compression, sniff, unpacked};
use crate::exit::{Failure, Result};
use crate::format::{Csv, Format, unescape};

const STDIN: &str = "-";

/// One input.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// `None` is standard input.
    pub path: Option<PathBuf>,
    pub database: String,
    pub table: String,
    pub format: Format,
    pub compression: Option<Compression>,
    /// As it is on disk; 0 where nobody knows.
    pub bytes: u64,
    /// The time of its last change, in nanoseconds.
    pub changed: i128,
}

impl Input {
    pub fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "standard input".to_owned(), |p| p.display().to_string())
    }

    /// The bytes of a file as they are; those of standard input.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(&self) -> Result<Box<dyn Read + Send>> {
        match &self.path {
            None => Ok(Box::new(std::io::stdin())),
            Some(_) => Ok(Box::new(self.open_file()?)),
        }
    }

    /// # Errors
    /// When it cannot be opened.
    ///
    /// # Panics
    /// When it is standard input.
    pub fn open_file(&self) -> Result<File> {
        let path = self.path.as_ref().expect("only files are opened again");
        File::open(path).map_err(Failure::of(self.name()))
    }

    /// Whether a file is not packed.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn is_plain(&self) -> Result<bool> {
        if let Some(compression) = self.compression {
            return Ok(compression == Compression::None);
        }
        let (compression, _) = sniff(&mut self.open_file()?).map_err(Failure::of(self.name()))?;
        Ok(compression == Compression::None)
    }

    /// Unpacks what `raw` gives.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn unpack(&self, raw: impl Read + Send + 'static) -> Result<Box<dyn Read + Send>> {
        unpacked(raw, self.compression).map_err(Failure::of(self.name()))
    }
}

/// What the options name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Inputs {
    pub rows: Vec<Input>,
    /// Files with definitions of tables.
    pub definitions: Vec<PathBuf>,
}

/// The inputs that the options name, in order.
///
/// # Errors
/// When a file does not exist, or options make no sense.
pub fn of(args: &LoadArgs) -> Result<Inputs> {
    let mut inputs = Inputs::default();
    for word in &args.inputs {
        if word == STDIN {
            inputs.rows.push(input(args, None)?);
            continue;
        }
        for path in paths(word)? {
            if is_definition(&path) {
                inputs.definitions.push(path);
            } else if args.ddl != Ddl::Only {
                inputs.rows.push(input(args, Some(path))?);
            }
        }
    }
    if inputs.rows.iter().filter(|input| input.path.is_none()).count() > 1 {
        return Err(Failure::usage("standard input can be loaded once"));
    }
    let mut paths: Vec<_> = inputs.rows.iter().filter_map(|input| input.path.as_ref()).collect();
    paths.sort();
    if let Some(pair) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::usage(format!("{} is named twice", pair[0].display())));
    }
    Ok(inputs)
}

fn is_definition(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("sql"))
}

/// The files that a word names: a file that exists is never a pattern.
fn paths(word: &str) -> Result<Vec<PathBuf>> {
    if Path::new(word).is_dir() {
        return files_of(Path::new(word));
    }
    if Path::new(word).exists() || !word.contains(['*', '?', '[']) {
        return Ok(vec![PathBuf::from(word)]);
    }
    let found = glob::glob(word).map_err(|error| Failure::usage(format!("{word}: {error}")))?;
    let found = found.collect::<std::result::Result<Vec<_>, _>>();
    let mut found = found.map_err(|error| Failure::failed(format!("{word}: {error}")))?;
    found.retain(|path| path.is_file());
    if found.is_empty() {
        return Err(Failure::failed(format!("{word}: there is no such file")));
    }
    Ok(found)
}

/// The files of a directory that can be loaded by their names.
fn files_of(dir: &Path) -> Result<Vec<PathBuf>> {
    let shown = dir.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(Failure::of(&shown))? {
        let path = entry.map_err(Failure::of(&shown))?.path();
        if path.is_file() && (is_definition(&path) || format_of_name(Some(&path)).is_some()) {
            found.push(path);
        }
    }
    found.sort();
    match found.is_empty() {
        true => Err(Failure::failed(format!("{shown} has no file of rows or definitions"))),
        false => Ok(found),
    }
}

fn input(args: &LoadArgs, path: Option<PathBuf>) -> Result<Input> {
    let (database, table) = table_of(args, path.as_deref())?;
    let format = format_of(&args.text, path.as_deref())?;
    let (mut bytes, mut changed) = (0, 0);
    let mut whole = None;
    if let Some(path) = path {
        let shown = path.display().to_string();
        let metadata = fs::metadata(&path).map_err(Failure::of(&shown))?;
        let time = metadata.modified().map_err(Failure::of(&shown))?;
        let since = time.duration_since(std::time::UNIX_EPOCH);
        changed =
            since.map_or_else(|e| -(e.duration().as_nanos() as i128), |d| d.as_nanos() as i128);
        bytes = metadata.len();
        whole = Some(fs::canonicalize(&path).map_err(Failure::of(&shown))?);
    }
    let compression = args.text.compression;
    if format == Format::Parquet {
        check_parquet(args, whole.as_deref())?;
    }
    Ok(Input { path: whole, database, table, format, compression, bytes, changed })
}

/// A Parquet file is read from its end, and its values are the server's matter.
fn check_parquet(args: &LoadArgs, path: Option<&Path>) -> Result<()> {
    let Some(path) = path else {
        return Err(Failure::usage("standard input cannot be Parquet, which is read from its end"));
    };
    let refused = |what: &str| Err(Failure::usage(format!("{}: {what}", path.display())));
    if args.transport == Transport::Sql {
        return refused("Parquet is for Stream Load of Freshet, and not for --transport sql");
    }
    if args.skip_lines > 0 {
        return refused("a Parquet file has no lines; leave --skip-lines away");
    }
    if args.text.compression.is_some_and(|compression| compression != Compression::None) {
        return refused("a Parquet file is packed within; leave --compression away");
    }
    Ok(())
}

fn table_of(args: &LoadArgs, path: Option<&Path>) -> Result<(String, String)> {
    let of_name = || {
        let name = path?.file_name()?.to_str()?;
        name.split('.').next().filter(|name| !name.is_empty())
    };
    let Some(table) = args.table.as_deref().or_else(of_name) else {
        return Err(Failure::usage("say by --table which table to load into"));
    };
    let (database, table) = match table.split_once('.') {
        Some((database, table)) => (Some(database), table),
        None => (args.database.as_deref(), table),
    };
    match database {
        Some(database) => Ok((database.to_owned(), table.to_owned())),
        None => Err(Failure::usage("say by --database where the table is")),
    }
}

/// The format of a file.
fn format_of(args: &TextArgs, path: Option<&Path>) -> Result<Format> {
    let name = match args.format {
        FormatName::Auto => format_of_name(path).ok_or_else(|| {
            let shown = path.map_or_else(|| STDIN.to_owned(), |path| path.display().to_string());
            Failure::usage(format!(
                "{shown}: say by --format whether it is csv, tsv, json or parquet"
            ))
        })?,
        name => name,
    };
    format(name, args)
}

fn format_of_name(path: Option<&Path>) -> Option<FormatName> {
    let path = path?;
    let packed = Compression::of_name(path) != Compression::None;
    let stem = if packed { Path::new(path.file_stem()?) } else { path };
    match stem.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "csv" => Some(FormatName::Csv),
        "tsv" | "txt" => Some(FormatName::Tsv),
        "json" | "jsonl" | "ndjson" => Some(FormatName::Json),
        "parquet" => Some(FormatName::Parquet),
        _ => None,
    }
}

/// The format with this name in the dialect that the options describe.
///
/// # Errors
/// When they make no sense.
pub fn format(name: FormatName, args: &TextArgs) -> Result<Format> {
    let bytes = |option: &str, text: &str| {
        unescape(text).ok_or_else(|| Failure::usage(format!("{option} {text}: what is that?")))
    };
    let byte = |option: &str, text: &str| match bytes(option, text)?[..] {
        [byte] if byte != b'\n' => Ok(byte),
        _ => Err(Failure::usage(format!("{option} {text}: it must be one character of ASCII"))),
    };
    let null = args.null.as_bytes().to_vec();
    match name {
        FormatName::Json => Ok(Format::Json),
        FormatName::Parquet => Ok(Format::Parquet),
        FormatName::Tsv => Ok(Format::Tsv { null }),
        FormatName::Csv | FormatName::Auto => {
            let enclose = Some(args.enclose.as_str()).filter(|text| !text.is_empty());
            let enclose = enclose.map(|text| byte("--enclose", text)).transpose()?;
            let escape = args.escape.as_deref().map(|text| byte("--escape", text)).transpose()?;
            let separator = bytes("--separator", &args.separator)?;
            let delimiter = bytes("--line-delimiter", &args.line_delimiter)?;
            if separator == delimiter {
                return Err(Failure::usage("fields and records cannot end in the same way"));
            }
            Ok(Format::Csv(Csv { separator, delimiter, enclose, escape, null }))
        }
    }
}
