//! A blocking HTTP client for tests that writes raw requests; it panics on failures.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// Credentials of `root` with an empty password.
pub const ROOT: &str = "Authorization: Basic cm9vdDo=";

/// The Authorization header of an account.
pub fn authorization(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub struct Client(pub TcpStream);

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Sends a load into `d.t` and reads the answer.
    pub fn put(&mut self, headers: &[&str], body: &str) -> Answer {
        let mut all = vec![ROOT];
        if !headers.iter().any(|line| line.starts_with("column_separator") || line.contains("json"))
        {
            all.push("column_separator: ,");
        }
        all.extend(headers);
        self.request("PUT", "/api/d/t/_stream_load", &all, body.as_bytes())
    }

    /// Sends a request with a Content-Length and reads the answer.
    pub fn request(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        let length = format!("Content-Length: {}", body.len());
        let lines = [headers, &[length.as_str()]].concat();
        self.head(method, path, &lines);
        self.0.write_all(body).unwrap();
        self.answer()
    }

    pub fn head(&mut self, method: &str, path: &str, headers: &[&str]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test.example\r\n");
        for line in headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        self.0.write_all(head.as_bytes()).unwrap();
    }

    /// Sends one chunk of a body; an empty one ends it.
    pub fn chunk(&mut self, bytes: &[u8]) {
        self.0.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).unwrap();
        self.0.write_all(bytes).unwrap();
        self.0.write_all(b"\r\n").unwrap();
    }

    pub fn answer(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned)
            })
            .map_or(0, |length| length.trim().parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Answer { status, head, body: String::from_utf8(body).unwrap() }
    }

    /// Whether the server closes the connection, reading anything it sends before.
    pub fn is_ended(&mut self) -> bool {
        match self.0.read_to_end(&mut Vec::new()) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}
