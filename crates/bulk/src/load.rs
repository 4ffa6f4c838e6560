//! `freshet load`: readers cut inputs into blocks, senders send them.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

use crate::args::{Ddl, LoadArgs, Transport};
use crate::connection::Connection;
use crate::ddl;
use crate::exit::{Exit, Failure, Result};
use crate::inputs::{self, Input, Inputs};
use crate::job::Job;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::reader;
use crate::schema::{TableInfo, Tables};
use crate::send::Sender;
use crate::shared::Shared;
use crate::split::Block;
use crate::sql::SqlLoader;
use crate::stop::Stop;
use crate::trial;

/// A block under way to its table.
type Parcel = (Arc<Job>, Block);

/// A run of `freshet load`.
struct Run<'a> {
    shared: Shared<'a>,
    inputs: Vec<Input>,
    tables: Tables,
    next_input: AtomicUsize,
    rows_pace: Option<Pace>,
    bytes_pace: Option<Pace>,
    rejected: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

/// Loads what the options name.
///
/// # Errors
/// What went wrong first, with the code to exit with.
pub fn load(args: &LoadArgs) -> Result<()> {
    let args = LoadArgs { server: args.server.clone().with_environment(), ..args.clone() };
    crate::send::check_options(&args)?;
    let Inputs { rows: inputs, definitions } = inputs::of(&args)?;
    let place = args.server.mysql_place();
    let mut connection = Connection::open(&args.server)
        .map_err(|error| Failure::failed(format!("{place}: {error}")))?;
    define(&mut connection, &args, &definitions)?;
    if args.ddl == Ddl::Only {
        return Ok(());
    }
    let tables = tables_of(&mut connection, &inputs)?;
    if args.transport == Transport::Sql && !args.dry_run {
        let databases: BTreeSet<_> = tables.keys().map(|(database, _)| database).collect();
        let mut databases = databases.into_iter();
        databases.try_for_each(|database| SqlLoader::prepare(&mut connection, database))?;
    }
    drop(connection);
    let total = inputs.iter().map(|input| input.bytes).sum();
    let meter = Arc::new(Meter::new(total, args.quiet));
    let stop = Stop::at_signals()?;
    if args.dry_run {
        let tried = trial::run(&args, &inputs, &tables, &meter, &stop);
        meter.finish();
        return tried;
    }
    let pace = |per_second: Option<u64>| per_second.map(Pace::new);
    let run = Run {
        shared: Shared::new(&args, meter, stop)?,
        inputs,
        tables,
        next_input: AtomicUsize::new(0),
        rows_pace: pace(args.speed.rows_per_second),
        bytes_pace: pace(args.speed.bytes_per_second.map(|bytes| bytes.bytes())),
        rejected: AtomicU64::new(0),
        failure: Mutex::new(None),
    };
    run.all()
}

/// Runs the definitions of tables, if the options want it.
fn define(connection: &mut Connection, args: &LoadArgs, files: &[PathBuf]) -> Result<()> {
    if args.ddl == Ddl::None {
        return Ok(());
    }
    if args.dry_run {
        return Err(Failure::usage("a dry run checks tables that are there; leave --ddl away"));
    }
    let Some(database) = &args.database else {
        return Err(Failure::usage("say by --database where to create the tables"));
    };
    ddl::run(connection, database, files)
}

fn tables_of(connection: &mut Connection, inputs: &[Input]) -> Result<Tables> {
    let mut tables = Tables::new();
    for input in inputs {
        let (database, table) = (&input.database, &input.table);
        if let Entry::Vacant(new) = tables.entry((database.clone(), table.clone())) {
            new.insert(Arc::new(TableInfo::of(connection, database, table)?));
        }
    }
    Ok(tables)
}

