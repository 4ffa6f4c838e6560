//! Stream load, `PUT /api/{db}/{table}/_stream_load`: loads the rows of a body atomically.
//!
//! Read in this order: `put` answers in every case, `run` goes from the headers to the
//! acknowledgement.

mod blocks;
mod body;
mod columnar;
mod context;
mod decode;
mod decoder;
mod deleting;
pub mod headers;
mod looking;
mod lz4;
mod mapped;
mod noted;
mod piece;
mod plan;
mod reply;
mod request;
mod sink;
mod spool;
mod spooled;
pub(super) mod two_phase;
mod unpack;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_base::clock::Deadline;
use freshet_base::metrics::EndedStream;
use freshet_base::{Error, ErrorCode, Result, Retry, TxnId, bail, err};
use freshet_ingest::rejects::Rejects;
use freshet_ingest::{Destination, LoadTarget, Loaded, OnExisting, WaitLimit, enter, names};
use freshet_meta::{
    Account, Claim, ClaimOutcome, LabelKind, LabelState, Object, Privilege, UsedLabel, authorize,
};
use freshet_schema::{Aggregate, GroupCommitMode, KeyModel, Table};
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::request::Parts;

use super::Http;
use super::answer::{self, json_reply};
use super::auth::{authenticate, count_update};
use super::client::Client;
use crate::session::policies::check_replaces;
use body::{Body, BodyLimit, BodySize};
use columnar::{ColumnarBody, Steps};
use decode::{Bounds, decode};
use decoder::Source;
use headers::{LoadFormat, LoadHeaders, SIGN};
use noted::{Place, allowance, note};
use piece::{BodySummary, Decoded};
use plan::{Planner, partition_names};
use reply::{LoadReply, Status, Times};
use request::Request;
use sink::Sink;

/// Where a load says what it wants.
pub(super) enum Asked<'a> {
    /// `PUT /api/{database}/{table}/_stream_load`: in its headers.
    StreamLoad { database: &'a str, table: &'a str },
    /// `PUT /api/_http_stream`: in its statement.
    HttpStream,
}

pub(super) async fn put(
    http: &Http,
    client: &Client,
    asked: Asked<'_>,
    request: hyper::Request<Incoming>,
) -> Response<Full<Bytes>> {
    let started = http.clock().now();
    let streams = &http.engine.metrics().streams;
    let running = streams.begin(matches!(asked, Asked::HttpStream));
    let (head, incoming) = request.into_parts();
    let body = Body::new(&head.headers, incoming, Arc::clone(http.clock()), &client.activity);
    let mut load = Load { http, client, head: &head, body, report: Report::default() };
    let outcome = load.run(&asked).await;
    let Load { body, mut report, .. } = load;
    report.body_bytes = body.received();
    (report.times.read, report.times.receive) = (body.waited(), body.took());
    report.times.total = http.clock().now().saturating_sub(started);
    report.times.plan = report.planned.map_or(report.times.total, |at| at.saturating_sub(started));
    body.drain();
    let (place, rejects) = (report.place.take(), std::mem::take(&mut report.rejects));
    let failed = outcome.as_ref().err().map(|error| (error.code(), error.retry()));
    let reply = reply_of(http, outcome, report);
    drop(running);
    streams.end(&EndedStream {
        took: reply.times.total,
        body_bytes: reply.body_bytes,
        rows_loaded: reply.rows_loaded,
        is_done: reply.status == Status::Success,
        is_grouped: reply.grouped,
    });
    if let Some(place) = place {
        note(http, client, place, (&reply, rejects));
    }
    answer_of(http, &reply, failed)
}

/// What is said of a prepared load that asks for a group.
const COMMIT_JOINS: &str = "its commit joins a group, unless it is larger than wal_load_bytes_max";

/// What is said of a grouped load whose rows went to files.
const OF_ITS_OWN: &str = "it is larger than wal_load_bytes_max, so it is a group of its own, \
                          committed with its reply as in sync_mode";

/// The result of a load that did not fail.
enum Outcome {
    Loaded(Option<TxnId>),
    LabelUsed(UsedLabel),
}

