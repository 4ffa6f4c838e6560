//! The compressed protocol: frames around packets, each deflated by zlib or as it is.
//!
//! Nothing is gathered on the way in: what a frame contains is inflated into the caller's buffer,
//! so that a small frame that stands for a large one costs no memory.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Compressed length, sequence id, length when inflated (0: it is not deflated).
const HEADER_BYTES: usize = 7;
/// Contents of other lengths are sent as they are: short ones gain nothing, and those of a large
/// row would hold up the other connections of the thread.
const DEFLATED_BYTES: std::ops::RangeInclusive<usize> = 50..=1 << 20;
/// The most contents that a frame has. There is one frame for all that is sent at once: some
/// clients expect that a packet is in at most two frames.
const FRAME_BYTES_MAX: usize = 0xff_ffff;
/// What is inflated before other connections have their turn.
const INFLATED_BYTES_MAX: usize = 256 << 10;
/// One read of the socket.
const INPUT_BYTES: usize = 16 << 10;

/// A stream of compressed frames.
pub struct Compressed<S> {
    inner: S,
    /// Received and not yet inflated.
    input: Vec<u8>,
    taken: usize,
    frame: Frame,
    /// Of the frame that is being received, if it is deflated. Both of these are large, and there
    /// only while they are used.
    inflate: Option<Decompress>,
    deflate: Option<Compress>,
    /// Frames that are being sent, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    /// Of the next frame that is sent.
    sequence: u8,
}

/// The frame that is being received.
#[derive(Clone, Copy, Default)]
struct Frame {
    /// Bytes of it that have not been taken.
    left: usize,
    /// Bytes that its contents still have, if it is deflated.
    inflated_left: Option<usize>,
}

impl<S> Compressed<S> {
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            input: Vec::new(),
            taken: 0,
            frame: Frame::default(),
            inflate: None,
            deflate: None,
            output: Vec::new(),
            sent: 0,
            sequence: 0,
        }
    }

    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Whether the frame that is being received has no more contents.
    fn is_between(&self) -> bool {
        self.frame.left == 0 && self.frame.inflated_left.is_none_or(|left| left == 0)
    }

    /// Begins the next frame if its head has been received.
    fn begin(&mut self) -> bool {
        let Some(&[a, b, c, sequence, x, y, z]) =
            self.input[self.taken..].first_chunk::<HEADER_BYTES>()
        else {
            return false;
        };
        self.taken += HEADER_BYTES;
        let length =
            |bytes: [u8; 3]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) as usize;
        let inflated = Some(length([x, y, z])).filter(|bytes| *bytes > 0);
        self.frame = Frame { left: length([a, b, c]), inflated_left: inflated };
        self.inflate = inflated.map(|_| Decompress::new(true));
        // An answer continues the ids of its command.
        self.sequence = sequence.wrapping_add(1);
        true
    }

    /// Moves contents of the frame to `out`; returns how many bytes.
    fn take(&mut self, out: &mut [u8]) -> Result<usize> {
        let input = &self.input[self.taken..];
        let input = &input[..input.len().min(self.frame.left)];
        let Some(inflated_left) = self.frame.inflated_left else {
            let count = input.len().min(out.len());
            out[..count].copy_from_slice(&input[..count]);
            self.taken += count;
            self.frame.left -= count;
            return Ok(count);
        };
        let inflate = self.inflate.as_mut().expect("a frame that is deflated is inflated");
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let room = out.len().min(inflated_left);
        let ended = match inflated_left {
            // What is left is its checksum.
            0 => true,
            _ => {
                let done = inflate.decompress(input, &mut out[..room], FlushDecompress::None);
                done.map_err(|error| Error::new(ErrorKind::InvalidData, error))?
                    == Status::StreamEnd
            }
        };
        let read = (inflate.total_in() - read) as usize;
        let written = (inflate.total_out() - written) as usize;
        let left = inflated_left - written;
        self.frame.inflated_left = Some(left);
        let read = if left == 0 { input.len() } else { read };
        self.taken += read;
        self.frame.left -= read;
        if left > 0 && (ended || self.frame.left == 0 && written == 0) {
            return Err(Error::new(ErrorKind::InvalidData, "a frame is not as long as it says"));
        }
        if self.is_between() {
            self.inflate = None;
        }
        Ok(written)
    }

    /// Makes a frame of `contents`.
    fn put(&mut self, contents: &[u8]) {
        self.output.resize(HEADER_BYTES, 0);
        let mut inflated = 0;
        if DEFLATED_BYTES.contains(&contents.len()) {
            let new = || Compress::new(Compression::fast(), true);
            let deflate = self.deflate.get_or_insert_with(new);
            deflate.reset();
            self.output.reserve(contents.len());
            // What would be longer than it is does not fit, and is sent as it is.
            let done = deflate.compress_vec(contents, &mut self.output, FlushCompress::Finish);
            if matches!(done, Ok(Status::StreamEnd)) {
                inflated = contents.len();
            } else {
                self.output.truncate(HEADER_BYTES);
            }
        }
        if inflated == 0 {
            self.output.extend_from_slice(contents);
        }
        let length = (self.output.len() - HEADER_BYTES) as u32;
        self.output[..3].copy_from_slice(&length.to_le_bytes()[..3]);
        self.output[3] = self.sequence;
        self.output[4..HEADER_BYTES].copy_from_slice(&(inflated as u32).to_le_bytes()[..3]);
        self.sequence = self.sequence.wrapping_add(1);
    }
}

