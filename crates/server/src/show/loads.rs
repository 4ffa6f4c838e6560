//! SHOW of loads: LOAD, STREAM LOAD, LOAD WARNINGS, TRANSACTION, LAST INSERT.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{DbId, Result, TableId, TxnId, bail};
use freshet_ingest::{EndedGroup, names};
use freshet_meta::{LabelKind, LabelState, may_see_table, require_visible};

use super::listing::{Listing, Row, instant, some};
use crate::load_book::{Allowance, LoadKind, LoadNote};
use crate::session::Session;

/// Lines of an error log that SHOW LOAD WARNINGS returns.
const WARNINGS_MAX: usize = 1000;

/// A database and its name.
struct Home {
    id: DbId,
    name: String,
}

fn home(session: &Session, database: Option<&str>) -> Result<Home> {
    let catalog = session.shared.engine.catalog();
    let name = session.database_of(database)?;
    require_visible(&catalog, session.client.actor(), name)?;
    Ok(Home { id: catalog.require_database(name)?.id, name: name.to_owned() })
}

/// The loads of a database that are remembered, of tables that the user may see.
fn notes(session: &Session, home: &Home) -> Vec<Arc<LoadNote>> {
    let catalog = session.shared.engine.catalog();
    let actor = session.client.actor();
    let mut notes = session.shared.book.of(&home.name);
    notes.retain(|note| may_see_table(&catalog, actor, &note.database, &note.table));
    notes
}

/// A load with a label, as SHOW TRANSACTION and SHOW LOAD tell of it.
struct Labelled {
    label: String,
    kind: LabelKind,
    txn: Option<TxnId>,
    state: LabelState,
    /// When it was committed, in microseconds since 1970-01-01 UTC.
    finished_micros: Option<i64>,
}

/// The labels of a database: those of loads that run, then those that are remembered.
fn labelled(session: &Session, home: &Home) -> Vec<Labelled> {
    let engine = &session.shared.engine;
    let running = engine.running_labels(home.id).into_iter().map(|used| Labelled {
        label: used.label,
        kind: used.kind,
        txn: used.txn,
        state: used.state,
        finished_micros: None,
    });
    let horizon = engine.horizon().get();
    let finished = engine.finished_labels(home.id).into_iter().map(|record| Labelled {
        label: record.label.clone(),
        kind: record.kind,
        txn: Some(record.txn),
        state: record.state_at(horizon),
        finished_micros: Some(record.finished_micros),
    });
    running.chain(finished).collect()
}

impl Labelled {
    fn load_kind(&self) -> LoadKind {
        match self.kind {
            LabelKind::Streaming => LoadKind::Stream,
            LabelKind::Statement => LoadKind::Insert,
        }
    }

    /// What it may. What one has asked for that still runs, or has ended before a restart, is not
    /// kept: that is told of its kind.
    fn allowance(&self, session: &Session, note: Option<&LoadNote>) -> Allowance {
        let of_kind = self.load_kind().allowance();
        match (note, self.state) {
            (Some(note), _) => note.allowance,
            (None, LabelState::Prepared) => {
                Allowance { timeout: session.shared.settings.loads.precommit_timeout, ..of_kind }
            }
            (None, _) => of_kind,
        }
    }
}

/// A row of SHOW TRANSACTION; times are in microseconds since 1970-01-01 UTC.
struct Transaction {
    txn: Option<TxnId>,
    label: String,
    kind: LabelKind,
    state: LabelState,
    begun_micros: Option<i64>,
    /// When all rows had come.
    received_micros: Option<i64>,
    finished_micros: Option<i64>,
    timeout: Duration,
}

impl Transaction {
    fn row(self) -> Row {
        let (status, prepared, done) = match self.state {
            LabelState::Visible => ("VISIBLE", self.finished_micros, self.finished_micros),
            LabelState::Prepared => ("PRECOMMITTED", self.received_micros, None),
            LabelState::Running => ("PREPARE", None, None),
        };
        let (source, coordinator) = match self.kind {
            LabelKind::Streaming => ("BACKEND_STREAMING", "BE: localhost"),
            LabelKind::Statement => ("INSERT_STREAMING", "FE: localhost"),
        };
        let done = done.map(instant);
        vec![
            self.txn.map(|txn| txn.to_string()),
            Some(self.label),
            some(coordinator),
            some(status),
            some(source),
            self.begun_micros.map(instant),
            prepared.map(instant),
            done.clone(),
            done.clone(),
            done,
            some(""),
            some(0),
            some(-1),
            some(self.timeout.as_millis()),
            some(""),
        ]
    }
}

