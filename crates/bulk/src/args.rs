//! The options of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use freshet_base::size::ByteSize;

use crate::compress::Compression;

/// Where the server is, and as whom to go there.
#[derive(Args, Clone, Debug)]
pub struct Server {
    /// The server.
    #[arg(long, short = 'h', default_value = "127.0.0.1")]
    pub host: String,
    /// Its port of the MySQL protocol.
    #[arg(long, short = 'P', default_value_t = 9030)]
    pub port: u16,
    /// Its port of Stream Load.
    #[arg(long, default_value_t = 8030)]
    pub http_port: u16,
    #[arg(long, short = 'u', default_value = "root")]
    pub user: String,
    /// The password. Others can see options of a process: the environment variable
    /// FRESHET_PASSWORD is better.
    #[arg(long, short = 'p', default_value = "", hide_default_value = true)]
    pub password: String,
    /// Encrypts both ports by TLS; the server's certificate must be signed by an authority in this
    /// file, such as ca.pem of Freshet.
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
}

impl Default for Server {
    fn default() -> Self {
        let (host, user) = ("127.0.0.1".to_owned(), "root".to_owned());
        Self { host, port: 9030, http_port: 8030, user, password: String::new(), tls_ca: None }
    }
}

impl Server {
    /// Takes what the environment says where no option does.
    #[must_use]
    pub fn with_environment(mut self) -> Self {
        if self.password.is_empty() {
            self.password = std::env::var("FRESHET_PASSWORD").unwrap_or_default();
        }
        self
    }

    pub fn mysql_place(&self) -> String {
        place(&self.host, self.port)
    }

    /// What tells this server from others, for the histories of loads.
    pub fn identity(&self, transport: Transport) -> String {
        match transport {
            Transport::Stream => self.http_place(),
            Transport::Sql => self.mysql_place(),
        }
    }

    pub fn http_place(&self) -> String {
        place(&self.host, self.http_port)
    }
}

fn place(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FormatName {
    /// By the ending of a file (.csv, .tsv or .txt, .json, .jsonl or .ndjson, .parquet); dumps are
    /// CSV.
    Auto,
    Csv,
    Tsv,
    /// An object a line.
    Json,
    /// Files of Apache Parquet, to be loaded by Stream Load; dumps are not written so.
    Parquet,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Transport {
    /// Stream Load.
    Stream,
    /// INSERTs in transactions, for other servers of the MySQL protocol.
    Sql,
}

/// Loads files into tables. Run the same command again after any failure, and it goes on where it
/// stopped: no row is lost, and none is loaded twice.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true)]
pub struct LoadArgs {
    /// Files, patterns in quotes ('logs/*.csv.gz'), directories of a dump, or - for standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<String>,
    #[command(flatten)]
    pub server: Server,
    #[arg(long, short = 'D', value_name = "NAME")]
    pub database: Option<String>,
    /// The table. Without it, the name of each file up to its first point is that of its table.
    #[arg(long, short = 't', value_name = "NAME")]
    pub table: Option<String>,
    /// How to send rows.
    #[arg(long, value_enum, default_value_t = Transport::Stream)]
    pub transport: Transport,
    /// Whether to run the definitions of tables (*.sql) that are among the inputs. A table that
    /// exists stays as it is.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Ddl::None)]
    pub ddl: Ddl,
    #[command(flatten)]
    pub text: TextArgs,
    /// The columns of the fields, with commas; @name for a field that is to be passed over. Without
    /// it: what the header says, or all columns of the table.
    #[arg(long, value_name = "A,B,..")]
    pub columns: Option<String>,
    /// The first line of each file has the names of the columns.
    #[arg(long)]
    pub header: bool,
    /// Records to pass over at the start of each file, before a header.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_lines: u64,
    /// Makes values fit: NULL for what is no value of its column, texts cut to their length.
    /// Without it, rows with such values are bad.
    #[arg(long)]
    pub lax: bool,
    /// The zone of TIMESTAMP values.
    #[arg(long, value_name = "ZONE", default_value = "+00:00")]
    pub time_zone: String,
    /// The fraction of a block's rows that may be bad, 0 to 1.
    #[arg(long, value_name = "RATIO", conflicts_with = "max_errors")]
    pub max_filter_ratio: Option<f64>,
    /// How many rows may be bad in all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_errors: u64,
    /// Where to write bad rows and why they are bad.
    #[arg(long, value_name = "FILE")]
    pub bad_rows: Option<PathBuf>,
    /// Another header of Stream Load, such as jsonpaths=["$.a"]; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub option: Vec<String>,
    #[command(flatten)]
    pub speed: SpeedArgs,
    #[command(flatten)]
    pub resume: ResumeArgs,
    /// Checks all rows against the table and loads nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Prints errors alone.
    #[arg(long, short = 'q')]
    pub quiet: bool,
    #[arg(long, action = ArgAction::Help, help = "Prints help")]
    pub help: Option<bool>,
}

/// How text is written.
#[derive(Args, Clone, Debug)]
pub struct TextArgs {
    #[arg(long, value_enum, ignore_case = true, default_value_t = FormatName::Auto)]
    pub format: FormatName,
    /// How files are packed; without it, what they begin with says so.
    #[arg(long, value_enum, ignore_case = true)]
    pub compression: Option<Compression>,
    /// Between two fields of CSV, such as ';' or '\x01'.
    #[arg(long, short = 's', value_name = "TEXT", default_value = ",")]
    pub separator: String,
    /// Behind a record of CSV; a line feed includes a carriage return before it.
    #[arg(long, value_name = "TEXT", default_value = "\\n")]
    pub line_delimiter: String,
    /// Around fields of CSV that have separators or line ends; empty for none.
    #[arg(long, value_name = "CHAR", default_value = "\"")]
    pub enclose: String,
    /// Before an enclosing character within a field, if it is not doubled.
    #[arg(long, value_name = "CHAR")]
    pub escape: Option<String>,
    /// The field that is NULL, where it is not enclosed.
    #[arg(long, value_name = "TEXT", default_value = "\\N")]
    pub null: String,
}

#[derive(Args, Clone, Debug)]
pub struct SpeedArgs {
    /// How many blocks are sent at a time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count(256))]
    pub parallel: u16,
    /// How many files are read at a time.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count(64))]
    pub readers: u16,
    /// The size of a block. Each is one load, all or nothing.
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = block_size)]
    pub block_size: ByteSize,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows_per_second: Option<u64>,
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    pub bytes_per_second: Option<ByteSize>,
    /// How long to try again while the server cannot be reached or has no room.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub retry_for: Duration,
}

