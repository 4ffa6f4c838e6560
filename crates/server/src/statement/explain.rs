//! EXPLAIN, in the forms of MySQL and line by line.

use freshet_base::{Result, bail};
use freshet_query::change::ChangeKind;
use freshet_query::engine::PlanRequest;
use freshet_query::evaluation::Losses;
use freshet_query::explain::Operator;
use freshet_query::parser::{
    ExplainFormat, Insert, InsertSource, OnDuplicate, Statement, TableName,
};
use freshet_query::result::{ResultColumn, text_batch};
use freshet_query::syntax::{Scalar, Select};
use freshet_query::{Parameter, parameters};
use freshet_schema::GroupCommitMode;

use super::by_key;
use crate::insert;
use crate::point;
use crate::reader::Reader;
use crate::reply::{Reply, bounded};
use crate::session::Session;

/// The columns of FORMAT=TRADITIONAL.
const TRADITIONAL: [&str; 12] = [
    "id",
    "select_type",
    "table",
    "partitions",
    "type",
    "possible_keys",
    "key",
    "key_len",
    "ref",
    "rows",
    "filtered",
    "Extra",
];

/// What `select_type` says.
const SIMPLE: &str = "SIMPLE";
const UPDATE: &str = "UPDATE";
const DELETE: &str = "DELETE";

/// EXPLAIN of a statement.
///
/// # Errors
/// Those of planning.
pub async fn explain(
    session: &mut Session,
    explained: &Statement,
    text: &str,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let Statement::Explain { statement, analyze, text_bytes, format } = explained else {
        bail!(NotSupported, "this is no EXPLAIN");
    };
    let format = *format;
    let mut group = None;
    let found;
    let query = match &**statement {
        Statement::Query(query) => query,
        Statement::Change(change) => {
            found = change.found();
            &found
        }
        Statement::ChangeSeveral(changes) => {
            found = changes.found();
            &found
        }
        Statement::Insert(insert) => match &insert.source {
            InsertSource::Query(query) => {
                group = group_of(session, insert, false);
                query
            }
            InsertSource::Values(rows) => {
                return Ok(shown(&inserted(session, insert, rows, *text_bytes), format, SIMPLE));
            }
        },
        _ => bail!(NotSupported, "EXPLAIN explains SELECT, INSERT, UPDATE and DELETE"),
    };
    let kind = kind_of(statement);
    if !*analyze
        && let Some(point) = point_of(session, (&**statement, query), text, &parameters).await?
    {
        return Ok(match format {
            ExplainFormat::Traditional => traditional_point(&point, kind),
            _ => shown(&Operator::alone(point_text(&point, kind)), format, kind),
        });
    }
    let asked = asked(session, query, &parameters).await?;
    let values = parameters::values(parameters);
    if !*analyze {
        let plan = bounded(session, session.shared.query.explain(asked, values)).await?;
        return Ok(shown(&inserting(plan, group), format, kind));
    }
    session.enter_for(query).await?;
    let lines = bounded(session, session.query().analyze(asked, values)).await?;
    Ok(match format {
        ExplainFormat::Tree => whole(lines.join("\n") + "\n"),
        _ => table(&["Explain String(Freshet)"], lines.into_iter().map(|line| vec![Some(line)])),
    })
}

/// The `select_type` of the tables of a statement.
fn kind_of(statement: &Statement) -> &'static str {
    match statement {
        Statement::Change(change) if !change.is_joined() => match change.kind {
            ChangeKind::Update { .. } => UPDATE,
            ChangeKind::Delete => DELETE,
            ChangeKind::Lock { .. } => SIMPLE,
        },
        _ => SIMPLE,
    }
}

/// What the statement does by a key alone, if it does.
async fn point_of(
    session: &mut Session,
    (statement, query): (&Statement, &Select),
    text: &str,
    parameters: &[Parameter],
) -> Result<Option<point::Explained>> {
    // What the names of WITH stand for is no part of a key.
    if matches!(statement, Statement::Change(change) if change.has_with()) {
        return Ok(None);
    }
    let word = match kind_of(statement) {
        SIMPLE => return point_read(session, query, text, parameters).await,
        kind => kind.to_ascii_lowercase(),
    };
    let at = text.to_ascii_lowercase().find(&word);
    Ok(at.and_then(|at| by_key::explained(session, &text[at..], parameters)))
}

/// The point read that a SELECT is, if it is one.
async fn point_read(
    session: &mut Session,
    query: &Select,
    text: &str,
    parameters: &[Parameter],
) -> Result<Option<point::Explained>> {
    let lower = text.to_ascii_lowercase();
    let Some(at) = lower.find("select").filter(|_| !query.locks()) else { return Ok(None) };
    let asked = asked(session, query, parameters).await?;
    let plan = bounded(session, session.shared.query.plan(asked)).await?;
    Ok(point::explained(session, &text[at..], &plan.columns))
}

fn point_text(point: &point::Explained, kind: &str) -> String {
    let what = match kind {
        UPDATE => "PointUpdate",
        DELETE => "PointDelete",
        _ => "PointRead",
    };
    format!("{what}: {} key=({})", point.table, point.key)
}

/// The row of FORMAT=TRADITIONAL for a statement of one row.
fn traditional_point(point: &point::Explained, kind: &str) -> Reply {
    let text = |text: &str| Some(text.to_owned());
    let row = vec![
        text("1"),
        text(kind),
        text(&point.table),
        None,
        // As MySQL has it.
        text(if kind == SIMPLE { "const" } else { "range" }),
        text("PRIMARY"),
        text("PRIMARY"),
        None,
        text("const"),
        text("1"),
        text("100.00"),
        Some(point_text(point, kind)),
    ];
    table(&TRADITIONAL, std::iter::once(row))
}

