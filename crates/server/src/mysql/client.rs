//! A client of the MySQL protocol: connection slot, login, connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use freshet_wire::handshake::LOGIN_BYTES_MAX;
use freshet_wire::{Capabilities, OkPacket, PacketReader, PacketWriter};
use tokio::net::TcpStream;

use crate::Shared;
use crate::auth;
use crate::io::Acks;
use crate::mysql::conn::{Connection, Held};
use crate::mysql::login::{self, Channel, Refused, SEND_TIMEOUT};
use crate::mysql::socket::{End, put_error, send};
use crate::process::Registration;
use crate::slots::ConnectionSlot;
use crate::tls::Stream;

/// Serves a client from the greeting to the end of its connection.
pub async fn serve(socket: TcpStream, shared: Arc<Shared>, acks: Arc<Acks>, peer: SocketAddr) {
    let now = shared.engine.clock().now();
    let mut socket = Stream::Plain(socket);
    let (peer, port) = (peer.ip(), peer.port());
    let address = format!("{}:{port}", auth::host_of(peer));
    let slot = match shared.slots.enter(peer, &shared.slot_limits()) {
        Ok(slot) => slot,
        Err(error) => {
            shared.counters.turned_away.add(1);
            let mut writer = PacketWriter::new();
            put_error(&mut writer, &error);
            // The connection is closed even if the client does not read the error.
            let _ = send(&mut socket, writer.bytes(), SEND_TIMEOUT).await;
            return;
        }
    };
    let registration = shared.processes.register(address, now);
    shared.metrics().connections.inc();
    let wall_seconds = shared.engine.clock().wall_micros() / 1_000_000;
    shared.counters.connect(shared.processes.count(), wall_seconds.try_into().unwrap_or(0));
    let _open = OpenConnection(&shared);
    let (evicted, process) = (slot.evicted(), Arc::clone(&registration.process));
    let logged_in = tokio::select! {
        biased;
        logged_in = log_in(socket, &shared, acks, registration, slot, peer) => logged_in,
        () = evicted => None,
        () = process.killed() => None,
        () = shared.engine.clock().sleep(shared.connect_timeout()) => None,
    };
    let Some(connection) = logged_in else {
        shared.counters.refused.add(1);
        return;
    };
    match connection.serve().await {
        End::Quit => {}
        End::Closed => shared.counters.aborted.add(1),
        End::Io(error) => {
            shared.counters.aborted.add(1);
            tracing::debug!(%peer, %error, "connection lost");
        }
    }
}

struct OpenConnection<'a>(&'a Shared);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.metrics().connections.dec();
    }
}

async fn log_in(
    mut socket: Stream,
    shared: &Arc<Shared>,
    acks: Arc<Acks>,
    registration: Registration,
    mut slot: ConnectionSlot,
    peer: IpAddr,
) -> Option<Connection> {
    let mut reader = PacketReader::new(LOGIN_BYTES_MAX);
    let mut writer = PacketWriter::new();
    let channel = Channel { socket: &mut socket, reader: &mut reader, writer: &mut writer };
    match login::greet(channel, shared, &registration, &mut slot, peer).await {
        Ok(session) => {
            reader.set_payload_bytes_max(session.settings.packet_bytes_max);
            let status = session.status();
            writer.ok(&OkPacket { status, ..OkPacket::default() });
            if writer.capabilities().contains(Capabilities::COMPRESS) {
                // The login ends as it began.
                send(&mut socket, writer.bytes(), SEND_TIMEOUT).await.ok()?;
                writer.clear();
                socket.compress();
            }
            let held = Held { registration, slot };
            Some(Connection::new(socket, reader, writer, session, acks, held))
        }
        Err(Refused::Error(error)) => {
            put_error(&mut writer, &error);
            // The connection is closed even if the client does not read the error.
            let _ = send(&mut socket, writer.bytes(), SEND_TIMEOUT).await;
            None
        }
        Err(Refused::Gone(end)) => {
            if let End::Io(error) = end {
                tracing::debug!(%peer, %error, "connection lost at its login");
            }
            None
        }
    }
}
