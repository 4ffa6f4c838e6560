//! Parses the headers of a stream load. Unsupported ones are refused by name.

use std::time::Duration;

use freshet_base::{Error, Result, bail, err};
use freshet_ingest::OnNewKey;
use freshet_ingest::decode::csv::{CsvFormat, parse_separator};
use freshet_ingest::decode::json::{JsonFormat, JsonPath};
use freshet_schema::{DELETE_SIGN, GroupCommitMode, SEQUENCE_COLUMN, Zone};
use hyper::HeaderMap;

/// The largest timeout a load may ask for.
const TIMEOUT_SECONDS_MAX: u64 = 259_200;

/// The hidden column that says which rows delete: those with 1.
pub const SIGN: &str = DELETE_SIGN;
/// The hidden column with the version of a row. It is read and ignored: a row has its place in the
/// log.
pub const VERSION_COLUMN: &str = "__DORIS_VERSION_COL__";

/// The options of a stream load.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadHeaders {
    pub label: Option<String>,
    /// Returned in the reply.
    pub comment: String,
    /// `None`: by the table's property.
    pub group_commit: Option<GroupCommitMode>,
    /// `group_commit_labels`: a load with a label may share a group.
    pub group_labels: bool,
    /// The fraction of rows that may be rejected, 0 to 1.
    pub max_filter_ratio: f64,
    pub timeout: Duration,
    /// Whether `timeout` was given.
    pub has_timeout: bool,
    /// `two_phase_commit`: the load waits for its commit.
    pub two_phases: bool,
    /// Whether values that do not fit reject their row.
    pub strict: bool,
    /// The zone of TIMESTAMP literals; `None`: UTC.
    pub zone: Option<Zone>,
    /// The columns of the fields and what is computed of them; `None`: the table's columns in
    /// order.
    pub columns: Option<String>,
    /// Whether rows have [`SIGN`], as one of `columns` or behind those of the table.
    pub has_sign: bool,
    /// `hidden_columns`: what rows have behind the columns of the table, in this order.
    pub hidden: Vec<Hidden>,
    /// `function_column.sequence_col`: the field that the hidden sequence column is filled from.
    pub sequence: Option<String>,
    /// `merge_type`.
    pub merge: MergeType,
    /// Of a partial update: what becomes of new keys.
    pub partial: Option<OnNewKey>,
    /// Whether each row of a partial update has columns of its own.
    pub flexible: bool,
    /// `where`: which rows are loaded.
    pub condition: Option<String>,
    pub format: LoadFormat,
    /// `None`: the body is as it is.
    pub compression: Option<Compression>,
    /// `load_to_single_tablet`.
    pub to_one_tablet: bool,
    /// `negative`: values are subtracted from the sums of the table.
    pub negative: bool,
    /// `partitions`: those that take rows; others are rejected.
    pub partitions: Option<String>,
    /// `temporary_partitions`: the temporary ones that take rows.
    pub temporary_partitions: Option<String>,
}

/// A hidden column of Doris.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hidden {
    /// [`SIGN`].
    Sign,
    /// [`SEQUENCE_COLUMN`].
    Sequence,
    /// [`VERSION_COLUMN`].
    Version,
}

/// What the rows of a load do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MergeType {
    Append,
    /// Each row deletes its key.
    Delete,
    /// Those for which this condition holds delete their key.
    Merge(String),
}

/// The format of a body.
#[derive(Clone, PartialEq, Debug)]
pub enum LoadFormat {
    Csv(CsvFormat),
    /// JSON objects, one per row.
    Json(JsonFormat),
    Columnar(ColumnarFormat),
}

/// The format of a body that has its values by columns, with names and types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnarFormat {
    /// A Parquet file.
    Parquet,
    /// An ORC file.
    Orc,
    /// A stream of Arrow IPC.
    Arrow,
}

