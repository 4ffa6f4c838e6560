//! A body into encoded rows: small ones on the connection's thread, part by part as they come;
//! large ones in pieces on the pool, with the results in the order of the body.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::clock::Deadline;
use freshet_base::task::{self, Lane};
use freshet_base::{Result, bail};
use freshet_ingest::decode::SourcePlan;
use freshet_ingest::decode::csv::{CsvDecoder, CsvFormat, LINE_BYTES_MAX, split_at_line};
use freshet_ingest::decode::json::{self, JsonDecoder};
use freshet_ingest::rejects::Rejects;
use freshet_ingest::{Engine, LoadBuffer};
use freshet_schema::Rules;
use futures::channel::{mpsc, oneshot};
use futures::{SinkExt, StreamExt};

use super::body::{Body, BodyLimit, BodySize};
use super::headers::LoadFormat;
use super::sink::{Memory, Sink};

/// Bodies up to here are decoded on the connection's thread.
const INLINE_BYTES_MAX: u64 = 1 << 20;
/// Larger ones are cut into pieces of about this size.
const PIECE_BYTES: usize = 384 << 10;
/// Pieces of one load that are decoded or wait at the same time.
const PIECES_AHEAD: usize = 4;
/// Lines to skip that the first piece is sure to hold.
const SKIP_LINES_MAX: u64 = 2;
/// What is decoded of a piece before its rows are looked at.
const SLICE_BYTES: usize = 32 << 10;
/// Rows that one decoder made of a large body go on from here.
const STEP_BYTES: usize = 2 << 20;

/// What all parts of a body have in common.
#[derive(Clone)]
pub(super) struct Source {
    pub format: LoadFormat,
    pub plan: Arc<SourcePlan>,
    pub rules: Rules,
}

/// Bounds on the reading of one body.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub size: BodySize,
    pub limit: BodyLimit,
    pub deadline: Deadline,
}

/// What came of a body besides the rows that were taken.
#[derive(Default)]
pub(super) struct Seen {
    /// Rows, good and bad.
    pub rows: u64,
    /// The bad ones.
    pub rejects: Rejects,
}

/// Decodes a whole body into `sink`.
///
/// # Errors
/// Those of the body, of memory that is full, of files that cannot be written, and of a body
/// that is no list of rows; single bad rows are in [`Seen`].
pub(super) async fn decode(
    engine: &Engine,
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    sink: &mut Sink<'_>,
) -> Result<Seen> {
    if matches!(bounds.size, BodySize::Known(bytes) if bytes <= INLINE_BYTES_MAX) {
        return inline(body, source, bounds, Vec::new(), sink).await;
    }
    let mut memory = sink.memory();
    let first = match read_first(body, bounds, &mut memory).await? {
        First::All(parts) => return inline(body, source, bounds, parts, sink).await,
        First::Large(bytes) => bytes,
    };
    sink.become_large().await?;
    match way_of(&source.format) {
        Way::Pieces(lines) => {
            let (ahead, pending) = mpsc::channel(PIECES_AHEAD);
            let (gathered, lines, is_first) = (first, &lines, true);
            let to_skip = lines.skip_lines;
            let (from, searched) = (0, 0);
            let cut = Cutter {
                engine,
                source,
                lines,
                memory,
                ahead,
                gathered,
                is_first,
                to_skip,
                from,
                searched,
            };
            let ((), seen) = futures::try_join!(cut.run(body, bounds), collect(pending, sink))?;
            Ok(seen)
        }
        Way::Document => document(engine, body, source, bounds, first, memory, sink).await,
        Way::Stream => stream(engine, body, source, bounds, (first, memory), sink).await,
    }
}

/// How a large body is decoded.
enum Way {
    /// In pieces that are cut behind lines of this kind.
    Pieces(CsvFormat),
    /// Whole, once all of it is there.
    Document,
    /// Piece by piece by one decoder: what a row is depends on all that came before.
    Stream,
}

fn way_of(format: &LoadFormat) -> Way {
    match format {
        LoadFormat::Csv(csv) if csv.enclose.is_some() || csv.skip_lines > SKIP_LINES_MAX => {
            Way::Stream
        }
        LoadFormat::Csv(csv) => Way::Pieces(csv.clone()),
        LoadFormat::Json(json) if json.strip_outer_array && !json.read_by_line => {
            // An array is cut into its elements as it comes, unless it stands inside of something.
            if json.root.is_empty() { Way::Stream } else { Way::Document }
        }
        LoadFormat::Json(json) => {
            // Lines of JSON end like lines of CSV.
            let mut lines = CsvFormat::default();
            if !json.delimiter.is_empty() {
                lines.delimiter.clone_from(&json.delimiter);
            }
            Way::Pieces(lines)
        }
    }
}