/// What the reply contains besides the outcome.
#[derive(Default)]
struct Report {
    label: Option<String>,
    comment: String,
    grouped: bool,
    /// What is to be said of its group commit mode.
    note: Option<String>,
    two_phases: bool,
    planned: Option<Duration>,
    times: Times,
    rows_total: u64,
    rows_filtered: u64,
    rows_unselected: u64,
    body_bytes: u64,
    error_url: Option<String>,
    first_error: Option<String>,
    rejects: Rejects,
    /// Of an account that may load there.
    place: Option<Place>,
}

/// A load that is planned and has written nothing yet.
struct Planned<'a> {
    target: &'a LoadTarget,
    headers: &'a LoadHeaders,
    source: &'a Source,
    bounds: Bounds,
    /// The label of a load that takes it later.
    claim: Option<Claim>,
}

/// A load in progress.
struct Load<'a> {
    http: &'a Http,
    client: &'a Client,
    head: &'a Parts,
    body: Body<'a>,
    report: Report,
}

impl Load<'_> {
    async fn run(&mut self, asked: &Asked<'_>) -> Result<Outcome> {
        let http = self.http;
        let engine = &http.engine;
        let account = authenticate(http, self.client, &self.head.headers).await?;
        let request = self.request(asked, &account)?;
        self.report.place = Some(Place {
            account: account.clone(),
            database: request.database.clone(),
            table: request.table.clone(),
            allowance: allowance(http, &request.headers),
        });
        self.client.assign_slot(http, &account)?;
        let usage = http.accounts.of(&account, http.clock().now());
        let _slot = http.begin_load(&account, &usage)?;
        let _slot = http.loads.try_acquire().map_err(|_| http.too_many_loads())?;
        let headers = &request.headers;
        self.report.comment.clone_from(&headers.comment);
        self.report.label.clone_from(&headers.label);
        let size = BodySize::of(&self.head.headers)?;
        let limit = http.body_limit(&headers.format);
        if let BodySize::Known(bytes) = size {
            limit.check(bytes)?;
        }
        let deadline = Deadline::after(&**http.clock(), headers.timeout);
        let target = self.target(&request, &account, deadline).await?;
        let (mode, why_alone) = mode_of(headers, size, target.table());
        self.report.note = why_alone;
        self.report.grouped = mode != GroupCommitMode::Off && !headers.two_phases;
        self.report.two_phases = headers.two_phases;
        let mut claim = None;
        if let Some(label) = &headers.label {
            match engine.claim_label(target.db(), label, LabelKind::Streaming).await? {
                ClaimOutcome::New(new) => claim = Some(new),
                ClaimOutcome::Used(used) => return Ok(Outcome::LabelUsed(used)),
            }
        }
        // A load of two phases gets its label when it is prepared, one that looks by its record.
        let looks = looking::looks(headers, target.table());
        let own = if headers.two_phases || looks { None } else { claim.take() };
        let destination = match own {
            Some(claim) => Destination::Label(claim, mode),
            None => Destination::Group(mode),
        };
        let load = engine.load(&target, destination, WaitLimit::Until(deadline));
        let mut sink = Sink::new(engine, &usage, load, deadline, &http.large);
        let size = match headers.compression {
            Some(compression) if !size.is_empty() => {
                self.body.unpack(compression)?;
                // How much there is to load is not known before.
                BodySize::Chunked
            }
            _ => size,
        };
        let bounds = Bounds { size, limit, deadline };
        let columns =
            ColumnarBody::open(http, &mut self.body, &headers.format, bounds, &mut sink).await?;
        let planner = Planner {
            http,
            account: &account,
            target: &target,
            request: &request,
            columns: columns.as_ref().map(ColumnarBody::schema),
        };
        let source = planner.source(&mut self.body, bounds).await?;
        self.report.planned = Some(http.clock().now());
        let planned = Planned { target: &target, headers, source: &source, bounds, claim };
        self.load(planned, columns, sink).await
    }

    /// Writes rows as they are decoded, or, where they are held back and few, in one record.
    async fn load(
        &mut self,
        planned: Planned<'_>,
        columns: Option<ColumnarBody>,
        mut sink: Sink<'_>,
    ) -> Result<Outcome> {
        let (http, headers) = (self.http, planned.headers);
        let summary = self.decode(&planned, columns, &mut sink).await?;
        sink.use_ids(summary.ids);
        self.check_rejects(summary, headers.max_filter_ratio).await?;
        if headers.two_phases {
            let ending = (planned.claim, http.keep_prepared(headers));
            let (txn, label) = match planned.source.partial.as_deref() {
                None => sink.prepare(ending).await?,
                Some(columns) => {
                    let on_new_key = headers.partial.unwrap_or_default();
                    let source = (columns, on_new_key, &planned.source.rules);
                    sink.prepare_partial(source, ending).await?
                }
            };
            self.report.label = Some(label);
            return Ok(Outcome::Loaded(Some(txn)));
        }
        let (spooled, held) = (sink.take_spooled(), sink.take_held());
        let Planned { target, source, bounds, claim, .. } = planned;
        if let Some((spooled, columns)) = spooled.zip(source.partial.clone()) {
            let (rows, label) = ((spooled, columns, source.rules), (claim, bounds));
            let loaded = looking::update_many(http, target, headers, rows, label).await?;
            return self.acknowledge(loaded).await;
        }
        match held {
            Some(held) if looking::looks(headers, target.table()) => {
                self.look(target, headers, (source, held), (claim, bounds)).await
            }
            held => {
                sink.label(claim);
                if let Some(held) = held {
                    sink.set_deleting(held).await?;
                }
                let loaded = sink.commit().await?;
                self.acknowledge(loaded).await
            }
        }
    }

    /// Writes few rows in the light of those that are stored.
    async fn look(
        &mut self,
        target: &LoadTarget,
        headers: &LoadHeaders,
        (source, rows): (&Source, Decoded),
        label: (Option<Claim>, Bounds),
    ) -> Result<Outcome> {
        let Some(partial) = source.partial.as_deref() else {
            let loaded = looking::merge(self.http, target, rows, label).await?;
            return self.acknowledge(loaded).await;
        };
        let rows = (rows, partial, &source.rules);
        match looking::update(self.http, target, headers, rows, label).await? {
            Ok(loaded) => self.acknowledge(loaded).await,
            Err(used) => Ok(Outcome::LabelUsed(used)),
        }
    }

    /// Waits until a load is durable.
    async fn acknowledge(&mut self, loaded: Loaded) -> Result<Outcome> {
        if self.report.grouped && loaded.txn.is_some() && loaded.mode == GroupCommitMode::Off {
            self.report.note = Some(OF_ITS_OWN.to_owned());
        }
        let from = self.http.clock().now();
        self.client.acks.durable(loaded.lsn).await;
        self.report.times.commit = self.http.clock().now().saturating_sub(from);
        Ok(Outcome::Loaded(loaded.txn))
    }

    async fn decode(
        &mut self,
        planned: &Planned<'_>,
        columns: Option<ColumnarBody>,
        sink: &mut Sink<'_>,
    ) -> Result<BodySummary> {
        let (http, body) = (self.http, &mut self.body);
        let Planned { source, bounds, .. } = *planned;
        match source.partial.is_some() {
            true => sink.expect_partial(http.draw()),
            false => sink.expect_deleting(source.deletes),
        }
        match columns {
            None => decode(&http.engine, body, source, bounds, sink).await,
            Some(columns) => Steps::new(http, body, source, (columns, bounds))?.load(sink).await,
        }
    }

    fn request(&self, asked: &Asked<'_>, account: &Account) -> Result<Request> {
        count_update(self.http, account)?;
        let headers = &self.head.headers;
        match asked {
            Asked::StreamLoad { database, table } => {
                authorize_load(self.http, account, database, table)?;
                Request::stream_load(database, table, headers)
            }
            Asked::HttpStream => {
                let request = Request::http_stream(headers)?;
                authorize_load(self.http, account, &request.database, &request.table)?;
                request.authorize_deletes(&self.http.engine.catalog(), self.http.actor(account))?;
                Ok(request)
            }
        }
    }

    /// The table that takes the rows, if it takes what the headers say, and the account may replace
    /// rows of it.
    async fn target(
        &self,
        request: &Request,
        account: &Account,
        deadline: Deadline,
    ) -> Result<LoadTarget> {
        let (engine, headers) = (&self.http.engine, &request.headers);
        let target = enter(engine, &request.database, &request.table, deadline).await?;
        target.check_takes_loads()?;
        check_table(headers, target.table())?;
        let actor = self.http.actor(account);
        check_replaces(&engine.catalog(), actor, target.table(), OnExisting::Overwrite)?;
        match &headers.temporary_partitions {
            Some(names) => engine.temporary_target(target.table(), &partition_names(names)),
            None => Ok(target),
        }
    }

    /// Counts the rows, stores the reasons of rejected ones, and fails a load with too many of
    /// them.
    async fn check_rejects(&mut self, summary: BodySummary, max_filter_ratio: f64) -> Result<()> {
        let BodySummary { rows, rejects, unselected, .. } = summary;
        self.report.rows_total = rows;
        self.report.rows_unselected = unselected;
        self.report.rows_filtered = rejects.count();
        if rejects.count() == 0 {
            return Ok(());
        }
        self.http.engine.metrics().rows_rejected.inc_by(rejects.count());
        self.report.error_url = self.error_url(&rejects).await;
        let too_many = rejects.exceed(max_filter_ratio, rows - unselected);
        let first = rejects.first_reason().map(str::to_owned);
        self.report.rejects = rejects;
        if too_many {
            self.report.first_error = first;
            bail!(TooManyFiltered, "too many filtered rows");
        }
        Ok(())
    }

    /// Stores the reasons for the client to fetch; if that fails the load goes on without them.
    async fn error_url(&self, rejects: &Rejects) -> Option<String> {
        let host = self.head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.map_or_else(|| self.client.local.to_string(), str::to_owned);
        match self.http.book.error_log.keep(rejects.log()).await {
            Ok(name) => {
                let scheme = self.client.scheme();
                Some(format!("{scheme}://{host}/api/_load_error_log?file={name}"))
            }
            Err(error) => {
                tracing::warn!(%error, "the reasons of rejected rows could not be kept");
                None
            }
        }
    }
}

