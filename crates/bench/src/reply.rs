//! Parses answers in every protocol that is measured.

use freshet_wire::client::ServerPacket;
use freshet_wire::{Capabilities, PAYLOAD_BYTES_MAX_DEFAULT, PacketReader};

use crate::session::PostgresSession;

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success, with the number of rows if the server reports it.
    Done(Option<u64>),
    /// A load that waits for its commit, with the id of its transaction.
    Prepared(u64),
    /// An error, with the server's message.
    Refused(String),
}

/// Parses the answers of a connection.
pub enum Replies {
    Mysql {
        reader: PacketReader,
        /// The negotiated capabilities.
        capabilities: Capabilities,
        sequence: u8,
    },
    /// Results of queries with MySQL's protocol.
    Rows {
        reader: PacketReader,
        /// The negotiated capabilities.
        capabilities: Capabilities,
        sequence: u8,
        stage: RowsStage,
    },
    Postgres {
        buffer: Buffer,
        /// The result so far; the answer ends with ReadyForQuery.
        said: Answer,
    },
    Http(Buffer),
}

/// The sequence id of the OK packet after a file of two packets: command, file request, file, end,
/// OK.
const SEQUENCE_AFTER_FILE: u8 = 4;

impl Replies {
    pub fn mysql(capabilities: Capabilities) -> Self {
        let reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        Self::Mysql { reader, capabilities, sequence: 1 }
    }

    /// Answers with rows, which are counted.
    pub fn rows(capabilities: Capabilities) -> Self {
        let reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        Self::Rows { reader, capabilities, sequence: 1, stage: RowsStage::Begin }
    }

    pub fn postgres() -> Self {
        Self::Postgres { buffer: Buffer::default(), said: Answer::Done(None) }
    }

    pub fn http() -> Self {
        Self::Http(Buffer::default())
    }

    /// Space for a read.
    pub fn spare(&mut self) -> &mut [u8] {
        match self {
            Self::Mysql { reader, .. } | Self::Rows { reader, .. } => reader.spare(),
            Self::Postgres { buffer, .. } | Self::Http(buffer) => buffer.spare(),
        }
    }

    /// Records how much of [`Replies::spare`] was filled.
    pub fn filled(&mut self, count: usize) {
        match self {
            Self::Mysql { reader, .. } | Self::Rows { reader, .. } => reader.filled(count),
            Self::Postgres { buffer, .. } | Self::Http(buffer) => buffer.end += count,
        }
    }

    /// The next complete answer; after an error the connection must be closed.
    pub fn next(&mut self) -> Result<Option<Answer>, String> {
        match self {
            Self::Mysql { reader, capabilities, sequence } => {
                let answer = next_mysql(reader, *capabilities, sequence);
                answer.map_err(|error| error.to_string())
            }
            Self::Rows { reader, capabilities, sequence, stage } => {
                let answer = next_rows(reader, *capabilities, sequence, stage);
                answer.map_err(|error| error.to_string())
            }
            Self::Postgres { buffer, said } => Ok(next_postgres(buffer, said)),
            Self::Http(buffer) => next_http(buffer),
        }
    }
}

fn next_mysql(
    reader: &mut PacketReader,
    capabilities: Capabilities,
    sequence: &mut u8,
) -> freshet_wire::Result<Option<Answer>> {
    while let Some(packet) = reader.next_packet(*sequence)? {
        *sequence = 1;
        match ServerPacket::parse(packet.payload, capabilities)? {
            // The null server does not parse rows, so it reports 0.
            ServerPacket::Ok(ok) => {
                let rows = Some(ok.affected_rows).filter(|rows| *rows > 0);
                return Ok(Some(Answer::Done(rows)));
            }
            ServerPacket::Err(err) => {
                return Ok(Some(Answer::Refused(format!("{}: {}", err.errno, err.message))));
            }
            ServerPacket::LocalInfile(_) => *sequence = SEQUENCE_AFTER_FILE,
            ServerPacket::Columns(_) => {
                return Ok(Some(Answer::Refused("rows instead of an OK packet".to_owned())));
            }
        }
    }
    Ok(None)
}

