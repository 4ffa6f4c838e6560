//! Decodes a body into encoded rows: small bodies on the I/O thread as their parts arrive; large
//! ones in pieces on the pool, with the results in body order.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::clock::Deadline;
use freshet_base::task::{self, Lane};
use freshet_base::{Result, bail};
use freshet_ingest::decode::csv::{CsvFormat, LINE_BYTES_MAX, split_at_line};
use freshet_ingest::decode::json;
use freshet_ingest::{Engine, LoadBuffer, UsedIds};
use freshet_query::Task;
use futures::channel::{mpsc, oneshot};
use futures::{SinkExt, StreamExt};

use super::body::{Body, BodyLimit, BodySize, INLINE_BYTES_MAX};
use super::decoder::{Decoder, Source};
use super::headers::LoadFormat;
use super::mapped::Mapped;
use super::piece::{BodySummary, Decoded, shrink};
use super::sink::{Memory, Sink};

/// The approximate size of the pieces of larger bodies.
const PIECE_BYTES: usize = 384 << 10;
/// Room for a piece and the line that it ends with.
const GATHER_BYTES: usize = PIECE_BYTES + PIECE_BYTES / 4;
/// A line that is longer is gathered in steps of this size.
const GATHER_BYTES_MIN: usize = 32 << 10;
/// Pieces of one load that are being decoded or queued.
const PIECES_AHEAD: usize = 4;
/// Lines to skip that are assumed to fit in the first piece.
const SKIP_LINES_MAX: u64 = 2;
/// How much of a piece is decoded between checks of the size of its rows.
const SLICE_BYTES: usize = 32 << 10;
/// The size at which the rows of a large body are passed on while its decoder continues.
const STEP_BYTES: usize = 2 << 20;

#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub size: BodySize,
    pub limit: BodyLimit,
    pub deadline: Deadline,
}

/// Decodes a whole body into `sink`.
///
/// # Errors
/// When the body cannot be read, memory is full, files cannot be written, or the body as a whole is
/// malformed; rejected rows are in [`BodySummary`].
pub(super) async fn decode(
    engine: &Engine,
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    sink: &mut Sink<'_>,
) -> Result<BodySummary> {
    if matches!(bounds.size, BodySize::Known(bytes) if bytes <= INLINE_BYTES_MAX) {
        return small(body, source, bounds, Vec::new(), sink).await;
    }
    let mut memory = sink.memory();
    let first = match read_start(body, bounds, &mut memory).await? {
        BodyStart::All(parts) => return small(body, source, bounds, parts, sink).await,
        BodyStart::Large(bytes) => bytes,
    };
    sink.let_flushes_catch_up(bounds.size).await;
    sink.become_large().await?;
    match strategy_of(&source.format) {
        Strategy::Pieces(lines) => {
            let (ahead, pending) = mpsc::channel(PIECES_AHEAD);
            let (mut gathered, lines, is_first) = (first, &lines, true);
            gathered.reserve(GATHER_BYTES.saturating_sub(gathered.len()));
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
            let ((), summary) = futures::try_join!(cut.run(body, bounds), collect(pending, sink))?;
            Ok(summary)
        }
        Strategy::Document => document(engine, body, source, bounds, first, memory, sink).await,
        Strategy::Stream => stream(engine, body, source, bounds, (first, memory), sink).await,
    }
}

/// Decodes a small body: `first`, and what follows it.
async fn small(
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    first: Vec<Bytes>,
    sink: &mut Sink<'_>,
) -> Result<BodySummary> {
    match &source.mapped {
        Some(mapped) => computed(body, source, mapped, bounds, first, sink).await,
        None => inline(body, source, bounds, first, sink).await,
    }
}

/// How a large body is decoded.
enum Strategy {
    /// In parallel, in pieces that end at line ends of this format.
    Pieces(CsvFormat),
    /// As a whole, after all of it was received.
    Document,
    /// Sequentially by one decoder, because rows depend on earlier parts of the body.
    Stream,
}

