//! A blocking connection to a server of the MySQL protocol.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use freshet_wire::client::{ErrReply, Login, LoginStep, ServerPacket, TextCells, result_end};
use freshet_wire::{
    Capabilities, Collation, ColumnDefinition, PAYLOAD_BYTES_MAX_DEFAULT, PacketReader,
    PacketWriter,
};

use crate::args::Server;
use crate::exit::Failure;
use crate::tls::{Stream, encrypt_password};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a server may say nothing. A query may compute before its first row.
const SILENCE_TIME_MAX: Duration = Duration::from_secs(600);

/// Why a statement failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SqlError {
    /// The server says why.
    Refused { errno: u16, message: String },
    /// The connection broke: nobody knows what became of the statement.
    Lost(String),
}

impl SqlError {
    fn lost(what: impl fmt::Display) -> Self {
        Self::Lost(what.to_string())
    }

    fn refused(err: &ErrReply<'_>) -> Self {
        let message = format!("{} ({})", err.message, err.sqlstate);
        Self::Refused { errno: err.errno, message }
    }
}

impl From<io::Error> for SqlError {
    fn from(error: io::Error) -> Self {
        Self::lost(error)
    }
}

impl From<freshet_wire::Error> for SqlError {
    fn from(error: freshet_wire::Error) -> Self {
        Self::lost(error)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { errno, message } => write!(f, "error {errno}: {message}"),
            Self::Lost(what) => write!(f, "the connection was lost: {what}"),
        }
    }
}

/// Of what kind a result's column is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultColumn {
    pub name: String,
    pub kind: freshet_wire::ColumnType,
    /// Its values are bytes and not text.
    pub is_binary: bool,
}

/// What a statement gives.
pub trait Receiver {
    /// Called once before the rows.
    ///
    /// # Errors
    /// Ends the statement.
    fn columns(&mut self, columns: Vec<ResultColumn>) -> Result<(), Failure>;
    /// # Errors
    /// Ends the statement.
    fn row(&mut self, row: &[Option<&[u8]>]) -> Result<(), Failure>;
}