/// The group commit mode, and why it has no effect on a load that shares no group.
fn mode_of(
    headers: &LoadHeaders,
    size: BodySize,
    table: &Table,
) -> (GroupCommitMode, Option<String>) {
    let mode = headers.group_commit.unwrap_or(table.properties.group_commit_mode);
    match why_alone(headers, size, table) {
        Some(why) if mode != GroupCommitMode::Off => {
            let note = format!("{} has no effect on this load: {why}", mode.name());
            (GroupCommitMode::Off, Some(note))
        }
        None if mode != GroupCommitMode::Off && headers.two_phases => {
            (mode, Some(COMMIT_JOINS.to_owned()))
        }
        _ => (mode, None),
    }
}

/// Why a load shares no group, whatever its mode.
fn why_alone(headers: &LoadHeaders, size: BodySize, table: &Table) -> Option<&'static str> {
    if headers.two_phases && !headers.group_labels {
        Some("it has two_phase_commit (group_commit_labels)")
    } else if headers.two_phases && table.key_model == KeyModel::Primary {
        Some("it has two_phase_commit, and its table a PRIMARY KEY")
    } else if headers.label.is_some() && !headers.group_labels {
        Some("it has a label (group_commit_labels)")
    } else if headers.partial.is_some() {
        Some("it is a partial update")
    } else if looking::looks(headers, table) {
        Some("it has rows that delete")
    } else if !table.properties.is_light() {
        Some("its table has light_schema_change = false")
    } else {
        size.is_empty().then_some("its body is empty")
    }
}