/// How far a result set was received.
#[derive(Clone, Copy, Debug)]
pub enum RowsStage {
    Begin,
    /// So many definitions are left, with the EOF packet behind them.
    Definitions(usize),
    /// So many rows have come.
    Rows(u64),
}

fn next_rows(
    reader: &mut PacketReader,
    capabilities: Capabilities,
    sequence: &mut u8,
    stage: &mut RowsStage,
) -> freshet_wire::Result<Option<Answer>> {
    const END: u8 = 0xfe;
    while let Some(packet) = reader.next_packet(*sequence)? {
        *sequence = packet.reply_sequence();
        match *stage {
            RowsStage::Begin => match ServerPacket::parse(packet.payload, capabilities)? {
                ServerPacket::Columns(count) => {
                    let ends = !capabilities.contains(Capabilities::DEPRECATE_EOF);
                    *stage = RowsStage::Definitions(count + usize::from(ends));
                }
                ServerPacket::Err(err) => {
                    *sequence = 1;
                    return Ok(Some(Answer::Refused(format!("{}: {}", err.errno, err.message))));
                }
                ServerPacket::Ok(_) | ServerPacket::LocalInfile(_) => {
                    return Ok(Some(Answer::Refused("no rows".to_owned())));
                }
            },
            RowsStage::Definitions(1) => *stage = RowsStage::Rows(0),
            RowsStage::Definitions(left) => *stage = RowsStage::Definitions(left - 1),
            RowsStage::Rows(count) if packet.payload.first() == Some(&END) => {
                (*sequence, *stage) = (1, RowsStage::Begin);
                return Ok(Some(Answer::Done(Some(count))));
            }
            RowsStage::Rows(count) => *stage = RowsStage::Rows(count + 1),
        }
    }
    Ok(None)
}

fn next_postgres(buffer: &mut Buffer, said: &mut Answer) -> Option<Answer> {
    loop {
        let unread = buffer.unread();
        let (&[kind, ref length @ ..], _) = unread.split_first_chunk::<5>()?;
        let end = 1 + u32::from_be_bytes(*length) as usize;
        let body = unread.get(5..end)?;
        match kind {
            b'E' => *said = Answer::Refused(PostgresSession::error_text(body)),
            b'C' => *said = Answer::Done(count_of_tag(body)),
            _ => {}
        }
        buffer.start += end;
        if kind == b'Z' {
            return Some(std::mem::replace(said, Answer::Done(None)));
        }
    }
}

/// The row count at the end of `INSERT 0 5` or `COPY 5`.
fn count_of_tag(tag: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(tag).ok()?.trim_end_matches('\0');
    text.rsplit(' ').next()?.parse().ok()
}

fn next_http(buffer: &mut Buffer) -> Result<Option<Answer>, String> {
    loop {
        let unread = buffer.unread();
        let Some(head_bytes) = find(unread, b"\r\n\r\n").map(|at| at + 4) else { return Ok(None) };
        let head = String::from_utf8_lossy(&unread[..head_bytes]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status: u16 = status.ok_or("an answer that is not HTTP")?;
        if status == 100 {
            buffer.start += head_bytes;
            continue;
        }
        let body = &unread[head_bytes..];
        let Some(body_bytes) = body_bytes(&head, status, body) else { return Ok(None) };
        let answer = judge_http(status, &String::from_utf8_lossy(&body[..body_bytes]));
        buffer.start += head_bytes + body_bytes;
        return Ok(Some(answer));
    }
}

/// The length of the body if it is complete.
fn body_bytes(head: &str, status: u16, body: &[u8]) -> Option<usize> {
    let header = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        const END: &[u8] = b"0\r\n\r\n";
        return match body.starts_with(END) {
            true => Some(END.len()),
            false => find(body, b"\r\n0\r\n\r\n").map(|at| at + 7),
        };
    }
    let length = header("content-length").and_then(|text| text.parse().ok());
    let length: usize = if status == 204 { 0 } else { length.unwrap_or(0) };
    (body.len() >= length).then_some(length)
}