async fn asked(
    session: &mut Session,
    query: &Select,
    parameters: &[Parameter],
) -> Result<PlanRequest> {
    Ok(PlanRequest {
        query: query.clone(),
        texts: Vec::new(),
        parameters: parameters::types(parameters),
        origin: Reader::new(session).await?,
        losses: Losses::default(),
    })
}

fn shown(plan: &Operator, format: ExplainFormat, kind: &str) -> Reply {
    match format {
        ExplainFormat::Lines => {
            let lines = plan.lines().into_iter().map(|line| vec![Some(line)]);
            table(&["Explain String(Freshet)"], lines)
        }
        ExplainFormat::Tree => whole(plan.tree()),
        ExplainFormat::Json => whole(plan.json()),
        ExplainFormat::Traditional => traditional(plan, kind),
    }
}

/// One text, as MySQL returns trees and documents.
fn whole(text: String) -> Reply {
    table(&["EXPLAIN"], std::iter::once(vec![Some(text)]))
}

fn traditional(plan: &Operator, kind: &str) -> Reply {
    let text = |text: &str| Some(text.to_owned());
    let scanned = plan.scanned();
    let mut rows = Vec::new();
    for scanned in &scanned {
        let name = scanned.table.rsplit_once('.').map_or(&*scanned.table, |(_, name)| name);
        let partitions = scanned.partitions.as_deref().map(str::to_owned);
        let before = [text("1"), text(kind), text(name), partitions, text(scanned.access())];
        let counts = [scanned.rows.map(|rows| rows.to_string()), text("100.00"), None];
        let [possible, used] = [&scanned.index.possible, &scanned.index.used];
        let keys = [possible.as_deref().map(text), used.as_deref().map(text)].map(Option::flatten);
        let keys = keys.into_iter().chain([None, None]);
        rows.push(before.into_iter().chain(keys).chain(counts).collect());
    }
    if rows.is_empty() {
        let mut row = vec![const { None }; TRADITIONAL.len()];
        (row[0], row[1], row[11]) = (text("1"), text("SIMPLE"), text("No tables used"));
        rows.push(row);
    }
    table(&TRADITIONAL, rows.into_iter())
}

fn table(names: &[&str], rows: impl Iterator<Item = Vec<Option<String>>>) -> Reply {
    let columns = names.iter().map(|name| ResultColumn::text(*name)).collect();
    Reply::Table(columns, text_batch(names, &rows.collect::<Vec<_>>()))
}

/// What EXPLAIN tells of an INSERT of values. The fast path reads literals in pieces, while
/// expressions are planned as one.
fn inserted(
    session: &Session,
    insert: &Insert,
    rows: &[Vec<Option<Scalar>>],
    text_bytes: usize,
) -> Operator {
    let literal = |value: &Option<Scalar>| value.as_ref().is_none_or(Scalar::is_literal);
    let literals = !matches!(insert.on_duplicate, OnDuplicate::Update(_))
        && rows.iter().flatten().all(literal);
    let policy = session.settings.batch;
    let read = match policy.piece(text_bytes) {
        None if !policy.split => "in 1 piece: BATCH_INSERT_POLICY = NONE".to_owned(),
        None => format!(
            "in 1 piece: {text_bytes} bytes are less than {} KiB (MAX_BATCH_INSERT_SQL_LENGTH)",
            policy.from_kib
        ),
        Some(_) if !literals => "in 1 piece: not all values are literals".to_owned(),
        Some(piece) => format!(
            "in {} pieces of up to {piece} rows: BATCH_INSERT_POLICY = SPLIT",
            rows.len().div_ceil(piece)
        ),
    };
    let text =
        format!("Insert {} rows of values into the log, as one atomic statement", rows.len());
    let mut inputs = vec![Operator::alone(format!("Read the text {read}"))];
    inputs.extend(group_of(session, insert, literals).map(Operator::alone));
    Operator { inputs, ..Operator::alone(text) }
}

/// The plan of a query whose rows are inserted, where there is something to tell of its group.
fn inserting(query: Operator, group: Option<String>) -> Operator {
    match group {
        None => query,
        Some(group) => Operator {
            inputs: vec![Operator::alone(group), query],
            ..Operator::alone("Insert the rows of a query, as one atomic statement".to_owned())
        },
    }
}

/// Whether an INSERT shares a group, where group commit is on.
fn group_of(session: &Session, insert: &Insert, literals: bool) -> Option<String> {
    let TableName { database, table } = &insert.table;
    let database = session.database_of(database.as_deref()).ok()?;
    let catalog = session.shared.engine.catalog();
    let table = catalog.require_table(database, table).ok()?;
    let (settings, properties) = (&session.settings, &table.properties);
    let mode = settings.group_mode(table);
    if mode == GroupCommitMode::Off {
        return None;
    }
    let why = if session.transactions.open().is_some() {
        "it is in a transaction"
    } else if insert.overwrites {
        "its rows take the place of others"
    } else if !literals {
        "its rows are computed"
    } else if insert.label.is_some() && !settings.group_labels {
        "it has a label (group_commit_labels)"
    } else if insert::is_partial(settings, table, insert.columns.as_deref()) {
        "it is a partial update"
    } else if !properties.is_light() {
        "its table has light_schema_change = false"
    } else {
        return Some(format!(
            "Share a group of {} ms or {} bytes: group_commit = {}",
            properties.group_commit_interval_ms,
            properties.group_commit_data_bytes,
            mode.name()
        ));
    };
    Some(format!("Share no group although group_commit = {}: {why}", mode.name()))
}