fn strategy_of(format: &LoadFormat) -> Strategy {
    match format {
        LoadFormat::Csv(csv) if csv.enclose.is_some() || csv.skip_lines > SKIP_LINES_MAX => {
            Strategy::Stream
        }
        LoadFormat::Csv(csv) => Strategy::Pieces(csv.clone()),
        LoadFormat::Json(json) if json.strip_outer_array && !json.read_by_line => {
            // An array at the top level is split into its elements as it arrives; a nested one is
            // not.
            if json.root.is_empty() { Strategy::Stream } else { Strategy::Document }
        }
        LoadFormat::Json(json) => {
            // JSON lines end like CSV lines.
            let mut lines = CsvFormat::default();
            if !json.delimiter.is_empty() {
                lines.delimiter.clone_from(&json.delimiter);
            }
            Strategy::Pieces(lines)
        }
        LoadFormat::Columnar(_) => unreachable!("a body of columns has a reader of its own"),
    }
}

/// Decodes on this thread: `first`, then further parts as they arrive.
async fn inline(
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    first: Vec<Bytes>,
    sink: &mut Sink<'_>,
) -> Result<BodySummary> {
    let mut decoder = Decoder::new(source, true);
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
            sink.push(Decoded {
                rows: bytes.into(),
                count: rows,
                summary: BodySummary::default(),
                permit: memory.take(),
                deletes: Vec::new(),
                given: decoder.take_given(),
            })
            .await?;
            buffer.resume().reserve(STEP_BYTES);
        }
    }
    decoder.finish(buffer.resume())?;
    buffer.count(decoder.rows() - rows_before)?;
    memory.cover_now(buffer.payload_bytes());
    sink.last(buffer, memory.take(), decoder.take_given()).await?;
    Ok(decoder.into_summary())
}

/// Decodes and computes a small body as one piece.
async fn computed(
    body: &mut Body<'_>,
    source: &Source,
    mapped: &Arc<Mapped>,
    bounds: Bounds,
    first: Vec<Bytes>,
    sink: &mut Sink<'_>,
) -> Result<BodySummary> {
    let mut memory = sink.memory();
    let mut text = first.concat();
    memory.cover(3 * text.len()).await?;
    while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
        // The body, its fields, and what is computed of them.
        memory.cover(3 * (text.len() + part.len())).await?;
        text.extend_from_slice(&part);
    }
    let piece = decode_piece(source, true, text, memory.take())?;
    let mut computed = mapped.start(piece).await?;
    let summary = std::mem::take(&mut computed.summary);
    sink.push_last(computed).await?;
    Ok(summary)
}

