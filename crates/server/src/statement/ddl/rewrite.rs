//! Clauses of ALTER TABLE that rows which are there cannot follow: these are copied to a table of
//! the new form (RFC 0039). The statement waits for it; KILL and CANCEL ALTER TABLE COLUMN end it.

use std::sync::Arc;

use freshet_base::{Error, ErrorCode, Result, TableId, err};
use freshet_ingest::decode::Completion;
use freshet_ingest::{LoadTarget, Progress, Rewriting, rewrite, rewrite_temporary};

use freshet_meta::{Division, KeyChange, NewForm, Planned, Privilege, SchemaChange, TableSpec};
use freshet_query::evaluation::Losses;
use freshet_query::parser::{Clauses, TableName};
use freshet_schema::convert::Source;
use freshet_schema::{ColumnType, Rules, Table};

use super::written::spec_of;
use super::{checked, dated, warn};
use crate::alter_jobs::{AlterJob, JobEnd};
use crate::session::Session;
use crate::shared::Shared;

/// The clauses of a statement.
pub struct Heavy {
    pub columns: Vec<SchemaChange>,
    pub keys: Vec<KeyChange>,
    pub division: Option<Division>,
    /// Why they cannot be done at once.
    pub why: Error,
}

/// The clauses of a statement if they are refused as long as rows stay as they are.
pub fn of_clauses(session: &Session, id: TableId, clauses: &Clauses) -> Option<Heavy> {
    let Clauses { columns, keys, division, .. } = clauses;
    if columns.is_empty() && keys.is_empty() && division.is_none() {
        return None;
    }
    // Another road says what is wrong with them.
    let columns = columns.iter().map(|change| dated(session, id, change));
    let columns = columns.collect::<Result<Vec<_>>>().ok()?;
    if division.is_some() {
        let why = err!(
            NotSupported,
            "This version of Freshet doesn't yet support a change of partitions that copies rows \
             beside a clause that no copy can do; a statement for each"
        );
        let division = division.clone().map(|one| one.said_in(session.settings.zone()));
        return Some(Heavy { columns, keys: keys.clone(), division, why });
    }
    let catalog = session.shared.engine.catalog();
    if catalog.has_temporary_partitions(id) {
        return None;
    }
    // What else the statement does would stay where a row violates a constraint.
    let is_beside = columns.len() + keys.len() > 1 && columns.iter().any(checked::is_of_checks);
    let done_at_once = match is_beside {
        true => Err(err!(
            NotSupported,
            "This version of Freshet doesn't yet support 'ADD CHECK with other clauses' of this \
             table; a statement for each"
        )),
        false => catalog.check_alteration(id, keys, &columns),
    };
    match done_at_once {
        Err(why) if why.code() == ErrorCode::NotSupported => {
            Some(Heavy { columns, keys: keys.clone(), division: None, why })
        }
        _ => None,
    }
}

/// Does what cannot be done at once, and returns how many rows were copied.
///
/// # Errors
/// `why` where it cannot be done at all; the first row that does not fit, 1062, 1317 when it was
/// cancelled. Nothing has changed then.
pub async fn run(session: &mut Session, table: &TableName, id: TableId, it: Heavy) -> Result<u64> {
    let engine = Arc::clone(&session.shared.engine);
    let catalog = engine.catalog();
    let before = Arc::clone(catalog.require(id)?);
    session.check_sees_all(&before, Privilege::Alter, checked::ALL_ROWS)?;
    let rules = Rules { zone: session.settings.zone(), ..Rules::default() };
    let now = engine.clock().wall_micros();
    let shared = Arc::clone(&session.shared);
    let losses = session.settings.losses(before.form);
    let copied = Arc::new(Copied { it, shared, rules, losses, now });
    let form = copied.form(&before)?;
    checked::compile(session, &Planned::check(&form.spec)?.schema)?;
    let progress = Arc::new(Progress::default());
    let job = session.shared.alter_jobs.add(AlterJob {
        id: 0,
        database: session.database_of(table.database.as_deref())?.to_owned(),
        table: table.table.clone(),
        table_id: id,
        schema_version: None,
        began_micros: now,
        end: JobEnd::Runs(Arc::clone(&progress)),
    });
    let (own, watched) = (Arc::clone(&engine), Arc::clone(&progress));
    let is_temporary = before.unlisted;
    let work = async move {
        if is_temporary {
            let (new, warnings) = rewrite_temporary(&own, id, &*copied, &progress).await?;
            return Ok((Some(new), warnings));
        }
        Ok::<_, Error>((None, rewrite(&own, id, &*copied, &progress).await?))
    };
    let mut running = session.shared.statements.spawn(work);
    let done = tokio::select! {
        biased;
        done = &mut running => done,
        () = session.process.interrupted() => {
            watched.cancel();
            running.await
        }
    };
    let done = done.map_err(|error| err!(Unknown, "it ended by an internal error: {error}"));
    let done = done.and_then(|done| done).map(|(temporary, warnings)| {
        if let Some(new) = temporary {
            session.replace_temporary(id, new);
        }
        warnings
    });
    let ended = engine.clock().wall_micros();
    let (version, end) = match &done {
        Ok(_) => {
            let now =
                session.definition(session.database_of(table.database.as_deref())?, &table.table);
            (now.ok().map(|now| now.schema().version), JobEnd::Done(ended))
        }
        Err(error) => (None, JobEnd::Refused(ended, error.message().to_owned())),
    };
    session.shared.alter_jobs.end(job, version, end);
    warn(session, done?);
    Ok(watched.rows().0)
}

struct Copied {
    it: Heavy,
    shared: Arc<Shared>,
    rules: Rules,
    losses: Losses,
    now: i64,
}

impl Rewriting for Copied {
    fn form(&self, table: &Table) -> Result<NewForm> {
        let old = spec_of(table)?;
        let Heavy { columns, keys, division, .. } = &self.it;
        let form = NewForm::of(table, old.clone(), columns, keys, division.as_ref())?;
        let form = form.filter(|form| !turns_what_stays(table, &old, form));
        form.ok_or_else(|| Error::new(self.it.why.code(), self.it.why.message()))
    }

    fn completion(&self, target: &LoadTarget) -> Result<Completion> {
        self.shared.completion(target, self.losses)
    }

    fn rules(&self) -> (Rules, i64) {
        (self.rules, self.now)
    }
}

/// Whether a column changes its type that keeps it: a sketch, or what consists of values.
fn turns_what_stays(table: &Table, old: &TableSpec, form: &NewForm) -> bool {
    let stays =
        |ty: ColumnType| matches!(ty, ColumnType::Bitmap | ColumnType::Hll) || ty.is_nested();
    let schema = table.schema();
    form.spec.columns.iter().zip(&form.sources).any(|(column, source)| {
        let Source::Column(id) = source else { return false };
        let at = schema.position_of(*id).expect("a column comes from one that is there");
        let before = &old.columns[at];
        let is_same = before.ty == column.ty && before.elements == column.elements;
        !is_same && (stays(before.ty) || stays(column.ty))
    })
}
