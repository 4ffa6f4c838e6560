//! A client that sends bodies over HTTP.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;

use super::Input;

/// What one read takes at most.
const READ_BYTES_MAX: usize = 256 << 10;
/// No head of a request is longer.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// About as much as a stream load answers.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
    content-length: 42\r\n\r\n{\"Status\": \"Success\", \"Message\": \"nothing\"}";

/// A connection, and the request that comes in over it.
pub(super) struct WebConnection {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// The beginning of a head that has not ended yet.
    head: Vec<u8>,
    /// Bytes of the body, and how many of them are still to come; between requests nothing.
    body: Option<(usize, usize)>,
}

impl WebConnection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: vec![0; READ_BYTES_MAX], head: Vec::new(), body: None })
    }

    /// Answers the request that was read last.
    pub(super) fn answer(&mut self) -> io::Result<()> {
        self.stream.write_all(ANSWER)
    }

    /// Takes what arrived. A client sends its next request after the answer, so there is one.
    pub(super) fn read(&mut self) -> Input {
        loop {
            let count = match self.stream.read(&mut self.bytes) {
                Ok(0) => return Input::End,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Input::Nothing,
                Err(_) => return Input::End,
            };
            if self.take(count).is_none() {
                return Input::End;
            }
            if let Some((bytes, 0)) = self.body {
                self.body = None;
                return Input::Write { bytes };
            }
        }
    }

    /// Counts bytes as head and body; `None` if they are not what the client sends.
    fn take(&mut self, count: usize) -> Option<()> {
        let came = &self.bytes[..count];
        if let Some((_, left)) = &mut self.body {
            *left = left.checked_sub(count)?;
            return Some(());
        }
        self.head.extend_from_slice(came);
        let head = String::from_utf8_lossy(&self.head[..self.head.len().min(HEAD_BYTES_MAX)]);
        let Some(end) = head.find("\r\n\r\n") else {
            return (self.head.len() < HEAD_BYTES_MAX).then_some(());
        };
        let lines = head[..end].lines().filter_map(|line| line.split_once(':'));
        let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = lengths.next()?.1.trim().parse().ok()?;
        let left = length.checked_sub(self.head.len() - end - 4)?;
        self.body = Some((length, left));
        self.head.clear();
        Some(())
    }
}
