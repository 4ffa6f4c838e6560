//! The command loop of a connection after its login.
//!
//! Commands are processed in order. Those of the fast path run on the I/O thread, and their answers
//! are collected until the receive buffer holds no complete command; then the connection waits once
//! until the log is durable for all of them, and sends all answers in one write. Other commands
//! move with the session to the statement threads, and their answers are streamed back.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::{Error, ErrorCode};
use freshet_wire::handshake::LOGIN_BYTES_MAX;
use freshet_wire::{Capabilities, Command, OkPacket, PacketReader, PacketWriter};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use crate::Shared;
use crate::accounts::RequestMemory;
use crate::insert::InsertCache;
use crate::io::Acks;
use crate::mysql::dispatch::{Dispatcher, Next};
use crate::mysql::login;
use crate::mysql::prepared::{Kind, Prepared, Statements, protocol};
use crate::mysql::socket::{End, put_error, send};
use crate::point::AllowedPoints;
use crate::process::{Activity, Process, Registration};
use crate::session::Session;
use crate::slots::ConnectionSlot;
use crate::statement::by_key::KeyedChanges;
use crate::statement::{self, Answered, Output, Request};
use crate::tls::Stream;

/// The size at which collected answers are sent although more commands are pending.
const ANSWERS_BYTES_MAX: usize = 256 << 10;
/// Pieces of a result that may queue for the client.
const PIECES_WAITING: usize = 4;
/// A receive buffer above this size is charged to the write memory.
const BUFFER_BYTES_FREE: usize = 64 << 10;

/// A connection whose client is logged in.
pub struct Connection {
    pub(super) socket: Stream,
    pub(super) reader: PacketReader,
    pub(super) writer: PacketWriter,
    /// `None` only while a statement runs on the statement threads.
    session: Option<Box<Session>>,
    statements: Statements,
    inserts: InsertCache,
    changes: KeyedChanges,
    points: AllowedPoints,
    multi_statements: bool,
    acks: Arc<Acks>,
    shared: Arc<Shared>,
    pub(super) registration: Registration,
    slot: ConnectionSlot,
    /// The memory of a large receive buffer.
    receiving: RequestMemory,
    /// Why the incoming packet is discarded. The error is sent after its end, because clients send
    /// a whole packet before they read.
    pub(super) unwanted: Option<Error>,
}

/// A connection's share of resources common to all connections.
pub struct Held {
    /// Its entry in the process list.
    pub registration: Registration,
    /// Its connection slot.
    pub slot: ConnectionSlot,
}

impl Connection {
    /// A connection whose client just logged in.
    pub fn new(
        socket: Stream,
        reader: PacketReader,
        writer: PacketWriter,
        session: Box<Session>,
        acks: Arc<Acks>,
        held: Held,
    ) -> Self {
        let Held { registration, slot } = held;
        let shared = Arc::clone(&session.shared);
        let receiving = RequestMemory::new(&session.usage, &shared.engine);
        let multi_statements = writer.capabilities().contains(Capabilities::MULTI_STATEMENTS);
        Self {
            socket,
            reader,
            writer,
            session: Some(session),
            statements: Statements::default(),
            inserts: InsertCache::default(),
            changes: KeyedChanges::default(),
            points: AllowedPoints::default(),
            multi_statements,
            acks,
            shared,
            registration,
            slot,
            receiving,
            unwanted: None,
        }
    }

