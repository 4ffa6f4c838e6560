//! Entry points for fuzzing; none may panic on any input.

use crate::handshake::{Greeting, HandshakeResponse};
use crate::login::Authenticator;
use crate::{
    Capabilities, ColumnDefinition, Command, LongData, PacketReader, PacketWriter, Params, auth,
    client,
};

/// Large packets are slow to fuzz and reach no further code.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Parses a stream of packets, each as a command and as every kind of reply.
pub fn fuzz_packets(data: &[u8]) {
    let mut reader = PacketReader::new(PAYLOAD_BYTES_MAX);
    reader.feed(data);
    while let Ok(Some(packet)) = reader.next_packet(0) {
        for capabilities in [Capabilities::PROTOCOL_41, Capabilities::SERVER] {
            let _ = Command::parse(packet.payload, capabilities);
            let _ = client::ServerPacket::parse(packet.payload, capabilities);
            let _ = client::result_end(packet.payload, capabilities);
        }
        let _ = client::PreparedReply::parse(packet.payload);
        let _ = ColumnDefinition::parse(packet.payload);
        client::TextCells::new(packet.payload).for_each(drop);
    }
}

/// Parses bytes as handshake packets of both sides, and answers them.
pub fn fuzz_handshake(data: &[u8]) {
    let scramble = auth::Scramble::from_random([7; auth::SCRAMBLE_BYTES]);
    let mut writer = PacketWriter::new();
    let _ = Greeting::parse(data);
    let mut login = client::Login::new("root", "secret", Some("db"));
    let _ = login.on_packet(&mut writer, data);
    let _ = login.on_packet(&mut writer, data);
    if let Ok(HandshakeResponse::Login(request)) = HandshakeResponse::parse(data) {
        request.attributes.iter().for_each(drop);
        let credential = auth::Credential::sha2_fast(b"secret");
        let mut server = Authenticator::new(credential, scramble, true);
        server.begin(&mut writer, request.plugin, request.auth_response);
        server.advance(&mut writer, data, None);
        server.advance(&mut writer, data, None);
    }
    let _ = auth::SlowHash::from_bytes(data);
}

/// Parses bytes as an execute command, twice, so that the second one uses the types of the first;
/// the first byte is the number of parameters.
pub fn fuzz_execute(data: &[u8]) {
    let Some((count, payload)) = data.split_first() else { return };
    for capabilities in [Capabilities::PROTOCOL_41, Capabilities::SERVER] {
        let Ok(Command::Execute(execute)) = Command::parse(payload, capabilities) else { return };
        let mut long_data = LongData::default();
        let mut types = Vec::new();
        for parameter in 0..2 {
            if let Ok(params) = Params::new(&execute, usize::from(*count), &mut types, &long_data) {
                params.for_each(drop);
            }
            long_data.append(parameter, data, PAYLOAD_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests;