/// SHOW TRANSACTION: loads with a label from a client that run or are still remembered, then open
/// groups and those that have ended lately.
///
/// # Errors
/// 1046, 1044 and 1049.
pub fn transactions(session: &Session, database: Option<&str>) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "TransactionId",
        "Label",
        "Coordinator",
        "TransactionStatus",
        "LoadJobSourceType",
        "PrepareTime",
        "PreCommitTime",
        "CommitTime",
        "PublishTime",
        "FinishTime",
        "Reason",
        "ErrorReplicasCount",
        "ListenerId",
        "TimeoutMs",
        "ErrMsg",
    ]);
    let home = home(session, database)?;
    let notes = notes(session, &home);
    for load in labelled(session, &home) {
        let note = notes.iter().rev().find(|note| note.label == load.label && note.is_done());
        let note = note.map(|note| &**note);
        let transaction = Transaction {
            txn: load.txn,
            kind: load.kind,
            state: load.state,
            begun_micros: note.map(|note| note.began_micros).or(load.finished_micros),
            received_micros: note.map(|note| note.ended_micros),
            finished_micros: load.finished_micros,
            timeout: load.allowance(session, note).timeout,
            label: load.label,
        };
        listing.push(transaction.row());
    }
    for group in groups(session, &home) {
        listing.push(group.row());
    }
    Ok(listing)
}

/// The groups of tables of a database that the user may see: the transactions that replies to
/// their loads name.
fn groups(session: &Session, home: &Home) -> Vec<Transaction> {
    let engine = &session.shared.engine;
    let (catalog, actor) = (engine.catalog(), session.client.actor());
    let is_seen = |id: TableId| {
        let table = catalog.table_by_id(id).filter(|table| table.db == home.id);
        table.is_some_and(|table| may_see_table(&catalog, actor, &home.name, &table.name))
    };
    let of = |txn: TxnId, opened_micros: i64, ended_micros: Option<i64>| Transaction {
        txn: Some(txn),
        label: names::group_label(txn),
        kind: LabelKind::Statement,
        state: if ended_micros.is_some() { LabelState::Visible } else { LabelState::Running },
        begun_micros: Some(opened_micros),
        received_micros: None,
        finished_micros: ended_micros,
        timeout: LoadKind::Insert.allowance().timeout,
    };
    let states = engine.table_states();
    let open = states.iter().filter(|state| is_seen(state.id));
    let open =
        open.filter_map(|state| state.open_group(|open| of(open.txn, open.opened_micros, None)));
    let ended = engine.history().groups();
    let ended = ended.iter().filter(|group| is_seen(group.table));
    // What a crash could take back has not ended.
    let horizon = engine.horizon().get();
    let time = |group: &EndedGroup| (group.lsn <= horizon).then_some(group.ended_micros);
    let ended = ended.map(|group| of(group.txn, group.opened_micros, time(group)));
    open.chain(ended).collect()
}

/// SHOW LOAD: loads with a label that run, have failed lately, or are still remembered.
///
/// # Errors
/// 1046, 1044 and 1049.
pub fn loads(session: &Session, database: Option<&str>) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "JobId",
        "Label",
        "State",
        "Progress",
        "Type",
        "EtlInfo",
        "TaskInfo",
        "ErrorMsg",
        "CreateTime",
        "EtlStartTime",
        "EtlFinishTime",
        "LoadStartTime",
        "LoadFinishTime",
        "URL",
        "JobDetails",
        "TransactionId",
        "ErrorTablets",
        "User",
        "Comment",
        "FirstErrorMsg",
    ]);
    let home = home(session, database)?;
    let notes = notes(session, &home);
    let (catalog, actor) = (session.shared.engine.catalog(), session.client.actor());
    for load in labelled(session, &home) {
        let note = notes.iter().rev().find(|note| note.label == load.label && note.is_done());
        let (state, progress) = match load.state {
            LabelState::Visible => ("FINISHED", "100%"),
            LabelState::Prepared => ("COMMITTED", "99%"),
            LabelState::Running => ("LOADING", "0%"),
        };
        let head = [load.txn.map(|txn| txn.to_string()), some(&load.label), some(state)];
        let finished = load.finished_micros.map(instant);
        let url = note.and_then(|note| note.error_url_for(&catalog, actor));
        let note = note.map(|note| &**note);
        let kind = (load.load_kind(), load.allowance(session, note));
        listing.push(load_row(head, kind, (progress, finished), note, [url, None]));
    }
    // What has no label is no load of this list.
    for note in notes.iter().filter(|note| note.is_failed() && !note.label.is_empty()) {
        let head = [note.txn.map(|txn| txn.to_string()), some(&note.label), some("CANCELLED")];
        let finished = some(instant(note.ended_micros));
        let url = note.error_url_for(&catalog, actor);
        let why = Some(note.message_for(&catalog, actor));
        let kind = (note.kind, note.allowance);
        listing.push(load_row(head, kind, ("0%", finished), Some(note), [url, why]));
    }
    Ok(listing)
}

