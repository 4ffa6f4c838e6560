//! PREPARE, EXECUTE and DEALLOCATE PREPARE: prepared statements by name, whose parameters are user
//! variables.

use freshet_base::{Result, bail, err};
use freshet_query::parser::PreparedText;
use freshet_query::session::Value;
use freshet_query::{Parameter, parameters};

use super::act;
use super::query;
use crate::accounts::SessionMemory;
use crate::mysql::prepared::{Kind, STATEMENTS_MAX, TREE_BYTES_PER_BYTE, placeholders};
use crate::mysql::results::{Encoding, Gone, Output};
use crate::reply::Reply;
use crate::session::{NamedStatement, Session};

/// PREPARE: replaces a statement of the same name, which is gone even if this one fails.
///
/// # Errors
/// 1064 for several statements, 1461 at the limit, and those of COM_STMT_PREPARE.
pub async fn prepare(session: &mut Session, name: &str, from: &PreparedText) -> Result<Reply> {
    let name = name.to_lowercase();
    session.named.remove(&name);
    if session.named.len() >= STATEMENTS_MAX {
        bail!(
            TooManyStatements,
            "Can't create more than max_prepared_stmt_count statements (current value: \
             {STATEMENTS_MAX}); DEALLOCATE some"
        );
    }
    let sql = match from {
        PreparedText::Literal(text) => text.clone(),
        PreparedText::Variable(variable) => match session.user_variables.get(variable) {
            None | Some(Value::Null) => "NULL".to_owned(),
            Some(value) => act::text(value),
        },
    };
    let count = placeholders(sql.as_bytes(), session.settings.dialect)?;
    let bytes = sql.len() * TREE_BYTES_PER_BYTE;
    let Kind::Other(prepared) = query::prepare(session, sql, count).await?.kind else {
        unreachable!("what is prepared by its tree has one")
    };
    let mut memory = SessionMemory::new(&session.usage);
    memory.resize(bytes as u64)?;
    let (parsed, database) = (prepared.parsed, session.database.clone());
    session.named.insert(name, NamedStatement { parsed, database, memory });
    session.info.set("Statement prepared".to_owned());
    Ok(Reply::done())
}

/// DEALLOCATE PREPARE.
///
/// # Errors
/// 1243 if there is no such statement.
pub fn deallocate(session: &mut Session, name: &str) -> Result<Reply> {
    match session.named.remove(&name.to_lowercase()) {
        Some(_) => Ok(Reply::done()),
        None => bail!(
            UnknownStatement,
            "Unknown prepared statement handler ({name}) given to DEALLOCATE PREPARE"
        ),
    }
}

/// EXECUTE.
///
/// # Errors
/// 1243 if there is no such statement, 1210 for another number of variables than it has
/// parameters, and those of the statement.
pub async fn execute(
    session: &mut Session,
    name: &str,
    using: &[String],
    more: bool,
    output: &mut Output,
) -> std::result::Result<Result<()>, Gone> {
    let key = name.to_lowercase();
    let parameters = match parameters(session, &key, name, using) {
        Ok(parameters) => parameters,
        Err(error) => {
            session.diagnostics.clear();
            return Ok(Err(error));
        }
    };
    // It is taken out while it runs: no other statement of the session can want it.
    let statement = session.named.remove(&key).expect("it was just looked at");
    let moves = statement.parsed.statement.moves_session();
    let current = session.database.clone();
    if !moves {
        session.database.clone_from(&statement.database);
    }
    let run = super::one(session, &statement.parsed, parameters, Encoding::Text, more, output);
    let done = Box::pin(run).await;
    if !moves {
        session.database = current;
    }
    session.named.insert(key, statement);
    done
}

/// The values of the variables, in order.
fn parameters(
    session: &Session,
    key: &str,
    name: &str,
    using: &[String],
) -> Result<Vec<Parameter>> {
    let statement = session.named.get(key).ok_or_else(|| {
        err!(UnknownStatement, "Unknown prepared statement handler ({name}) given to EXECUTE")
    })?;
    if statement.parsed.parameters != using.len() {
        bail!(WrongArguments, "Incorrect arguments to EXECUTE");
    }
    let value = |variable: &String| match session.user_variables.get(variable) {
        None | Some(Value::Null) => Parameter::Null,
        Some(Value::Int(number)) => Parameter::Int(*number),
        Some(Value::UInt(number)) => Parameter::UInt(*number),
        Some(Value::Double(number)) => Parameter::Double(*number),
        Some(Value::Decimal(digits)) => parameters::decimal(digits.as_bytes()),
        Some(Value::Text(text)) => Parameter::Bytes(text.clone().into_bytes()),
    };
    Ok(using.iter().map(value).collect())
}
