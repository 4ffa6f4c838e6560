//! The writers' journal: each load is recorded before it is sent and updated when its answer is
//! read. It defines which rows must exist after a crash.

use std::ops::Range;
use std::time::Instant;

use parking_lot::Mutex;

/// The maximum length of a row's text, in bytes.
const TEXT_BYTES_MAX: u64 = 120;

/// What the writer knows about a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Sent without an answer: all of its rows or none may exist.
    Unknown,
    /// Acknowledged: all of its rows exist exactly once.
    Acked,
    /// Refused, or found missing where that was allowed: none of its rows may exist from now on.
    Gone,
}

/// A load into one table or, in a transaction, into several.
#[derive(Clone, Debug)]
pub struct Load {
    /// Each table gets every row.
    pub tables: &'static [&'static str],
    /// The ids of its rows.
    pub ids: Range<u64>,
    pub label: Option<String>,
    pub fate: Fate,
    /// When it was sent.
    pub began: Instant,
    /// When its answer was read.
    pub ended: Option<Instant>,
    /// Whether a comparison has determined its fate.
    pub compared: bool,
}

/// A TRUNCATE.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub table: &'static str,
    pub fate: Fate,
    /// When it was sent.
    pub began: Instant,
    /// When its answer was read.
    pub ended: Option<Instant>,
}

/// Everything that was sent.
#[derive(Default, Clone, Debug)]
pub struct Entries {
    /// In the order in which they were sent.
    pub loads: Vec<Load>,
    /// In the order in which they were sent.
    pub cuts: Vec<Cut>,
}

/// The journal, shared by all writers.
#[derive(Default, Debug)]
pub struct Journal(Mutex<Entries>);

impl Journal {
    /// Records a load before it is sent; returns its index.
    pub fn begin(
        &self,
        tables: &'static [&'static str],
        ids: Range<u64>,
        label: Option<String>,
    ) -> usize {
        let (fate, began, compared) = (Fate::Unknown, Instant::now(), false);
        let mut entries = self.0.lock();
        entries.loads.push(Load { tables, ids, label, fate, began, ended: None, compared });
        entries.loads.len() - 1
    }

    /// Records the answer to a load.
    pub fn end(&self, load: usize, fate: Fate) {
        let mut entries = self.0.lock();
        let load = &mut entries.loads[load];
        (load.fate, load.ended) = (fate, Some(Instant::now()));
    }

    /// Records a TRUNCATE before it is sent; returns its index.
    pub fn begin_cut(&self, table: &'static str) -> usize {
        let mut entries = self.0.lock();
        entries.cuts.push(Cut { table, fate: Fate::Unknown, began: Instant::now(), ended: None });
        entries.cuts.len() - 1
    }

    /// Records the answer to a TRUNCATE.
    pub fn end_cut(&self, cut: usize, fate: Fate) {
        let mut entries = self.0.lock();
        let cut = &mut entries.cuts[cut];
        (cut.fate, cut.ended) = (fate, Some(Instant::now()));
    }

    pub fn copy(&self) -> Entries {
        self.0.lock().clone()
    }

    /// Runs `look` under the lock.
    pub fn with<R>(&self, look: impl FnOnce(&mut Entries) -> R) -> R {
        look(&mut self.0.lock())
    }
}

/// The amount of a row, derived from its id: the two tables of a transaction get opposite amounts.
pub fn amount(id: u64, table: &str) -> i64 {
    let amount = (mix(id) % 2001) as i64 - 1000;
    if table.ends_with("_debit") { -amount } else { amount }
}

/// The text of a row, of varying length, derived from its id.
pub fn text(id: u64) -> String {
    let mut text = format!("{id:x}-");
    let length = (mix(id) % TEXT_BYTES_MAX) as usize;
    while text.len() < length {
        text += &format!("{:x}", mix(id ^ text.len() as u64));
    }
    text
}

/// A pseudo-random number derived from `id` (the last step of SplitMix64).
fn mix(id: u64) -> u64 {
    let id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    id ^ (id >> 31)
}
