//! A connection with MySQL's protocol.

use std::io::{self, ErrorKind, Read, Write};

use freshet_wire::auth::{AuthPlugin, SCRAMBLE_BYTES, Scramble};
use freshet_wire::handshake::{Greeting, HandshakeResponse};
use freshet_wire::{
    Capabilities, Collation, Command, OkPacket, PAYLOAD_BYTES_MAX_DEFAULT, PacketReader,
    PacketWriter, Prepared, StatusFlags,
};
use mio::net::TcpStream;

use super::Input;

pub(super) struct MysqlConnection {
    stream: TcpStream,
    reader: PacketReader,
    writer: PacketWriter,
    logged_in: bool,
}

const OK: OkPacket<'static> = OkPacket {
    affected_rows: 0,
    last_insert_id: 0,
    status: StatusFlags::AUTOCOMMIT,
    warnings: 0,
    info: "",
    changes: &[],
};

impl MysqlConnection {
    /// Sends the greeting.
    pub(super) fn greet(stream: TcpStream, id: u32) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut writer = PacketWriter::new();
        writer.greeting(&Greeting {
            version: "8.0.0-null",
            connection_id: id,
            scramble: Scramble::from_random([b'x'; SCRAMBLE_BYTES]),
            capabilities: Capabilities::SERVER.without(Capabilities::QUERY_ATTRIBUTES),
            collation: Collation::UTF8MB4_GENERAL_CI,
            status: StatusFlags::AUTOCOMMIT,
            plugin: AuthPlugin::Native,
        });
        let reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        let mut connection = Self { stream, reader, writer, logged_in: false };
        connection.send()?;
        Ok(connection)
    }

    fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(self.writer.bytes());
        self.writer.clear();
        sent
    }

    /// Sends an OK packet for the last write.
    pub(super) fn answer(&mut self) -> io::Result<()> {
        self.writer.reply_to(1);
        self.writer.ok(&OK);
        self.send()
    }

    /// Reads a command. Clients wait for the answer before they send the next one.
    pub(super) fn read(&mut self) -> Input {
        loop {
            let spare = self.reader.spare();
            let room = spare.len();
            let count = match self.stream.read(spare) {
                Ok(0) => return Input::End,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Input::Nothing,
                Err(_) => return Input::End,
            };
            self.reader.filled(count);
            match self.take() {
                Some(input) => return input,
                None if count < room => return Input::Nothing,
                None => {}
            }
        }
    }

    fn take(&mut self) -> Option<Input> {
        let expected = if self.logged_in { 0 } else { 1 };
        let Ok(packet) = self.reader.next_packet(expected) else { return Some(Input::End) };
        let packet = packet?;
        self.writer.reply_to(packet.reply_sequence());
        if !self.logged_in {
            let Ok(HandshakeResponse::Login(login)) = HandshakeResponse::parse(packet.payload)
            else {
                return Some(Input::End);
            };
            self.writer.set_capabilities(login.hello.capabilities);
            self.logged_in = true;
            self.writer.ok(&OK);
            return Some(self.send().map_or(Input::End, |()| Input::Nothing));
        }
        match Command::parse(packet.payload, self.writer.capabilities()) {
            Ok(Command::Query(_) | Command::Execute(_)) => {
                Some(Input::Write { bytes: packet.payload.len() })
            }
            Ok(Command::Prepare(sql)) => {
                let parameters = sql.iter().filter(|byte| **byte == b'?').count();
                self.writer.prepared(&Prepared {
                    statement_id: 1,
                    parameters: parameters.min(usize::from(u16::MAX)) as u16,
                    columns: &[],
                    status: StatusFlags::AUTOCOMMIT,
                    warnings: 0,
                });
                Some(self.send().map_or(Input::End, |()| Input::Nothing))
            }
            Ok(_) | Err(_) => Some(Input::End),
        }
    }
}