    /// Serves the client until the connection ends.
    pub async fn serve(mut self) -> End {
        loop {
            match self.serve_commands().await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    /// Answers all complete commands in the buffer, then waits for more.
    async fn serve_commands(&mut self) -> std::result::Result<(), End> {
        while let Some(next) = self.command().await? {
            match next {
                Next::Answered if self.writer.bytes().len() < ANSWERS_BYTES_MAX => {}
                Next::Answered => self.flush().await?,
                Next::Reset => self.take_packets_of_session(),
                Next::Run(request) => self.run(request).await?,
                Next::ChangeUser(user) => self.change_user(user).await?,
                Next::Quit => return Err(End::Quit),
            }
        }
        self.flush().await?;
        if self.registration.process.is_retired() {
            // The client reads the error as the answer to its next command.
            self.writer.reply_to(1);
            return Err(self.refuse(ErrorCode::ShuttingDown, "Server shutdown in progress").await);
        }
        self.receive().await
    }

    /// Takes the next complete command, and answers it if it is on the fast path.
    async fn command(&mut self) -> std::result::Result<Option<Next>, End> {
        let packet = match self.reader.next_packet(0) {
            Ok(Some(packet)) => packet,
            Ok(None) => return Ok(None),
            Err(error @ freshet_wire::Error::PacketTooLarge { .. }) => {
                self.unwanted = Some(protocol(error));
                return Ok(None);
            }
            Err(error) => {
                self.writer.reply_to(1);
                self.writer.protocol_error(&error);
                let _ = self.flush().await;
                return Err(End::Closed);
            }
        };
        self.writer.reply_to(packet.reply_sequence());
        let command = match Command::parse(packet.payload, self.writer.capabilities()) {
            Ok(command) => command,
            Err(error @ freshet_wire::Error::UnknownCommand { .. }) => {
                self.writer.protocol_error(&error);
                return Ok(Some(Next::Answered));
            }
            Err(error) => {
                self.writer.protocol_error(&error);
                let _ = self.flush().await;
                return Err(End::Closed);
            }
        };
        let mut dispatcher = Dispatcher {
            session: self.session.as_mut().expect("no statement runs elsewhere"),
            statements: &mut self.statements,
            inserts: &mut self.inserts,
            changes: &mut self.changes,
            points: &mut self.points,
            writer: &mut self.writer,
            multi_statements: &mut self.multi_statements,
        };
        Ok(Some(dispatcher.answer(command).await))
    }

    /// Sends the collected answers once the log is durable for them.
    pub(super) async fn flush(&mut self) -> std::result::Result<(), End> {
        if self.writer.bytes().is_empty() {
            return Ok(());
        }
        let (acked, timeout) = match &self.session {
            Some(session) => (session.acked, session.settings.write_timeout),
            None => (freshet_base::Lsn::ZERO, Duration::from_secs(60)),
        };
        self.acks.durable(acked).await;
        let process = &self.registration.process;
        self.shared.counters.sent_bytes.add(self.writer.bytes().len() as u64);
        send_unless_killed(&mut self.socket, self.writer.bytes(), timeout, process).await?;
        self.writer.clear();
        Ok(())
    }

    /// Reads more from the client.
    async fn receive(&mut self) -> std::result::Result<(), End> {
        self.note_idle();
        if let Some(session) = &mut self.session {
            session.rest();
        }
        // An error from here on answers the next command, which may be half received.
        self.writer.reply_to(1);
        loop {
            if self.unwanted.is_none() {
                self.charge_buffer().await;
            }
            if self.unwanted.is_some() && self.discard_packet().await? {
                return Ok(());
            }
            match self.event().await {
                Event::Read(0) => return Err(End::Closed),
                Event::Read(count) => {
                    self.count_received(count);
                    if self.unwanted.is_none() {
                        return Ok(());
                    }
                }
                Event::Failed(error) => return Err(error.into()),
                Event::Late(seconds) => {
                    let message = format!(
                        "Got timeout reading communication packets: nothing came of the rest of a \
                         packet for {seconds} s (net_read_timeout)"
                    );
                    return Err(self.refuse(ErrorCode::ReadTimeout, &message).await);
                }
                Event::RollBack => {
                    if let Some(session) = &mut self.session {
                        let patience = session.settings.idle_transaction_timeout;
                        session.transactions.time_out(patience);
                    }
                }
                Event::Ended if self.registration.process.is_killed() => {
                    let code = ErrorCode::ConnectionKilled;
                    return Err(self.refuse(code, "Connection was killed").await);
                }
                Event::Ended => {
                    let code = ErrorCode::ShuttingDown;
                    return Err(self.refuse(code, "Server shutdown in progress").await);
                }
            }
        }
    }

    /// Waits for the next event of an idle connection. The rest of a packet has a shorter timeout
    /// than a new command, because a partial packet holds memory.
    async fn event(&mut self) -> Event {
        let begun = self.unwanted.is_some() || self.reader.unread_bytes() > 0;
        let process = &self.registration.process;
        let clock = self.shared.engine.clock();
        let (socket, reader) = (&mut self.socket, &mut self.reader);
        let event = poll_fn(|context| {
            process.register(context.waker());
            if process.is_killed() || process.is_retired() {
                return Poll::Ready(Event::Ended);
            }
            if process.takes_rollback(&**clock) {
                return Poll::Ready(Event::RollBack);
            }
            let mut buffer = ReadBuf::new(reader.spare());
            match Pin::new(&mut *socket).poll_read(context, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(error)) => Poll::Ready(Event::Failed(error)),
                Poll::Ready(Ok(())) => {
                    let count = buffer.filled().len();
                    reader.filled(count);
                    Poll::Ready(Event::Read(count))
                }
            }
        });
        let timeout = match &self.session {
            Some(session) if begun => session.settings.read_timeout,
            _ => return event.await,
        };
        tokio::time::timeout(timeout, event).await.unwrap_or(Event::Late(timeout.as_secs()))
    }

    /// Applies the session's `max_allowed_packet`, which a reset may have changed.
    fn take_packets_of_session(&mut self) {
        let session = self.session.as_ref().expect("no statement runs elsewhere");
        self.reader.set_payload_bytes_max(session.settings.packet_bytes_max);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.shared.counters.received_bytes.add(bytes as u64);
    }

    fn note_idle(&self) {
        let process = &self.registration.process;
        let now = self.shared.engine.clock().now();
        process.note(Activity::Sleep, now);
    }

    /// Charges a large receive buffer to the write memory before it grows, and releases the memory
    /// when it shrinks. Without memory the packet is discarded.
    pub(super) async fn charge_buffer(&mut self) {
        let wanted = match self.reader.next_buffer_bytes() {
            bytes if bytes <= BUFFER_BYTES_FREE => 0,
            bytes => bytes as u64,
        };
        let held = self.receiving.bytes();
        if wanted <= held {
            self.receiving.resize_over(wanted);
            return;
        }
        let engine = &self.shared.engine;
        let deadline = Deadline::after(&**engine.clock(), engine.config().load_patience);
        if let Err(error) = self.receiving.grow(wanted - held, engine, deadline).await {
            self.unwanted = Some(error);
        }
    }

    /// Discards what was received of an unwanted packet; true after its end, when the error was
    /// sent. A packet that is too large ends the connection, as in MySQL.
    async fn discard_packet(&mut self) -> std::result::Result<bool, End> {
        let skipped = self.reader.skip_packet();
        if self.reader.next_buffer_bytes() <= BUFFER_BYTES_FREE {
            self.receiving.resize_over(0);
        }
        let Some(sequence) = skipped else { return Ok(false) };
        let Some(error) = self.unwanted.take() else { return Ok(true) };
        self.writer.reply_to(sequence.wrapping_add(1));
        if error.code() == ErrorCode::PacketTooLarge {
            let message = error.message().to_owned();
            return Err(self.refuse(error.code(), &message).await);
        }
        if let Some(session) = &mut self.session {
            session.failed(&error);
        }
        put_error(&mut self.writer, &error);
        self.flush().await?;
        Ok(true)
    }

    /// Sends an error and ends the connection.
    pub(super) async fn refuse(&mut self, code: ErrorCode, message: &str) -> End {
        self.writer.err(code.errno(), code.sqlstate(), message);
        match self.flush().await {
            Ok(()) => End::Closed,
            Err(end) => end,
        }
    }

    /// Runs a statement on the statement threads and forwards its answer piece by piece.
    async fn run(&mut self, request: Request) -> std::result::Result<(), End> {
        let sequence = self.writer.sequence();
        self.flush().await?;
        let session = self.session.take().expect("no statement runs elsewhere");
        let (timeout, read_timeout) =
            (session.settings.write_timeout, session.settings.read_timeout);
        let (pieces, mut incoming) = mpsc::channel(PIECES_WAITING);
        let memory = self.shared.query.memory();
        let output = Output::new(self.writer.capabilities(), sequence, pieces, memory);
        let multi = self.multi_statements;
        let mut task =
            self.shared.statements.spawn(statement::run(session, request, multi, output));
        // Dropping the guard aborts the statement; dropping its session rolls back the transaction.
        let guard = AbortOnDrop(task.abort_handle());
        loop {
            tokio::select! {
                biased;
                piece = incoming.recv() => match piece {
                    Some(piece) => {
                        self.acks.durable(piece.covers).await;
                        let process = &self.registration.process;
                        let (socket, bytes) = (&mut self.socket, &piece.bytes);
                        self.shared.counters.sent_bytes.add(bytes.len() as u64);
                        send_unless_killed(socket, bytes, timeout, process).await?;
                        if let Some(file) = piece.file {
                            self.forward_file(file, read_timeout).await?;
                        }
                    }
                    None => break,
                },
                gone = disconnected(&mut self.socket, &mut self.reader) => {
                    // What computes without waiting looks whether it was killed.
                    self.registration.process.kill(true);
                    return Err(gone);
                }
            }
        }
        let answered: Answered = match (&mut task).await {
            Ok(answered) => answered,
            Err(_) => {
                let code = ErrorCode::Unknown;
                let message = "the statement ended by an internal error; see the server's log";
                return Err(self.refuse(code, message).await);
            }
        };
        drop(guard);
        self.writer.append_framed(&answered.bytes, answered.sequence);
        if let Some(prepared) = answered.prepared {
            self.answer_prepare(*prepared, &answered.session);
        }
        if let Some((id, statement)) = answered.lent {
            self.statements.give_back(id, statement);
        }
        self.session = Some(answered.session);
        self.registration.process.rest(self.shared.engine.clock().now());
        if self.registration.process.is_killed() {
            // The error was part of the statement's answer.
            self.flush().await?;
            return Err(End::Closed);
        }
        Ok(())
    }

    /// Answers a COM_STMT_PREPARE that was planned on the statement threads.
    fn answer_prepare(&mut self, prepared: Prepared, session: &Session) {
        let Kind::Other(query) = &prepared.kind else { return };
        let columns = query.columns.clone();
        let parameters = prepared.parameters;
        match self.statements.add(prepared) {
            Ok(id) => {
                crate::mysql::results::prepared(
                    &mut self.writer,
                    id,
                    parameters,
                    &columns,
                    session,
                );
            }
            Err(error) => put_error(&mut self.writer, &error),
        }
    }

    /// COM_CHANGE_USER: another login on the same connection, which resets the session.
    async fn change_user(&mut self, user: login::NewUser) -> std::result::Result<(), End> {
        self.flush().await?;
        let session = self.session.as_mut().expect("no statement runs elsewhere");
        session.transactions.roll_back();
        self.statements.clear();
        let shared = Arc::clone(&self.shared);
        self.reader.set_payload_bytes_max(LOGIN_BYTES_MAX);
        let peer = session.client.peer;
        let claim = login::LoginClaim { user: &user.user, peer, plugin: user.plugin.as_deref() };
        let channel = login::Channel {
            socket: &mut self.socket,
            reader: &mut self.reader,
            writer: &mut self.writer,
        };
        let proven = tokio::select! {
            biased;
            proven = login::authenticate_again(channel, &shared, &claim) => proven,
            () = self.registration.process.killed() => return Err(End::Closed),
            () = shared.engine.clock().sleep(shared.connect_timeout()) => return Err(End::Closed),
        };
        let admitted = proven.and_then(|account| {
            shared.seat(&mut self.slot, &account)?;
            Ok(account)
        });
        let account = match admitted {
            Ok(account) => account,
            Err(login::Refused::Error(error)) => {
                let message = error.message().to_owned();
                return Err(self.refuse(error.code(), &message).await);
            }
            Err(login::Refused::Gone(end)) => return Err(end),
        };
        let session = self.session.as_mut().expect("no statement runs elsewhere");
        login::become_user(session, account, &user);
        self.receiving = RequestMemory::new(&session.usage, &shared.engine);
        self.take_packets_of_session();
        let session = self.session.as_mut().expect("no statement runs elsewhere");
        let used = match &user.database {
            Some(database) => session.use_database(database),
            None => Ok(()),
        };
        let status = session.status();
        match used {
            Ok(()) => self.writer.ok(&OkPacket { status, ..OkPacket::default() }),
            Err(error) => put_error(&mut self.writer, &error),
        }
        Ok(())
    }
}

/// Why waiting for the client ended.
enum Event {
    Read(usize),
    Failed(std::io::Error),
    /// The rest of a packet did not arrive within this number of seconds.
    Late(u64),
    RollBack,
    Ended,
}

/// Aborts a statement when its connection ends.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Resolves when the client disconnects; bytes it sends meanwhile are kept.
async fn disconnected(socket: &mut Stream, reader: &mut PacketReader) -> End {
    loop {
        let bytes = reader.next_buffer_bytes();
        if bytes > BUFFER_BYTES_FREE && bytes > reader.buffer_bytes() {
            // A client that pipelines this much is connected; it is checked again at the next
            // statement.
            std::future::pending::<()>().await;
        }
        let read = poll_fn(|context| {
            let mut buffer = ReadBuf::new(reader.spare());
            match Pin::new(&mut *socket).poll_read(context, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
            }
        })
        .await;
        match read {
            Ok(0) => return End::Closed,
            Ok(count) => reader.filled(count),
            Err(error) => return End::Io(error),
        }
    }
}

/// As [`send`], but ends when the connection is killed, so that a client that does not read cannot
/// keep it open.
async fn send_unless_killed(
    socket: &mut Stream,
    bytes: &[u8],
    timeout: Duration,
    process: &Process,
) -> std::io::Result<()> {
    tokio::select! {
        biased;
        sent = send(socket, bytes, timeout) => sent,
        () = process.killed() => Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted)),
    }
}
