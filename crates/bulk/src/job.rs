//! One input on its way into one table.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::args::LoadArgs;
use crate::exit::{Failure, Result};
use crate::fields::Fields;
use crate::format::Format;
use crate::history::{Arrived, Head, History};
use crate::inputs::Input;
use crate::schema::{ColumnInfo, TableInfo};
use crate::split::Block;

/// In `--columns`, a field that goes nowhere.
const PASSED_OVER: char = '@';

pub struct Job {
    pub input: Input,
    pub table: Arc<TableInfo>,
    /// A name a field, and the column it goes to.
    pub columns: Vec<(String, Option<usize>)>,
    history: Mutex<History>,
    /// What the labels of its blocks begin with.
    label: String,
    /// Blocks under way, and its reader.
    pending: AtomicUsize,
}

impl Job {
    /// A job whose input names its fields `header`, if it does.
    ///
    /// # Errors
    /// When the columns do not fit the table, or the history does not fit the options.
    pub fn new(
        input: Input,
        table: Arc<TableInfo>,
        header: Option<Vec<String>>,
        args: &LoadArgs,
    ) -> Result<Self> {
        let columns = columns_of(&input, &table, header, args)?;
        let id = id_of(&input, &table, args);
        let head = Head {
            input: input.name(),
            table: format!("{}.{}", table.database, table.name),
            options: options_of(&input, &columns, args),
            round: 0,
        };
        let history = match id.is_some() {
            true => open_history(id.as_deref().unwrap_or_default(), head, args)?,
            false => History::unwritten(head),
        };
        let id = id.unwrap_or_else(|| hex(&format!("{:?}", (now_nanos(), std::process::id()))));
        let label = format!("bulk-{id}-{}", history.head().round);
        let (history, pending) = (Mutex::new(history), AtomicUsize::new(1));
        Ok(Self { input, table, columns, history, label, pending })
    }

    /// The columns that fields go to, in the order of the fields.
    pub fn stored_columns(&self) -> impl Iterator<Item = &ColumnInfo> {
        self.columns.iter().filter_map(|(_, at)| Some(&self.table.columns[(*at)?]))
    }

    /// The label of a block: the same in every run.
    pub fn label(&self, block: &Block) -> String {
        format!("{}-{}", self.label, block.offset)
    }

    /// Whether the history says that all of it has arrived.
    pub fn is_whole(&self) -> bool {
        self.history.lock().is_whole()
    }

    /// The blocks that have arrived, and their rows.
    pub fn arrived_before(&self) -> (usize, u64) {
        let history = self.history.lock();
        let rows = history.blocks().iter().map(|block| block.rows);
        (history.blocks().len(), rows.sum())
    }

    /// Where the first block begins that has not arrived, after all from `offset` on, and how many
    /// lines lie between.
    pub fn front(&self, offset: u64) -> (u64, u64) {
        self.history.lock().front(offset)
    }

    /// Whether a block has arrived.
    ///
    /// # Errors
    /// When another one has arrived from this place: the input is not what it was.
    pub fn has(&self, block: &Block) -> Result<bool> {
        match self.history.lock().at(block.offset) {
            None => Ok(false),
            Some(known)
                if (known.bytes, known.crc) == (block.bytes.len() as u64, crc(&block.bytes)) =>
            {
                Ok(true)
            }
            Some(_) => Err(Failure::failed(format!(
                "{} is not what it was when its first blocks were loaded: at line {} it has other \
                 bytes. Load it under another name (--job) if all of it is new",
                self.input.name(),
                block.line
            ))),
        }
    }

    /// A block is under way.
    pub fn begin(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// A block has arrived.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub fn arrived(&self, block: &Block, rows: u64, rejected: u64) -> Result<()> {
        let arrived = Arrived {
            offset: block.offset,
            bytes: block.bytes.len() as u64,
            lines: block.lines,
            rows,
            rejected,
            crc: crc(&block.bytes),
        };
        self.history.lock().arrived(arrived)?;
        self.settle()
    }

    /// A block has arrived, or the reader has read all of them.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub fn settle(&self) -> Result<()> {
        match self.pending.fetch_sub(1, Ordering::AcqRel) {
            1 => self.history.lock().finish(),
            _ => Ok(()),
        }
    }
}

fn crc(bytes: &[u8]) -> u32 {
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes);
    u32::try_from(sum).expect("it has 32 bits")
}

/// What tells an input from all others; `None` if nothing does.
fn id_of(input: &Input, table: &TableInfo, args: &LoadArgs) -> Option<String> {
    let target = (&table.database, &table.name, &table.created);
    let what = match (&args.resume.job, &input.path) {
        (Some(job), path) => format!("{job:?} {path:?}"),
        (None, Some(path)) => format!("{path:?} {} {}", input.bytes, input.changed),
        (None, None) => return None,
    };
    Some(hex(&format!("{target:?} {what}")))
}