fn load_row(
    head: [Option<String>; 3],
    (kind, allowance): (LoadKind, Allowance),
    (progress, finished): (&str, Option<String>),
    note: Option<&LoadNote>,
    [url, why]: [Option<&str>; 2],
) -> Row {
    let error = why.map(|why| format!("type:LOAD_RUN_FAIL; msg:{why}"));
    let began = note.map(|note| instant(note.began_micros)).or_else(|| finished.clone());
    let details = note.map(|note| {
        format!(
            "{{\"ScannedRows\":{},\"LoadBytes\":{},\"FilteredRows\":{},\"UnselectedRows\":{}}}",
            note.rows_total, note.body_bytes, note.rows_filtered, note.rows_unselected
        )
    });
    let Allowance { timeout, max_filter_ratio } = allowance;
    let task = format!(
        "cluster:N/A; timeout(s):{}; max_filter_ratio:{max_filter_ratio:?}",
        timeout.as_secs()
    );
    let kind = match kind {
        LoadKind::Stream => "STREAM_LOAD",
        LoadKind::Insert => "INSERT",
    };
    let txn = head[0].clone();
    let rest = [
        some(progress),
        some(kind),
        None,
        some(task),
        error,
        began.clone(),
        began.clone(),
        began.clone(),
        began,
        finished,
        some(url.unwrap_or_default()),
        details,
        txn,
        some("{}"),
        some(note.map_or("", |note| &note.account.name)),
        some(note.map_or("", |note| &note.comment)),
        some(why.unwrap_or_default()),
    ];
    head.into_iter().chain(rest).collect()
}

/// SHOW STREAM LOAD: stream loads outside of groups, and those with rejected rows.
///
/// # Errors
/// 1046, 1044 and 1049.
pub fn stream_loads(session: &Session, database: Option<&str>) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "Label",
        "Db",
        "Table",
        "ClientIp",
        "Status",
        "Message",
        "Url",
        "TotalRows",
        "LoadedRows",
        "FilteredRows",
        "UnselectedRows",
        "LoadBytes",
        "StartTime",
        "FinishTime",
        "User",
        "Comment",
    ]);
    let home = home(session, database)?;
    let (catalog, actor) = (session.shared.engine.catalog(), session.client.actor());
    for note in notes(session, &home).iter().filter(|note| note.kind == LoadKind::Stream) {
        listing.push([
            some(&note.label),
            some(&note.database),
            some(&note.table),
            some(&note.client),
            some(note.status),
            some(note.message_for(&catalog, actor)),
            some(note.error_url_for(&catalog, actor).unwrap_or("N/A")),
            some(note.rows_total),
            some(note.rows_loaded),
            some(note.rows_filtered),
            some(note.rows_unselected),
            some(note.body_bytes),
            some(instant(note.began_micros)),
            some(instant(note.ended_micros)),
            some(&note.account.name),
            some(&note.comment),
        ]);
    }
    Ok(listing)
}

/// SHOW LOAD WARNINGS: the rejected rows of the load that `url` is of, or of all that are
/// remembered.
///
/// # Errors
/// 1046, 1044 and 1049; for a URL of no error log.
pub async fn load_warnings(
    session: &Session,
    database: Option<&str>,
    url: Option<&str>,
) -> Result<Listing> {
    let mut listing = Listing::new(&["JobId", "Label", "ErrorMsgDetail"]);
    let book = &session.shared.book;
    if let Some(url) = url {
        let Some((_, name)) = url.rsplit_once("file=") else {
            bail!(WrongArguments, "'{url}' is no ErrorURL of a load");
        };
        add_reasons(&mut listing, [some(-1), some("")], &book.read_log(name).await?);
        return Ok(listing);
    }
    let home = home(session, database)?;
    for note in notes(session, &home) {
        let url = note.error_url_for(&session.shared.engine.catalog(), session.client.actor());
        let Some((_, name)) = url.and_then(|url| url.rsplit_once("file=")) else { continue };
        // A log that was deleted meanwhile has nothing to tell.
        let Ok(text) = book.read_log(name).await else { continue };
        let job = some(note.txn.map_or(-1, |txn| txn.get().cast_signed()));
        add_reasons(&mut listing, [job, some(&note.label)], &text);
    }
    Ok(listing)
}

fn add_reasons(listing: &mut Listing, [job, label]: [Option<String>; 2], text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let left = WARNINGS_MAX.saturating_sub(listing.rows.len());
    for line in text.lines().filter(|line| !line.trim().is_empty()).take(left) {
        listing.push([job.clone(), label.clone(), some(line)]);
    }
}

/// SHOW LAST INSERT. What a transaction has inserted has no number before its COMMIT.
pub fn last_insert(session: &Session) -> Listing {
    let mut listing = Listing::new(&[
        "TransactionId",
        "Label",
        "Database",
        "Table",
        "TransactionStatus",
        "LoadedRows",
        "FilteredRows",
    ]);
    let Some(last) = &session.last_insert else { return listing };
    let catalog = session.shared.engine.catalog();
    let table = catalog.table_by_id(last.table);
    let database = table.and_then(|table| catalog.database_by_id(table.db));
    let is_undone = last.loaded.txn.is_none() && !last.waits_for(session.transactions.number());
    listing.push([
        some(last.loaded.txn.map_or(-1, |txn| txn.get().cast_signed())),
        some(last.loaded.label()),
        database.map(|database| database.name.clone()),
        table.map(|table| table.name.clone()),
        some(if is_undone { "ABORTED" } else { last.loaded.status() }),
        some(last.inserted.rows),
        some(last.inserted.filtered),
    ]);
    listing
}
