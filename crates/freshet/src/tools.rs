//! Tools for a stopped store: `freshet check` and `freshet repair`.

use std::sync::Arc;

use freshet_base::task::Threads;
use freshet_base::{ByteSize, Error, Result};
use freshet_ingest::check::{Report, accept, check, next_loss};
use freshet_ingest::{EngineConfig, World};

use crate::config::Config;
use crate::{memory, serve};

/// `freshet check`: prints what was verified and all faults; returns whether there is none.
///
/// # Errors
/// A server uses the store, or its metadata cannot be read.
pub fn run_check(config: &Config) -> Result<bool> {
    let (engine, world) = stopped(config)?;
    let report = check(&engine, &world)?;
    let Report { tables, rowsets, data_bytes, log_records, findings } = report;
    let data = ByteSize(data_bytes);
    println!("{tables} tables, {rowsets} rowsets of {data}, {log_records} records in the log");
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("all of it holds"),
        count => println!("{count} findings"),
    }
    Ok(findings.is_empty())
}

/// `freshet repair`: prints what keeps the store from starting; with `accepted` discards it, so
/// that the server starts afterwards. Returns whether nothing is left that keeps it from starting.
/// # Errors
/// A server uses the store, or its metadata cannot be read or written.
pub fn run_repair(config: &Config, accepted: bool) -> Result<bool> {
    let (engine, world) = stopped(config)?;
    while let Some(loss) = next_loss(&engine, &world)? {
        println!("{loss}");
        if !accepted {
            println!("nothing was changed; run it with --accept to give this up");
            return Ok(false);
        }
        accept(&engine, &world, &loss)?;
        println!("accepted");
    }
    println!("nothing stands between the store and its start");
    Ok(true)
}

fn stopped(config: &Config) -> Result<(EngineConfig, World)> {
    let failed = |error| Error::io("start threads", error);
    let pool = Threads::start(config.job_threads.max(1)).map_err(failed)?;
    let world = serve::world(config, pool);
    let data_dir = &config.data_dir;
    if !Arc::clone(&world.fs).exists(data_dir) {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(Error::io(format_args!("open the store {}", data_dir.display()), missing));
    }
    Ok((serve::engine_config(config, memory::total()), world))
}