/// How a body is compressed: `compress_type` or `Content-Encoding`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    Gzip,
    /// Deflate in the wrapping of zlib.
    Zlib,
    Bzip2,
    Zstd,
    /// Frames of LZ4.
    Lz4,
    /// Blocks of LZ4, as Hadoop writes them.
    Lz4Block,
    /// Blocks of Snappy, as Hadoop writes them.
    SnappyBlock,
}

impl Compression {
    /// Its name as a `compress_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Zlib => "deflate",
            Self::Bzip2 => "bz2",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Lz4Block => "lz4_block",
            Self::SnappyBlock => "snappy_block",
        }
    }
}

impl LoadHeaders {
    /// Parses the headers of a stream load; unknown headers are ignored.
    ///
    /// # Errors
    /// `WrongArguments` for an invalid value, `NotSupported` for an unsupported option.
    pub fn parse(headers: &HeaderMap) -> Result<Self> {
        let headers = Values(headers);
        check_partitions(&headers)?;
        check_tuning(&headers)?;
        let (merge, flexible) = (merge_type(&headers)?, flexible(&headers)?);
        // Where all rows delete, only their keys count.
        let completes = flexible || merge != MergeType::Delete;
        Ok(Self {
            label: headers.text("label")?.map(str::to_owned),
            comment: headers.text("comment")?.unwrap_or_default().to_owned(),
            group_commit: headers.text("group_commit")?.map(group_commit).transpose()?,
            group_labels: headers.flag("group_commit_labels")?,
            max_filter_ratio: max_filter_ratio(&headers)?,
            timeout: timeout(&headers)?,
            has_timeout: headers.text("timeout")?.is_some(),
            two_phases: headers.flag("two_phase_commit")?,
            strict: strict_mode(&headers)?,
            zone: headers.text("timezone")?.map(zone).transpose()?,
            columns: headers.text("columns")?.map(str::to_owned),
            has_sign: has_sign(&headers)?,
            hidden: hidden(&headers)?,
            sequence: headers.text("function_column.sequence_col")?.map(str::to_owned),
            merge,
            partial: partial(&headers)?.filter(|_| completes),
            flexible,
            condition: headers.text("where")?.map(str::to_owned),
            format: format(&headers)?,
            compression: compression(&headers)?,
            partitions: headers.text("partitions")?.map(str::to_owned),
            temporary_partitions: headers.text("temporary_partitions")?.map(str::to_owned),
            to_one_tablet: headers.flag("load_to_single_tablet")?,
            negative: headers.flag("negative")?,
        })
    }
}

impl LoadHeaders {
    /// Whether rows may delete.
    pub fn may_delete(&self) -> bool {
        self.has_sign || self.merge != MergeType::Append
    }
}

/// Header values as text.
struct Values<'a>(&'a HeaderMap);

impl<'a> Values<'a> {
    /// The value of a header; an empty one counts as absent.
    fn text(&self, name: &'static str) -> Result<Option<&'a str>> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        match std::str::from_utf8(value.as_bytes()) {
            Ok(text) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Err(_) => Err(err!(WrongArguments, "header '{name}' is not UTF-8")),
        }
    }

    /// Whether a header is there and says nothing.
    fn is_empty(&self, name: &'static str) -> bool {
        self.0.get(name).is_some_and(|value| value.as_bytes().trim_ascii().is_empty())
    }

    fn flag(&self, name: &'static str) -> Result<bool> {
        match self.text(name)? {
            None => Ok(false),
            Some(text) => bool_of(text)
                .ok_or_else(|| err!(WrongArguments, "Invalid {name} format. Must be bool type")),
        }
    }
}

