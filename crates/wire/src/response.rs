//! Replies of one packet: OK, ERR, EOF and some without header.

use crate::encode::{lenenc_len, put_lenenc, put_lenenc_bytes};
use crate::{Capabilities, PacketWriter, StatusFlags};

pub(crate) const OK_HEADER: u8 = 0x00;
pub(crate) const EOF_HEADER: u8 = 0xfe;
pub(crate) const ERR_HEADER: u8 = 0xff;
pub(crate) const LOCAL_INFILE_HEADER: u8 = 0xfb;

const TRACK_SYSTEM_VARIABLE: u8 = 0;
const TRACK_SCHEMA: u8 = 1;

/// A change of session state, which OK packets report to clients that track it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChange<'a> {
    /// A system variable was set.
    Variable {
        name: &'a str,
        /// The value as text.
        value: &'a str,
    },
    /// The current database changed.
    Schema(&'a str),
}

impl StateChange<'_> {
    /// The length of the entry without its type and length.
    fn data_bytes(self) -> usize {
        let lenenc = |text: &str| lenenc_len(text.len()) + text.len();
        match self {
            Self::Variable { name, value } => lenenc(name) + lenenc(value),
            Self::Schema(name) => lenenc(name),
        }
    }

    fn entry_bytes(self) -> usize {
        let data = self.data_bytes();
        1 + lenenc_len(data) + data
    }

    fn put(self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Variable { .. } => TRACK_SYSTEM_VARIABLE,
            Self::Schema(_) => TRACK_SCHEMA,
        });
        put_lenenc(out, self.data_bytes() as u64);
        match self {
            Self::Variable { name, value } => {
                put_lenenc_bytes(out, name.as_bytes());
                put_lenenc_bytes(out, value.as_bytes());
            }
            Self::Schema(name) => put_lenenc_bytes(out, name.as_bytes()),
        }
    }
}

/// The content of an OK packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OkPacket<'a> {
    /// Rows inserted, changed or removed.
    pub affected_rows: u64,
    /// The first generated id, 0 if there is none.
    pub last_insert_id: u64,
    /// The writer sets [`StatusFlags::SESSION_STATE_CHANGED`] itself.
    pub status: StatusFlags,
    pub warnings: u16,
    /// A message such as `Records: 3  Duplicates: 0  Warnings: 0`.
    pub info: &'a str,
    /// Sent only to clients that track session state.
    pub changes: &'a [StateChange<'a>],
}

impl OkPacket<'_> {
    fn put(&self, header: u8, capabilities: Capabilities, out: &mut Vec<u8>) {
        let tracked =
            capabilities.contains(Capabilities::SESSION_TRACK) && !self.changes.is_empty();
        let status = self.status.set(StatusFlags::SESSION_STATE_CHANGED, tracked);
        out.push(header);
        put_lenenc(out, self.affected_rows);
        put_lenenc(out, self.last_insert_id);
        out.extend_from_slice(&status.bits().to_le_bytes());
        out.extend_from_slice(&self.warnings.to_le_bytes());
        // Servers send the length of the text whether or not the client tracks session state, and
        // client libraries rely on it, although the documented grammar has it for trackers only.
        if tracked || !self.info.is_empty() {
            put_lenenc_bytes(out, self.info.as_bytes());
        }
        if tracked {
            let bytes: usize = self.changes.iter().map(|change| change.entry_bytes()).sum();
            put_lenenc(out, bytes as u64);
            self.changes.iter().for_each(|change| change.put(out));
        }
    }
}

impl PacketWriter {
    /// An OK packet.
    pub fn ok(&mut self, ok: &OkPacket<'_>) {
        let capabilities = self.capabilities();
        self.packet(|out| ok.put(OK_HEADER, capabilities, out));
    }

    /// An ERR packet. `sqlstate` has five ASCII characters.
    pub fn err(&mut self, errno: u16, sqlstate: &str, message: &str) {
        assert_eq!(sqlstate.len(), 5, "an SQLSTATE has five characters: {sqlstate}");
        // Before it has answered the greeting, a client expects the form of older protocols.
        let with_state = self.capabilities().contains(Capabilities::PROTOCOL_41);
        self.packet(|out| {
            out.push(ERR_HEADER);
            out.extend_from_slice(&errno.to_le_bytes());
            if with_state {
                out.push(b'#');
                out.extend_from_slice(sqlstate.as_bytes());
            }
            out.extend_from_slice(message.as_bytes());
        });
    }

    /// An ERR packet for a protocol error.
    pub fn protocol_error(&mut self, error: &crate::Error) {
        self.err(error.errno(), error.sqlstate(), &error.to_string());
    }