/// The result of an HTTP request: Stream Load reports it in the body, others by the status.
fn judge_http(status: u16, body: &str) -> Answer {
    let value = |name: &str| {
        let (_, rest) = body.split_once(&format!("\"{name}\""))?;
        Some(rest.trim_start_matches([':', ' ', '"']).to_owned())
    };
    let status_text = value("Status").or_else(|| value("status"));
    let failed = status_text.is_some_and(|text| !text.starts_with("Success"));
    if !(200..300).contains(&status) || failed {
        let start: String = body.chars().take(300).collect();
        return Answer::Refused(format!("HTTP {status}: {start}"));
    }
    let number = |name| -> Option<u64> {
        let digits = |text: String| text.chars().take_while(char::is_ascii_digit).collect();
        value(name).map(digits).and_then(|digits: String| digits.parse().ok())
    };
    match value("TwoPhaseCommit").is_some_and(|text| text.starts_with("true")) {
        true => number("TxnId").map_or(Answer::Done(None), Answer::Prepared),
        false => Answer::Done(number("NumberLoadedRows")),
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Received bytes that were not parsed yet.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn spare(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.bytes.len() < self.end + 1024 {
            self.bytes.resize(2 * self.end + 4096, 0);
        }
        &mut self.bytes[self.end..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(mut replies: Replies, bytes: &[u8]) -> Vec<Answer> {
        let mut found = Vec::new();
        for piece in bytes.chunks(3) {
            replies.spare()[..piece.len()].copy_from_slice(piece);
            replies.filled(piece.len());
            while let Some(answer) = replies.next().unwrap() {
                found.push(answer);
            }
        }
        found
    }

    #[test]
    fn mysql_answers_count_rows_and_pass_over_the_wish_for_a_file() {
        let mut bytes = vec![7, 0, 0, 1, 0, 5, 0, 2, 0, 0, 0];
        bytes.extend_from_slice(&[5, 0, 0, 1, 0xfb, b'b', b'o', b'd', b'y']);
        bytes.extend_from_slice(&[7, 0, 0, 4, 0, 9, 0, 2, 0, 0, 0]);
        bytes.extend_from_slice(b"\x0b\0\0\x01\xff\x28\x04#42000no");
        assert_eq!(
            answers(Replies::mysql(Capabilities::PROTOCOL_41), &bytes),
            [Answer::Done(Some(5)), Answer::Done(Some(9)), Answer::Refused("1064: no".to_owned())]
        );
    }

    #[test]
    fn postgres_answers_end_with_ready() {
        let bytes = b"2\0\0\0\x04C\0\0\0\x0fINSERT 0 7\0Z\0\0\0\x05I\
            E\0\0\0\x0fSERROR\0Mno\0Z\0\0\0\x05I";
        let found = answers(Replies::postgres(), bytes);
        assert_eq!(found[0], Answer::Done(Some(7)));
        assert_eq!(found[1], Answer::Refused("no".to_owned()));
    }

    #[test]
    fn http_answers_of_all_lengths() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 46\r\n\r\n\
            {\"Status\": \"Success\",\"NumberLoadedRows\": 123 }\
            HTTP/1.1 200 OK\r\nContent-Length: 46\r\n\r\n\
            {\"TxnId\": 77, \"TwoPhaseCommit\": \"true\"       }\
            HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{\"Status\": \"Fail\" }";
        assert_eq!(
            answers(Replies::http(), bytes),
            [
                Answer::Done(None),
                Answer::Done(None),
                Answer::Done(Some(123)),
                Answer::Prepared(77),
                Answer::Refused("HTTP 200: {\"Status\": \"Fail\" }".to_owned())
            ]
        );
    }
}
