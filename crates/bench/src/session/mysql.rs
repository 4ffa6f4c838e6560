//! A blocking session with MySQL's protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use freshet_wire::client::{Encoding, Login, LoginStep, Outcome, Outcomes, PreparedReply, Value};
use freshet_wire::{Capabilities, PAYLOAD_BYTES_MAX_DEFAULT, PacketReader, PacketWriter};

use super::TextRows;
use crate::socket::Socket;
use crate::table::Dialect;
use crate::target::Target;

/// The timeout of a setup statement.
const STATEMENT_TIME_MAX: Duration = Duration::from_secs(600);

pub struct MysqlSession {
    stream: Socket<TcpStream>,
    reader: PacketReader,
    writer: PacketWriter,
}

impl MysqlSession {
    /// Logs in, creates the database if it is missing, and selects it.
    pub fn open(target: &Target) -> Result<Self, String> {
        let mut session = Self::login(target)?;
        if target.dialect != Dialect::Null {
            session.query(&format!("CREATE DATABASE IF NOT EXISTS {}", target.database))?;
            session.query(&format!("USE {}", target.database))?;
        }
        if let Some(mode) = &target.group_commit {
            session.query(&format!("SET group_commit = {mode}"))?;
        }
        Ok(session)
    }

    /// Logs in, and no more.
    pub fn login(target: &Target) -> Result<Self, String> {
        let at = |error| format!("{}: {error}", target.address);
        let stream = TcpStream::connect(&target.address).map_err(at)?;
        stream.set_nodelay(true).map_err(at)?;
        stream.set_read_timeout(Some(STATEMENT_TIME_MAX)).map_err(at)?;
        let reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        let stream = Socket::plain(stream);
        let mut session = Self { stream, reader, writer: PacketWriter::new() };
        let mut login = Login::new(&target.user, &target.password, None);
        // Common clients do not send query attributes, which would lengthen every statement.
        login.capabilities = login.capabilities.without(Capabilities::QUERY_ATTRIBUTES);
        let (mut payload, mut next) = session.packet(0)?;
        if let Some(tls) = &target.tls {
            session.writer.reply_to(next);
            let asked = login.request_tls(&mut session.writer, &payload);
            if !asked.map_err(|error| error.to_string())? {
                return Err(format!("{} does not offer TLS", target.address));
            }
            session.send()?;
            session.stream.encrypt(tls).map_err(|error| error.to_string())?;
            next = session.writer.sequence();
        }
        loop {
            session.writer.reply_to(next);
            let step = login.on_packet(&mut session.writer, &payload);
            match step.map_err(|error| error.to_string())? {
                LoginStep::Send => session.send()?,
                LoginStep::Wait => {}
                LoginStep::Done(_) => return Ok(session),
                LoginStep::Refused(err) => return Err(format!("login: {}", err.message)),
            }
            (payload, next) = session.packet(session.writer.sequence())?;
        }
    }

    /// Says that it goes.
    pub fn quit(mut self) -> Result<(), String> {
        self.writer.command_quit();
        self.send()
    }

    fn send(&mut self) -> Result<(), String> {
        let sent = self.stream.write_all(self.writer.bytes());
        self.writer.clear();
        let sent = sent.and_then(|()| self.stream.flush());
        sent.map_err(|error| error.to_string())
    }

    /// The next packet, and the sequence id of a reply to it.
    fn packet(&mut self, sequence: u8) -> Result<(Vec<u8>, u8), String> {
        loop {
            match self.reader.next_packet(sequence).map_err(|error| error.to_string())? {
                Some(packet) => return Ok((packet.payload.to_vec(), packet.reply_sequence())),
                None => {
                    let read = self.stream.read(self.reader.spare());
                    match read.map_err(|error| error.to_string())? {
                        0 => return Err("the server closed the connection".to_owned()),
                        count => self.reader.filled(count),
                    }
                }
            }
        }
    }

    /// Runs a statement and returns its rows.
    pub fn query(&mut self, sql: &str) -> Result<TextRows, String> {
        self.writer.command_query(sql.as_bytes());
        self.send()?;
        let mut outcomes = Outcomes::new(Encoding::Text, self.writer.capabilities());
        let mut sequence = 1;
        loop {
            let (payload, next) = self.packet(sequence)?;
            sequence = next;
            if outcomes.on_packet(&payload).map_err(|error| error.to_string())? {
                break;
            }
        }
        match outcomes.into_inner().pop() {
            Some(Outcome::Rows(rows)) => {
                Ok(rows.rows.into_iter().map(|row| row.iter().map(text).collect()).collect())
            }
            Some(Outcome::Err { errno, message, .. }) => Err(format!("{errno}: {message}")),
            _ => Ok(Vec::new()),
        }
    }

    pub fn prepare(&mut self, sql: &str) -> Result<u32, String> {
        self.writer.command_prepare(sql.as_bytes());
        self.send()?;
        let (payload, mut sequence) = self.packet(1)?;
        if payload.first() == Some(&0xff) {
            let err = freshet_wire::client::ErrReply::parse(&payload);
            return Err(err.map_or_else(|e| e.to_string(), |e| e.message.to_owned()));
        }
        let reply = PreparedReply::parse(&payload).map_err(|error| error.to_string())?;
        for _ in 0..reply.packets(self.writer.capabilities()) {
            (_, sequence) = self.packet(sequence)?;
        }
        Ok(reply.statement_id)
    }

    /// Writes commands with the negotiated capabilities.
    pub fn writer(&mut self) -> &mut PacketWriter {
        &mut self.writer
    }

    /// Hands the connection over to the load generator.
    pub fn into_parts(self) -> (Socket<TcpStream>, Capabilities) {
        (self.stream, self.writer.capabilities())
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}