/// Decodes on this thread: `first`, then whatever comes.
async fn inline(
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    first: Vec<Bytes>,
    sink: &mut Sink<'_>,
) -> Result<Seen> {
    let mut decoder = Decoder::new(source, &*source.plan, true);
    let mut buffer = LoadBuffer::default();
    let mut memory = sink.memory();
    if let BodySize::Known(bytes) = bounds.size {
        let expected = bytes.min(INLINE_BYTES_MAX) as usize;
        memory.cover(expected).await?;
        buffer.begin().reserve(expected);
    } else {
        buffer.begin();
    }
    let mut rows_before = 0;
    let mut first = first.into_iter();
    loop {
        let part = match first.next() {
            Some(part) => Some(part),
            None => body.next(bounds.limit, bounds.deadline).await?,
        };
        let Some(part) = part else { break };
        let waiting = decoder.waiting_bytes();
        memory.cover(buffer.payload_bytes() + waiting + part.len()).await?;
        decoder.feed(&part, buffer.resume())?;
        memory.cover_now(buffer.payload_bytes() + decoder.waiting_bytes());
        if buffer.payload_bytes() >= STEP_BYTES {
            let rows = decoder.rows() - rows_before;
            rows_before = decoder.rows();
            let (bytes, _) = buffer.take();
            sink.push(bytes, rows, memory.take()).await?;
            buffer.resume().reserve(STEP_BYTES);
        }
    }
    decoder.finish(buffer.resume())?;
    buffer.count(decoder.rows() - rows_before)?;
    memory.cover_now(buffer.payload_bytes());
    sink.last(buffer, memory.take());
    Ok(decoder.into_seen())
}

/// Decodes a large body piece by piece on the pool, where it is in nobody's way.
async fn stream(
    engine: &Engine,
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    (first, mut memory): (Vec<u8>, Memory<'_>),
    sink: &mut Sink<'_>,
) -> Result<Seen> {
    let mut decoder = Decoder::new(source, Arc::clone(&source.plan), true);
    let mut piece = first;
    loop {
        let waiting = decoder.waiting_bytes();
        let mut ended = false;
        while piece.len() < PIECE_BYTES && !ended {
            match body.next(bounds.limit, bounds.deadline).await? {
                // The piece itself, and about as much for its rows.
                Some(part) => {
                    memory.cover(waiting + 2 * (piece.len() + part.len())).await?;
                    piece.extend_from_slice(&part);
                }
                None => ended = true,
            }
        }
        let mut part = Part { bytes: std::mem::take(&mut piece), at: 0, is_last: ended };
        loop {
            let rows_before = decoder.rows();
            let decode = move || part.decode(decoder);
            let rows: Vec<u8>;
            (part, decoder, rows) = task::run(&**engine.pool(), decode).await?;
            let count = decoder.rows() - rows_before;
            if count > 0 {
                let permit = memory.split(rows.len());
                memory.cover_now(decoder.waiting_bytes());
                sink.push(rows.into(), count, permit).await?;
            }
            if part.is_done() {
                break;
            }
        }
        if ended {
            return Ok(decoder.into_seen());
        }
    }
}

/// A piece of a body that is decoded step by step: its rows may be much longer than it is.
struct Part {
    bytes: Vec<u8>,
    /// How much of it is decoded.
    at: usize,
    /// Whether the body ends with it.
    is_last: bool,
}

impl Part {
    fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Decodes until it is done or its rows fill a step.
    fn decode<P: Deref<Target = SourcePlan> + Clone>(
        mut self,
        mut decoder: Decoder<P>,
    ) -> Result<(Self, Decoder<P>, Vec<u8>)> {
        let mut rows = Vec::new();
        while !self.is_done() && rows.len() < STEP_BYTES {
            let end = (self.at + SLICE_BYTES).min(self.bytes.len());
            decoder.feed(&self.bytes[self.at..end], &mut rows)?;
            self.at = end;
        }
        if self.is_last && self.is_done() {
            decoder.finish(&mut rows)?;
        }
        Ok((self, decoder, rows))
    }
}

/// One decoded piece.
struct Decoded {
    rows: Vec<u8>,
    count: usize,
    seen: Seen,
    permit: Permit,
}

type Pending = oneshot::Receiver<Result<Decoded>>;

/// The beginning of a body whose size nobody knows.
enum First {
    /// It was all.
    All(Vec<Bytes>),
    /// It is large.
    Large(Vec<u8>),
}

async fn read_first(body: &mut Body<'_>, bounds: Bounds, memory: &mut Memory<'_>) -> Result<First> {
    if bounds.size != BodySize::Chunked {
        return Ok(First::Large(Vec::new()));
    }
    let mut parts = Vec::new();
    while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
        parts.push(part);
        memory.cover(parts.iter().map(Bytes::len).sum()).await?;
        if body.received() > INLINE_BYTES_MAX {
            return Ok(First::Large(parts.concat()));
        }
    }
    Ok(First::All(parts))
}