/// Decodes a large body sequentially, but on the pool, to keep the I/O thread free.
async fn stream(
    engine: &Engine,
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    (first, mut memory): (Vec<u8>, Memory<'_>),
    sink: &mut Sink<'_>,
) -> Result<BodySummary> {
    let mut decoder = Decoder::new(source, true);
    let mut computed = BodySummary::default();
    let mut piece = first;
    loop {
        let waiting = decoder.waiting_bytes();
        let mut ended = false;
        while piece.len() < PIECE_BYTES && !ended {
            match body.next(bounds.limit, bounds.deadline).await? {
                // The piece, and about as much for its rows.
                Some(part) => {
                    memory.cover(waiting + 2 * (piece.len() + part.len())).await?;
                    piece.extend_from_slice(&part);
                }
                None => ended = true,
            }
        }
        let mut part = PieceProgress { bytes: std::mem::take(&mut piece), at: 0, is_last: ended };
        loop {
            let rows_before = decoder.rows();
            let decode = move || part.decode(decoder);
            let rows: Vec<u8>;
            (part, decoder, rows) = task::run(&**engine.pool(), decode).await?;
            let count = decoder.rows() - rows_before;
            if count > 0 {
                let permit = memory.split(rows.len());
                memory.cover_now(decoder.waiting_bytes());
                let (summary, deletes) = (BodySummary::default(), Vec::new());
                let given = decoder.take_given();
                let step = Decoded { rows, count, summary, permit, deletes, given };
                pass_on(step, source.mapped.as_ref(), &mut computed, sink).await?;
            }
            if part.is_done() {
                break;
            }
        }
        if ended {
            let mut all = decoder.into_summary();
            all.rejects.append(computed.rejects, 0);
            all.unselected = computed.unselected;
            all.ids = UsedIds::join(all.ids, computed.ids);
            return Ok(all);
        }
    }
}

/// Passes decoded rows on to the load, and what is computed of them if that is so.
async fn pass_on(
    step: Decoded,
    mapped: Option<&Arc<Mapped>>,
    all: &mut BodySummary,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let mut step = match mapped {
        Some(mapped) => mapped.start(step).await?,
        None => step,
    };
    all.append(std::mem::take(&mut step.summary));
    if step.count > 0 {
        sink.push(step).await?;
    }
    Ok(())
}

/// A piece that is decoded in steps, because its rows may be much larger than the piece.
struct PieceProgress {
    bytes: Vec<u8>,
    /// The length that is decoded already.
    at: usize,
    is_last: bool,
}

impl PieceProgress {
    fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Decodes until the piece ends or its rows reach [`STEP_BYTES`].
    fn decode(mut self, mut decoder: Decoder) -> Result<(Self, Decoder, Vec<u8>)> {
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

/// A piece that was decoded.
enum Piece {
    Rows(Decoded),
    /// Its rows are being computed.
    Computing(Task<Decoded>),
}

type Pending = oneshot::Receiver<Result<Piece>>;

/// The beginning of a body of unknown size.
enum BodyStart {
    /// The body ended.
    All(Vec<Bytes>),
    /// The body is large.
    Large(Vec<u8>),
}

async fn read_start(
    body: &mut Body<'_>,
    bounds: Bounds,
    memory: &mut Memory<'_>,
) -> Result<BodyStart> {
    if bounds.size != BodySize::Chunked {
        return Ok(BodyStart::Large(Vec::new()));
    }
    let (mut parts, mut bytes) = (Vec::new(), 0);
    while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
        bytes += part.len();
        parts.push(part);
        memory.cover(bytes).await?;
        if bytes as u64 > INLINE_BYTES_MAX {
            return Ok(BodyStart::Large(parts.concat()));
        }
    }
    Ok(BodyStart::All(parts))
}

/// Reads a whole document, whose size is limited, and decodes it on the pool.
async fn document(
    engine: &Engine,
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    first: Vec<u8>,
    mut memory: Memory<'_>,
    sink: &mut Sink<'_>,
) -> Result<BodySummary> {
    let mut text = first;
    while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
        memory.cover(text.len() + part.len()).await?;
        text.extend_from_slice(&part);
    }
    memory.cover(text.len() * 2).await?;
    let (source, permit, mapped) = (source.clone(), memory.take(), source.mapped.clone());
    let decode = move || decode_piece(&source, true, text, permit);
    let decoded = task::run(&**engine.pool(), decode).await?;
    let mut summary = BodySummary::default();
    pass_on(decoded, mapped.as_ref(), &mut summary, sink).await?;
    Ok(summary)
}

/// The end of a piece.
enum PieceEnd {
    /// After the line end at this offset.
    At(usize),
    /// Not yet received.
    Unknown,
    /// There is none: the last line exceeds the maximum length.
    LineTooLong,
}

/// What the decoder of a piece is to produce.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceGoal {
    Rows,
    /// The error that names the line that is too long.
    Refusal,
}

impl PieceGoal {
    /// Discards the rows of an incomplete body: a load is atomic.
    fn of(self, decoded: Decoded) -> Result<Decoded> {
        match self {
            Self::Rows => Ok(decoded),
            Self::Refusal => {
                bail!(TooLong, "the last of {} lines has no end", decoded.summary.rows)
            }
        }
    }
}

/// Reads a body and cuts it at line ends on this thread; the pool decodes the pieces.
struct Cutter<'a> {
    engine: &'a Engine,
    source: &'a Source,
    lines: &'a CsvFormat,
    memory: Memory<'a>,
    ahead: mpsc::Sender<Pending>,
    gathered: Vec<u8>,
    is_first: bool,
    /// Lines to skip that the first piece must contain.
    to_skip: u64,
    /// The minimum end of the piece: the beginning of the line it ends with.
    from: usize,
    /// No line ends before this offset, so that parts are searched only once.
    searched: usize,
}

