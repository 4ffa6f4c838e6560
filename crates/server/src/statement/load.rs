//! LOAD DATA: the text of a file, which the client sends or the server has, is split into rows,
//! which take the road of all loads. All of a file is loaded or nothing.

mod computed;
mod fields;

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_ingest::decode::fields::FieldReader;
use freshet_ingest::decode::{Encoded, RowEncoder, Warnings};
use freshet_ingest::{Load, LoadTarget, OnExisting, UsedIds, WaitLimit};
use freshet_meta::Privilege;
use freshet_query::parser::{FieldTarget, LoadData, OnSameKey};
use freshet_query::session::Value;
use freshet_query::snapshot::temporary_names;
use freshet_schema::{Charset, Collation, OnBad};
use freshet_wire::Capabilities;

use crate::accounts::RequestMemory;
use crate::again::Again;
use crate::files::FileReader;
use crate::insert::{Grouping, Target, check_existing, key_rules, nothing, report, resolve, warn};
use crate::mysql::infile::ClientFile;
use crate::mysql::results::{Gone, Output};
use crate::reply::{Reply, bounded};
use crate::session::Session;
use crate::through::{self, Writing};
use crate::variables::charset_name;
use computed::Computed;
use fields::{Slot, encode_row};

/// Rows that are encoded at once, before their memory is counted.
const ROWS_AT_ONCE: usize = 512;
/// Input that needs no memory of its own: about what a connection holds anyway.
const INPUT_BYTES_FREE: usize = 1 << 20;

/// Runs LOAD DATA.
pub async fn load_data(
    session: &mut Session,
    load: &LoadData,
    output: &mut Output,
) -> std::result::Result<Result<Reply>, Gone> {
    let plan = match planned(session, load).await {
        Ok(plan) => plan,
        Err(error) => return Ok(Err(error)),
    };
    if load.is_local {
        let mut file = Source::Client(output.request_file(&load.file).await?);
        let done = plan.run(session, load, &mut file).await;
        if let Source::Client(file) = file {
            output.writer.reply_to(file.finish().await.ok_or(Gone)?);
        }
        return Ok(done);
    }
    Ok(match FileReader::open(session, &load.file).await {
        Ok(file) => plan.run(session, load, &mut Source::Server(file)).await,
        Err(error) => Err(error),
    })
}

/// What to do, once no change of columns keeps writers from the table: what a client sends cannot
/// be read again.
async fn planned(session: &Session, load: &LoadData) -> Result<Plan> {
    let mut again = Again::default();
    loop {
        let mut plan = Plan::new(session, load)?;
        match plan.target.into.entered() {
            Ok(entered) => {
                plan.target.into = entered;
                plan.check_partitions(&load.partitions)?;
                return Ok(plan);
            }
            Err(error) if again.is_due(session, &error).await => {}
            Err(error) => return Err(error),
        }
    }
}

/// Where the text comes from.
enum Source {
    Client(ClientFile),
    Server(FileReader),
}

impl Source {
    /// The next part; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Server(file) => file.next().await,
            Self::Client(file) => match file.next().await {
                None if !file.has_ended() => bail!(Interrupted, "the client has disconnected"),
                part => Ok(part),
            },
        }
    }
}

/// What a statement does with each row.
struct Plan {
    target: Target,
    /// What becomes of each field.
    slots: Vec<Slot>,
    /// With SET: rows are computed from the fields.
    computed: Option<Computed>,
}

/// A file that is being read.
struct Reading {
    slots: Vec<Slot>,
    computed: Option<Computed>,
    reader: FieldReader,
    tally: Tally,
}

/// What was read so far.
#[derive(Default)]
struct Tally {
    rows: u64,
    taken: u64,
    warnings: Warnings,
    /// The fields of user variables in the last row.
    variables: Vec<(String, Option<Vec<u8>>)>,
}

