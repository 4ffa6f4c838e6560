//! A blocking client of the MySQL protocol for tests; it panics on failures.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use freshet_wire::client::{
    Encoding, ErrReply, Login, LoginStep, Outcome, Outcomes, PreparedReply, Rows, Value,
};
use freshet_wire::{Capabilities, PacketReader, PacketWriter, Param};

/// A blocking connection.
pub struct Client<S = TcpStream> {
    pub socket: S,
    reader: PacketReader,
    pub writer: PacketWriter,
}

/// An error of the server.
#[derive(Debug, PartialEq)]
pub struct Failure {
    pub errno: u16,
    pub sqlstate: String,
    pub message: String,
}

impl Client {
    pub fn connect(
        address: SocketAddr,
        user: &str,
        password: &str,
        database: Option<&str>,
    ) -> Result<Self, Failure> {
        Self::with(address, user, password, database, Capabilities::SERVER)
    }

    pub fn with(
        address: SocketAddr,
        user: &str,
        password: &str,
        database: Option<&str>,
        capabilities: Capabilities,
    ) -> Result<Self, Failure> {
        let mut login = Login::new(user, password, database);
        login.capabilities = capabilities;
        login.encryption = Some(encrypt);
        Self::log_in(address, login)
    }

    pub fn log_in(address: SocketAddr, login: Login<'_>) -> Result<Self, Failure> {
        Self::over(TcpStream::connect(address).unwrap(), login)
    }

    pub fn over(socket: TcpStream, mut login: Login<'_>) -> Result<Self, Failure> {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut client = Self::on(socket);
        let greeting = client.packet(0).expect("the server greets");
        client.prove(&mut login, greeting)?;
        Ok(client)
    }
}

impl<S: Read + Write> Client<S> {
    /// A connection before its login.
    pub fn on(socket: S) -> Self {
        Self { socket, reader: PacketReader::new(256 << 20), writer: PacketWriter::new() }
    }

    /// Logs in, from the greeting and the sequence id before the answer to it.
    pub fn prove(&mut self, login: &mut Login<'_>, greeting: (Vec<u8>, u8)) -> Result<(), Failure> {
        let client = self;
        let mut packet = greeting;
        loop {
            client.writer.reply_to(packet.1.wrapping_add(1));
            let step = login.on_packet(&mut client.writer, &packet.0).unwrap();
            match step {
                LoginStep::Send => client.send(),
                LoginStep::Wait => {}
                LoginStep::Done(_) => return Ok(()),
                LoginStep::Refused(error) => {
                    return Err(Failure {
                        errno: error.errno,
                        sqlstate: error.sqlstate.to_owned(),
                        message: error.message.to_owned(),
                    });
                }
            }
            // Where the client sent nothing the server's sequence continues.
            let expected = client.writer.sequence();
            packet = client.packet(expected).expect("the server answers a login");
        }
    }

    pub fn send(&mut self) {
        let bytes = self.writer.bytes().to_vec();
        self.socket.write_all(&bytes).unwrap();
        self.socket.flush().unwrap();
        self.writer.clear();
    }

    /// The next packet and its last sequence id; `None` when the server closed the connection.
    pub fn packet(&mut self, expected: u8) -> Option<(Vec<u8>, u8)> {
        loop {
            if let Some(packet) = self.reader.next_packet(expected).unwrap() {
                return Some((packet.payload.to_vec(), packet.sequence));
            }
            let spare = self.reader.spare();
            let count = self.socket.read(spare).ok().filter(|count| *count > 0)?;
            self.reader.filled(count);
        }
    }

    /// Reads the complete answer to a command.
    pub fn outcomes(&mut self, encoding: Encoding) -> Vec<Outcome> {
        let mut outcomes = Outcomes::new(encoding, self.writer.capabilities());
        let mut expected = self.writer.sequence();
        loop {
            let (payload, sequence) = self.packet(expected).expect("the server answers");
            expected = sequence.wrapping_add(1);
            if outcomes.on_packet(&payload).unwrap() {
                return outcomes.into_inner();
            }
        }
    }