fn check_table(headers: &LoadHeaders, table: &Table) -> Result<()> {
    if headers.to_one_tablet && !table.is_random() {
        bail!(
            WrongArguments,
            "if load_to_single_tablet set to true, the olap table must be with random distribution"
        );
    }
    if headers.negative {
        check_negative(table)?;
    }
    if headers.partial.is_some() {
        return check_partial(headers, table);
    }
    if !headers.may_delete() {
        return Ok(());
    }
    // Nobody can name a row by a key that is hidden.
    if matches!(table.key_model, KeyModel::Duplicate | KeyModel::Aggregate) || table.has_row_ids() {
        bail!(WrongArguments, "load by MERGE or DELETE is only supported in unique tables.");
    }
    Ok(())
}

/// Only sums can be taken back.
fn check_negative(table: &Table) -> Result<()> {
    let schema = table.schema();
    let values = (0..schema.columns.len()).filter(|at| !schema.sort_key.contains(at));
    let mut values = values.map(|at| &schema.columns[at]);
    match values.find(|column| column.aggregate != Some(Aggregate::Sum)) {
        Some(other) => bail!(
            WrongArguments,
            "Column is not SUM AggregateType. column:{}: negative is for tables whose value \
             columns are all SUM",
            other.name
        ),
        None => Ok(()),
    }
}