/// Sixteen digits that stand for a text.
fn hex(text: &str) -> String {
    Sha256::digest(text.as_bytes())[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}

/// What decides where blocks end and what is in their rows.
fn options_of(input: &Input, columns: &[(String, Option<usize>)], args: &LoadArgs) -> String {
    let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let (block_bytes, skipped) = (args.speed.block_size.bytes(), args.skip_lines);
    let values = (args.lax, &args.time_zone, &args.option);
    format!("{:?} {names:?} {block_bytes} {skipped} {} {values:?}", input.format, args.header)
}

fn open_history(id: &str, head: Head, args: &LoadArgs) -> Result<History> {
    let dir = match &args.resume.history {
        Some(dir) => dir.clone(),
        None => default_dir()?,
    };
    std::fs::create_dir_all(&dir).map_err(Failure::of(dir.display()))?;
    // The same file may go to several servers.
    let server = hex(&args.server.identity(args.transport));
    let mut history = History::open(&dir.join(format!("{id}-{server}.jsonl")), head.clone())?;
    let known = history.head().clone();
    if args.resume.again {
        let round = u64::try_from(now_nanos() / 1_000_000).unwrap_or(u64::MAX);
        history.restart(Head { round, ..head })?;
    } else if known.options != head.options {
        let (blocks, rows) = (history.blocks().len(), history.blocks().iter().map(|b| b.rows));
        return Err(Failure::usage(format!(
            "{blocks} blocks of {} with {} rows were loaded with other options. Use the same as \
             then, or --again to load all of it once more",
            head.input,
            rows.sum::<u64>()
        )));
    }
    Ok(history)
}

fn default_dir() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = variable("XDG_STATE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    match base {
        Some(base) => Ok(base.join("freshet").join("load")),
        None => Err(Failure::usage("say by --history where to remember what has arrived")),
    }
}

/// The names of the fields, and the column each goes to.
///
/// # Errors
/// When they do not fit the table.
pub fn columns_of(
    input: &Input,
    table: &TableInfo,
    header: Option<Vec<String>>,
    args: &LoadArgs,
) -> Result<Vec<(String, Option<usize>)>> {
    let (names, source) = match (&args.columns, header) {
        (Some(columns), Some(header)) if input.format == Format::Parquet => {
            (chosen(input, columns, &header)?, "--columns")
        }
        (Some(columns), _) => (split_names(columns), "--columns"),
        (None, Some(header)) => (header, "its header"),
        (None, None) => {
            let stored = table.columns.iter().filter(|column| !column.is_generated);
            (stored.map(|column| column.name.clone()).collect(), "the table")
        }
    };
    let shown = input.name();
    let mut columns: Vec<(String, Option<usize>)> = Vec::with_capacity(names.len());
    for name in names {
        let position = table.position(&name);
        if position.is_none() && !name.starts_with(PASSED_OVER) {
            return Err(Failure::usage(format!(
                "{shown}: {source} names a column '{name}', which {}.{} does not have; write \
                 @{name} in --columns to pass over it",
                table.database, table.name
            )));
        }
        if name.contains(['=', '(', '`', ',']) || name.chars().any(char::is_control) {
            return Err(Failure::usage(format!("'{name}' cannot be the name of a column here")));
        }
        if position.is_some() && columns.iter().any(|(_, known)| *known == position) {
            return Err(Failure::usage(format!("{shown}: {source} names '{name}' twice")));
        }
        columns.push((name, position));
    }
    let is_missing = |at: usize| !columns.iter().any(|(_, position)| *position == Some(at));
    let needed = table.columns.iter().enumerate().filter(|(_, column)| !column.optional);
    match needed.map(|(at, column)| (at, &column.name)).find(|(at, _)| is_missing(*at)) {
        Some((_, name)) => Err(Failure::usage(format!(
            "{shown}: {source} does not name the column '{name}', which has no default"
        ))),
        None => Ok(columns),
    }
}

fn split_names(columns: &str) -> Vec<String> {
    columns.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect()
}

/// The columns of a Parquet file that are to be loaded.
fn chosen(input: &Input, columns: &str, header: &[String]) -> Result<Vec<String>> {
    let names = split_names(columns);
    let is_there = |name: &str| {
        let name = name.strip_prefix(PASSED_OVER).unwrap_or(name);
        header.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    match names.iter().find(|name| !is_there(name)) {
        None => Ok(names),
        Some(name) => Err(Failure::usage(format!(
            "{}: --columns names '{name}', which the file does not have; its columns are {}",
            input.name(),
            header.join(", ")
        ))),
    }
}

/// The names in the record that is a header.
///
/// # Errors
/// When it is none.
pub fn header_names(input: &Input, header: &[u8]) -> Result<Vec<String>> {
    if input.format == Format::Json {
        return Err(Failure::usage(format!("{}: JSON lines have no header", input.name())));
    }
    let mut fields = Fields::default();
    let read = fields.read(&input.format, header);
    read.map_err(|_| Failure::failed(format!("{}: its header does not end", input.name())))?;
    let text =
        |field: Option<&[u8]>| String::from_utf8_lossy(field.unwrap_or_default()).trim().to_owned();
    Ok(fields.iter().map(text).collect())
}
