//! Reading the body of a request: size limit, timeouts, unpacking, end.

use std::time::Duration;

use bytes::Bytes;
use freshet_base::clock::{ClockRef, Deadline, until};
use freshet_base::{Result, bail};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};

use super::headers::Compression;
use super::unpack::Unpacker;
use crate::http::client::Activity;

/// Bodies up to this size are decoded on the I/O thread.
pub(super) const INLINE_BYTES_MAX: u64 = 1 << 20;

/// How much of an unneeded body is read, so that the client gets to read the reply.
const DRAIN_BYTES_MAX: u64 = 256 << 20;
/// How long an unneeded body is read.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);

/// The size of a body according to its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodySize {
    /// Content-Length.
    Known(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
}

impl BodySize {
    /// # Errors
    /// Unless exactly one of the two headers is present.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self> {
        let chunked = headers.contains_key(TRANSFER_ENCODING);
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        match (chunked, length.and_then(|text| text.parse().ok())) {
            (true, None) => Ok(Self::Chunked),
            (false, Some(bytes)) => Ok(Self::Known(bytes)),
            (true, Some(_)) => {
                bail!(WrongArguments, "please do not set both content_length and transfer-encoding")
            }
            (false, None) => bail!(
                WrongArguments,
                "content_length is empty and transfer-encoding!=chunked, please set \
                 content_length or transfer-encoding=chunked"
            ),
        }
    }

    /// Whether the body is known to be empty.
    pub(super) fn is_empty(self) -> bool {
        self == Self::Known(0)
    }
}

/// The maximum size of a body, and the setting for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimit {
    pub setting: &'static str,
    pub mebibytes: u64,
}

impl BodyLimit {
    /// Refuses a size above the limit.
    ///
    /// # Errors
    /// With Doris's message.
    pub(super) fn check(self, bytes: u64) -> Result<()> {
        if bytes <= self.mebibytes << 20 {
            return Ok(());
        }
        bail!(
            WrongArguments,
            "body size {bytes} exceed BE's conf `{}` {}. increase it if you are sure this load is \
             reasonable",
            self.setting,
            self.mebibytes
        )
    }
}

pub(super) struct Body<'a> {
    incoming: Incoming,
    clock: ClockRef,
    activity: &'a Activity,
    expects_continue: bool,
    polled: bool,
    ended: bool,
    received: u64,
    waited: Duration,
    /// When it was first waited for.
    since: Option<Duration>,
    /// When the last of it came.
    until: Duration,
    /// Of a compressed body, until its end.
    unpacker: Option<Unpacker>,
    /// After unpacking.
    unpacked: u64,
    /// What [`Body::peek`] has read.
    peeked: Option<Bytes>,
}

impl<'a> Body<'a> {
    pub(super) fn new(
        headers: &HeaderMap,
        incoming: Incoming,
        clock: ClockRef,
        activity: &'a Activity,
    ) -> Self {
        Self {
            incoming,
            clock,
            activity,
            expects_continue: headers.contains_key(EXPECT),
            polled: false,
            ended: false,
            received: 0,
            waited: Duration::ZERO,
            since: None,
            until: Duration::ZERO,
            unpacker: None,
            unpacked: 0,
            peeked: None,
        }
    }