fn bool_of(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

fn not_supported(name: &str, value: &str) -> Error {
    err!(NotSupported, "header '{name}: {value}' is not supported in this version")
}

fn check_partitions(headers: &Values<'_>) -> Result<()> {
    if headers.text("partitions")?.is_some() && headers.text("temporary_partitions")?.is_some() {
        bail!(WrongArguments, "Can not specify both partitions and temporary partitions");
    }
    Ok(())
}

fn has_sign(headers: &Values<'_>) -> Result<bool> {
    match headers.text("columns")? {
        Some(columns) => Ok(columns.to_ascii_uppercase().contains(SIGN)),
        None => Ok(hidden(headers)?.contains(&Hidden::Sign)),
    }
}

/// What `hidden_columns` names; it is without effect beside `columns`.
fn hidden(headers: &Values<'_>) -> Result<Vec<Hidden>> {
    const NAMES: [(&str, Hidden); 3] = [
        (SIGN, Hidden::Sign),
        (SEQUENCE_COLUMN, Hidden::Sequence),
        (VERSION_COLUMN, Hidden::Version),
    ];
    let (columns, names) = (headers.text("columns")?, headers.text("hidden_columns")?);
    let mut hidden = Vec::new();
    for name in names.into_iter().flat_map(|names| names.split(',')).map(str::trim) {
        match NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) {
            Some((_, known)) if hidden.contains(known) => {
                bail!(ColumnTwice, "Column '{name}' specified twice")
            }
            Some((_, known)) => hidden.push(*known),
            None => return Err(not_supported("hidden_columns", name)),
        }
    }
    Ok(if columns.is_none() { hidden } else { Vec::new() })
}

/// The mode in which each row has columns of its own.
const FLEXIBLE: &str = "UPDATE_FLEXIBLE_COLUMNS";

/// Whether the mode is [`FLEXIBLE`], with which only members of JSON objects go together.
fn flexible(headers: &Values<'_>) -> Result<bool> {
    let mode = headers.text("unique_key_update_mode")?;
    if !mode.is_some_and(|mode| mode.eq_ignore_ascii_case(FLEXIBLE)) {
        return Ok(false);
    }
    if !headers.text("format")?.is_some_and(|format| format.eq_ignore_ascii_case("json")) {
        bail!(
            WrongArguments,
            "flexible partial update only support json format as input file currently"
        );
    }
    for name in ["jsonpaths", "columns", "where", "hidden_columns", "function_column.sequence_col"]
    {
        if headers.text(name)?.is_some() {
            bail!(
                WrongArguments,
                "Don't support flexible partial update when '{name}' is specified"
            );
        }
    }
    Ok(true)
}

fn partial(headers: &Values<'_>) -> Result<Option<OnNewKey>> {
    let mode = headers.text("unique_key_update_mode")?;
    let is_mode = |name: &str| mode.is_some_and(|mode| mode.eq_ignore_ascii_case(name));
    let is_mode_of_parts = is_mode("UPDATE_FIXED_COLUMNS") || is_mode(FLEXIBLE);
    if let Some(mode) = mode.filter(|_| !is_mode_of_parts && !is_mode("UPSERT")) {
        bail!(
            WrongArguments,
            "Invalid unique_key_partial_mode {mode}, must be one of 'UPSERT', \
             'UPDATE_FIXED_COLUMNS' or 'UPDATE_FLEXIBLE_COLUMNS'"
        );
    }
    // The mode counts where both are said.
    let is_partial = is_mode_of_parts || headers.flag("partial_columns")? && mode.is_none();
    let on_new_key = match headers.text("partial_update_new_key_behavior")? {
        None => OnNewKey::Append,
        Some(text) if text.eq_ignore_ascii_case("APPEND") => OnNewKey::Append,
        Some(text) if text.eq_ignore_ascii_case("ERROR") => OnNewKey::Refuse,
        Some(text) => bail!(
            WrongArguments,
            "Invalid partial_update_new_key_behavior {text}, must be one of 'APPEND' or 'ERROR'"
        ),
    };
    Ok(is_partial.then_some(on_new_key))
}

fn merge_type(headers: &Values<'_>) -> Result<MergeType> {
    let merge = headers.text("merge_type")?.unwrap_or("APPEND");
    let known = |name: &str| merge.eq_ignore_ascii_case(name);
    if !["APPEND", "DELETE", "MERGE"].into_iter().any(known) {
        bail!(WrongArguments, "Invalid merge type {merge}");
    }
    match (known("MERGE"), headers.text("delete")?) {
        (true, None) => {
            bail!(WrongArguments, "Excepted DELETE ON clause when merge type is MERGE.")
        }
        (false, Some(_)) => {
            bail!(WrongArguments, "Not support DELETE ON clause when merge type is not MERGE.")
        }
        (true, Some(condition)) => Ok(MergeType::Merge(condition.to_owned())),
        (false, None) if known("DELETE") => Ok(MergeType::Delete),
        (false, None) => Ok(MergeType::Append),
    }
}

