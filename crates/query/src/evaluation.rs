//! What evaluating the expressions of one execution may take, and what it has to say.
//!
//! Functions find it in the configuration that DataFusion hands them. Each takes the memory of a
//! wide result from the budget of queries, which gets it back when the last array that shares the
//! result is gone. A result that would be too wide for the batch that it is made for is not made:
//! [`TooWide`] asks whoever evaluates to try again with fewer rows.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::buffer::Buffer;
use bytes::Bytes;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{DataFusionError, Result, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use freshet_base::ErrorCode;
use parking_lot::Mutex;

use crate::error::mapped;
use crate::interrupt::{self, Interrupt, Shown};
use crate::session::Session;

/// Bytes that one expression makes of a batch at most; of a single row it may make more.
pub const BATCH_BYTES_MAX: usize = 8 << 20;
/// Bytes of a constant that a plan holds at most: longer ones are made when they are wanted.
pub const CONSTANT_BYTES_MAX: usize = 4 << 10;
/// What is smaller is not worth asking the budget for.
const UNCOUNTED_BYTES: usize = 64 << 10;
/// Memory is taken in steps of so many bytes.
const STEP_BYTES: usize = 256 << 10;
/// Warnings that are kept in words; the others are counted.
const WARNINGS_MAX: usize = 64;

/// Bounds on results, of the session that a plan was made in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// `max_allowed_packet`: a longer text is NULL, with a warning.
    pub packet_bytes_max: usize,
    /// `cte_max_recursion_depth`.
    pub recursion_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { packet_bytes_max: 64 << 20, recursion_max: 1000 }
    }
}

impl Bounds {
    /// Those of a session.
    pub fn of(session: &Session<'_>) -> Self {
        let default = Self::default();
        let packet = session.number("max_allowed_packet");
        let depth = session.number("cte_max_recursion_depth");
        Self {
            packet_bytes_max: packet
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(default.packet_bytes_max),
            recursion_max: depth.unwrap_or(default.recursion_max),
        }
    }
}

/// What becomes of a statement whose expressions lose something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLoss {
    /// Nothing.
    #[default]
    Ignore,
    /// It has a warning.
    Warn,
    /// It fails.
    Refuse,
}

/// What a statement does about what its expressions lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// About values that are converted.
    pub values: OnLoss,
    /// About divisions by zero.
    pub divisions: OnLoss,
}

impl Losses {
    /// Whether anybody wants to know of any.
    pub fn matter(self) -> bool {
        self != Self::default()
    }

    /// What it does about a loss of this kind.
    pub fn on(self, code: ErrorCode) -> OnLoss {
        if code == ErrorCode::DivisionByZero { self.divisions } else { self.values }
    }
}

/// What evaluating had to say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Warnings {
    /// The first ones.
    pub first: Vec<(ErrorCode, String)>,
    /// How many there were.
    pub count: u64,
}

impl Warnings {
    /// Takes up those of a later part.
    pub fn append(&mut self, later: Self) {
        self.count += later.count;
        let room = WARNINGS_MAX - self.first.len();
        self.first.extend(later.first.into_iter().take(room));
    }
}

/// Memory taken from the budget of queries, given back on drop.
pub struct Memory(MemoryReservation);

impl Memory {
    /// None yet, of the budget of `pool`.
    pub fn of(pool: &Arc<dyn MemoryPool>) -> Self {
        Self(MemoryConsumer::new("results").register(pool))
    }

    /// Takes more.
    ///
    /// # Errors
    /// 1038 when there is not that much.
    pub fn grow(&self, bytes: usize) -> freshet_base::Result<()> {
        self.0.try_grow(bytes).map_err(mapped)
    }

    /// What was taken so far, to be given back apart from what is taken later.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.0.take())
    }
}

/// One execution, as its functions see it.
#[derive(Clone)]
pub struct Evaluation(Arc<Shared>);

struct Shared {
    pool: Arc<dyn MemoryPool>,
    bounds: Bounds,
    /// What the statement does about what its values lose.
    losses: Losses,
    /// Whether rows are made; before that constants are folded into the plan.
    running: AtomicBool,
    /// Whether nobody wants the rows any more.
    stopped: Interrupt,
    warnings: Mutex<Warnings>,
}

/// A result would take more than a batch may: with fewer rows it may fit.
#[derive(Debug)]
pub struct TooWide;

impl fmt::Display for TooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expressions make more than {BATCH_BYTES_MAX} bytes of a batch of rows")
    }
}

impl std::error::Error for TooWide {}

impl TooWide {
    /// As DataFusion carries it.
    pub fn error() -> DataFusionError {
        DataFusionError::External(Box::new(Self))
    }

    /// Whether an error is this one.
    pub fn is(error: &DataFusionError) -> bool {
        match error.find_root() {
            DataFusionError::External(inner) => inner.is::<Self>(),
            _ => false,
        }
    }
}

impl fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Evaluation").field(&self.0.bounds).finish()
    }
}

