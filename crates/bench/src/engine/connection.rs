//! A connection with one outstanding request.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::Feed;
use crate::encode::Request;
use crate::reply::{Answer, Replies};
use crate::socket::Socket;

/// A logged-in connection with the requests that it sends.
pub struct Connection {
    socket: Socket<mio::net::TcpStream>,
    replies: Replies,
    requests: Arc<Vec<Request>>,
    /// The index in `requests` of the outstanding request.
    current: usize,
    /// How many of its bytes were sent.
    sent: usize,
    /// The outstanding request with serial numbers, if it has any, or the commit of its load.
    stamped: Vec<u8>,
    /// Whether the outstanding request is the commit of a load.
    commits: bool,
    /// When the outstanding request was sent, or was due.
    started: Option<Duration>,
}

impl Connection {
    /// Takes over a blocking connection.
    pub fn new(
        socket: Socket<std::net::TcpStream>,
        replies: Replies,
        requests: Arc<Vec<Request>>,
    ) -> Result<Self, String> {
        let socket = socket.polled().map_err(|error| error.to_string())?;
        let (stamped, commits, started) = (Vec::new(), false, None);
        Ok(Self { socket, replies, requests, current: 0, sent: 0, stamped, commits, started })
    }

    /// The socket, for polling.
    pub(super) fn stream(&mut self) -> &mut mio::net::TcpStream {
        self.socket.stream()
    }

    /// Whether a request is outstanding.
    pub(super) fn is_busy(&self) -> bool {
        self.started.is_some()
    }

    /// Begins the next request; false if there is none.
    pub(super) fn begin(&mut self, feed: &Feed, started: Duration) -> Result<bool, String> {
        let Some(current) = feed.take(self.requests.len()) else { return Ok(false) };
        let request = &self.requests[current];
        if request.is_stamped() {
            request.stamp(feed.serials(request), &mut self.stamped);
        }
        self.current = current;
        (self.sent, self.commits) = (0, false);
        self.started = Some(started);
        self.write()?;
        Ok(true)
    }

    /// Sends as much as the socket accepts.
    pub(super) fn write(&mut self) -> Result<(), String> {
        let request = &self.requests[self.current];
        let is_own = self.commits || request.is_stamped();
        let bytes = if is_own { &self.stamped } else { &request.bytes };
        while self.started.is_some() && self.sent < bytes.len() {
            match self.socket.write(&bytes[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("send: {error}")),
            }
        }
        match self.socket.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(format!("send: {error}")),
            _ => Ok(()),
        }
    }

    /// Begins to commit the load that was prepared.
    fn commit(&mut self, txn: u64) -> Result<(), String> {
        let commit = self.requests[self.current].commit.as_ref();
        self.stamped = commit.ok_or("a load was prepared that nothing commits")?.request(txn);
        (self.sent, self.commits) = (0, true);
        self.write()
    }

    /// Receives what is available; returns the answer to the request, its rows and its start time.
    pub(super) fn read(&mut self) -> Result<Option<(Answer, u64, Duration)>, String> {
        loop {
            let spare = self.replies.spare();
            let room = spare.len();
            match self.socket.read(spare) {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(count) => {
                    self.replies.filled(count);
                    let answer = self.replies.next()?;
                    if let Some(Answer::Prepared(txn)) = answer {
                        self.commit(txn)?;
                        continue;
                    }
                    if let Some(answer) = answer {
                        let started = self.started.take().ok_or("an answer without a request")?;
                        return Ok(Some((answer, self.requests[self.current].rows, started)));
                    }
                    // A short read has emptied the socket; further bytes cause another event.
                    if count < room && !self.socket.may_hold_more() {
                        return Ok(None);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("receive: {error}")),
            }
        }
    }
}