impl Cutter<'_> {
    async fn run(mut self, body: &mut Body<'_>, bounds: Bounds) -> Result<()> {
        while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
            self.memory.cover(self.gathered.len() + part.len()).await?;
            let mut part = &part[..];
            while !part.is_empty() {
                // No more than there is room for: to move a piece costs as much as to gather it.
                let room = (self.gathered.capacity() - self.gathered.len()).max(GATHER_BYTES_MIN);
                let (now, later) = part.split_at(room.min(part.len()));
                self.gathered.extend_from_slice(now);
                part = later;
                match self.end_of_piece() {
                    PieceEnd::Unknown => {}
                    PieceEnd::At(end) => {
                        let piece = self.cut_at(end);
                        self.submit(piece, PieceGoal::Rows).await?;
                    }
                    // The rest of the body belongs to that line and is not needed.
                    PieceEnd::LineTooLong => {
                        let piece = std::mem::take(&mut self.gathered);
                        return self.submit(piece, PieceGoal::Refusal).await;
                    }
                }
            }
        }
        let last = std::mem::take(&mut self.gathered);
        self.submit(last, PieceGoal::Rows).await
    }

    /// The next piece; what follows it goes to memory that has room for a piece.
    fn cut_at(&mut self, end: usize) -> Vec<u8> {
        let mut rest = Vec::with_capacity(GATHER_BYTES);
        rest.extend_from_slice(&self.gathered[end..]);
        self.gathered.truncate(end);
        std::mem::replace(&mut self.gathered, rest)
    }

    /// The end of the next piece: after enough lines, including those to skip.
    fn end_of_piece(&mut self) -> PieceEnd {
        if self.gathered.len() < PIECE_BYTES {
            return PieceEnd::Unknown;
        }
        while self.to_skip > 0 {
            let Some(end) = self.line_end(self.from) else { return self.no_end_after(self.from) };
            self.from = end;
            self.to_skip -= 1;
        }
        let from = self.from.max(PIECE_BYTES);
        let Some(end) = self.line_end(from) else { return self.no_end_after(from) };
        (self.from, self.searched) = (0, 0);
        PieceEnd::At(end)
    }

    /// The end of the line that contains `from`.
    fn line_end(&mut self, from: usize) -> Option<usize> {
        let from = from.max(self.searched);
        let end = split_at_line(&self.gathered, from, self.lines);
        if end.is_none() {
            let beginning = (self.gathered.len() + 1).saturating_sub(self.lines.delimiter.len());
            self.searched = from.max(beginning);
        }
        end
    }

    fn no_end_after(&self, from: usize) -> PieceEnd {
        let line_bytes_max = match self.source.format {
            LoadFormat::Csv(_) => LINE_BYTES_MAX,
            LoadFormat::Json(_) => json::LINE_BYTES_MAX,
            LoadFormat::Columnar(_) => unreachable!("a body of columns has a reader of its own"),
        };
        let line_bytes_min = self.gathered.len().saturating_sub(from);
        if line_bytes_min > line_bytes_max { PieceEnd::LineTooLong } else { PieceEnd::Unknown }
    }

    async fn submit(&mut self, piece: Vec<u8>, goal: PieceGoal) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        // The piece, and about as much for its rows.
        self.memory.cover(piece.len() * 2).await?;
        let permit = self.memory.take();
        let source = self.source.clone();
        let is_first = std::mem::take(&mut self.is_first);
        self.engine.pool().execute(
            Lane::Foreground,
            Box::new(move || {
                // If the load has failed meanwhile, its rows are not needed.
                let decoded = decode_piece(&source, is_first, piece, permit);
                let decoded = decoded.and_then(|decoded| goal.of(decoded));
                let _ = sender.send(decoded.map(|decoded| match &source.mapped {
                    Some(mapped) => Piece::Computing(mapped.start(decoded)),
                    None => Piece::Rows(decoded),
                }));
            }),
        );
        // Fails only when the collector ended with an error, which ends this side, too.
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
    let mut decoder = Decoder::new(source, is_first);
    decoder.feed(&piece, &mut rows)?;
    decoder.finish(&mut rows)?;
    drop(piece);
    shrink(&mut rows);
    permit.resize_over(rows.len() as u64);
    let (count, given) = (decoder.rows(), decoder.take_given());
    let summary = decoder.into_summary();
    Ok(Decoded { rows, count, summary, permit, deletes: Vec::new(), given })
}

async fn collect(mut pending: mpsc::Receiver<Pending>, sink: &mut Sink<'_>) -> Result<BodySummary> {
    let mut all = BodySummary::default();
    while let Some(piece) = pending.next().await {
        let piece = match piece.await.expect("a job of the pool ends by returning")? {
            Piece::Rows(decoded) => decoded,
            Piece::Computing(task) => task.await?,
        };
        pass_on(piece, None, &mut all, sink).await?;
    }
    Ok(all)
}