/// Reads a whole document, which its limit keeps small, and decodes it on the pool.
async fn document(
    engine: &Engine,
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    first: Vec<u8>,
    mut memory: Memory<'_>,
    sink: &mut Sink<'_>,
) -> Result<Seen> {
    let mut text = first;
    while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
        memory.cover(text.len() + part.len()).await?;
        text.extend_from_slice(&part);
    }
    memory.cover(text.len() * 2).await?;
    let (source, permit) = (source.clone(), memory.take());
    let decode = move || decode_piece(&source, true, text, permit);
    let Decoded { rows, count, seen, permit } = task::run(&**engine.pool(), decode).await?;
    sink.push(rows.into(), count, permit).await?;
    Ok(seen)
}

/// Where a piece ends.
enum End {
    /// Behind a line that ends here.
    At(usize),
    /// Not in what has come so far.
    Unknown,
    /// Nowhere: the last line is longer than any may be.
    LineTooLong,
}

/// What the decoder of a piece is to find.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Rows,
    /// The words that say which line is too long.
    Refusal,
}

impl Want {
    /// Rows of a body that is not read to its end are a part of a load, which nobody may have.
    fn of(self, decoded: Decoded) -> Result<Decoded> {
        match self {
            Self::Rows => Ok(decoded),
            Self::Refusal => bail!(TooLong, "the last of {} lines has no end", decoded.seen.rows),
        }
    }
}

/// Reads and cuts a body at line ends on this thread, and has the pieces decoded on the pool.
struct Cutter<'a> {
    engine: &'a Engine,
    source: &'a Source,
    lines: &'a CsvFormat,
    memory: Memory<'a>,
    ahead: mpsc::Sender<Pending>,
    gathered: Vec<u8>,
    is_first: bool,
    /// Lines at the front that the first piece has to hold.
    to_skip: u64,
    /// Where the line begins behind which the piece ends at the earliest.
    from: usize,
    /// No line ends before this: what was looked at is not looked at again with every part.
    searched: usize,
}

