//! What comes before each statement, and what is measured of it.

use std::time::Duration;

use freshet_base::Result;
use freshet_query::parser::{Parsed, ShowWhat, Statement};

use crate::digests::Asked;
use crate::mysql::results::Gone;
use crate::session::{Hinted, Session};
use crate::settings::StatementDeadline;

/// Makes the session ready for a statement: its warnings, its hint, its deadline. The one place
/// where it is refused for what the options of the account say; loads that are answered without a
/// tree count themselves.
///
/// # Errors
/// 1820 and 1226.
pub fn begin(session: &mut Session, statement: &Parsed) -> Result<()> {
    session.diagnostics.shown = match &statement.statement {
        Statement::Show(show) => matches!(show.what, ShowWhat::Warnings { .. }),
        Statement::GetDiagnostics(_) => true,
        _ => false,
    };
    if !session.diagnostics.shown {
        session.diagnostics.clear();
    }
    session.check_statement(&statement.statement)?;
    if !session.diagnostics.shown {
        begin_hint(session, statement);
    }
    session.info.clear();
    session.statement_deadline = StatementDeadline::of(
        &statement.statement,
        &session.settings,
        &**session.shared.engine.clock(),
    );
    count(session, &statement.statement);
    Ok(())
}

/// Heeds the hint of a statement until its end. Of SET and of what begins and ends transactions
/// it sets no variables: what they set themselves would be set back with them.
pub fn begin_hint(session: &mut Session, statement: &Parsed) {
    let Some(hint) = &statement.hint else { return };
    let hint = Hinted::new(hint);
    session.tell_hint(&hint);
    match statement.statement {
        Statement::Set(_)
        | Statement::Begin { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. } => {}
        _ => session.begin_hint(&hint),
    }
}

/// The start time of a query for its latency metric; `None` for other statements.
pub fn began(session: &Session, statement: &Statement) -> Option<Duration> {
    let is_query = matches!(statement, Statement::Query(_));
    is_query.then(|| session.shared.engine.clock().now())
}

/// Observes the time of a query from planning to its last row.
pub fn observe(session: &Session, began: Option<Duration>) {
    let Some(began) = began else { return };
    let took = session.shared.engine.clock().now().saturating_sub(began);
    session.shared.metrics().query_seconds.observe(took.as_secs_f64());
}

/// Counts a statement by its digest; one whose client has gone has no result.
pub fn count_digest(
    session: &mut Session,
    asked: &Asked<'_>,
    began: Duration,
    answered: &std::result::Result<Result<()>, Gone>,
) {
    if let Ok(done) = answered {
        session.count_done(asked, began, done.is_ok());
    }
}

pub fn count(session: &Session, statement: &Statement) {
    session.shared.counters.command(statement.command());
    let kind = match statement {
        Statement::Query(_)
        | Statement::SelectInto { .. }
        | Statement::Assigning(_)
        | Statement::SideEffects(_)
        | Statement::Explain { .. } => "query",
        Statement::Insert(_) | Statement::LoadData(_) => "insert",
        Statement::Change(_) | Statement::ChangeSeveral(_) => "change",
        Statement::Show(_) | Statement::Describe(..) => "show",
        Statement::Set(_) | Statement::Use(_) => "set",
        Statement::Begin { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint(_)
        | Statement::RollbackTo(_)
        | Statement::ReleaseSavepoint(_) => "transaction",
        _ => "other",
    };
    session.shared.metrics().statements.with_label_values(&[kind]).inc();
}