impl Plan {
    fn new(session: &Session, load: &LoadData) -> Result<Self> {
        check_local(session, load)?;
        charset(load)?;
        let database = session.database_of(load.table.database.as_deref())?;
        let resolved = |columns: Option<&[&str]>, on_existing| {
            resolve(session, Some(database), &load.table.table, columns, on_existing)
        };
        if let Some(plan) = Self::through(session, load, database)? {
            return Ok(plan);
        }
        let table = session.target(database, &load.table.table);
        // Rows of LOCAL are left out as with IGNORE, since the client could not be stopped.
        let on_existing = match (load.on_same_key, &table) {
            (OnSameKey::Ignore, _) => OnExisting::Skip,
            (OnSameKey::Replace, _) => OnExisting::Replace,
            (OnSameKey::Unsaid, Ok(table))
                if load.is_local && check_existing(table.table(), OnExisting::Skip).is_ok() =>
            {
                OnExisting::Skip
            }
            (OnSameKey::Unsaid, _) => OnExisting::Refuse,
        };
        let Some(fields) = load.fields.clone().or_else(|| all_columns(load, table.as_ref().ok()?))
        else {
            let target = lenient(load, resolved(None, on_existing)?);
            let slots = vec![Slot::Value; target.plan.width()];
            return Ok(Self { target, slots, computed: None });
        };
        let is_generated = |name: &str| table.as_ref().is_ok_and(|table| generates(table, name));
        let columns = fields.iter().filter_map(|field| match field {
            FieldTarget::Column(name) if !is_generated(name) => Some(name.as_str()),
            FieldTarget::Column(_) | FieldTarget::Variable(_) => None,
        });
        if load.set.is_empty() {
            let target = resolved(Some(&columns.collect::<Vec<_>>()), on_existing)?;
            let slots = fields.iter().map(|field| match field {
                FieldTarget::Column(name) if is_generated(name) => Slot::Ignored,
                FieldTarget::Column(_) => Slot::Value,
                FieldTarget::Variable(name) => Slot::Variable(name.clone()),
            });
            return Ok(Self {
                target: lenient(load, target),
                slots: slots.collect(),
                computed: None,
            });
        }
        let kept = not_set(load, columns);
        let names = Computed::names(&kept, &load.set);
        let target = lenient(load, resolved(Some(&names), on_existing)?);
        let computed = Computed::new(session, &target, load, &fields, &kept)?;
        let slots = vec![Slot::Value; fields.len()];
        Ok(Self { target, slots, computed: Some(computed) })
    }

    /// Takes rows of these partitions only, if there are any.
    fn check_partitions(&mut self, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        if self.target.through.is_some() {
            bail!(PartitionClause, "PARTITION () clause on non partitioned table");
        }
        if temporary_names(names).is_some() {
            bail!(NotSupported, "LOAD DATA into temporary partitions is not supported: use INSERT");
        }
        self.target.only(names)
    }

    /// That of a load through a view; `None` if the target is none.
    fn through(session: &Session, load: &LoadData, database: &str) -> Result<Option<Self>> {
        let name = &load.table.table;
        session.authorize_columns(Privilege::Insert, database, name)?;
        let said = load.fields.iter().flatten().filter_map(|field| match field {
            FieldTarget::Column(name) => Some(name.as_str()),
            FieldTarget::Variable(_) => None,
        });
        let said = Computed::names(&said.collect::<Vec<_>>(), &load.set);
        let Some(view) = through::of(session, (database, name), Writing::Load, &said)? else {
            return Ok(None);
        };
        let all = || view.names().map(|name| FieldTarget::Column(name.to_owned())).collect();
        let fields: Vec<FieldTarget> = load.fields.clone().unwrap_or_else(all);
        let columns = fields.iter().filter_map(|field| match field {
            FieldTarget::Column(name) => Some(name.as_str()),
            FieldTarget::Variable(_) => None,
        });
        let columns = columns.collect::<Vec<_>>();
        let slots = fields.iter().map(|field| match field {
            FieldTarget::Column(_) => Slot::Value,
            FieldTarget::Variable(name) => Slot::Variable(name.clone()),
        });
        let on_existing = match load.on_same_key {
            OnSameKey::Ignore => OnExisting::Skip,
            OnSameKey::Replace => OnExisting::Replace,
            OnSameKey::Unsaid => {
                let table = through::table(session, &view)?;
                let skips = check_existing(table.table(), OnExisting::Skip).is_ok();
                if load.is_local && skips { OnExisting::Skip } else { OnExisting::Refuse }
            }
        };
        if load.set.is_empty() {
            let target = resolve(session, Some(database), name, Some(&columns), on_existing)?;
            let (target, slots) = (lenient(load, target), slots.collect());
            return Ok(Some(Self { target, slots, computed: None }));
        }
        let kept = not_set(load, columns.into_iter());
        let names = Computed::names(&kept, &load.set);
        let target = resolve(session, Some(database), name, Some(&names), on_existing)?;
        let target = lenient(load, target);
        let computed = Computed::new(session, &target, load, &fields, &kept)?;
        let slots = vec![Slot::Value; fields.len()];
        Ok(Some(Self { target, slots, computed: Some(computed) }))
    }

