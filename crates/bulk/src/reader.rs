//! Reads an input into blocks.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::args::LoadArgs;
use crate::exit::{Failure, Result};
use crate::format::Format;
use crate::inputs::Input;
use crate::job::{Job, header_names};
use crate::meter::{Counted, Meter};
use crate::parquet::Parquet;
use crate::schema::TableInfo;
use crate::split::{Block, Splitter};
use crate::stop::Stop;

/// The blocks of an input.
pub type Blocks<'f> = Splitter<'f, Box<dyn Read + Send>>;

/// Opens an input and reads its head; returns what its header calls its fields, if it has one.
///
/// # Errors
/// Of the input.
pub fn open<'f>(
    input: &'f Input,
    args: &LoadArgs,
    meter: &Arc<Meter>,
) -> Result<(Blocks<'f>, Option<Vec<String>>)> {
    let unpacked = input.unpack(Counted(input.open()?, Arc::clone(meter)))?;
    let mut blocks = Splitter::new(unpacked, &input.format, block_bytes(args), 0, 1);
    let head = args.skip_lines + u64::from(args.header);
    let header = blocks.pass_head(head).map_err(Failure::of(input.name()))?;
    let names = args.header.then(|| header_names(input, &header)).transpose()?;
    Ok((blocks, names))
}

/// Opens a Parquet file.
///
/// # Errors
/// When it is none, or one that cannot be cut into blocks.
pub fn open_parquet(input: &Input, args: &LoadArgs) -> Result<Parquet> {
    let file = Parquet::open(input.open_file()?, args.speed.block_size.bytes());
    file.map_err(Failure::of(input.name()))
}

fn block_bytes(args: &LoadArgs) -> usize {
    usize::try_from(args.speed.block_size.bytes()).unwrap_or(usize::MAX)
}

/// Reads `input` and passes to `send` what has not arrived, in order; `send` says whether to go on.
///
/// # Errors
/// Of the input, its header and its history.
pub fn read(
    input: &Input,
    table: &Arc<TableInfo>,
    args: &LoadArgs,
    meter: &Arc<Meter>,
    stop: &Stop,
    mut send: impl FnMut(&Arc<Job>, Block) -> bool,
) -> Result<()> {
    if input.format == Format::Parquet {
        return read_parquet(input, table, args, (meter, stop), send);
    }
    let shown = input.name();
    let (mut blocks, header) = open(input, args, meter)?;
    let job = Job::new(input.clone(), Arc::clone(table), header, args)?;
    let job = Arc::new(job);
    if is_done(&job, meter) {
        return Ok(());
    }
    let (offset, line) = blocks.place();
    let (front, lines) = job.front(offset);
    let is_plain = input.path.is_some() && input.is_plain()?;
    if front > offset && is_plain {
        let mut file = input.open_file()?;
        file.seek(SeekFrom::Start(front)).map_err(Failure::of(&shown))?;
        meter.read(front.saturating_sub(blocks.read_to()));
        let file: Box<dyn Read + Send> = Box::new(Counted(file, Arc::clone(meter)));
        blocks = Splitter::new(file, &input.format, block_bytes(args), front, line + lines);
    }
    while let Some(block) = blocks.next().map_err(Failure::of(&shown))? {
        if job.has(&block)? {
            continue;
        }
        job.begin();
        if stop.is_set() || !send(&job, block) {
            // Its history stays open at the end.
            return Ok(());
        }
    }
    job.settle()
}

/// Says what has arrived before; returns whether that is all.
fn is_done(job: &Job, meter: &Meter) -> bool {
    let (shown, (blocks, rows)) = (job.input.name(), job.arrived_before());
    if job.is_whole() {
        meter.read(job.input.bytes);
        meter.say(&format!("{shown} was loaded before ({rows} rows); --again loads it once more"));
        return true;
    }
    if blocks > 0 {
        meter.say(&format!("{shown}: going on behind {blocks} blocks with {rows} rows"));
    }
    false
}

/// As [`read`], of a Parquet file.
fn read_parquet(
    input: &Input,
    table: &Arc<TableInfo>,
    args: &LoadArgs,
    (meter, stop): (&Arc<Meter>, &Stop),
    mut send: impl FnMut(&Arc<Job>, Block) -> bool,
) -> Result<()> {
    let mut file = open_parquet(input, args)?;
    let names = Some(file.columns().to_vec());
    let job = Arc::new(Job::new(input.clone(), Arc::clone(table), names, args)?);
    if is_done(&job, meter) {
        return Ok(());
    }
    while let Some(block) = file.next().map_err(Failure::of(input.name()))? {
        meter.read(block.bytes.len() as u64);
        if job.has(&block)? {
            continue;
        }
        job.begin();
        if stop.is_set() || !send(&job, block) {
            return Ok(());
        }
    }
    job.settle()
}