pub struct Connection {
    stream: Stream,
    reader: PacketReader,
    writer: PacketWriter,
    /// The packet that was read last.
    payload: Vec<u8>,
    place: String,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// When there is no server, or it refuses the login.
    pub fn open(server: &Server) -> Result<Self, SqlError> {
        let place = server.mysql_place();
        let stream = connect(&place)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_TIME_MAX))?;
        stream.set_write_timeout(Some(SILENCE_TIME_MAX))?;
        let reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        let payload = Vec::new();
        let stream = Stream::Plain(stream);
        let mut new = Self { stream, reader, writer: PacketWriter::new(), payload, place };
        new.login(server)?;
        // Dumps and loads have no zone of their own, and only strict servers tell of bad values.
        new.execute("SET NAMES utf8mb4")?;
        new.execute("SET time_zone = '+00:00'")?;
        // Tables come in the order of their files, and side by side, whichever references which.
        new.execute("SET foreign_key_checks = 0")?;
        Ok(new)
    }

    fn login(&mut self, server: &Server) -> Result<(), SqlError> {
        let mut login = Login::new(&server.user, &server.password, None);
        login.encryption = Some(encrypt_password);
        let mut sequence = self.receive(0)?;
        if let Some(ca) = &server.tls_ca {
            self.writer.reply_to(sequence);
            self.encrypt(&mut login, &server.host, ca)?;
            sequence = self.writer.sequence();
        }
        loop {
            self.writer.reply_to(sequence);
            match login.on_packet(&mut self.writer, &self.payload)? {
                LoginStep::Send => {
                    self.send()?;
                    sequence = self.writer.sequence();
                }
                LoginStep::Wait => {}
                LoginStep::Done(_) => return Ok(()),
                LoginStep::Refused(err) => return Err(SqlError::refused(&err)),
            }
            sequence = self.receive(sequence)?;
        }
    }

    /// Asks for TLS, behind the greeting.
    fn encrypt(&mut self, login: &mut Login<'_>, host: &str, ca: &Path) -> Result<(), SqlError> {
        if self.payload.first() == Some(&0xff) {
            return Err(SqlError::refused(&ErrReply::parse(&self.payload)?));
        }
        if !login.request_tls(&mut self.writer, &self.payload)? {
            return Err(SqlError::lost("the server does not offer TLS"));
        }
        self.send()?;
        let Stream::Plain(socket) = &self.stream else { unreachable!("it is not yet encrypted") };
        self.stream = Stream::encrypted(socket.try_clone()?, host, ca)?;
        Ok(())
    }

    fn send(&mut self) -> Result<(), SqlError> {
        let sent = self.stream.write_all(self.writer.bytes());
        self.writer.clear();
        sent?;
        Ok(self.stream.flush()?)
    }

    /// Reads a packet; returns the sequence id of a reply to it.
    fn receive(&mut self, sequence: u8) -> Result<u8, SqlError> {
        loop {
            if let Some(packet) = self.reader.next_packet(sequence)? {
                self.payload.clear();
                self.payload.extend_from_slice(packet.payload);
                return Ok(packet.reply_sequence());
            }
            match self.stream.read(self.reader.spare()) {
                Ok(0) => return Err(SqlError::lost("the server closed it")),
                Ok(count) => self.reader.filled(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Runs a statement that gives no rows, or whose rows do not matter; returns how many rows it
    /// has changed.
    ///
    /// # Errors
    /// See [`SqlError`].
    pub fn execute(&mut self, sql: impl AsRef<[u8]>) -> Result<u64, SqlError> {
        let mut rows = Collected::default();
        self.run(sql.as_ref(), &mut rows).map_err(|error| match error {
            Interrupted::Sql(error) => error,
            Interrupted::Receiver(failure) => SqlError::lost(failure),
        })
    }

    /// The rows of a small result as text; NULL is `None`.
    ///
    /// # Errors
    /// Says what failed, and where.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        let mut rows = Collected::default();
        self.stream(sql, &mut rows)?;
        Ok(rows.0)
    }

    /// Passes a result of any size to `receiver`, row by row.
    ///
    /// # Errors
    /// Says what failed, and where; or what the receiver says.
    pub fn stream(&mut self, sql: &str, receiver: &mut dyn Receiver) -> Result<(), Failure> {
        let place = self.place.clone();
        match self.run(sql.as_bytes(), receiver) {
            Ok(_) => Ok(()),
            Err(Interrupted::Receiver(failure)) => Err(failure),
            Err(Interrupted::Sql(error)) => Err(Failure::failed(format!("{place}: {error}"))),
        }
    }

    fn run(&mut self, sql: &[u8], receiver: &mut dyn Receiver) -> Result<u64, Interrupted> {
        self.writer.command_query(sql);
        self.send()?;
        let mut sequence = self.receive(1)?;
        let capabilities = self.writer.capabilities();
        let count = match ServerPacket::parse(&self.payload, capabilities)? {
            ServerPacket::Ok(ok) => return Ok(ok.affected_rows),
            ServerPacket::Err(err) => return Err(SqlError::refused(&err).into()),
            ServerPacket::LocalInfile(_) => return Err(SqlError::lost("it asks for a file").into()),
            ServerPacket::Columns(count) => count,
        };
        let mut columns = Vec::with_capacity(count);
        while columns.len() < count {
            sequence = self.receive(sequence)?;
            let column = ColumnDefinition::parse(&self.payload)?;
            columns.push(ResultColumn {
                name: column.name.to_owned(),
                kind: column.column_type,
                is_binary: is_binary(&column),
            });
        }
        if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
            sequence = self.receive(sequence)?;
        }
        receiver.columns(columns).map_err(Interrupted::Receiver)?;
        loop {
            sequence = self.receive(sequence)?;
            if self.payload.first() == Some(&0xff) {
                return Err(SqlError::refused(&ErrReply::parse(&self.payload)?).into());
            }
            if result_end(&self.payload, capabilities)?.is_some() {
                return Ok(0);
            }
            let cells = TextCells::new(&self.payload).collect::<Result<Vec<_>, _>>()?;
            receiver.row(&cells).map_err(Interrupted::Receiver)?;
        }
    }
}

/// Why a statement ended early.
enum Interrupted {
    Sql(SqlError),
    Receiver(Failure),
}

impl<E: Into<SqlError>> From<E> for Interrupted {
    fn from(error: E) -> Self {
        Self::Sql(error.into())
    }
}

#[derive(Default)]
struct Collected(Vec<Vec<Option<String>>>);

impl Receiver for Collected {
    fn columns(&mut self, _: Vec<ResultColumn>) -> Result<(), Failure> {
        Ok(())
    }

    fn row(&mut self, row: &[Option<&[u8]>]) -> Result<(), Failure> {
        let text = |cell: &Option<&[u8]>| cell.map(|cell| String::from_utf8_lossy(cell).into());
        self.0.push(row.iter().map(text).collect());
        Ok(())
    }
}

fn connect(place: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_binary(column: &ColumnDefinition<'_>) -> bool {
    use freshet_wire::ColumnType as T;
    let is_text = matches!(
        column.column_type,
        T::VarString | T::String | T::VarChar | T::Blob | T::TinyBlob | T::MediumBlob | T::LongBlob
    );
    is_text && column.collation == Collation::BINARY
}
