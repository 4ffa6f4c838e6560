//! INSERT .. VALUES of literals .. ON DUPLICATE KEY UPDATE whose columns take the values of the new
//! rows: what feeds and batches of drivers send. The rows are scanned like those of any INSERT, so
//! that only a few words are left to the SQL parser, and nothing is left to compute.

use std::sync::Arc;

use freshet_base::Result;
use freshet_ingest::OnExisting;
use freshet_ingest::decode::values::Scanned;
use freshet_query::change::{Assignments, is_of_new};
use freshet_query::digest::READ_BYTES_MAX;
use freshet_query::parser::{Insert, OnDuplicate, Statement, TableName, parse};
use freshet_schema::KeyModel;

use super::shape::InsertShape;
use super::{Done, Target, Values, encoded};
use crate::digests::Rows;
use crate::reply::Reply;
use crate::session::Session;
use crate::settings::StatementDeadline;
use crate::statement;

/// The longest text behind the rows that is parsed here.
const TAIL_BYTES_MAX: usize = 16 << 10;
/// Longer statements go to other threads: what is done here keeps other connections waiting.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// What the parser reads in place of the rows.
const NO_ROWS: &[u8] = b" ()";

/// What stored rows get that have the keys of new ones.
pub(super) struct Updating {
    table: TableName,
    set: Assignments,
    /// The statement without its rows, and where in it these were.
    text: Arc<[u8]>,
    rows_at: usize,
}

impl Updating {
    /// What stands behind the rows, `tail` bytes behind VALUES; `None` where it has to go to the
    /// planner, with all of the statement. The target keeps that of the last statement: most are
    /// the same.
    pub fn of(
        session: &Session,
        target: &Target,
        values: &Values<'_>,
        tail: usize,
    ) -> Option<Arc<Self>> {
        if values.label.is_some() || values.sql.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (head, tail) = (&values.sql[..values.at], &values.sql[values.at + tail..]);
        match target.updating.as_ref().filter(|kept| kept.is_of(head, tail)) {
            Some(kept) => Some(Arc::clone(kept)),
            None => Self::read(session, target, head, tail).map(Arc::new),
        }
    }

    fn is_of(&self, head: &[u8], tail: &[u8]) -> bool {
        let (own_head, own_tail) = self.text.split_at(self.rows_at);
        own_head == head && own_tail.strip_prefix(NO_ROWS) == Some(tail)
    }

    fn read(session: &Session, target: &Target, head: &[u8], tail: &[u8]) -> Option<Self> {
        if tail.len() > TAIL_BYTES_MAX {
            return None;
        }
        let text = [head, NO_ROWS, tail].concat();
        let Insert { table: name, on_duplicate, .. } = parsed(session, &text)?;
        let OnDuplicate::Update(set) = on_duplicate else { return None };
        let table = target.into.table();
        let is_plain = target.on_existing == OnExisting::Refuse
            && target.partial.is_none()
            && target.through.is_none()
            && table.key_model == KeyModel::Primary
            && table.unenforced_key().is_none()
            && !session.hides_rows_of(table);
        let columns = &target.into.schema().columns;
        let is_set = |name: &str| set.iter().any(|(column, _)| column.eq_ignore_ascii_case(name));
        let takes_new = set.iter().all(|(column, value)| {
            value.as_ref().is_some_and(|value| is_of_new(value, column))
                && columns.iter().any(|known| known.name.eq_ignore_ascii_case(column))
        });
        // Columns with ON UPDATE get a time, generated ones are computed.
        let is_stored = columns.iter().all(|column| match column.generated {
            Some(_) => !is_set(&column.name),
            None => !column.on_update_now || is_set(&column.name),
        });
        let (text, rows_at) = (text.into(), head.len());
        (is_plain && takes_new && is_stored).then_some(Self { table: name, set, text, rows_at })
    }

    /// The shape of a statement, behind whose rows this begins at `tail` bytes: as far as its
    /// digest reads it.
    fn shape(&self, sql: &[u8], tail: usize) -> InsertShape {
        match sql.len() {
            ..=READ_BYTES_MAX => InsertShape::Kept(Arc::clone(&self.text)),
            _ if tail >= READ_BYTES_MAX => InsertShape::Head(self.rows_at),
            _ => InsertShape::Unknown,
        }
    }
}

/// Inserts the rows that were scanned, or updates those that have their keys.
///
/// # Errors
/// Names, privileges, values, keys that others hold: the statement had no effect then.
pub(super) async fn insert_or_update(
    session: &mut Session,
    target: &mut Target,
    values: &Values<'_>,
    (scanned, updating): (Scanned, Arc<Updating>),
) -> Result<Done> {
    session.count_update()?;
    let form = Rows::of(scanned.encoded.rows, values.sql.len());
    let shape = match scanned.is_plain {
        true => updating.shape(values.sql, values.at + scanned.consumed),
        false => InsertShape::Unknown,
    };
    encoded(session, target, scanned.encoded)?;
    if let Some(hint) = values.hint {
        session.tell_hint(hint);
    }
    let clock = session.shared.engine.clock();
    session.statement_deadline = StatementDeadline::of_insert(&session.settings, &**clock);
    let Updating { table, set, .. } = &*updating;
    let done = statement::insert_or_update(session, target, table, (set, None), Vec::new());
    let Reply::Done { affected } = done.await? else { unreachable!("rows are only counted") };
    session.row_count = i64::try_from(affected).unwrap_or(i64::MAX);
    Ok(Done { rows: affected, consumed: values.sql.len(), shape, form })
}

/// The statement of a text without rows, if it is the only one.
fn parsed(session: &Session, text: &[u8]) -> Option<Insert> {
    let mut parsed = parse(str::from_utf8(text).ok()?, session.settings.mode).ok()?;
    let only = parsed.pop().filter(|only| parsed.is_empty() && only.parameters == 0)?;
    match only.statement {
        Statement::Insert(insert) => Some(*insert),
        _ => None,
    }
}