impl<S: AsyncWrite + Unpin> Compressed<S> {
    /// Sends what is gathered.
    fn drain(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            match ready!(Pin::new(&mut self.inner).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        (self.output, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Compressed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = self.get_mut();
        loop {
            let begun = !this.is_between() || this.begin();
            if begun && !this.is_between() {
                let room = buffer.remaining().min(INFLATED_BYTES_MAX);
                let count = this.take(buffer.initialize_unfilled_to(room))?;
                buffer.advance(count);
                if count > 0 {
                    return Poll::Ready(Ok(()));
                }
            }
            if begun && this.is_between() {
                continue;
            }
            this.input.drain(..this.taken);
            this.taken = 0;
            let before = this.input.len();
            this.input.resize(before + INPUT_BYTES, 0);
            let mut more = ReadBuf::new(&mut this.input[before..]);
            let read = Pin::new(&mut this.inner).poll_read(context, &mut more);
            let count = more.filled().len();
            this.input.truncate(before + count);
            ready!(read)?;
            if count == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Compressed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        ready!(this.drain(context))?;
        let count = bytes.len().min(FRAME_BYTES_MAX);
        if count > 0 {
            this.put(&bytes[..count]);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        ready!(this.drain(context))?;
        this.deflate = None;
        Pin::new(&mut this.inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        ready!(this.drain(context))?;
        Pin::new(&mut this.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Two ends of a connection: compressed, and plain.
    async fn pair() -> (Compressed<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let plain = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        (Compressed::new(accepted), plain)
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(test)
    }

    #[test]
    fn contents_come_back_whatever_they_are() {
        run(async {
            let (mut near, far) = pair().await;
            let mut far = Compressed::new(far);
            let mut noise = 1_u64;
            let mut random = move || {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (noise >> 56) as u8
            };
            for bytes in [1, 49, 50, 51, 5_000, 300_000, 1 << 20, (1 << 20) + 1, 17 << 20] {
                for contents in [vec![b'x'; bytes], (0..bytes).map(|_| random()).collect()] {
                    let send = async {
                        near.write_all(&contents).await.unwrap();
                        near.flush().await.unwrap();
                    };
                    let mut got = vec![0; contents.len()];
                    tokio::join!(send, async { far.read_exact(&mut got).await.unwrap() });
                    assert_eq!(got, contents);
                    assert!(far.is_between(), "{bytes}: the frame ends with its contents");
                }
            }
        });
    }

    #[test]
    fn an_answer_continues_the_ids_of_its_command() {
        run(async {
            let (mut near, mut far) = pair().await;
            far.write_all(b"\x05\0\0\x06\0\0\0\x01\0\0\0\x0e").await.unwrap();
            let mut got = [0; 5];
            near.read_exact(&mut got).await.unwrap();
            assert_eq!(got, *b"\x01\0\0\0\x0e");
            near.write_all(b"answer").await.unwrap();
            near.flush().await.unwrap();
            let mut frame = [0; 13];
            far.read_exact(&mut frame).await.unwrap();
            assert_eq!(frame, *b"\x06\0\0\x07\0\0\0answer");
        });
    }

    #[test]
    fn frames_that_lie_end_the_connection() {
        run(async {
            let deflated = |contents: &[u8], says: u32| {
                let mut body = Vec::with_capacity(1 << 10);
                let mut deflate = Compress::new(Compression::fast(), true);
                deflate.compress_vec(contents, &mut body, FlushCompress::Finish).unwrap();
                let mut frame = (body.len() as u32).to_le_bytes()[..3].to_vec();
                frame.push(0);
                frame.extend(&says.to_le_bytes()[..3]);
                frame.extend(body);
                frame
            };
            let noise = [&b"\x20\0\0\0\x40\0\0"[..], &[0xab; 32]].concat();
            for frame in [deflated(&[7; 100], 101), noise] {
                let (mut near, mut far) = pair().await;
                far.write_all(&frame).await.unwrap();
                let mut got = Vec::new();
                let ended = near.read_to_end(&mut got).await;
                assert_eq!(ended.unwrap_err().kind(), ErrorKind::InvalidData);
            }
            // More than it says is not taken.
            let (mut near, mut far) = pair().await;
            far.write_all(&deflated(&[7; 100], 60)).await.unwrap();
            drop(far);
            let mut got = Vec::new();
            let _ = near.read_to_end(&mut got).await;
            assert!(got.len() <= 60);
        });
    }
}
