//! Sends one block after the other, each until it has arrived.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use crate::args::{self, LoadArgs};
use crate::exit::{Failure, Result};
use crate::fields::without_end;
use crate::format::{Format, escape};
use crate::http::{Answer, Loader, Rejected};
use crate::job::Job;
use crate::json_lines::{BadRow, Road, begins_with_mark, convert, each_record, road, shown};
use crate::shared::Shared;
use crate::split::Block;
use crate::sql::SqlLoader;

const RETRY_INTERVAL_MIN: Duration = Duration::from_millis(100);
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// Headers that other options set, or that would break what labels promise.
const RESERVED: [&str; 16] = [
    "label",
    "format",
    "columns",
    "column_separator",
    "line_delimiter",
    "enclose",
    "escape",
    "strict_mode",
    "timezone",
    "max_filter_ratio",
    "skip_lines",
    "compress_type",
    "empty_field_as_null",
    "two_phase_commit",
    "group_commit",
    "authorization",
];
/// What says that a server's log of bad rows quotes one.
const LOG_REASON: &str = "Reason: ";
const LOG_RECORD: &str = ". src line [";
const LOG_END: &str = "]; \n";

/// What has arrived of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    pub rows: u64,
    pub rejected: u64,
}

/// Checks what the command line cannot.
///
/// # Errors
/// When options make no sense.
pub fn check_options(args: &LoadArgs) -> Result<()> {
    if args.max_filter_ratio.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio)) {
        return Err(Failure::usage("--max-filter-ratio must be from 0 to 1"));
    }
    for option in &args.option {
        let (name, value) = option_of(option)?;
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(Failure::usage(format!("--option {name}: there is an option for it")));
        }
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !is_name || name.is_empty() || value.chars().any(char::is_control) {
            return Err(Failure::usage(format!("--option {option}: that is no header")));
        }
    }
    Ok(())
}

fn option_of(option: &str) -> Result<(&str, &str)> {
    option
        .split_once('=')
        .ok_or_else(|| Failure::usage(format!("--option {option}: write it as NAME=VALUE")))
}

pub struct Sender<'r> {
    run: &'r Shared<'r>,
    transport: Transport<'r>,
}

enum Transport<'r> {
    Stream(Loader),
    Sql(SqlLoader<'r>),
}

/// What to send of a block.
struct Body<'b> {
    bytes: Cow<'b, [u8]>,
    road: Road,
    /// Rows that are not in it.
    bad: Vec<BadRow>,
}

impl<'r> Sender<'r> {
    /// # Errors
    /// When there is no way to the server.
    pub fn new(run: &'r Shared<'r>) -> Result<Self> {
        let transport = match run.args.transport {
            args::Transport::Stream => Transport::Stream(Loader::new(&run.args.server)?),
            args::Transport::Sql => Transport::Sql(SqlLoader::new(run.args)),
        };
        Ok(Self { run, transport })
    }

    /// Sends a block until it has arrived; `None` when the run ends before.
    ///
    /// # Errors
    /// When it will never arrive, or has not in the time that the options give.
    pub fn send(&mut self, job: &Job, block: &Block) -> Result<Option<Sent>> {
        let body = match &self.transport {
            Transport::Stream(_) => body_of(job, block),
            // It makes rows of the block itself.
            Transport::Sql(_) => {
                Body { bytes: Cow::Borrowed(&[]), road: Road::AsItIs, bad: Vec::new() }
            }
        };
        self.check_bad(job, block, &body)?;
        let headers = headers_of(job, self.run.args, body.road);
        let (label, table) = (job.label(block), (&*job.table.database, &*job.table.name));
        let (began, mut interval) = (Instant::now(), RETRY_INTERVAL_MIN);
        loop {
            let answer = match &mut self.transport {
                Transport::Stream(loader) => loader.send(table, &headers, &label, &body.bytes),
                Transport::Sql(loader) => loader.send(job, block, &label),
            };
            let why = match answer {
                Answer::Loaded(loaded) => {
                    self.write_log(job, block, &body, &loaded.rejected)?;
                    let rejected = loaded.rejected.count + body.bad.len() as u64;
                    return Ok(Some(Sent { rows: loaded.rows, rejected }));
                }
                // How many of its rows were bad nobody says again.
                Answer::LoadedBefore => {
                    let rows = records(&job.input.format, block);
                    return Ok(Some(Sent { rows, rejected: 0 }));
                }
                Answer::BadRows(rejected) => {
                    self.write_log(job, block, &body, &rejected)?;
                    return Err(bad_rows(job, block, &body, &rejected));
                }
                Answer::Refused(why) => {
                    let (name, line) = (job.input.name(), block.line);
                    let text = format!("{name}: the block at line {line} is refused: {why}");
                    return Err(Failure::failed(text));
                }
                Answer::Again(why) => why,
            };
            if began.elapsed() >= self.run.args.speed.retry_for {
                let (name, line) = (job.input.name(), block.line);
                return Err(Failure::failed(format!("{name}: the block at line {line}: {why}")));
            }
            if !self.run.stop.sleep(interval) {
                return Ok(None);
            }
            if interval < RETRY_INTERVAL_MAX && interval * 2 >= RETRY_INTERVAL_MAX {
                self.run.meter.say(&format!("trying again: {why}"));
            }
            interval = (interval * 2).min(RETRY_INTERVAL_MAX);
        }
    }