/// Validates headers for tuning, which have no effect here.
fn check_tuning(headers: &Values<'_>) -> Result<()> {
    const INTEGERS: [&str; 4] =
        ["exec_mem_limit", "send_batch_parallelism", "load_stream_per_node", "stream_per_node"];
    for name in INTEGERS {
        if let Some(text) = headers.text(name)?
            && text.parse::<i64>().is_err()
        {
            bail!(WrongArguments, "Invalid {name} format: {text}");
        }
    }
    for name in ["memtable_on_sink_node", "enable_profile", "fuzzy_parse"] {
        headers.flag(name)?;
    }
    Ok(())
}

fn group_commit(text: &str) -> Result<GroupCommitMode> {
    match text.to_ascii_lowercase().as_str() {
        "off_mode" => Ok(GroupCommitMode::Off),
        "sync_mode" => Ok(GroupCommitMode::Sync),
        "async_mode" => Ok(GroupCommitMode::Async),
        _ => bail!(WrongArguments, "group_commit can only be [async_mode, sync_mode, off_mode]"),
    }
}

fn max_filter_ratio(headers: &Values<'_>) -> Result<f64> {
    let Some(text) = headers.text("max_filter_ratio")? else { return Ok(0.0) };
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => bail!(WrongArguments, "Invalid max_filter_ratio: {text}, it must be from 0 to 1"),
    }
}

fn timeout(headers: &Values<'_>) -> Result<Duration> {
    let Some(text) = headers.text("timeout")? else {
        return Ok(Duration::from_secs(TIMEOUT_SECONDS_MAX));
    };
    match text.parse::<u64>() {
        Ok(seconds) if (1..=TIMEOUT_SECONDS_MAX).contains(&seconds) => {
            Ok(Duration::from_secs(seconds))
        }
        _ => bail!(
            WrongArguments,
            "Invalid timeout: {text}, it must be from 1 to {TIMEOUT_SECONDS_MAX} seconds"
        ),
    }
}

fn strict_mode(headers: &Values<'_>) -> Result<bool> {
    let Some(text) = headers.text("strict_mode")? else { return Ok(false) };
    let strict = bool_of(text);
    strict.ok_or_else(|| err!(WrongArguments, "Invalid strict mode format. Must be bool type"))
}

fn zone(text: &str) -> Result<Zone> {
    Zone::parse(text)
        .ok_or_else(|| err!(WrongArguments, "Unknown or incorrect time zone: '{text}'"))
}

fn format(headers: &Values<'_>) -> Result<LoadFormat> {
    let name = headers.text("format")?.unwrap_or("csv").to_ascii_lowercase();
    match name.as_str() {
        "csv" => Ok(LoadFormat::Csv(csv(headers, skip_lines(headers)?)?)),
        "csv_with_names" => Ok(LoadFormat::Csv(csv(headers, 1)?)),
        "csv_with_names_and_types" => Ok(LoadFormat::Csv(csv(headers, 2)?)),
        "json" => Ok(LoadFormat::Json(json(headers)?)),
        "parquet" => Ok(LoadFormat::Columnar(ColumnarFormat::Parquet)),
        "arrow" => Ok(LoadFormat::Columnar(ColumnarFormat::Arrow)),
        "orc" => Ok(LoadFormat::Columnar(ColumnarFormat::Orc)),
        _ => bail!(WrongArguments, "unknown data format, format={name}"),
    }
}