    /// All results of a text of several statements.
    pub fn query_all(&mut self, sql: &str) -> Vec<Outcome> {
        self.writer.command_query(sql.as_bytes());
        self.send();
        self.outcomes(Encoding::Text)
    }

    /// The result of a single statement.
    pub fn query(&mut self, sql: &str) -> Outcome {
        let mut outcomes = self.query_all(sql);
        assert_eq!(outcomes.len(), 1, "{sql}: {outcomes:?}");
        outcomes.remove(0)
    }

    /// Runs a statement that must succeed; returns affected rows and info.
    #[track_caller]
    pub fn run(&mut self, sql: &str) -> (u64, String) {
        match self.query(sql) {
            Outcome::Ok { affected_rows, info, .. } => (affected_rows, info),
            other => panic!("{sql}: {other:?}"),
        }
    }

    /// Runs a statement that must fail.
    #[track_caller]
    pub fn fails(&mut self, sql: &str) -> Failure {
        failure(self.query(sql)).unwrap_or_else(|other| panic!("{sql}: {other:?}"))
    }

    /// The rows of a query.
    #[track_caller]
    pub fn rows(&mut self, sql: &str) -> Rows {
        match self.query(sql) {
            Outcome::Rows(rows) => rows,
            other => panic!("{sql}: {other:?}"),
        }
    }

    /// The rows of a query, as text.
    #[track_caller]
    pub fn texts(&mut self, sql: &str) -> Vec<Vec<String>> {
        self.rows(sql).rows.iter().map(|row| row.iter().map(text).collect()).collect()
    }

    /// The only cell of a query, as text.
    #[track_caller]
    pub fn one(&mut self, sql: &str) -> String {
        let rows = self.texts(sql);
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{sql}: {rows:?}");
        rows[0][0].clone()
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, sql: &str) -> Result<PreparedReply, Failure> {
        self.prepare_bytes(sql.as_bytes())
    }

    /// Prepares a statement that may not be UTF-8.
    pub fn prepare_bytes(&mut self, sql: &[u8]) -> Result<PreparedReply, Failure> {
        self.writer.command_prepare(sql);
        self.send();
        let (payload, mut sequence) = self.packet(1).expect("the server answers");
        if payload[0] == 0xff {
            let error = ErrReply::parse(&payload).unwrap();
            return Err(Failure {
                errno: error.errno,
                sqlstate: error.sqlstate.to_owned(),
                message: error.message.to_owned(),
            });
        }
        let reply = PreparedReply::parse(&payload).unwrap();
        for _ in 0..reply.packets(self.writer.capabilities()) {
            sequence = self.packet(sequence.wrapping_add(1)).expect("definitions follow").1;
        }
        Ok(reply)
    }

    /// Executes a prepared statement.
    pub fn execute(&mut self, id: u32, params: &[Param<'_>]) -> Outcome {
        self.writer.command_execute(id, params, true);
        self.send();
        let mut outcomes = self.outcomes(Encoding::Binary);
        assert_eq!(outcomes.len(), 1);
        outcomes.remove(0)
    }
}

/// The error in an outcome.
pub fn failure(outcome: Outcome) -> Result<Failure, Outcome> {
    match outcome {
        Outcome::Err { errno, sqlstate, message } => Ok(Failure { errno, sqlstate, message }),
        other => Err(other),
    }
}

/// Encrypts a password with the server's public key.
pub fn encrypt(pem: &str, plain: &[u8]) -> Option<Vec<u8>> {
    use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
    let text = pem.lines().filter(|line| !line.starts_with("-----")).collect::<String>();
    let der = BASE64_STANDARD.decode(text).ok()?;
    let key = OaepPublicEncryptingKey::new(PublicEncryptingKey::from_der(&der).ok()?).ok()?;
    let mut ciphertext = vec![0; key.ciphertext_size()];
    let ciphertext = key.encrypt(&OAEP_SHA1_MGF1SHA1, plain, &mut ciphertext, None).ok()?;
    Some(ciphertext.to_vec())
}

/// A cell as text.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}
