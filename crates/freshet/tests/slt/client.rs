//! A connection of the test suite: MySQL's text protocol, with cells formatted as in the files.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use freshet_wire::client::{Encoding, Login, LoginStep, Outcome, Outcomes, Rows, Value};
use freshet_wire::{ColumnType, PAYLOAD_BYTES_MAX_DEFAULT, PacketReader, PacketWriter};
use sqllogictest::{DB, DBOutput, DefaultColumnType};

/// The timeout of a statement.
const STATEMENT_TIME_MAX: Duration = Duration::from_secs(60);

/// The error of a statement; files match its text, which begins as in the mysql CLI.
#[derive(Debug)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(format!("connection: {error}"))
    }
}

impl From<freshet_wire::Error> for Failure {
    fn from(error: freshet_wire::Error) -> Self {
        Self(format!("protocol: {error}"))
    }
}

pub struct Client {
    stream: TcpStream,
    reader: PacketReader,
    writer: PacketWriter,
    engine: &'static str,
}

impl Client {
    /// Logs in as root without a password, and selects the database if given. `engine` is the name
    /// that `skipif` refers to.
    pub fn open(
        address: &str,
        database: Option<&str>,
        engine: &'static str,
    ) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(STATEMENT_TIME_MAX))?;
        let reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        let mut client = Self { stream, reader, writer: PacketWriter::new(), engine };
        let mut login = Login::new("root", "", database);
        loop {
            let sequence = client.writer.sequence();
            let (payload, next) = client.packet(sequence)?;
            client.writer.reply_to(next);
            match login.on_packet(&mut client.writer, &payload)? {
                LoginStep::Send => client.send()?,
                LoginStep::Wait => {}
                LoginStep::Done(_) => return Ok(client),
                LoginStep::Refused(err) => return Err(Failure(format!("login: {}", err.message))),
            }
        }
    }

    /// Runs a statement and ignores its rows.
    pub fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        self.run(sql).map(|_| ())
    }

    fn send(&mut self) -> Result<(), Failure> {
        self.stream.write_all(self.writer.bytes())?;
        self.writer.clear();
        Ok(())
    }

    /// The next packet, and the sequence id of a reply to it.
    fn packet(&mut self, sequence: u8) -> Result<(Vec<u8>, u8), Failure> {
        loop {
            if let Some(packet) = self.reader.next_packet(sequence)? {
                return Ok((packet.payload.to_vec(), packet.reply_sequence()));
            }
            match self.stream.read(self.reader.spare())? {
                0 => return Err(Failure("the server closed the connection".to_owned())),
                count => self.reader.filled(count),
            }
        }
    }

    fn outcomes(&mut self, sql: &str) -> Result<Vec<Outcome>, Failure> {
        self.writer.command_query(sql.as_bytes());
        self.send()?;
        let mut outcomes = Outcomes::new(Encoding::Text, self.writer.capabilities());
        let mut sequence = 1;
        loop {
            let (payload, next) = self.packet(sequence)?;
            sequence = next;
            if outcomes.on_packet(&payload)? {
                return Ok(outcomes.into_inner());
            }
            if let Some(Outcome::LocalInfile(name)) = outcomes.last() {
                self.writer.reply_to(sequence);
                self.send_file(name)?;
                sequence = self.writer.sequence();
            }
        }
    }

    /// Sends a file of `tests/slt/files` in small pieces, or nothing if there is no such file.
    fn send_file(&mut self, name: &str) -> Result<(), Failure> {
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt/files");
        let content = std::fs::read(files.join(name)).unwrap_or_default();
        content.chunks(7).for_each(|piece| self.writer.infile_piece(piece));
        self.writer.infile_piece(&[]);
        self.send()
    }
}

impl DB for Client {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn engine_name(&self) -> &str {
        self.engine
    }

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        match self.outcomes(sql)?.pop() {
            Some(Outcome::Rows(rows)) => Ok(shown(&rows)),
            Some(Outcome::Ok { affected_rows, .. }) => {
                Ok(DBOutput::StatementComplete(affected_rows))
            }
            Some(Outcome::Err { errno, sqlstate, message }) => {
                Err(Failure(format!("ERROR {errno} ({sqlstate}): {message}")))
            }
            other => Err(Failure(format!("unexpected answer {other:?}"))),
        }
    }
}

fn shown(rows: &Rows) -> DBOutput<DefaultColumnType> {
    DBOutput::Rows {
        types: rows.types.iter().map(|(column_type, _)| class(*column_type)).collect(),
        rows: rows.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
    }
}

/// The type letter of the files: `I`, `R` or `T`.
fn class(column_type: ColumnType) -> DefaultColumnType {
    use ColumnType as C;
    match column_type {
        C::Tiny | C::Short | C::Int24 | C::Long | C::LongLong | C::Year => {
            DefaultColumnType::Integer
        }
        C::Float | C::Double | C::NewDecimal => DefaultColumnType::FloatingPoint,
        C::Null => DefaultColumnType::Any,
        _ => DefaultColumnType::Text,
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bytes(bytes) if bytes.is_empty() => "(empty)".to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).replace('\n', "\\n"),
        other => unreachable!("the text protocol has text alone, not {other:?}"),
    }
}
