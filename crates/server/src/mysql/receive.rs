//! The connection's side of a file that the client sends.

use std::time::Duration;

use freshet_base::ErrorCode;
use tokio::io::AsyncReadExt;

use super::conn::Connection;
use super::infile::{FileRequest, PART_BYTES, Part};
use super::socket::End;

impl Connection {
    /// Passes the content of a file on to the statement that has requested it. If the statement has
    /// ended, the rest is dropped.
    pub(super) async fn forward_file(
        &mut self,
        request: FileRequest,
        timeout: Duration,
    ) -> Result<(), End> {
        let FileRequest { mut sequence, parts } = request;
        loop {
            match self.reader.next_packet(sequence) {
                Ok(Some(packet)) => {
                    sequence = packet.reply_sequence();
                    if packet.payload.is_empty() {
                        let _ = parts.send(Part::End { sequence }).await;
                        return Ok(());
                    }
                    for part in packet.payload.chunks(PART_BYTES) {
                        // The statement may have to wait for memory.
                        tokio::select! {
                            biased;
                            _ = parts.send(Part::Bytes(part.to_vec())) => {}
                            () = self.registration.process.killed() => return Err(End::Closed),
                        }
                    }
                }
                Ok(None) => self.receive_file(sequence, timeout).await?,
                Err(error) => {
                    self.writer.reply_to(sequence.wrapping_add(1));
                    self.writer.protocol_error(&error);
                    let _ = self.flush().await;
                    return Err(End::Closed);
                }
            }
        }
    }

    /// Receives more of a file.
    async fn receive_file(&mut self, sequence: u8, timeout: Duration) -> Result<(), End> {
        self.charge_buffer().await;
        self.writer.reply_to(sequence.wrapping_add(1));
        if let Some(error) = self.unwanted.take() {
            let message = error.message().to_owned();
            return Err(self.refuse(error.code(), &message).await);
        }
        let read = self.socket.read(self.reader.spare());
        let read = tokio::select! {
            biased;
            read = tokio::time::timeout(timeout, read) => read,
            () = self.registration.process.killed() => return Err(End::Closed),
        };
        match read {
            Ok(Ok(0)) => Err(End::Closed),
            Ok(Ok(count)) => {
                self.count_received(count);
                self.reader.filled(count);
                Ok(())
            }
            Ok(Err(error)) => Err(End::Io(error)),
            Err(_) => {
                let message = "Got timeout reading the file of LOAD DATA LOCAL (net_read_timeout)";
                Err(self.refuse(ErrorCode::ReadTimeout, message).await)
            }
        }
    }
}
