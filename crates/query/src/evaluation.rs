//! Limits, memory and warnings of the expressions in one execution.
//!
//! Functions find it in the configuration that DataFusion passes to them. Each reserves memory for
//! a large result from the query memory; it is released with the last array that shares the
//! result's buffers. A result that would be too wide for its batch is not computed:
//! [`BatchTooLarge`] asks the caller to retry with fewer rows.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use bytes::Bytes;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{DataFusionError, Result, ScalarValue, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use freshet_base::ErrorCode;
use futures::future::{self, BoxFuture};
use parking_lot::Mutex;

use crate::error::{BatchTooLarge, mapped};
use crate::functions::random::Sequence;
use crate::interrupt::{self, Cancellation, CancellationGuard};
use crate::session::{Session, Value};

/// Maximum size of an expression's result for a batch; for a batch of one row it may be larger.
pub const BATCH_BYTES_MAX: usize = 8 << 20;
/// Maximum size of a constant that is folded into a plan; larger ones are computed when needed.
pub const CONSTANT_BYTES_MAX: usize = 4 << 10;
/// Smaller results are not accounted for.
const UNCOUNTED_BYTES: usize = 64 << 10;
/// Memory is reserved in steps of this size.
const STEP_BYTES: usize = 256 << 10;
/// Warnings kept with their text; further ones are only counted.
const WARNINGS_MAX: usize = 1024;

/// Limits on results, from the session in which a plan was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// `max_allowed_packet`: a longer text is NULL, with a warning.
    pub packet_bytes_max: usize,
    /// `cte_max_recursion_depth`.
    pub recursion_max: u64,
    /// The parallel parts of the query; 0: as many as there are threads.
    pub parallel_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { packet_bytes_max: 64 << 20, recursion_max: 1000, parallel_max: 0 }
    }
}

impl Bounds {
    /// The limits of a session.
    pub fn of(session: &Session<'_>) -> Self {
        let default = Self::default();
        let packet = session.number("max_allowed_packet");
        let depth = session.number("cte_max_recursion_depth");
        Self {
            packet_bytes_max: packet
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(default.packet_bytes_max),
            recursion_max: depth.unwrap_or(default.recursion_max),
            parallel_max: parallel_max(session),
        }
    }
}

/// The smaller of the variables that Doris has for it, but for those that are 0.
fn parallel_max(session: &Session<'_>) -> usize {
    let variables = ["parallel_pipeline_task_num", "parallel_fragment_exec_instance_num"];
    let numbers = variables.iter().filter_map(|name| session.number(name));
    let least = numbers.filter(|number| *number > 0).min().unwrap_or(0);
    usize::try_from(least).unwrap_or(0)
}

/// How a lossy conversion or a division by zero is handled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnLoss {
    /// It is ignored.
    #[default]
    Ignore,
    /// The statement gets a warning.
    Warn,
    /// The statement fails.
    Refuse,
}

/// How a statement handles what its expressions lose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Losses {
    /// Lossy conversions of values.
    pub values: OnLoss,
    /// Divisions by zero.
    pub divisions: OnLoss,
}

impl Losses {
    /// Whether losses have to be detected at all.
    pub fn matter(self) -> bool {
        self != Self::default()
    }

    /// How a loss with this error code is handled.
    pub fn on(self, code: ErrorCode) -> OnLoss {
        if code == ErrorCode::DivisionByZero { self.divisions } else { self.values }
    }
}

/// What evaluating expressions tells their session: warnings, and an id.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Warnings {
    /// The first ones, with their text.
    pub first: Vec<(ErrorCode, String)>,
    /// The number of all warnings.
    pub count: u64,
    /// What `LAST_INSERT_ID(value)` has noted last.
    pub insert_id: Option<u64>,
    /// What `:=` has assigned to user variables.
    pub assigned: Vec<(String, Value)>,
}

impl Warnings {
    /// Appends the warnings of a later phase.
    pub fn append(&mut self, later: Self) {
        self.count += later.count;
        let room = WARNINGS_MAX - self.first.len();
        self.first.extend(later.first.into_iter().take(room));
        self.insert_id = later.insert_id.or(self.insert_id);
        self.assigned.extend(later.assigned);
    }
}