    /// Rows that cannot be sent are bad, unless options allow bad ones.
    fn check_bad(&self, job: &Job, block: &Block, body: &Body<'_>) -> Result<()> {
        let Some(first) = body.bad.first() else { return Ok(()) };
        let name = job.input.name();
        for bad in &body.bad {
            self.run
                .write_bad(&format!("{name}:{}: {}: {}\n", bad.line, bad.reason, bad.record))?;
        }
        let allowed = match self.run.args.max_filter_ratio {
            Some(ratio) => body.bad.len() as f64 <= ratio * block.lines as f64,
            None => body.bad.len() as u64 <= self.run.args.max_errors,
        };
        match allowed {
            true => Ok(()),
            false => Err(Failure::bad_rows(format!(
                "{name}:{}: {}: {}",
                first.line, first.reason, first.record
            ))),
        }
    }

    fn write_log(&self, job: &Job, block: &Block, body: &Body<'_>, bad: &Rejected) -> Result<()> {
        if bad.count == 0 {
            return Ok(());
        }
        if bad.is_located {
            return self.run.write_bad(&bad.log);
        }
        let name = job.input.name();
        let mut text = String::new();
        let mut rest = &*bad.log;
        while let Some((reason, record, behind)) = next_in_log(rest) {
            let line = line_of(job, block, body, record);
            let line = line.map_or_else(|| "?".to_owned(), |(line, _)| line.to_string());
            text += &format!("{name}:{line}: {reason}: {record}\n");
            rest = behind;
        }
        if !rest.trim().is_empty() {
            text += &format!("{name}: in the block at line {}: {}\n", block.line, rest.trim());
        }
        self.run.write_bad(&text)
    }
}

fn body_of<'b>(job: &Job, block: &'b Block) -> Body<'b> {
    let road = road(&job.input.format, job.columns.len(), &block.bytes);
    let (bytes, bad) = match road {
        Road::AsJson => {
            let (bytes, bad) = convert(job, block);
            (Cow::Owned(bytes), bad)
        }
        // Stream Load would drop the mark. It passes over the empty line.
        _ if begins_with_mark(&block.bytes) => {
            let line_end = job.input.format.delimiter();
            (Cow::Owned([line_end, &block.bytes].concat()), Vec::new())
        }
        _ => (Cow::Borrowed(&block.bytes[..]), Vec::new()),
    };
    Body { bytes, road, bad }
}

fn records(format: &Format, block: &Block) -> u64 {
    if *format == Format::Parquet {
        return block.lines;
    }
    let mut records = 0;
    each_record(format, block, |record, _| {
        records += u64::from(!without_end(record, format.delimiter()).is_empty());
    });
    records
}

