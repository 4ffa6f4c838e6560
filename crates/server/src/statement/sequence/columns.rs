//! Columns of rows that are computed, which have values of sequences.

use std::collections::BTreeMap;

use arrow::array::Int64Array;
use arrow::compute::concat_batches;
use freshet_base::{Result, TableId, bail, err};
use freshet_query::actions::{Action, SequenceCall};
use freshet_query::assign::Place;
use freshet_query::result::text_batch;
use freshet_query::sequence_columns::{SequenceColumn, Taking};
use freshet_query::{Parameter, RecordBatch};

use super::{VALUES_MAX, current, id_of_call, take};
use crate::accounts::SessionMemory;
use crate::reply::{Reply, bounded};
use crate::session::Session;
use crate::statement::query;
use crate::watched::with_numbers;

/// The columns that take values of sequences, whose rights were checked.
#[derive(Default)]
pub struct SequenceColumns(Vec<(TableId, SequenceColumn)>);

impl SequenceColumns {
    /// # Errors
    /// Unknown sequences, missing privileges.
    pub fn new(session: &Session, columns: Vec<SequenceColumn>) -> Result<Self> {
        let known = |column: SequenceColumn| Ok((id_of_call(session, &column.call)?, column));
        columns.into_iter().map(known).collect::<Result<_>>().map(Self)
    }

    /// Columns at these places, from the start.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn at(session: &Session, calls: Vec<(usize, SequenceCall)>) -> Result<Self> {
        let column = |(at, call)| SequenceColumn { place: Place::FromStart(at), call };
        Self::new(session, calls.into_iter().map(column).collect())
    }

    /// The rows with values in these columns. Those of one sequence follow each other from row to
    /// row, and in a row from left to right; CURRVAL has the last one of its row, if it has any.
    ///
    /// # Errors
    /// 4084 at the end of a sequence, and for CURRVAL before NEXTVAL.
    pub async fn fill(&self, session: &mut Session, mut batch: RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        if self.0.is_empty() || rows == 0 {
            return Ok(batch);
        }
        let mut taking = BTreeMap::<TableId, usize>::new();
        for (id, _) in self.0.iter().filter(|(_, column)| is_next(column)) {
            *taking.entry(*id).or_default() += 1;
        }
        let mut taken = BTreeMap::new();
        for (id, count) in taking {
            let wanted = u32::try_from(rows * count).expect("a batch is small");
            let values = take(session, id, wanted).await?;
            session.currents.note(id, *values.last().expect("there is one at least"));
            taken.insert(id, (values, count, 0));
        }
        for (id, column) in &self.0 {
            let numbers = match taken.get_mut(id) {
                None => vec![number(current(session, *id, &column.call)?)?; rows],
                Some((values, count, used)) => {
                    let place = if is_next(column) { *used } else { *count - 1 };
                    *used += usize::from(is_next(column));
                    let of_row = values.chunks(*count).map(|values| number(values[place]));
                    of_row.collect::<Result<Vec<_>>>()?
                }
            };
            let at = match column.place {
                Place::FromStart(at) => at,
                Place::FromEnd(at) => batch.num_columns() - 1 - at,
            };
            batch = with_numbers(&batch, at, Int64Array::from(numbers))?;
        }
        Ok(batch)
    }
}

fn is_next(column: &SequenceColumn) -> bool {
    column.call.action == Action::NextValue
}

fn number(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| err!(Internal, "a sequence has a value above its MAXVALUE"))
}

/// A SELECT of rows with values of sequences: all rows are there before the first is told, as their
/// values have to be durable.
///
/// # Errors
/// Those of the query and of the sequences; 1041 for too many rows.
pub async fn select(
    session: &mut Session,
    taking: Taking,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let taken = SequenceColumns::new(session, taking.columns)?;
    let reply = query::select(session, &taking.query, items, parameters).await?;
    let Reply::Stream(columns, mut rows, _) = reply else { return Ok(reply) };
    let mut memory = SessionMemory::new(&session.usage);
    let (mut batches, mut count, mut bytes) = (Vec::new(), 0, 0);
    while let Some(batch) = bounded(session, rows.next()).await? {
        count += batch.num_rows();
        bytes += batch.get_array_memory_size();
        if count as u64 > VALUES_MAX {
            bail!(
                OutOfRoom,
                "a SELECT with values of a sequence returns at most {VALUES_MAX} rows; INSERT .. \
                 SELECT takes any number"
            );
        }
        memory.resize(2 * bytes as u64)?;
        batches.push(taken.fill(session, batch).await?);
    }
    session.evaluated(rows.warnings())?;
    let Some(first) = batches.first() else {
        let names = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
        let none = text_batch(&names, &[]);
        return Ok(Reply::Table(columns, none));
    };
    match concat_batches(&first.schema(), &batches) {
        Ok(all) => Ok(Reply::Table(columns, all)),
        Err(error) => bail!(Internal, "rows of one query have other columns: {error}"),
    }
}
