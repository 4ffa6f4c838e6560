//! `freshet_base::sync` with the locks and atomics of `shuttle`.

pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A lock at which the scheduler may switch threads.
#[derive(Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().expect("a panic ends the run")
    }
}

/// A cell that is set once; as with the real one, a second setter waits for the first.
pub struct OnceLock<T> {
    cell: std::sync::OnceLock<T>,
    setting: Mutex<()>,
    /// Loaded at each `get`, so that the scheduler may switch there.
    looked: AtomicBool,
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self {
            cell: std::sync::OnceLock::new(),
            setting: Mutex::default(),
            looked: AtomicBool::new(false),
        }
    }
}

impl<T> OnceLock<T> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self) -> Option<&T> {
        self.looked.load(Ordering::SeqCst);
        self.cell.get()
    }

    pub fn set(&self, value: T) -> Result<(), T> {
        let _setting = self.setting.lock();
        self.cell.set(value)
    }

    pub fn take(&mut self) -> Option<T> {
        self.cell.take()
    }

    pub fn get_or_init(&self, value: impl FnOnce() -> T) -> &T {
        let _setting = self.setting.lock();
        self.cell.get_or_init(value)
    }
}