#[derive(Args, Clone, Debug)]
pub struct ResumeArgs {
    /// A name for this load. Inputs are known by it and their path, instead of by path, size and
    /// time of change; standard input can be loaded again by it alone.
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Loads again what was loaded before.
    #[arg(long)]
    pub again: bool,
    /// Where it is remembered what has arrived; without it, below XDG_STATE_HOME or
    /// ~/.local/state.
    #[arg(long, short = 'H', value_name = "DIR")]
    pub history: Option<PathBuf>,
}

fn count(max: i64) -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=max)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Quote {
    /// Where a value needs it.
    Auto,
    /// All values but NULL.
    Force,
    None,
}

/// What to do with definitions of tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Ddl {
    None,
    /// Definitions and no rows.
    Only,
    With,
}

/// Writes tables to files, or one table to standard output. It works with every server of the MySQL
/// protocol.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true)]
pub struct DumpArgs {
    /// The tables; without any, all of the database.
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
    #[command(flatten)]
    pub server: Server,
    #[arg(long, short = 'D', value_name = "NAME")]
    pub database: Option<String>,
    /// Tables, with ';' between them.
    #[arg(long, short = 't', value_name = "A;B;..", value_delimiter = ';')]
    pub table: Vec<String>,
    /// The directory to write to; without it, standard output.
    #[arg(long, short = 'o', value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replaces files that exist.
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub text: TextArgs,
    /// Which values of CSV stand in quotes.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Quote::Auto)]
    pub quote: Quote,
    /// Begins each file with the names of the columns.
    #[arg(long)]
    pub header: bool,
    /// The columns, with commas; without it, all but computed ones.
    #[arg(long, value_name = "A,B,..")]
    pub columns: Option<String>,
    /// The condition of rows, as behind WHERE.
    #[arg(long = "where", short = 'w', value_name = "SQL")]
    pub condition: Option<String>,
    /// The order of rows, as behind ORDER BY.
    #[arg(long, value_name = "SQL")]
    pub order_by: Option<String>,
    /// Writes the definition of each table to TABLE.schema.sql.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Ddl::None)]
    pub ddl: Ddl,
    /// Puts definitions of MySQL and MariaDB as Freshet has them: other types for UUID and INET; no
    /// partitions.
    #[arg(long)]
    pub for_freshet: bool,
    /// Puts DROP TABLE IF EXISTS before definitions.
    #[arg(long)]
    pub drop_table: bool,
    /// Views as well.
    #[arg(long)]
    pub with_views: bool,
    /// Into how many files to put the rows of a table.
    #[arg(long, short = 'F', value_name = "N", default_value_t = 1, value_parser = count(256))]
    pub files: u16,
    /// Begins another file behind so many rows.
    #[arg(long, short = 'L', value_name = "N", conflicts_with = "files",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub rows_per_file: Option<u64>,
    /// How many tables are dumped at a time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count(64))]
    pub parallel: u16,
    /// Prints errors alone.
    #[arg(long, short = 'q')]
    pub quiet: bool,
    #[arg(long, action = ArgAction::Help, help = "Prints help")]
    pub help: Option<bool>,
}

const BLOCK_BYTES_MAX: u64 = 1 << 30;

fn block_size(text: &str) -> Result<ByteSize, String> {
    let size = size(text)?;
    match size.bytes() {
        1..=BLOCK_BYTES_MAX => Ok(size),
        _ => Err("it must be from 1 byte to 1 GiB".to_owned()),
    }
}

fn rate(text: &str) -> Result<ByteSize, String> {
    match size(text)? {
        ByteSize(0) => Err("it must be more than nothing".to_owned()),
        size => Ok(size),
    }
}

fn size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|_| format!("'{text}' is no size such as 16MiB"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).map_err(|_| format!("'{text}' is no number of seconds"))
}
