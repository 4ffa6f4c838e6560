//! EXPLAIN.

use freshet_base::{Result, bail};
use freshet_query::engine::PlanRequest;
use freshet_query::evaluation::Losses;
use freshet_query::parser::{Insert, InsertSource, OnDuplicate, Statement};
use freshet_query::result::{ResultColumn, text_batch};
use freshet_query::syntax::Scalar;
use freshet_query::{Parameter, parameters};

use crate::reader::Reader;
use crate::reply::{Reply, bounded};
use crate::session::Session;

/// Plans a statement, or runs it for ANALYZE, and tells how.
///
/// # Errors
/// Those of planning.
pub async fn explain(
    session: &mut Session,
    statement: &Statement,
    analyze: bool,
    text_bytes: usize,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let found;
    let query = match statement {
        Statement::Query(query) => query,
        Statement::Change(change) => {
            found = change.found();
            &found
        }
        Statement::Insert(insert) => match &insert.source {
            InsertSource::Query(query) => query,
            InsertSource::Values(rows) => {
                return Ok(lines(inserted(session, insert, rows, text_bytes)));
            }
        },
        _ => bail!(NotSupported, "EXPLAIN explains SELECT, INSERT, UPDATE and DELETE"),
    };
    let asked = PlanRequest {
        query: query.clone(),
        texts: Vec::new(),
        parameters: parameters::types(&parameters),
        origin: Reader::new(session).await?,
        losses: Losses::default(),
    };
    let engine = &session.shared.query;
    match analyze {
        true => bounded(session, engine.analyze(asked)).await.map(lines),
        false => bounded(session, engine.explain(asked)).await.map(lines),
    }
}

fn lines(lines: Vec<String>) -> Reply {
    const NAME: &str = "Explain String(Freshet)";
    let rows = lines.into_iter().map(|line| vec![Some(line)]).collect::<Vec<_>>();
    Reply::Table(vec![ResultColumn::text(NAME)], text_batch(&[NAME], &rows))
}

/// What EXPLAIN tells of an INSERT of values. The fast path reads literals in pieces, while
/// expressions are planned as one.
fn inserted(
    session: &Session,
    insert: &Insert,
    rows: &[Vec<Option<Scalar>>],
    text_bytes: usize,
) -> Vec<String> {
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
    vec![
        format!("Insert {} rows of values into the log, as one atomic statement", rows.len()),
        format!("  Read the text {read}"),
    ]
}