    /// Ends the rows of a result set, in the form that was negotiated.
    pub fn result_end(&mut self, status: StatusFlags, warnings: u16) {
        let capabilities = self.capabilities();
        if capabilities.contains(Capabilities::DEPRECATE_EOF) {
            let ok = OkPacket { status, warnings, ..OkPacket::default() };
            self.packet(|out| ok.put(EOF_HEADER, capabilities, out));
        } else {
            self.eof(status, warnings);
        }
    }

    /// An EOF packet; also the reply to COM_SET_OPTION.
    pub fn eof(&mut self, status: StatusFlags, warnings: u16) {
        self.packet(|out| {
            out.push(EOF_HEADER);
            out.extend_from_slice(&warnings.to_le_bytes());
            out.extend_from_slice(&status.bits().to_le_bytes());
        });
    }

    /// Requests the content of a file from the client. It sends packets of bytes and an empty
    /// packet at the end; the first has the sequence id [`PacketWriter::sequence`].
    pub fn local_infile(&mut self, name: &str) {
        self.packet(|out| {
            out.push(LOCAL_INFILE_HEADER);
            out.extend_from_slice(name.as_bytes());
        });
    }

    /// The reply to COM_STATISTICS: text without a header.
    pub fn statistics(&mut self, line: &str) {
        self.packet(|out| out.extend_from_slice(line.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Capabilities = Capabilities::PROTOCOL_41;

    fn payload(capabilities: Capabilities, write: impl FnOnce(&mut PacketWriter)) -> Vec<u8> {
        let mut writer = PacketWriter::new();
        writer.set_capabilities(capabilities);
        write(&mut writer);
        writer.bytes()[4..].to_vec()
    }

    fn one_row() -> OkPacket<'static> {
        OkPacket { affected_rows: 1, status: StatusFlags::AUTOCOMMIT, ..OkPacket::default() }
    }

    #[test]
    fn ok_without_info_is_seven_bytes() {
        let mut writer = PacketWriter::new();
        writer.set_capabilities(BASE | Capabilities::SESSION_TRACK);
        writer.reply_to(1);
        writer.ok(&one_row());
        assert_eq!(writer.bytes(), [7, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn info_is_length_encoded_for_every_client() {
        let ok = OkPacket { info: "hello", ..one_row() };
        for capabilities in [BASE, BASE | Capabilities::SESSION_TRACK] {
            assert_eq!(
                payload(capabilities, |w| w.ok(&ok)),
                b"\x00\x01\x00\x02\x00\x00\x00\x05hello"
            );
        }
    }

    #[test]
    fn state_changes_go_to_clients_that_track() {
        let changes =
            [StateChange::Schema("db"), StateChange::Variable { name: "autocommit", value: "OFF" }];
        let ok = OkPacket { changes: &changes, ..one_row() };
        assert_eq!(payload(BASE, |w| w.ok(&ok)), [0, 1, 0, 2, 0, 0, 0]);
        let mut expected = b"\x00\x01\x00\x02\x40\x00\x00\x00\x16\x01\x03\x02db".to_vec();
        expected.extend_from_slice(b"\x00\x0f\x0aautocommit\x03OFF");
        assert_eq!(payload(BASE | Capabilities::SESSION_TRACK, |w| w.ok(&ok)), expected);
    }

    #[test]
    fn errors_carry_the_state_once_the_protocol_is_agreed() {
        let write = |w: &mut PacketWriter| w.err(1064, "42000", "no");
        assert_eq!(payload(BASE, write), b"\xff\x28\x04#42000no");
        assert_eq!(payload(Capabilities::NONE, write), b"\xff\x28\x04no");
    }

    #[test]
    fn the_end_of_rows_has_two_forms() {
        let end = |w: &mut PacketWriter| w.result_end(StatusFlags::AUTOCOMMIT, 3);
        assert_eq!(payload(BASE, end), [0xfe, 3, 0, 2, 0]);
        let modern = BASE | Capabilities::DEPRECATE_EOF;
        assert_eq!(payload(modern, end), [0xfe, 0, 0, 2, 0, 3, 0]);
    }

    #[test]
    fn an_ok_packet_reuses_the_memory_of_the_writer() {
        let mut writer = PacketWriter::new();
        writer.set_capabilities(BASE);
        writer.ok(&one_row());
        let before = writer.bytes().as_ptr();
        for _ in 0..1000 {
            writer.clear();
            writer.ok(&one_row());
        }
        assert_eq!(writer.bytes().as_ptr(), before);
    }
}
