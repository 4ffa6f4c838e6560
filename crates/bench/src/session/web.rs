//! Statements over HTTP, for ClickHouse, each on a connection of its own.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::TextRows;
use crate::target::Target;

/// The address for statements.
pub struct WebSession {
    address: String,
}

impl WebSession {
    /// Checks that the server responds.
    pub fn open(target: &Target) -> Result<Self, String> {
        let mut session = Self { address: target.http_address.clone() };
        session.query("SELECT 1")?;
        Ok(session)
    }

    /// Runs a statement; rows are lines of tab-separated cells.
    pub fn query(&mut self, sql: &str) -> Result<TextRows, String> {
        let text = self.post(sql).map_err(|error| format!("{}: {error}", self.address))?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or("an answer cut short")?;
        if head.split(' ').nth(1).is_none_or(|status| status != "200") {
            return Err(body.trim().to_owned());
        }
        Ok(body.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
    }

    /// Uses HTTP 1.0, so that the answer ends with the connection.
    fn post(&self, sql: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        let head = format!("POST / HTTP/1.0\r\nContent-Length: {}\r\n\r\n", sql.len());
        stream.write_all(head.as_bytes())?;
        stream.write_all(sql.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}
