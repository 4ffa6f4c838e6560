//! The content of a file that the client sends for LOAD DATA LOCAL: packets of bytes and an empty
//! one at the end, which the connection receives and the statement reads.

use tokio::sync::mpsc;

/// The size of the parts in which the content is passed on.
pub const PART_BYTES: usize = 256 << 10;
/// Parts that may wait for the statement.
const PARTS_WAITING: usize = 2;

/// What the connection gets with the packet that requests a file.
pub struct FileRequest {
    /// The sequence id of the first packet of the file.
    pub sequence: u8,
    pub parts: mpsc::Sender<Part>,
}

/// A file that the client sends.
pub struct ClientFile {
    parts: mpsc::Receiver<Part>,
    /// The sequence id of the reply, once the file has ended.
    ended: Option<u8>,
}

pub enum Part {
    Bytes(Vec<u8>),
    /// With the sequence id of the reply.
    End {
        sequence: u8,
    },
}

/// Both ends of a file whose first packet will have this sequence id.
pub fn channel(sequence: u8) -> (FileRequest, ClientFile) {
    let (sender, parts) = mpsc::channel(PARTS_WAITING);
    (FileRequest { sequence, parts: sender }, ClientFile { parts, ended: None })
}

impl ClientFile {
    /// The next part of the content; `None` at its end, and when the client has disconnected: who
    /// finishes the file will learn of it.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        if self.ended.is_some() {
            return None;
        }
        match self.parts.recv().await? {
            Part::Bytes(bytes) => Some(bytes),
            Part::End { sequence } => {
                self.ended = Some(sequence);
                None
            }
        }
    }

    /// Whether all of the content has arrived.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Drops the rest of the content, which the client sends before it reads an answer. Returns the
    /// sequence id of the answer; `None` when the client has disconnected.
    pub async fn finish(mut self) -> Option<u8> {
        while self.next().await.is_some() {}
        self.ended
    }
}
