//! One client from its first packet to its last: a place, the login, the connection.

use std::net::IpAddr;
use std::sync::Arc;

use freshet_wire::handshake::LOGIN_BYTES_MAX;
use freshet_wire::{OkPacket, PacketReader, PacketWriter};
use tokio::net::TcpStream;

use crate::Shared;
use crate::auth;
use crate::io::Acks;
use crate::mysql::conn::{Connection, Held};
use crate::mysql::login::{self, Channel, Refused, SEND_TIMEOUT};
use crate::mysql::socket::{End, put_error, send};
use crate::places::Place;
use crate::process::Registration;

/// Serves one client from the greeting to its end.
pub async fn serve(socket: TcpStream, shared: Arc<Shared>, acks: Arc<Acks>, peer: IpAddr) {
    let now = shared.engine.clock().now();
    let mut socket = socket;
    let port = socket.peer_addr().map_or(0, |address| address.port());
    let place = format!("{}:{port}", auth::host_of(peer));
    let seat = match shared.places.enter(peer, &shared.place_limits()) {
        Ok(seat) => seat,
        Err(error) => {
            let mut writer = PacketWriter::new();
            put_error(&mut writer, &error);
            // A client that does not read why it is refused is disconnected all the same.
            let _ = send(&mut socket, writer.bytes(), SEND_TIMEOUT).await;
            return;
        }
    };
    let registration = shared.processes.register(place, now);
    shared.metrics().connections.inc();
    let _open = OpenConnection(&shared);
    let (sent_away, process) = (seat.sent_away(), Arc::clone(&registration.process));
    let logged_in = tokio::select! {
        biased;
        logged_in = log_in(socket, &shared, acks, registration, seat) => logged_in,
        () = sent_away => None,
        () = process.killed() => None,
        () = shared.engine.clock().sleep(shared.connect_timeout()) => None,
    };
    let Some(connection) = logged_in else { return };
    let ended = connection.serve().await;
    if let End::Io(error) = ended {
        tracing::debug!(%peer, %error, "connection lost");
    }
}

/// Counts a connection as open while it lives.
struct OpenConnection<'a>(&'a Shared);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.metrics().connections.dec();
    }
}

async fn log_in(
    mut socket: TcpStream,
    shared: &Arc<Shared>,
    acks: Arc<Acks>,
    registration: Registration,
    mut seat: Place,
) -> Option<Connection> {
    let peer = socket.peer_addr().ok()?.ip();
    let mut reader = PacketReader::new(LOGIN_BYTES_MAX);
    let mut writer = PacketWriter::new();
    let channel = Channel { socket: &mut socket, reader: &mut reader, writer: &mut writer };
    match login::greet(channel, shared, &registration, &mut seat, peer).await {
        Ok(session) => {
            reader.set_payload_bytes_max(session.settings.packet_bytes_max);
            let status = session.status();
            writer.ok(&OkPacket { status, ..OkPacket::default() });
            let held = Held { registration, seat };
            Some(Connection::new(socket, reader, writer, session, acks, held))
        }
        Err(Refused::Told(error)) => {
            put_error(&mut writer, &error);
            // A client that does not read why it is refused is disconnected all the same.
            let _ = send(&mut socket, writer.bytes(), SEND_TIMEOUT).await;
            None
        }
        Err(Refused::Gone(_)) => None,
    }
}
