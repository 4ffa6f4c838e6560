//! A blocking session with PostgreSQL's protocol.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::TextRows;
use crate::encode::postgres_message;
use crate::target::Target;

const PROTOCOL_3: u32 = 196_608;

pub struct PostgresSession {
    stream: TcpStream,
}

impl PostgresSession {
    /// Logs in to an existing database, without a password or with a plaintext one.
    pub fn open(target: &Target) -> Result<Self, String> {
        let stream = TcpStream::connect(&target.address)
            .map_err(|error| format!("{}: {error}", target.address))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut session = Self { stream };
        let mut hello = vec![0; 4];
        hello.extend_from_slice(&PROTOCOL_3.to_be_bytes());
        for text in ["user", &target.user, "database", &target.database, ""] {
            hello.extend_from_slice(text.as_bytes());
            hello.push(0);
        }
        let length = (hello.len() as u32).to_be_bytes();
        hello[..4].copy_from_slice(&length);
        session.send(&hello)?;
        session.until_ready(Some(&target.password))?;
        Ok(session)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| error.to_string())
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>), String> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).map_err(|error| error.to_string())?;
        let [kind, length @ ..] = head;
        let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
        self.stream.read_exact(&mut body).map_err(|error| error.to_string())?;
        Ok((kind, body))
    }

    /// Reads messages until ReadyForQuery.
    fn until_ready(&mut self, password: Option<&str>) -> Result<TextRows, String> {
        let mut rows = Vec::new();
        let mut failure = None;
        loop {
            match self.message()? {
                (b'Z', _) => return failure.map_or(Ok(rows), Err),
                (b'E', body) => {
                    failure = Some(Self::error_text(&body));
                    if password.is_some() {
                        return Err(failure.unwrap_or_default());
                    }
                }
                (b'R', body) => self.authenticate(&body, password.unwrap_or_default())?,
                (b'D', body) => rows.push(cells(&body)),
                _ => {}
            }
        }
    }

    fn authenticate(&mut self, body: &[u8], password: &str) -> Result<(), String> {
        match body {
            [0, 0, 0, 0, ..] => Ok(()),
            [0, 0, 0, 3, ..] => {
                let mut answer = Vec::new();
                postgres_message(&mut answer, b'p', |out| {
                    out.extend_from_slice(password.as_bytes());
                    out.push(0);
                });
                self.send(&answer)
            }
            _ => Err("the server wants an authentication other than trust or password".to_owned()),
        }
    }

    /// Runs a statement and returns its rows.
    pub fn query(&mut self, sql: &str) -> Result<TextRows, String> {
        let mut bytes = Vec::new();
        postgres_message(&mut bytes, b'Q', |out| {
            out.extend_from_slice(sql.as_bytes());
            out.push(0);
        });
        self.send(&bytes)?;
        self.until_ready(None)
    }

    /// Prepares the statement `s`; `types` are the type ids of its parameters.
    pub fn prepare(&mut self, sql: &str, types: &[u32]) -> Result<(), String> {
        let mut bytes = Vec::new();
        postgres_message(&mut bytes, b'P', |out| {
            out.extend_from_slice(b"s\0");
            out.extend_from_slice(sql.as_bytes());
            out.push(0);
            out.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
        });
        postgres_message(&mut bytes, b'S', |_| {});
        self.send(&bytes)?;
        self.until_ready(None).map(|_| ())
    }

    /// The message of an ErrorResponse: the field `M` among zero-terminated fields.
    pub fn error_text(body: &[u8]) -> String {
        let mut fields = body.split(|byte| *byte == 0);
        let message = fields.find_map(|field| field.strip_prefix(b"M"));
        String::from_utf8_lossy(message.unwrap_or(b"an error without a message")).into_owned()
    }

    /// Hands the connection over to the load generator.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }
}

/// The cells of a DataRow message; NULL is empty.
fn cells(body: &[u8]) -> Vec<String> {
    let mut rest = body.get(2..).unwrap_or_default();
    let mut cells = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (cell, tail) = tail.split_at(length.min(tail.len()));
        cells.push(String::from_utf8_lossy(cell).into_owned());
        rest = tail;
    }
    cells
}