impl Run<'_> {
    fn all(&self) -> Result<()> {
        let (readers, senders) = (self.shared.args.speed.readers, self.shared.args.speed.parallel);
        // Beside the blocks that are read and sent, one a sender waits.
        let (to, from) = sync_channel(usize::from(senders));
        let from = Mutex::new(from);
        thread::scope(|scope| {
            for _ in 0..usize::from(readers).min(self.inputs.len()) {
                let to = to.clone();
                scope.spawn(move || self.keep(self.read(&to)));
            }
            drop(to);
            for _ in 0..senders {
                scope.spawn(|| self.send(&from));
            }
        });
        self.shared.meter.finish();
        self.end()
    }

    /// Keeps the first failure, and ends all threads.
    fn keep(&self, result: Result<()>) {
        if let Err(failure) = result {
            self.failure.lock().get_or_insert(failure);
            self.shared.stop.fail();
        }
    }

    /// What to say at the end.
    fn end(&self) -> Result<()> {
        let (rows, seconds) = (self.shared.meter.rows(), self.shared.meter.seconds());
        let rejected = self.rejected.load(Ordering::Relaxed);
        if !self.shared.args.quiet {
            let bad = if rejected > 0 { format!(", {rejected} bad ones") } else { String::new() };
            let per_second = rows as f64 / seconds.max(0.001);
            eprintln!("freshet: {rows} rows in {seconds:.1} s ({per_second:.0}/s){bad}");
        }
        let advice = match self.shared.args.resume.again {
            true => "what has arrived is remembered; the same without --again goes on from there",
            false => "what has arrived is remembered; the same command goes on from there",
        };
        match self.failure.lock().take() {
            Some(failure) if failure.exit == Exit::Failed => {
                Err(Failure { message: format!("{failure}\n{advice}"), ..failure })
            }
            Some(failure) => Err(failure),
            None if self.shared.stop.is_signalled() => {
                let stopped = Failure::stopped();
                Err(Failure { message: format!("{stopped}; {advice}"), ..stopped })
            }
            None => Ok(()),
        }
    }

    fn read(&self, to: &SyncSender<Parcel>) -> Result<()> {
        while !self.shared.stop.is_set() {
            let at = self.next_input.fetch_add(1, Ordering::Relaxed);
            let Some(input) = self.inputs.get(at) else { break };
            let table = &self.tables[&(input.database.clone(), input.table.clone())];
            let send = |job: &Arc<Job>, block| to.send((Arc::clone(job), block)).is_ok();
            reader::read(
                input,
                table,
                self.shared.args,
                &self.shared.meter,
                &self.shared.stop,
                send,
            )?;
        }
        Ok(())
    }

    /// Sends what readers have read. When the run ends early it is taken and dropped, so that no
    /// reader waits for room.
    fn send(&self, from: &Mutex<Receiver<Parcel>>) {
        let mut sender = None;
        self.keep(Sender::new(&self.shared).map(|new| sender = Some(new)));
        while let Ok((job, block)) = next(from) {
            if let Some(sender) = &mut sender
                && self.may_go(&block)
            {
                self.keep(self.send_one(sender, &job, &block));
            }
        }
    }

    fn send_one(&self, sender: &mut Sender<'_>, job: &Job, block: &Block) -> Result<()> {
        let Some(sent) = sender.send(job, block)? else { return Ok(()) };
        self.shared.meter.arrived(sent.rows);
        job.arrived(block, sent.rows, sent.rejected)?;
        self.check_rejected(sent.rejected, job)
    }

    /// Waits for the turn of a block.
    fn may_go(&self, block: &Block) -> bool {
        let wait = |pace: &Option<Pace>, units: u64| {
            pace.as_ref().is_none_or(|pace| pace.wait(units, &self.shared.stop))
        };
        !self.shared.stop.is_set()
            && wait(&self.rows_pace, block.lines.max(1))
            && wait(&self.bytes_pace, block.bytes.len() as u64)
    }

    fn check_rejected(&self, rejected: u64, job: &Job) -> Result<()> {
        let all = self.rejected.fetch_add(rejected, Ordering::Relaxed) + rejected;
        if self.shared.args.max_filter_ratio.is_some() || all <= self.shared.args.max_errors {
            return Ok(());
        }
        let name = job.input.name();
        Err(Failure::bad_rows(format!(
            "{name}: {all} rows are bad, more than --max-errors {}; the good rows of their blocks \
             were loaded",
            self.shared.args.max_errors
        )))
    }
}

fn next(from: &Mutex<Receiver<Parcel>>) -> std::result::Result<Parcel, std::sync::mpsc::RecvError> {
    from.lock().recv()
}
