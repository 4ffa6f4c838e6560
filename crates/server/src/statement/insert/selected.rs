//! The rows of a query that are stored.

use std::borrow::Cow;

use freshet_base::Result;
use freshet_query::evaluation::{Losses, Warnings};
use freshet_query::result::ResultColumn;
use freshet_query::syntax::Select;
use freshet_query::{Parameter, RecordBatch, Rows, sequence_columns};

use super::super::sequence::columns::SequenceColumns;
use super::super::{act, query};
use crate::accounts::SessionMemory;
use crate::reply::bounded;
use crate::session::Session;

/// A query that runs, with what its rows get on their way.
pub struct Selected {
    pub columns: Vec<ResultColumn>,
    rows: Rows,
    taken: SequenceColumns,
    _memory: Option<SessionMemory>,
}

impl Selected {
    /// Runs a query, behind the functions with side effects that a SELECT without tables calls.
    ///
    /// # Errors
    /// Those of planning and of these functions; unknown sequences.
    pub async fn run(
        session: &mut Session,
        select: &Select,
        parameters: Vec<Parameter>,
        losses: Losses,
    ) -> Result<Self> {
        let (select, memory) = match act::before(session, select, &parameters).await? {
            Some((select, memory)) => (Cow::Owned(select), Some(memory)),
            None => (Cow::Borrowed(select), None),
        };
        let (select, taken) = match sequence_columns::taken(&select)? {
            Some(taking) => {
                let taken = SequenceColumns::new(session, taking.columns)?;
                (Cow::Owned(taking.query), taken)
            }
            None => (select, SequenceColumns::default()),
        };
        let (columns, rows) = query::run(session, &select, parameters, losses).await?;
        Ok(Self { columns, rows, taken, _memory: memory })
    }

    /// The next rows; `None` behind the last ones.
    ///
    /// # Errors
    /// Those of executing and of sequences; 1317 and 3024.
    pub async fn next(&mut self, session: &mut Session) -> Result<Option<RecordBatch>> {
        match bounded(session, self.rows.next()).await? {
            Some(batch) => self.taken.fill(session, batch).await.map(Some),
            None => Ok(None),
        }
    }

    /// All warnings up to now.
    pub fn warnings(&self) -> Warnings {
        self.rows.warnings()
    }
}
