//! What all threads of a load share.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::args::LoadArgs;
use crate::exit::{Failure, Result};
use crate::meter::Meter;
use crate::stop::Stop;

pub struct Shared<'a> {
    pub args: &'a LoadArgs,
    pub meter: Arc<Meter>,
    pub stop: Stop,
    /// Where bad rows are written.
    bad_rows: Option<Mutex<File>>,
}

impl<'a> Shared<'a> {
    /// # Errors
    /// When the file of bad rows cannot be opened.
    pub fn new(args: &'a LoadArgs, meter: Arc<Meter>, stop: Stop) -> Result<Self> {
        let bad_rows = args.bad_rows.as_ref().map(|path| {
            let file = File::options().create(true).append(true).open(path);
            file.map(Mutex::new).map_err(Failure::of(path.display()))
        });
        Ok(Self { args, meter, stop, bad_rows: bad_rows.transpose()? })
    }

    /// Writes down bad rows.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_bad(&self, text: &str) -> Result<()> {
        let (Some(file), Some(path)) = (&self.bad_rows, &self.args.bad_rows) else { return Ok(()) };
        file.lock().write_all(text.as_bytes()).map_err(Failure::of(path.display()))
    }
}
