//! A blocking client of the MySQL protocol.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use freshet_wire::client::{
    Encoding, ErrReply, Login, LoginStep, Outcome, Outcomes, PreparedReply, Value,
};
use freshet_wire::{PAYLOAD_BYTES_MAX_DEFAULT, PacketReader, PacketWriter, Param};

/// The timeout of a statement; one that takes longer counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Why a statement failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The server returned an error.
    Refused {
        /// The MySQL error number; 0 over HTTP.
        errno: u16,
        message: String,
    },
    /// The connection broke; the outcome of the statement is unknown.
    Lost(String),
    /// No answer within [`PATIENCE`].
    Hung,
}

impl Failure {
    fn broken(what: impl fmt::Display) -> Self {
        Self::Lost(what.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Hung,
            _ => Self::Lost(error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { errno, message } => write!(f, "error {errno}: {message}"),
            Self::Lost(what) => write!(f, "connection lost: {what}"),
            Self::Hung => write!(f, "no answer in {} s", PATIENCE.as_secs()),
        }
    }
}

impl std::error::Error for Failure {}

/// Rows as text; NULL is the text `NULL`.
pub type TextRows = Vec<Vec<String>>;

/// A prepared statement.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    id: u32,
    bound: bool,
}

/// A connection, logged in as `root`.
pub struct Client {
    stream: TcpStream,
    reader: PacketReader,
    writer: PacketWriter,
}

impl Client {
    /// Connects to `port` on loopback and logs in.
    ///
    /// # Errors
    /// The connection or the login is refused.
    pub fn connect(port: u16) -> Result<Self, Failure> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        let mut client = Self { stream, reader, writer: PacketWriter::new() };
        client.login()?;
        Ok(client)
    }

    fn login(&mut self) -> Result<(), Failure> {
        let mut login = Login::new("root", "", None);
        let mut sequence = 0;
        loop {
            let (payload, next) = self.packet(sequence)?;
            sequence = next;
            self.writer.reply_to(next);
            match login.on_packet(&mut self.writer, &payload).map_err(Failure::broken)? {
                LoginStep::Send => {
                    self.send()?;
                    sequence = self.writer.sequence();
                }
                LoginStep::Wait => {}
                LoginStep::Done(_) => return Ok(()),
                LoginStep::Refused(err) => return Err(refused(&err)),
            }
        }
    }

    /// The socket, for tests of misbehaving clients.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    fn send(&mut self) -> Result<(), Failure> {
        let sent = self.stream.write_all(self.writer.bytes());
        self.writer.clear();
        Ok(sent?)
    }

    /// The next packet, and the sequence id of a reply to it.
    fn packet(&mut self, sequence: u8) -> Result<(Vec<u8>, u8), Failure> {
        loop {
            match self.reader.next_packet(sequence).map_err(Failure::broken)? {
                Some(packet) => return Ok((packet.payload.to_vec(), packet.reply_sequence())),
                None => match self.stream.read(self.reader.spare()) {
                    Ok(0) => return Err(Failure::broken("end of stream")),
                    Ok(count) => self.reader.filled(count),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// Sends a statement without reading its answer.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send_query(&mut self, sql: &str) -> Result<(), Failure> {
        self.writer.command_query(sql.as_bytes());
        self.send()
    }

    /// # Errors
    /// See [`Failure`].
    pub fn query(&mut self, sql: &str) -> Result<TextRows, Failure> {
        self.outcome(sql).and_then(rows)
    }

    /// The number that a statement returns; NULL is 0.
    ///
    /// # Errors
    /// See [`Failure`]; also when it returns no number.
    pub fn number(&mut self, sql: &str) -> Result<i64, Failure> {
        let rows = self.query(sql)?;
        match rows.first().and_then(|row| row.first()).map(String::as_str) {
            Some("NULL") => Ok(0),
            Some(text) => {
                text.parse().map_err(|_| Failure::broken(format!("{sql}: {text} is no number")))
            }
            None => Err(Failure::broken(format!("{sql}: no row"))),
        }
    }

    /// # Errors
    /// See [`Failure`].
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Failure> {
        self.writer.command_prepare(sql.as_bytes());
        self.send()?;
        let (payload, mut sequence) = self.packet(1)?;
        if payload.first() == Some(&0xff) {
            return Err(refused(&ErrReply::parse(&payload).map_err(Failure::broken)?));
        }
        let reply = PreparedReply::parse(&payload).map_err(Failure::broken)?;
        for _ in 0..reply.packets(self.writer.capabilities()) {
            (_, sequence) = self.packet(sequence)?;
        }
        Ok(Statement { id: reply.statement_id, bound: false })
    }

    /// # Errors
    /// See [`Failure`].
    pub fn execute(
        &mut self,
        statement: &mut Statement,
        params: &[Param<'_>],
    ) -> Result<TextRows, Failure> {
        self.execute_outcome(statement, params).and_then(rows)
    }

    /// # Errors
    /// The connection broke.
    pub fn close(&mut self, statement: Statement) -> Result<(), Failure> {
        self.writer.command_close(statement.id);
        self.send()
    }

    /// Runs a statement; an error of the server is an outcome, too.
    ///
    /// # Errors
    /// The connection broke.
    pub fn outcome(&mut self, sql: &str) -> Result<Outcome, Failure> {
        self.send_query(sql)?;
        self.last_outcome(Encoding::Text)
    }

    /// Runs a prepared statement; an error of the server is an outcome, too.
    ///
    /// # Errors
    /// The connection broke.
    pub fn execute_outcome(
        &mut self,
        statement: &mut Statement,
        params: &[Param<'_>],
    ) -> Result<Outcome, Failure> {
        self.writer.command_execute(statement.id, params, !statement.bound);
        statement.bound = true;
        self.send()?;
        self.last_outcome(Encoding::Binary)
    }

    fn last_outcome(&mut self, encoding: Encoding) -> Result<Outcome, Failure> {
        let mut outcomes = Outcomes::new(encoding, self.writer.capabilities());
        let mut sequence = 1;
        loop {
            let (payload, next) = self.packet(sequence)?;
            sequence = next;
            if outcomes.on_packet(&payload).map_err(Failure::broken)? {
                break;
            }
        }
        outcomes.into_inner().pop().ok_or_else(|| Failure::broken("no result"))
    }
}

fn rows(outcome: Outcome) -> Result<TextRows, Failure> {
    match outcome {
        Outcome::Rows(rows) => {
            Ok(rows.rows.into_iter().map(|row| row.iter().map(text).collect()).collect())
        }
        Outcome::Err { errno, message, .. } => Err(Failure::Refused { errno, message }),
        Outcome::Ok { .. } | Outcome::LocalInfile(_) => Ok(Vec::new()),
    }
}

fn refused(err: &ErrReply<'_>) -> Failure {
    Failure::Refused { errno: err.errno, message: err.message.to_owned() }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