/// What a session keeps of an assigned value.
pub type KeptAs = fn(&ScalarValue) -> Result<Value>;

/// Rows in memory, for as long as somebody reads them.
pub struct Kept {
    pub batches: Vec<RecordBatch>,
    pub memory: MemoryReservation,
}

/// Rows that are being computed, by whoever asks for them.
pub type Computed = future::Shared<BoxFuture<'static, Result<Arc<Kept>, Arc<DataFusionError>>>>;

/// A reservation of query memory, released on drop.
pub struct Memory(MemoryReservation);

impl Memory {
    /// An empty reservation from `pool`.
    pub fn of(pool: &Arc<dyn MemoryPool>) -> Self {
        Self(MemoryConsumer::new("results").register(pool))
    }

    /// # Errors
    /// 1038 when the memory is exhausted.
    pub fn grow(&self, bytes: usize) -> freshet_base::Result<()> {
        self.0.try_grow(bytes).map_err(mapped)
    }

    /// Moves the memory reserved so far into a reservation of its own.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.0.take())
    }
}

/// The context of one execution for its functions; clones share it.
#[derive(Clone)]
pub struct Evaluation(Arc<Shared>);

struct Shared {
    pool: Arc<dyn MemoryPool>,
    bounds: Bounds,
    /// How the statement handles what its values lose.
    losses: Losses,
    /// Whether the query is executing; before that, constants are folded during planning.
    running: AtomicBool,
    /// Set when the execution is cancelled.
    stopped: Cancellation,
    warnings: Mutex<Warnings>,
    /// Rows that stand at several places of the plan, by their name.
    kept: Mutex<HashMap<String, Computed>>,
    /// The sequences of RAND(seed), by the number of the call.
    randoms: Mutex<HashMap<i64, Sequence>>,
    /// The user variables that were assigned, in lower case.
    variables: Mutex<BTreeMap<String, (ScalarValue, KeptAs)>>,
}

impl fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Evaluation").field(&self.0.bounds).finish()
    }
}

impl Evaluation {
    /// A context that starts with these warnings.
    pub fn new(
        pool: Arc<dyn MemoryPool>,
        bounds: Bounds,
        losses: Losses,
        warnings: Warnings,
        stopped: Cancellation,
    ) -> Self {
        Self(Arc::new(Shared {
            pool,
            bounds,
            losses,
            running: AtomicBool::new(false),
            stopped,
            warnings: Mutex::new(warnings),
            kept: Mutex::default(),
            randoms: Mutex::default(),
            variables: Mutex::default(),
        }))
    }

