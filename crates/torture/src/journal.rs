//! What the writers know: each load from before it is sent, with its answer from when it is read.
//! This, not the server, says what must be there afterwards.

use std::ops::Range;
use std::time::Instant;

use parking_lot::Mutex;

/// Text of a row at most, in bytes.
const TEXT_BYTES_MAX: u64 = 120;

/// What is known of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Sent, and no answer: all of it or nothing.
    Unknown,
    /// Acknowledged: exactly once.
    Acked,
    /// Refused, or found missing where it was allowed to be: nothing of it, ever.
    Gone,
}

/// One load, into one table or, in a transaction, into several.
#[derive(Clone, Debug)]
pub struct Load {
    /// Into which tables, by name; each gets every row.
    pub tables: &'static [&'static str],
    /// Ids of its rows.
    pub ids: Range<u64>,
    /// Its label.
    pub label: Option<String>,
    /// What is known of it.
    pub fate: Fate,
    /// When it was sent.
    pub began: Instant,
    /// When its answer was read.
    pub ended: Option<Instant>,
    /// Whether a comparison has found out what became of it.
    pub settled: bool,
}

/// One TRUNCATE.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Of which table.
    pub table: &'static str,
    /// Whether it was acknowledged.
    pub fate: Fate,
    /// When it was sent.
    pub began: Instant,
    /// When its answer was read.
    pub ended: Option<Instant>,
}

/// Everything that was sent.
#[derive(Default, Clone, Debug)]
pub struct Entries {
    /// Loads, in the order in which they were sent.
    pub loads: Vec<Load>,
    /// TRUNCATEs, likewise.
    pub cuts: Vec<Cut>,
}

/// The journal that all writers share.
#[derive(Default, Debug)]
pub struct Journal(Mutex<Entries>);

impl Journal {
    /// Notes a load before it is sent, and returns its number.
    pub fn begin(
        &self,
        tables: &'static [&'static str],
        ids: Range<u64>,
        label: Option<String>,
    ) -> usize {
        let (fate, began, settled) = (Fate::Unknown, Instant::now(), false);
        let mut entries = self.0.lock();
        entries.loads.push(Load { tables, ids, label, fate, began, ended: None, settled });
        entries.loads.len() - 1
    }

    /// Notes the answer.
    pub fn end(&self, load: usize, fate: Fate) {
        let mut entries = self.0.lock();
        let load = &mut entries.loads[load];
        (load.fate, load.ended) = (fate, Some(Instant::now()));
    }

    /// Notes a TRUNCATE before it is sent, and returns its number.
    pub fn begin_cut(&self, table: &'static str) -> usize {
        let mut entries = self.0.lock();
        entries.cuts.push(Cut { table, fate: Fate::Unknown, began: Instant::now(), ended: None });
        entries.cuts.len() - 1
    }

    /// Notes its answer.
    pub fn end_cut(&self, cut: usize, fate: Fate) {
        let mut entries = self.0.lock();
        let cut = &mut entries.cuts[cut];
        (cut.fate, cut.ended) = (fate, Some(Instant::now()));
    }

    /// All of it, as it is now.
    pub fn copy(&self) -> Entries {
        self.0.lock().clone()
    }

    /// Looks at or changes it.
    pub fn with<R>(&self, look: impl FnOnce(&mut Entries) -> R) -> R {
        look(&mut self.0.lock())
    }
}

/// The amount of a row: what one table of a transaction gains the other loses.
pub fn amount(id: u64, table: &str) -> i64 {
    let amount = (mix(id) % 2001) as i64 - 1000;
    if table.ends_with("_debit") { -amount } else { amount }
}

/// The text of a row, of a length and content of its own.
pub fn text(id: u64) -> String {
    let mut text = format!("{id:x}-");
    let length = (mix(id) % TEXT_BYTES_MAX) as usize;
    while text.len() < length {
        text += &format!("{:x}", mix(id ^ text.len() as u64));
    }
    text
}

/// A number that looks like chance (SplitMix64's last step).
fn mix(id: u64) -> u64 {
    let id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    id ^ (id >> 31)
}
