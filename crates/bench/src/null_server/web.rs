//! A connection with HTTP bodies.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;

use super::Input;

/// The maximum size of a read.
const READ_BYTES_MAX: usize = 256 << 10;
/// The maximum size of a request's head.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// The minimal answer that clients accept as a successful load.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
    content-length: 43\r\n\r\n{\"Status\": \"Success\", \"Message\": \"nothing\"}";

/// A connection and its incoming request.
pub(super) struct WebConnection {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// The incomplete head of a request.
    head: Vec<u8>,
    /// The size of the body, and how much of it is missing; `None` between requests.
    body: Option<(usize, usize)>,
}

impl WebConnection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: vec![0; READ_BYTES_MAX], head: Vec::new(), body: None })
    }

    /// Answers the last request.
    pub(super) fn answer(&mut self) -> io::Result<()> {
        self.stream.write_all(ANSWER)
    }

    /// Reads a request. Clients wait for the answer before they send the next one.
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

    /// Consumes bytes of head and body; `None` if they are malformed.
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream as StdStream};

    use super::*;

    /// A connection of the null server and its client.
    fn connected() -> (WebConnection, StdStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (WebConnection::new(TcpStream::from_std(stream)).unwrap(), client)
    }

    fn next(connection: &mut WebConnection) -> Option<usize> {
        loop {
            match connection.read() {
                Input::Write { bytes } => return Some(bytes),
                Input::Nothing => std::thread::yield_now(),
                Input::End => return None,
            }
        }
    }

    #[test]
    fn a_body_is_one_write_however_it_comes() {
        let (mut connection, mut client) = connected();
        let head = "PUT /x HTTP/1.1\r\nContent-Length: 400000\r\nformat: csv\r\n\r\n";
        let sent = std::thread::spawn(move || {
            for _ in 0..2 {
                let (first, second) = head.split_at(20);
                client.write_all(first.as_bytes()).unwrap();
                client.write_all(second.as_bytes()).unwrap();
                client.write_all(&[b'1'; 400_000]).unwrap();
                let mut answer = vec![0; ANSWER.len()];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(answer, ANSWER);
            }
        });
        for _ in 0..2 {
            assert_eq!(next(&mut connection), Some(400_000));
            connection.answer().unwrap();
        }
        sent.join().unwrap();
        assert_eq!(next(&mut connection), None, "the client has gone");
    }

    #[test]
    fn what_has_no_length_or_too_much_ends_the_connection() {
        for request in ["PUT / HTTP/1.1\r\n\r\n", "PUT / HTTP/1.1\r\ncontent-length: 1\r\n\r\n12"] {
            let (mut connection, mut client) = connected();
            client.write_all(request.as_bytes()).unwrap();
            assert_eq!(next(&mut connection), None, "{request}");
        }
    }

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())));
    }
}