impl Cutter<'_> {
    async fn run(mut self, body: &mut Body<'_>, bounds: Bounds) -> Result<()> {
        while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
            self.memory.cover(self.gathered.len() + part.len()).await?;
            self.gathered.extend_from_slice(&part);
            loop {
                match self.end_of_piece() {
                    End::Unknown => break,
                    End::At(end) => {
                        let rest = self.gathered.split_off(end);
                        let piece = std::mem::replace(&mut self.gathered, rest);
                        self.submit(piece, Want::Rows).await?;
                    }
                    // What follows is a part of that line, so nobody wants it.
                    End::LineTooLong => {
                        let piece = std::mem::take(&mut self.gathered);
                        return self.submit(piece, Want::Refusal).await;
                    }
                }
            }
        }
        let last = std::mem::take(&mut self.gathered);
        self.submit(last, Want::Rows).await
    }

    /// Where the next piece ends: behind enough lines, the ones to be skipped included.
    fn end_of_piece(&mut self) -> End {
        if self.gathered.len() < PIECE_BYTES {
            return End::Unknown;
        }
        while self.to_skip > 0 {
            let Some(end) = self.line_end(self.from) else { return self.no_end_behind(self.from) };
            self.from = end;
            self.to_skip -= 1;
        }
        let from = self.from.max(PIECE_BYTES);
        let Some(end) = self.line_end(from) else { return self.no_end_behind(from) };
        (self.from, self.searched) = (0, 0);
        End::At(end)
    }

    /// The end of the line that `from` is in.
    fn line_end(&mut self, from: usize) -> Option<usize> {
        let from = from.max(self.searched);
        let end = split_at_line(&self.gathered, from, self.lines);
        if end.is_none() {
            let beginning = (self.gathered.len() + 1).saturating_sub(self.lines.delimiter.len());
            self.searched = from.max(beginning);
        }
        end
    }

    fn no_end_behind(&self, from: usize) -> End {
        let line_bytes_max = match self.source.format {
            LoadFormat::Csv(_) => LINE_BYTES_MAX,
            LoadFormat::Json(_) => json::LINE_BYTES_MAX,
        };
        let line_bytes_min = self.gathered.len().saturating_sub(from);
        if line_bytes_min > line_bytes_max { End::LineTooLong } else { End::Unknown }
    }

    async fn submit(&mut self, piece: Vec<u8>, want: Want) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        // The piece itself, and about as much for its rows.
        self.memory.cover(piece.len() * 2).await?;
        let permit = self.memory.take();
        let source = self.source.clone();
        let is_first = std::mem::take(&mut self.is_first);
        self.engine.pool().execute(
            Lane::Foreground,
            Box::new(move || {
                // A load that failed meanwhile no longer wants the rows.
                let decoded = decode_piece(&source, is_first, piece, permit);
                let _ = sender.send(decoded.and_then(|decoded| want.of(decoded)));
            }),
        );
        // The collector leaves only with an error, which ends this side too.
        let _ = self.ahead.send(receiver).await;
        Ok(())
    }
}

fn decode_piece(
    source: &Source,
    is_first: bool,
    piece: Vec<u8>,
    mut permit: Permit,
) -> Result<Decoded> {
    let mut rows = Vec::with_capacity(piece.len() + piece.len() / 4);
    let mut decoder = Decoder::new(source, &*source.plan, is_first);
    decoder.feed(&piece, &mut rows)?;
    decoder.finish(&mut rows)?;
    drop(piece);
    permit.resize_over(rows.len() as u64);
    let count = decoder.rows();
    Ok(Decoded { rows, count, seen: decoder.into_seen(), permit })
}

async fn collect(mut pending: mpsc::Receiver<Pending>, sink: &mut Sink<'_>) -> Result<Seen> {
    let mut all = Seen::default();
    while let Some(piece) = pending.next().await {
        let Decoded { rows, count, seen, permit } =
            piece.await.expect("a job of the pool ends by returning")?;
        all.rejects.append(seen.rejects, all.rows);
        all.rows += seen.rows;
        if count > 0 {
            sink.push(rows.into(), count, permit).await?;
        }
    }
    Ok(all)
}

/// The decoder of a format.
enum Decoder<P> {
    Csv(Box<CsvDecoder<P>>),
    Json(Box<JsonDecoder<P>>),
}

impl<P: Deref<Target = SourcePlan> + Clone> Decoder<P> {
    fn new(source: &Source, plan: P, is_first: bool) -> Self {
        let rules = &source.rules;
        match &source.format {
            LoadFormat::Csv(format) => {
                let decoder = CsvDecoder::new(format.clone(), plan, rules);
                Self::Csv(Box::new(if is_first { decoder } else { decoder.of_later_part() }))
            }
            LoadFormat::Json(format) => {
                Self::Json(Box::new(JsonDecoder::new(format.clone(), plan, rules)))
            }
        }
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Csv(decoder) => decoder.feed(bytes, out),
            Self::Json(decoder) => decoder.feed(bytes, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Csv(decoder) => decoder.finish(out),
            Self::Json(decoder) => decoder.finish(out),
        }
    }

    /// Bytes that wait for the rest of their line or document.
    fn waiting_bytes(&self) -> usize {
        match self {
            Self::Csv(decoder) => decoder.waiting_bytes(),
            Self::Json(decoder) => decoder.waiting_bytes(),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Csv(decoder) => decoder.rows(),
            Self::Json(decoder) => decoder.rows(),
        }
    }

    fn into_seen(self) -> Seen {
        let (rows, (rejects, _)) = match self {
            Self::Csv(decoder) => (decoder.lines(), decoder.into_rejects()),
            Self::Json(decoder) => (decoder.objects(), decoder.into_rejects()),
        };
        Seen { rows, rejects }
    }
}