    /// The context in a configuration; without one, a context with default limits and unlimited
    /// memory.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_else(|| {
            let pool = Arc::new(UnboundedMemoryPool::default());
            let (bounds, losses) = (Bounds::default(), Losses::default());
            Self::new(pool, bounds, losses, Warnings::default(), Cancellation::default())
        })
    }

    /// A context that ends with this one, and of whose losses and warnings nobody hears.
    #[must_use]
    pub fn apart(&self) -> Self {
        let Shared { pool, bounds, stopped, .. } = &*self.0;
        let (losses, warnings) = (Losses::default(), Warnings::default());
        Self::new(Arc::clone(pool), *bounds, losses, warnings, stopped.clone())
    }

    pub fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// How the statement handles what its values lose.
    pub fn losses(&self) -> Losses {
        self.0.losses
    }

    /// Puts it into the configuration of its statement.
    pub fn put_into(&self, options: &mut ConfigOptions) {
        options.extensions.insert(self.clone());
        let partitions = &mut options.execution.target_partitions;
        if self.0.bounds.parallel_max > 0 {
            *partitions = self.0.bounds.parallel_max.min(*partitions);
        }
    }

    /// Marks the start of execution.
    pub fn run(&self) {
        self.0.running.store(true, Ordering::Release);
    }

    /// Whether execution has started.
    pub fn is_running(&self) -> bool {
        self.0.running.load(Ordering::Acquire)
    }

    /// Checks for cancellation of the execution.
    ///
    /// # Errors
    /// 1317 after cancellation; it does not reach a client.
    pub fn check(&self) -> Result<()> {
        match self.0.stopped.is_set() {
            true => interrupt::interrupted(),
            false => interrupt::check(),
        }
    }

    /// Makes `interrupt::check` on this thread see the cancellation of this execution, on whatever
    /// thread DataFusion runs it, until the guard is dropped.
    ///
    /// # Errors
    /// Those of [`Self::check`].
    pub fn enter(&self) -> Result<CancellationGuard> {
        self.check()?;
        Ok(self.0.stopped.enter())
    }

    /// Adds a warning.
    pub fn warn(&self, code: ErrorCode, message: impl FnOnce() -> String) {
        let mut warnings = self.0.warnings.lock();
        warnings.count += 1;
        if warnings.first.len() < WARNINGS_MAX {
            warnings.first.push((code, message()));
        }
    }

    /// The next number of the sequence of a call, which begins with this seed.
    pub fn random(&self, call: i64, seed: i64) -> f64 {
        self.0.randoms.lock().entry(call).or_insert_with(|| Sequence::of(seed)).draw()
    }

    /// Notes an id for LAST_INSERT_ID().
    pub fn note_insert_id(&self, id: u64) {
        self.0.warnings.lock().insert_id = Some(id);
    }

    /// Assigns a user variable.
    pub fn assign(&self, name: &str, value: ScalarValue, kept: KeptAs) {
        let mut variables = self.0.variables.lock();
        match variables.get_mut(name) {
            Some(known) => *known = (value, kept),
            None => drop(variables.insert(name.to_owned(), (value, kept))),
        }
    }

    /// What a user variable was assigned.
    pub fn assigned_to(&self, name: &str) -> Option<ScalarValue> {
        self.0.variables.lock().get(name).map(|(value, _)| value.clone())
    }

    /// All warnings up to now, and what else the session is told.
    pub fn warnings(&self) -> Warnings {
        let variables = self.0.variables.lock();
        let assigned = variables.iter().map(|(name, (value, kept))| {
            let value = kept(value).unwrap_or(Value::Null);
            (name.clone(), value)
        });
        Warnings { assigned: assigned.collect(), ..self.0.warnings.lock().clone() }
    }

    /// The rows of this name, computed by the first that asks for them.
    pub fn kept(&self, name: &str, compute: impl FnOnce() -> Computed) -> Computed {
        self.0.kept.lock().entry(name.to_owned()).or_insert_with(compute).clone()
    }

    /// Reserves query memory.
    ///
    /// # Errors
    /// When the memory is exhausted.
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

/// Accounts for the memory of one result while it is computed.
pub struct Meter<'a> {
    evaluation: &'a Evaluation,
    function: &'a str,
    rows: usize,
    bytes: usize,
    held: Option<MemoryReservation>,
}

/// Holds a reservation for as long as a buffer that refers to it is shared.
struct Held(MemoryReservation);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        assert!(self.0.size() > 0, "what is held was taken");
        &[0]
    }
}

impl<'a> Meter<'a> {
    /// The meter for the result of `function` with this number of rows.
    pub fn new(evaluation: &'a Evaluation, function: &'a str, rows: usize) -> Self {
        Self { evaluation, function, rows, bytes: 0, held: None }
    }

    /// Whether a value of this size may be added; if not, it is NULL.
    ///
    /// # Errors
    /// [`BatchTooLarge`]; when memory is exhausted for a single row, that error.
    pub fn add(&mut self, bytes: usize) -> Result<bool> {
        if bytes > self.evaluation.bounds().packet_bytes_max {
            self.too_long();
            return Ok(false);
        }
        self.bytes += bytes;
        if self.rows > 1 && self.bytes > BATCH_BYTES_MAX {
            return Err(BatchTooLarge::error(BATCH_BYTES_MAX));
        }
        if self.bytes > UNCOUNTED_BYTES {
            let wanted = self.bytes.next_multiple_of(STEP_BYTES);
            self.hold(wanted)?;
        }
        Ok(true)
    }

    /// Adds a warning for a value that is NULL because it would be too long.
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
        // Fewer rows may fit.
        taken.map_err(
            |error| if self.rows > 1 { BatchTooLarge::error(BATCH_BYTES_MAX) } else { error },
        )
    }

    /// A buffer to attach to the result, so that its memory is released with it.
    pub fn finish(self) -> Option<Buffer> {
        self.held.map(|held| Buffer::from(Bytes::from_owner(Held(held))))
    }
}