fn check_partial(headers: &LoadHeaders, table: &Table) -> Result<()> {
    if table.key_model != KeyModel::Unique {
        bail!(
            WrongArguments,
            "Only unique key merge on write support partial update: table '{}' has no UNIQUE KEY",
            table.name
        );
    }
    if headers.may_delete() && headers.flexible {
        bail!(
            NotSupported,
            "a flexible partial update cannot have rows that delete by merge_type or \
             hidden_columns: they say it by their member {SIGN}"
        );
    }
    Ok(())
}

fn authorize_load(http: &Http, account: &Account, database: &str, table: &str) -> Result<()> {
    let object = Object::Table(database, table);
    authorize(&http.engine.catalog(), http.actor(account), Privilege::Insert, object)
}

fn answer_of(
    http: &Http,
    reply: &LoadReply,
    failed: Option<(ErrorCode, Retry)>,
) -> Response<Full<Bytes>> {
    http.engine.metrics().stream_loads.with_label_values(&[reply.status.name()]).inc();
    let response = json_reply(reply.render());
    match failed {
        None => response,
        Some((code, retry)) => {
            http.engine.metrics().errors.with_label_values(&[&code.errno().to_string()]).inc();
            answer::refused(response, load_status(code), retry)
        }
    }
}

/// The HTTP status of a failed load: 200, as in Doris, except for missing privileges and errors to
/// retry.
fn load_status(code: ErrorCode) -> u16 {
    match code.http_status() {
        status @ (401 | 403 | 503) => status,
        _ => 200,
    }
}

fn reply_of(http: &Http, outcome: Result<Outcome>, report: Report) -> LoadReply {
    let (txn, status, message) = match &outcome {
        Ok(Outcome::Loaded(txn)) => (*txn, Status::Success, "OK".to_owned()),
        Ok(Outcome::LabelUsed(used)) => {
            let existing = match used.state {
                LabelState::Running => "RUNNING",
                LabelState::Prepared => "PRECOMMITTED",
                LabelState::Visible => "FINISHED",
            };
            let error = Error::from(used.clone());
            (used.txn, Status::LabelAlreadyExists(existing), reply::message(&error))
        }
        Err(error) => (None, Status::Fail, reply::message(error)),
    };
    let first_error = match &outcome {
        Err(error) => report.first_error.or_else(|| Some(error.message().to_owned())),
        Ok(_) => None,
    };
    let label = report.label.unwrap_or_else(|| match txn {
        Some(txn) if report.grouped => names::group_label(txn),
        Some(txn) => names::load_label(txn),
        None => names::load_label(TxnId(http.draw())),
    });
    LoadReply {
        txn,
        label,
        comment: report.comment,
        grouped: report.grouped,
        note: report.note,
        two_phases: report.two_phases,
        message,
        rows_total: report.rows_total,
        rows_filtered: report.rows_filtered,
        rows_unselected: report.rows_unselected,
        rows_loaded: match status {
            Status::Success => report.rows_total - report.rows_filtered - report.rows_unselected,
            _ => 0,
        },
        status,
        body_bytes: report.body_bytes,
        times: report.times,
        error_url: report.error_url,
        first_error,
    }
}

impl Http {
    fn too_many_loads(&self) -> Error {
        let loads_max = self.config.loads.loads_max;
        err!(OutOfRoom, "{loads_max} loads run already (stream_loads_max); send it again")
            .with_retry(Retry::After(Duration::from_secs(1)))
    }

    /// How long a prepared load waits for its commit.
    fn keep_prepared(&self, headers: &LoadHeaders) -> Duration {
        match headers.has_timeout {
            true => headers.timeout,
            false => self.config.loads.precommit_timeout,
        }
    }

    fn body_limit(&self, format: &LoadFormat) -> BodyLimit {
        match format {
            LoadFormat::Json(json) if !json.read_by_line => BodyLimit {
                setting: "streaming_load_json_max_mb",
                mebibytes: self.config.loads.streaming_load_json_max_mb,
            },
            _ => BodyLimit {
                setting: "streaming_load_max_mb",
                mebibytes: self.config.loads.streaming_load_max_mb,
            },
        }
    }
}
