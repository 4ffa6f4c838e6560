//! Checks that need no other server: three partial results that must add up to the whole one, and
//! prepared statements that must return the same as their text.

use crate::answer::{Answer, Difference};
use crate::found::Found;
use crate::query::Query;
use crate::servers::Servers;

/// Checks that the rows for which the filter of a query is true, false and NULL are all its rows.
pub fn partition(servers: &mut Servers, number: u64, query: &Query) -> Option<Found> {
    let (whole, parts) = query.partitions()?;
    let all = servers.ours(&whole.sql());
    let Answer::Rows { .. } = all else { return None };
    let mut rows = Vec::new();
    for part in &parts {
        match servers.ours(&part.sql()) {
            answer @ Answer::Rows { .. } => rows.extend(answer.sorted()),
            Answer::Lost(what) => {
                rows.clear();
                rows.push(vec![Some(what)]);
                break;
            }
            // The filter itself may fail, for example with a number out of range.
            Answer::Refused(..) | Answer::Done(_) => return None,
        }
    }
    rows.sort();
    (rows != all.sorted()).then(|| Found {
        number,
        difference: Difference::Values,
        shape: format!("p, NOT p, p IS NULL: {}", query.shape()),
        sql: parts[0].sql(),
        ours: format!("all rows: {}", all.shown()),
        theirs: format!("of the parts: {rows:?}"),
        own: true,
    })
}

/// Checks that a query has the same result as text and prepared with its literals as parameters.
pub fn prepared_as_text(servers: &mut Servers, number: u64, query: &Query) -> Option<Found> {
    let sql = query.sql();
    let text = servers.ours(&sql);
    let mut bound = query.clone();
    let parameters = bound.parameters();
    let prepared = servers.prepared(&bound.sql(), &parameters);
    let difference = prepared.differs(&text, query.ordered)?;
    // The types of parameters are unknown when the statement is prepared.
    if !parameters.is_empty() && difference == Difference::Types {
        return None;
    }
    Some(Found {
        number,
        difference,
        shape: format!("prepared: {}", query.shape()),
        sql: format!("{} with {parameters:?}", bound.sql()),
        ours: prepared.shown(),
        theirs: format!("as text: {}", text.shown()),
        own: true,
    })
}
