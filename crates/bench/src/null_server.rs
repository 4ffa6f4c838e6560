//! An upper bound for every server: MySQL's protocol or HTTP bodies, no work, and an answer after a
//! flush that began after the request.
//!
//! Requests that arrive during a flush wait for the next one, as in a log with group commit. The
//! flush writes as many bytes as arrived. Requests are neither parsed nor stored.

mod flusher;
mod mysql;
mod web;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::TcpListener as StdListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use flusher::Flusher;
use mysql::MysqlConnection;
use web::WebConnection;

const LISTENERS: [Token; 2] = [Token(usize::MAX), Token(usize::MAX - 1)];
const WAKER: Token = Token(usize::MAX - 2);

/// What was received.
enum Input {
    /// A write that waits for a flush.
    Write {
        /// The size of the command or body.
        bytes: usize,
    },
    /// Nothing that needs a flush; other commands were answered already.
    Nothing,
    /// The client disconnected.
    End,
}

/// A client connection, in the protocol of its port.
enum Connection {
    Mysql(MysqlConnection),
    Web(WebConnection),
}

impl Connection {
    fn begin(stream: TcpStream, listener: usize, id: u32) -> io::Result<Self> {
        match listener {
            0 => MysqlConnection::greet(stream, id).map(Self::Mysql),
            _ => WebConnection::new(stream).map(Self::Web),
        }
    }

    fn read(&mut self) -> Input {
        match self {
            Self::Mysql(connection) => connection.read(),
            Self::Web(connection) => connection.read(),
        }
    }

    fn answer(&mut self) -> io::Result<()> {
        match self {
            Self::Mysql(connection) => connection.answer(),
            Self::Web(connection) => connection.answer(),
        }
    }
}

/// Options of the null server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The ports for MySQL's protocol and for HTTP, on loopback.
    pub ports: [u16; 2],
    /// The number of threads, each with its own connections.
    pub threads: usize,
    /// CPU time that each request costs.
    pub work: Duration,
    /// The file that is overwritten and synced; without one, answers are sent at once.
    pub flush_file: Option<PathBuf>,
}

/// Runs until the process ends.
pub fn serve(options: &Options) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let listeners = options.ports.map(|port| StdListener::bind(("127.0.0.1", port)));
    let [mysql, web] = listeners;
    let listeners = [mysql.map_err(text)?, web.map_err(text)?];
    for listener in &listeners {
        listener.set_nonblocking(true).map_err(text)?;
        println!("{}", listener.local_addr().map_err(text)?);
    }
    let flusher = options.flush_file.as_deref().map(Flusher::start).transpose()?;
    let mut threads = Vec::new();
    for number in 0..options.threads.max(1) {
        let [mysql, web] = listeners.each_ref().map(StdListener::try_clone);
        let own = [mysql.map_err(text)?, web.map_err(text)?].map(TcpListener::from_std);
        let server = Thread::new(own, options, flusher.clone(), number)?;
        threads.push(std::thread::spawn(move || server.run()));
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread of the null server panicked")??;
    }
    Ok(())
}

struct Thread {
    poll: Poll,
    listeners: [TcpListener; 2],
    connections: Vec<Option<Connection>>,
    flusher: Option<Arc<Flusher>>,
    /// Connections that wait, with the number of the flush they wait for.
    waiting: VecDeque<(u64, usize)>,
    clock: SystemClock,
    work: Duration,
    number: usize,
}

impl Thread {
    fn new(
        mut listeners: [TcpListener; 2],
        options: &Options,
        flusher: Option<Arc<Flusher>>,
        number: usize,
    ) -> Result<Self, String> {
        let made = Poll::new().and_then(|poll| {
            for (listener, token) in listeners.iter_mut().zip(LISTENERS) {
                poll.registry().register(listener, token, Interest::READABLE)?;
            }
            if let Some(flusher) = &flusher {
                flusher.subscribe(Waker::new(poll.registry(), WAKER)?);
            }
            Ok(poll)
        });
        Ok(Self {
            poll: made.map_err(|error| error.to_string())?,
            listeners,
            connections: Vec::new(),
            flusher,
            waiting: VecDeque::new(),
            clock: SystemClock::new(),
            work: options.work,
            number,
        })
    }

    fn run(mut self) -> Result<(), String> {
        let mut events = Events::with_capacity(1024);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled.map_err(|error| error.to_string())?,
            }
            let mut arrived = Vec::new();
            let mut bytes = 0;
            for event in &events {
                match event.token() {
                    WAKER => {}
                    token => match LISTENERS.iter().position(|listener| *listener == token) {
                        Some(listener) => self.accept(listener)?,
                        None => bytes += self.read(token.0, &mut arrived),
                    },
                }
            }
            self.flush(arrived, bytes);
            self.answer();
        }
    }

    fn accept(&mut self, listener: usize) -> Result<(), String> {
        loop {
            let (mut stream, _) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            let free = self.connections.iter().position(Option::is_none);
            let index = free.unwrap_or(self.connections.len());
            let registered =
                self.poll.registry().register(&mut stream, Token(index), Interest::READABLE);
            let id = (self.number << 16 | index) as u32;
            let ready = registered.and_then(|()| Connection::begin(stream, listener, id));
            let connection = Some(ready.map_err(|error| error.to_string())?);
            match free {
                Some(index) => self.connections[index] = connection,
                None => self.connections.push(connection),
            }
            // Lets the other threads accept, too, so that connections are spread evenly.
            std::thread::yield_now();
        }
    }

    /// Reads from a connection; returns the size of a write that must be flushed.
    fn read(&mut self, index: usize, arrived: &mut Vec<usize>) -> usize {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return 0;
        };
        match connection.read() {
            Input::Write { bytes } => {
                let until = self.clock.now() + self.work;
                while self.clock.now() < until {
                    std::hint::spin_loop();
                }
                arrived.push(index);
                bytes
            }
            Input::Nothing => 0,
            Input::End => {
                self.connections[index] = None;
                self.waiting.retain(|(_, waiting)| *waiting != index);
                0
            }
        }
    }

    fn flush(&mut self, arrived: Vec<usize>, bytes: usize) {
        if arrived.is_empty() {
            return;
        }
        let flush = self.flusher.as_ref().map_or(0, |flusher| flusher.submit(bytes));
        self.waiting.extend(arrived.into_iter().map(|index| (flush, index)));
    }

    /// Answers all connections whose flush has ended.
    fn answer(&mut self) {
        let ended = self.flusher.as_ref().map_or(u64::MAX, |flusher| flusher.ended());
        while let Some((_, index)) = self.waiting.pop_front_if(|(flush, _)| *flush <= ended) {
            if let Some(connection) = &mut self.connections[index]
                && connection.answer().is_err()
            {
                self.connections[index] = None;
            }
        }
    }
}
