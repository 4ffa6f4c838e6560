//! Checks that need no other server: three answers that must add up to one, and a prepared
//! statement that must answer as its text does.

use freshet_torture::client::{Client, Failure};
use freshet_wire::Param;
use freshet_wire::client::Outcome;

use crate::answer::{Answer, Difference};
use crate::query::Query;
use crate::run::{Found, Servers};

/// Whether the rows for which the filter of a query is true, false and NULL are all rows.
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
            // The filter itself may be refused, for a number out of range.
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

/// Whether a query answers the same by text and prepared, and with its literals as parameters.
pub fn prepared_as_text(servers: &mut Servers, number: u64, query: &Query) -> Option<Found> {
    let sql = query.sql();
    let text = servers.ours(&sql);
    let mut bound = query.clone();
    let parameters = bound.parameters();
    let prepared = servers.prepared(&bound.sql(), &parameters);
    let difference = prepared.differs(&text, query.ordered)?;
    // Of a parameter the type is not known when the statement is prepared.
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

/// Prepares a statement and runs it, with literals for parameters.
///
/// # Errors
/// The connection is gone.
pub fn prepared(client: &mut Client, sql: &str, parameters: &[String]) -> Result<Outcome, Failure> {
    let mut statement = match client.prepare(sql) {
        Ok(statement) => statement,
        Err(Failure::Refused { errno, message }) => {
            return Ok(Outcome::Err { errno, sqlstate: String::new(), message });
        }
        Err(failure) => return Err(failure),
    };
    let texts: Vec<_> = parameters.iter().map(|literal| unquoted(literal)).collect();
    let params = parameters.iter().zip(&texts).map(|(literal, text)| match literal.parse() {
        Ok(number) => Param::Int(number),
        Err(_) => Param::Bytes(text.as_bytes()),
    });
    let outcome = client.execute_outcome(&mut statement, &params.collect::<Vec<_>>())?;
    client.close(statement)?;
    Ok(outcome)
}

/// What a literal text means.
fn unquoted(literal: &str) -> String {
    literal.trim_matches('\'').replace("''", "'").replace("\\\\", "\\")
}
