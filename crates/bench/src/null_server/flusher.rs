//! A thread that writes and syncs while requests wait.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use freshet_base::io::FileRef;
use mio::Waker;
use parking_lot::{Condvar, Mutex};

use crate::device::{Aligned, FILE_BYTES, preallocated};

/// The maximum size of a flush; waiting bytes beyond it are flushed with it, as in a log that
/// writes many buffers at once.
const FLUSH_BYTES_MAX: usize = 1 << 20;

/// The flusher shared by all threads.
pub(super) struct Flusher {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// The number of the last completed flush.
    ended: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
}

#[derive(Default)]
struct Queue {
    bytes: usize,
    /// The number of the last flush that began.
    begun: u64,
}

impl Flusher {
    /// Creates the file and starts the thread.
    pub(super) fn start(path: &Path) -> Result<Arc<Self>, String> {
        let file = preallocated(path)?;
        let flusher = Arc::new(Self {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            ended: AtomicU64::new(0),
            wakers: Mutex::default(),
        });
        let shared = Arc::clone(&flusher);
        std::thread::spawn(move || shared.run(&file));
        Ok(flusher)
    }

    /// Registers a thread to wake after every flush.
    pub(super) fn subscribe(&self, waker: Waker) {
        self.wakers.lock().push(waker);
    }

    /// Adds bytes to the next flush; returns its number.
    pub(super) fn submit(&self, bytes: usize) -> u64 {
        let mut queue = self.queue.lock();
        queue.bytes += bytes;
        self.arrived.notify_one();
        queue.begun + 1
    }

    /// The number of the last completed flush.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    fn run(&self, file: &FileRef) {
        let zeros = Aligned::zeros(FLUSH_BYTES_MAX);
        let mut offset = 0;
        loop {
            let (number, bytes) = self.next();
            let bytes = bytes.min(FLUSH_BYTES_MAX).next_multiple_of(Aligned::UNIT);
            if offset + bytes as u64 > FILE_BYTES {
                offset = 0;
            }
            let written = file.write_all_at(&zeros.bytes()[..bytes], offset);
            written.expect("the file of the null server can be overwritten");
            offset += bytes as u64;
            self.ended.store(number, Ordering::Release);
            for waker in self.wakers.lock().iter() {
                waker.wake().expect("an eventfd takes one more");
            }
        }
    }

    /// Waits for bytes; returns the number and size of the flush that begins.
    fn next(&self) -> (u64, usize) {
        let mut queue = self.queue.lock();
        while queue.bytes == 0 {
            self.arrived.wait(&mut queue);
        }
        queue.begun += 1;
        (queue.begun, std::mem::take(&mut queue.bytes))
    }
}