    /// Bytes received so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// The time spent waiting for the client.
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    /// The time from the first wait for the client to the last that came.
    pub(super) fn took(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| self.until.saturating_sub(since))
    }

    /// From now on the body is unpacked.
    ///
    /// # Errors
    /// Those of [`Unpacker::new`].
    pub(super) fn unpack(&mut self, compression: Compression) -> Result<()> {
        self.unpacker = Some(Unpacker::new(compression)?);
        Ok(())
    }

    /// What `find` finds in the start of the body, which is read as far as that takes, but not
    /// much farther than `bytes_max`. `find` is told whether it sees the whole body.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub(super) async fn peek<T>(
        &mut self,
        (limit, deadline): (BodyLimit, Deadline),
        bytes_max: usize,
        find: impl Fn(&[u8], bool) -> Option<T>,
    ) -> Result<Option<T>> {
        let (mut start, mut looked) = (Vec::new(), 0);
        let found = loop {
            let part = self.next(limit, deadline).await?;
            let is_all = part.is_none();
            start.extend_from_slice(&part.unwrap_or_default());
            let is_full = start.len() > bytes_max;
            // It looks at all of it each time, so only when that is twice as much.
            if start.len() < 2 * looked && !is_all && !is_full {
                continue;
            }
            looked = start.len();
            let found = find(&start, is_all);
            if found.is_some() || is_all || is_full {
                break found;
            }
        };
        self.peeked = Some(start.into()).filter(|start: &Bytes| !start.is_empty());
        Ok(found)
    }

    /// The next part, unpacked, or `None` at the end.
    ///
    /// # Errors
    /// Those of [`Self::receive`]; when the body cannot be unpacked, or unpacks to more than
    /// `limit`.
    pub(super) async fn next(
        &mut self,
        limit: BodyLimit,
        deadline: Deadline,
    ) -> Result<Option<Bytes>> {
        if let Some(peeked) = self.peeked.take() {
            return Ok(Some(peeked));
        }
        loop {
            let Some(unpacker) = &mut self.unpacker else {
                return self.receive(limit, deadline).await;
            };
            if let Some(part) = unpacker.next()? {
                self.unpacked += part.len() as u64;
                limit.check(self.unpacked)?;
                // Unpacking takes its time, which others on this thread must not wait for.
                tokio::task::yield_now().await;
                return Ok(Some(part));
            }
            let received = self.receive(limit, deadline).await?;
            let unpacker = self.unpacker.as_mut().expect("it is there until the end");
            match received {
                Some(bytes) => unpacker.feed(bytes),
                None => {
                    let rest = unpacker.finish()?;
                    self.unpacker = None;
                    self.unpacked += rest.len() as u64;
                    limit.check(self.unpacked)?;
                    if !rest.is_empty() {
                        return Ok(Some(rest));
                    }
                }
            }
        }
    }

    /// The next part as it came, or `None` at the end. A client that pauses too long loses its
    /// connection, and the load fails: see [`Activity`].
    ///
    /// # Errors
    /// When the client disconnects, violates HTTP, sends more than `limit`, or sends after
    /// `deadline`.
    async fn receive(&mut self, limit: BodyLimit, deadline: Deadline) -> Result<Option<Bytes>> {
        self.polled = true;
        if self.ended {
            return Ok(None);
        }
        loop {
            let Some(frame) = self.frame().await else {
                self.ended = true;
                return Ok(None);
            };
            if deadline.left(&*self.clock).is_zero() {
                bail!(QueryTimeout, "the load took longer than its timeout allows");
            }
            match frame {
                Ok(frame) => {
                    // Trailers are ignored.
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.received += bytes.len() as u64;
                    limit.check(self.received)?;
                    return Ok(Some(bytes));
                }
                Err(error) => {
                    self.ended = true;
                    bail!(
                        Interrupted,
                        "receive body don't equal with body bytes: {} bytes came, then {error}",
                        self.received
                    );
                }
            }
        }
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        let from = self.clock.now();
        self.activity.waits_for_client(true);
        let frame = self.incoming.frame().await;
        self.activity.waits_for_client(false);
        self.until = self.clock.now();
        self.since.get_or_insert(from);
        self.waited += self.until.saturating_sub(from);
        frame
    }

    /// Gives up a body whose rest is not needed. A client that keeps sending would not read the
    /// reply if the connection were closed now, so the rest is read and dropped for a while.
    pub(super) fn drain(self) {
        let client_sends = self.polled || !self.expects_continue;
        if self.ended || !client_sends || hyper::body::Body::is_end_stream(&self.incoming) {
            return;
        }
        let (clock, mut incoming) = (self.clock, self.incoming);
        tokio::spawn(async move {
            let deadline = Deadline::after(&*clock, DRAIN_PATIENCE);
            let drain = async {
                let mut drained = 0;
                while let Some(Ok(frame)) = incoming.frame().await {
                    drained += frame.data_ref().map_or(0, Bytes::len) as u64;
                    if drained > DRAIN_BYTES_MAX {
                        return;
                    }
                }
            };
            // Whether the body ended or not, hyper takes over the connection again.
            let _ = until(&*clock, deadline, drain).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(pairs: &[(hyper::header::HeaderName, &'static str)]) -> Result<BodySize> {
        let headers =
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        BodySize::of(&headers)
    }

    #[test]
    fn a_body_is_sized_or_chunked() {
        assert_eq!(size(&[(CONTENT_LENGTH, "12")]).unwrap(), BodySize::Known(12));
        assert_eq!(size(&[(TRANSFER_ENCODING, "chunked")]).unwrap(), BodySize::Chunked);
        assert!(size(&[(CONTENT_LENGTH, "0")]).unwrap().is_empty());
        let neither = size(&[]).unwrap_err();
        assert!(neither.message().starts_with("content_length is empty"));
        let both = size(&[(CONTENT_LENGTH, "1"), (TRANSFER_ENCODING, "chunked")]).unwrap_err();
        assert!(both.message().starts_with("please do not set both"));
    }

    #[test]
    fn too_much_is_refused_with_the_setting() {
        let limit = BodyLimit { setting: "streaming_load_json_max_mb", mebibytes: 1 };
        assert!(limit.check(1 << 20).is_ok());
        let error = limit.check((1 << 20) + 1).unwrap_err();
        assert!(error.message().contains("`streaming_load_json_max_mb` 1."));
    }
}