/// `compress_type`, or `Content-Encoding` as HTTP has it, or both if they say the same, as the
/// loader of Doris does.
fn compression(headers: &Values<'_>) -> Result<Option<Compression>> {
    let of_load = headers.text("compress_type")?;
    let of_http = headers.text("content-encoding")?;
    let of_http = of_http.filter(|value| !value.eq_ignore_ascii_case("identity"));
    let found = of_load.map(|value| compression_of("compress_type", value)).transpose()?;
    let other = of_http.map(|value| compression_of("Content-Encoding", value)).transpose()?;
    if let (Some(found), Some(other)) = (found, other)
        && found != other
    {
        let (found, other) = (found.name(), other.name());
        bail!(WrongArguments, "compress_type is {found}, and Content-Encoding is {other}");
    }
    Ok(found.or(other))
}

fn compression_of(name: &'static str, value: &str) -> Result<Compression> {
    match value.to_ascii_lowercase().as_str() {
        "gz" | "gzip" => Ok(Compression::Gzip),
        "deflate" => Ok(Compression::Zlib),
        "bz2" | "bzip2" => Ok(Compression::Bzip2),
        "zstd" => Ok(Compression::Zstd),
        "lz4" => Ok(Compression::Lz4),
        "lz4_block" => Ok(Compression::Lz4Block),
        "snappy_block" => Ok(Compression::SnappyBlock),
        "lzo" | "lzop" | "br" => Err(not_supported(name, value)),
        _ => bail!(
            WrongArguments,
            "unknown {name}: {value}; it can be gz, deflate, bz2, zstd, lz4, lz4_block or \
             snappy_block"
        ),
    }
}

fn skip_lines(headers: &Values<'_>) -> Result<u64> {
    let Some(text) = headers.text("skip_lines")? else { return Ok(0) };
    text.parse().map_err(|_| err!(WrongArguments, "Invalid 'skip_lines': {text}"))
}

fn csv(headers: &Values<'_>, skip_lines: u64) -> Result<CsvFormat> {
    let default = CsvFormat::default();
    Ok(CsvFormat {
        separator: separator(headers, "column_separator")?.unwrap_or(default.separator),
        delimiter: separator(headers, "line_delimiter")?.unwrap_or(default.delimiter),
        enclose: single_byte(headers, "enclose")?,
        escape: match headers.is_empty("escape") {
            true => None,
            false => single_byte(headers, "escape")?.or(default.escape),
        },
        trim_double_quotes: headers.flag("trim_double_quotes")?,
        empty_field_as_null: headers.flag("empty_field_as_null")?,
        skip_lines,
    })
}

fn separator(headers: &Values<'_>, name: &'static str) -> Result<Option<Vec<u8>>> {
    let Some(text) = headers.text(name)? else { return Ok(None) };
    match parse_separator(text) {
        Some(bytes) => Ok(Some(bytes)),
        None => bail!(WrongArguments, "Invalid {name}: {text}"),
    }
}

fn single_byte(headers: &Values<'_>, name: &'static str) -> Result<Option<u8>> {
    match headers.text(name)?.map(str::as_bytes) {
        None => Ok(None),
        Some(&[byte]) => Ok(Some(byte)),
        Some(bytes) => bail!(
            WrongArguments,
            "{name} must be single-char, actually is {}",
            String::from_utf8_lossy(bytes)
        ),
    }
}

fn json(headers: &Values<'_>) -> Result<JsonFormat> {
    let paths = match headers.text("jsonpaths")? {
        None => Vec::new(),
        Some(text) => JsonPath::parse_list(text)
            .ok_or_else(|| err!(WrongArguments, "Invalid json path: {text}"))?,
    };
    let root = match headers.text("json_root")? {
        None => JsonPath::default(),
        Some(text) => JsonPath::parse(text)
            .ok_or_else(|| err!(WrongArguments, "Invalid json_root: {text}"))?,
    };
    Ok(JsonFormat {
        strip_outer_array: headers.flag("strip_outer_array")?,
        read_by_line: headers.flag("read_json_by_line")?,
        root,
        paths,
        num_as_string: headers.flag("num_as_string")?,
        delimiter: separator(headers, "line_delimiter")?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