    async fn run(
        self,
        session: &mut Session,
        load: &LoadData,
        source: &mut Source,
    ) -> Result<Reply> {
        let Self { mut target, slots, computed } = self;
        if target.partial.is_some() {
            bail!(
                NotSupported,
                "LOAD DATA of some columns of table '{}' cannot update stored rows: use INSERT, or \
                 SET enable_unique_key_partial_update = 0",
                target.into.table().name
            );
        }
        target.begin_statement(session);
        let engine = Arc::clone(&session.shared.engine);
        let own = session.transactions.writable(&engine, &session.settings)?.cloned();
        let destination = Grouping::Alone.destination(own.as_ref(), &session.settings, &target)?;
        let patience = WaitLimit::For(session.settings.insert_timeout.time());
        let into = engine.load(&target.into, destination, patience);
        let mut into = into.with_keys(key_rules(session, target.on_existing));
        let reader = FieldReader::new(load.format.clone(), slots.len(), load.lines_to_skip);
        let mut reading = Reading { slots, computed, reader, tally: Tally::default() };
        let mut memory = RequestMemory::new(&session.usage, &engine);
        let charset = charset(load)?.filter(|charset| !charset.is_utf8());
        let mut charset = charset.map(Charset::reader);
        session.buffer.begin();
        loop {
            let part = bounded(session, source.next()).await?;
            match (&part, &mut charset) {
                (Some(bytes), None) => reading.reader.feed(bytes),
                (Some(bytes), Some(charset)) => {
                    reading.reader.feed(charset.next(bytes, false)?.as_bytes());
                }
                (None, charset) => {
                    if let Some(charset) = charset {
                        reading.reader.feed(charset.next(&[], true)?.as_bytes());
                    }
                    reading.reader.end();
                }
            }
            hold(session, &mut memory, reading.reader.held_bytes()).await?;
            // Each query over fields has its cost.
            let is_little = reading.reader.waiting_bytes() < INPUT_BYTES_FREE;
            if reading.computed.is_some() && is_little && part.is_some() {
                continue;
            }
            while reading.take_rows(session, &target).await? {
                into.reserve_for(&mut session.buffer).await?;
                tokio::task::yield_now().await;
            }
            if part.is_none() {
                return finish(session, &target, reading.tally, into).await;
            }
        }
    }
}

impl Reading {
    /// Encodes some rows into the session's buffer; false if there is none without more input.
    async fn take_rows(&mut self, session: &mut Session, target: &Target) -> Result<bool> {
        let Self { slots, computed, reader, tally } = self;
        let (rows, done) = match computed {
            None => encode(target, slots, reader, session.buffer.resume(), tally)?,
            Some(computed) => computed.encode(session, target, reader, tally).await?,
        };
        session.buffer.count(done.rows)?;
        session.buffer.use_ids(done.ids);
        session.buffer.mark(&done.deletes);
        tally.rows += rows as u64;
        tally.taken += done.rows as u64;
        tally.warnings.append(done.warnings);
        Ok(rows > 0)
    }
}

/// Commits the rows, and says what became of them.
async fn finish(
    session: &mut Session,
    target: &Target,
    tally: Tally,
    into: Load<'_>,
) -> Result<Reply> {
    for (name, value) in tally.variables {
        let text = |text: Vec<u8>| Value::Text(String::from_utf8_lossy(&text).into_owned());
        session.set_user_variable(&name, (value.map_or(Value::Null, text), None))?;
    }
    let (mut deleted, mut skipped) = (0, tally.warnings.filtered);
    warn(session, target, tally.taken, tally.warnings)?;
    let affected = if tally.taken > 0 {
        let ids = UsedIds::join(into.ids(), session.buffer.ids());
        let mut buffer = std::mem::take(&mut session.buffer);
        // It may wait for keys that others hold.
        let loaded = bounded(session, into.commit(&mut buffer)).await;
        session.buffer = buffer;
        let loaded = loaded?;
        (deleted, skipped) = (loaded.keys.replaced, skipped + loaded.keys.skipped);
        report(session, target, loaded, (tally.taken, ids)).await
    } else {
        nothing(session)
    };
    let (rows, warnings) = (tally.rows, session.diagnostics.count);
    session.info.set(format!(
        "Records: {rows}  Deleted: {deleted}  Skipped: {skipped}  Warnings: {warnings}"
    ));
    Ok(Reply::Done { affected })
}