/// The headers of Stream Load for blocks that go on `road`.
fn headers_of(job: &Job, args: &LoadArgs, road: Road) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    let mut put = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
    match &job.input.format {
        Format::Csv(csv) if road != Road::AsJson => {
            put("format", "csv");
            put("column_separator", &escape(&csv.separator));
            put("line_delimiter", &escape(&csv.delimiter));
            if let Some(enclose) = csv.enclose {
                put("enclose", char::from(enclose).encode_utf8(&mut [0; 4]));
                let escape = char::from(csv.escape.unwrap_or(enclose));
                put("escape", escape.encode_utf8(&mut [0; 4]));
            }
            if road == Road::EmptyIsNull {
                put("empty_field_as_null", "true");
            }
        }
        Format::Tsv { .. } if road != Road::AsJson => put("format", "csv"),
        Format::Parquet => put("format", "parquet"),
        _ => {
            put("format", "json");
            put("read_json_by_line", "true");
        }
    }
    // Columns of Parquet are found by their names: those that go nowhere are not named.
    let is_sent = |at: Option<usize>| job.input.format != Format::Parquet || at.is_some();
    let names = job.columns.iter().filter(|(_, at)| is_sent(*at));
    let names: Vec<_> = names.map(|(name, _)| format!("`{name}`")).collect();
    put("columns", &names.join(","));
    put("strict_mode", if args.lax { "false" } else { "true" });
    put("timezone", &args.time_zone);
    let ratio = match args.max_filter_ratio {
        Some(ratio) => ratio.to_string(),
        // The run counts them.
        None if args.max_errors > 0 => "1".to_owned(),
        None => "0".to_owned(),
    };
    put("max_filter_ratio", &ratio);
    for (name, value) in args.option.iter().filter_map(|option| option_of(option).ok()) {
        put(name, value);
    }
    headers
}

/// Says which row is bad, and why.
fn bad_rows(job: &Job, block: &Block, body: &Body<'_>, rejected: &Rejected) -> Failure {
    let (name, count) = (job.input.name(), rejected.count);
    let nothing = format!("{count} bad rows in this block, of which nothing was loaded");
    if rejected.is_located {
        let first = rejected.log.lines().next().unwrap_or_default();
        return Failure::bad_rows(format!("{first}\n{nothing}"));
    }
    let Some((reason, record, _)) = next_in_log(&rejected.log) else {
        let (line, log) = (block.line, rejected.log.trim());
        let text = format!("{name}: {count} bad rows in the block at line {line}: {log}");
        return Failure::bad_rows(text);
    };
    let (line, record) = match line_of(job, block, body, record) {
        Some((line, record)) => (line.to_string(), record),
        None => ("?".to_owned(), shown(record.as_bytes())),
    };
    Failure::bad_rows(format!("{name}:{line}: {reason}: {record}\n{nothing}"))
}

/// The reason, the record, and what is behind them in a server's log of bad rows.
fn next_in_log(log: &str) -> Option<(&str, &str, &str)> {
    let (entry, behind) = log.strip_prefix(LOG_REASON)?.split_once(LOG_END)?;
    let (reason, record) = entry.split_once(LOG_RECORD)?;
    Some((reason, record, behind))
}

/// The line of the first record that a server quotes so, and that record. A record that was quoted
/// for being bad is bad wherever it stands, so the first one of its text is meant.
fn line_of(job: &Job, block: &Block, body: &Body<'_>, quoted: &str) -> Option<(u64, String)> {
    let delimiter = job.input.format.delimiter();
    let is_quoted = |record: &[u8]| {
        let record = String::from_utf8_lossy(record);
        // A long record is quoted in part, which may end within a character.
        let begin = quoted.trim_end_matches('\u{fffd}');
        record == quoted || begin.len() >= 1000 && record.starts_with(begin)
    };
    let mut found = None;
    if body.road != Road::AsJson {
        each_record(&job.input.format, block, |record, line| {
            if found.is_none() && is_quoted(without_end(record, delimiter)) {
                found = Some((line, shown(record)));
            }
        });
        return found;
    }
    let lines = body.bytes.split(|byte| *byte == b'\n');
    let index = lines.into_iter().position(is_quoted)?;
    // The records that became lines: not the bad ones and not the empty ones.
    let mut at = 0;
    each_record(&job.input.format, block, |record, line| {
        let is_line = !without_end(record, delimiter).is_empty()
            && !body.bad.iter().any(|bad| bad.line == line);
        if is_line && at == index && found.is_none() {
            found = Some((line, shown(record)));
        }
        at += usize::from(is_line);
    });
    found
}