impl Evaluation {
    /// A new one that begins with these warnings.
    pub fn new(
        pool: Arc<dyn MemoryPool>,
        bounds: Bounds,
        losses: Losses,
        warnings: Warnings,
    ) -> Self {
        Self(Arc::new(Shared {
            pool,
            bounds,
            losses,
            running: AtomicBool::new(false),
            stopped: Interrupt::default(),
            warnings: Mutex::new(warnings),
        }))
    }

    /// The one that a configuration belongs to.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_else(|| {
            let pool = Arc::new(UnboundedMemoryPool::default());
            Self::new(pool, Bounds::default(), Losses::default(), Warnings::default())
        })
    }

    /// Bounds on results.
    pub fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// What the statement does about what its values lose.
    pub fn losses(&self) -> Losses {
        self.0.losses
    }

    /// Rows are made from now on.
    pub fn run(&self) {
        self.0.running.store(true, Ordering::Release);
    }

    /// Whether rows are made.
    pub fn is_running(&self) -> bool {
        self.0.running.load(Ordering::Acquire)
    }

    /// Nobody wants its rows any more.
    pub fn stop(&self) {
        self.0.stopped.set();
    }

    /// Ends a computation whose result nobody wants any more.
    ///
    /// # Errors
    /// 1317, which nobody reads.
    pub fn check(&self) -> Result<()> {
        match self.0.stopped.is_set() {
            true => interrupt::interrupted(),
            false => interrupt::check(),
        }
    }

    /// Lets what this thread computes find out by `interrupt::check` that nobody wants it any
    /// more, wherever DataFusion runs it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn show(&self) -> Result<Shown> {
        self.check()?;
        Ok(self.0.stopped.show())
    }

    /// Keeps a warning.
    pub fn warn(&self, code: ErrorCode, message: impl FnOnce() -> String) {
        let mut warnings = self.0.warnings.lock();
        warnings.count += 1;
        if warnings.first.len() < WARNINGS_MAX {
            warnings.first.push((code, message()));
        }
    }

    /// All warnings so far.
    pub fn warnings(&self) -> Warnings {
        self.0.warnings.lock().clone()
    }

    /// Takes memory from the budget of queries.
    ///
    /// # Errors
    /// When it has not that much.
    pub fn take(&self, bytes: usize) -> Result<MemoryReservation> {
        let reservation = MemoryConsumer::new("expressions").register(&self.0.pool);
        reservation.try_grow(bytes)?;
        Ok(reservation)
    }
}

impl ConfigExtension for Evaluation {
    const PREFIX: &'static str = "freshet";
}

impl ExtensionOptions for Evaluation {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        not_impl_err!("'{key}' cannot be set")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

/// Counts the bytes of one result while it is made.
pub struct Meter<'a> {
    evaluation: &'a Evaluation,
    function: &'a str,
    rows: usize,
    bytes: usize,
    held: Option<MemoryReservation>,
}

/// Keeps memory taken for as long as a buffer of it is shared.
struct Held(MemoryReservation);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        assert!(self.0.size() > 0, "what is held was taken");
        &[0]
    }
}

impl<'a> Meter<'a> {
    /// The meter of a result of so many rows, of this function.
    pub fn new(evaluation: &'a Evaluation, function: &'a str, rows: usize) -> Self {
        Self { evaluation, function, rows, bytes: 0, held: None }
    }

    /// Whether a value of so many bytes may be made; it is NULL if not.
    ///
    /// # Errors
    /// [`TooWide`], or no memory for a single row.
    pub fn add(&mut self, bytes: usize) -> Result<bool> {
        if bytes > self.evaluation.bounds().packet_bytes_max {
            self.too_long();
            return Ok(false);
        }
        self.bytes += bytes;
        if self.rows > 1 && self.bytes > BATCH_BYTES_MAX {
            return Err(TooWide::error());
        }
        if self.bytes > UNCOUNTED_BYTES {
            let wanted = self.bytes.next_multiple_of(STEP_BYTES);
            self.hold(wanted)?;
        }
        Ok(true)
    }

    /// Warns of a value that is NULL because it would be too long.
    pub fn too_long(&self) {
        let name = self.function.trim_start_matches("mysql_").trim_end_matches("_text");
        let bytes_max = self.evaluation.bounds().packet_bytes_max;
        self.evaluation.warn(ErrorCode::PacketOverflowed, || {
            format!(
                "Result of {name}() was larger than max_allowed_packet ({bytes_max}) - truncated"
            )
        });
    }

    fn hold(&mut self, bytes: usize) -> Result<()> {
        let taken = match &mut self.held {
            Some(held) => held.try_resize(bytes),
            None => self.evaluation.take(bytes).map(|taken| self.held = Some(taken)),
        };
        // With fewer rows there may be room.
        taken.map_err(|error| if self.rows > 1 { TooWide::error() } else { error })
    }

    /// A buffer to be put among those of the result, so that its memory is given back with it.
    pub fn finish(self) -> Option<Buffer> {
        self.held.map(|held| Buffer::from(Bytes::from_owner(Held(held))))
    }
}