/// Encodes rows whose fields are the values of columns; returns how many were read.
fn encode(
    target: &Target,
    slots: &[Slot],
    reader: &mut FieldReader,
    out: &mut Vec<u8>,
    tally: &mut Tally,
) -> Result<(usize, Encoded)> {
    let encoder = RowEncoder::new(&target.plan, &target.rules, out);
    let mut encoder = encoder.counting_from(tally.rows + 1);
    let mut rows = 0;
    while rows < ROWS_AT_ONCE
        && let Some(row) = reader.next_row()?
    {
        let number = tally.rows + rows as u64 + 1;
        rows += 1;
        encode_row(&mut encoder, row, slots, (number, &target.plan), &target.rules)?;
        fields::note_variables(row, slots, &mut tally.variables);
    }
    Ok((rows, encoder.finish()?))
}

/// The columns that SET leaves to their fields.
fn not_set<'a>(load: &LoadData, columns: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let is_set = |name: &str| load.set.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    columns.filter(|name| !is_set(name)).collect()
}

/// Whether a table computes a column: what a file has for it, as dumps do, is not taken.
fn generates(table: &LoadTarget, name: &str) -> bool {
    let schema = table.schema();
    schema.position(name).is_some_and(|at| schema.columns[at].generated.is_some())
}

/// The columns of the table, where they are to be named.
fn all_columns(load: &LoadData, table: &LoadTarget) -> Option<Vec<FieldTarget>> {
    let is_named = !load.set.is_empty() || table.schema().is_generated();
    let columns = table.schema().shown().iter();
    let columns = columns.map(|column| FieldTarget::Column(column.name.clone()));
    is_named.then(|| columns.collect())
}

/// LOCAL adjusts values as IGNORE does, also where rows of an existing key are not left out.
fn lenient(load: &LoadData, mut target: Target) -> Target {
    if load.is_local && target.rules.strict() {
        target.rules.on_bad = OnBad::Clamp;
    }
    target
}

fn check_local(session: &Session, load: &LoadData) -> Result<()> {
    let client_can = session.client.capabilities.contains(Capabilities::LOCAL_FILES);
    if !load.is_local || client_can && session.shared.globals.is_on("local_infile") {
        return Ok(());
    }
    bail!(
        LocalInfileDisabled,
        "Loading local data is disabled; this must be enabled on both the client and server sides"
    );
}

/// The character set of the file; `None` for that of all texts here, and for bytes.
///
/// # Errors
/// 1115 for an unknown one, 1235 for one that cannot be converted.
fn charset(load: &LoadData) -> Result<Option<Charset>> {
    let Some(name) = load.charset.as_deref() else { return Ok(None) };
    let found = Charset::named(name);
    if found.is_none() && name != "binary" {
        let is_known = Collation::of_charset(name).is_some();
        if !is_known {
            bail!(UnknownCharset, "Unknown character set: '{name}'");
        }
        bail!(
            NotSupported,
            "files in character set '{name}' are not supported: convert them to utf8mb4"
        );
    }
    Ok(found)
}

/// Refuses files in another character set than that of all texts here.
///
/// # Errors
/// 1115 for an unknown one, 1235 for another.
pub fn check_charset(name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    match charset_name(name)? {
        "utf8mb4" | "utf8mb3" | "ascii" | "binary" => Ok(()),
        other => bail!(
            NotSupported,
            "files in character set '{other}' are not supported: convert them to utf8mb4"
        ),
    }
}

/// Takes memory for input that was received already, once it is much.
async fn hold(session: &Session, memory: &mut RequestMemory, bytes: usize) -> Result<()> {
    let wanted = bytes.saturating_sub(INPUT_BYTES_FREE) as u64;
    let held = memory.bytes();
    if wanted <= held {
        memory.resize_over(wanted);
        return Ok(());
    }
    let engine = &session.shared.engine;
    let patience = engine.config().load_patience;
    let deadline = freshet_base::clock::Deadline::after(&**engine.clock(), patience);
    bounded(session, memory.grow(wanted - held, engine, deadline)).await
}
