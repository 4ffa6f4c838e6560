//! SELECT and DO with side effects: SLEEP, GET_LOCK and related functions.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::{Result, bail};
use freshet_query::actions::{self, Action, Call, Returned, SequenceCall};
use freshet_query::change::{Change, ChangeKind};
use freshet_query::session::Value;
use freshet_query::syntax::{Scalar, Select};
use freshet_query::{Parameter, sequence_columns};

use super::{query, sequence, values};
use crate::accounts::SessionMemory;
use crate::files::FileReader;
use crate::reply::{Reply, bounded};
use crate::session::Session;

/// Longer than any statement timeout.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Executes the functions with side effects that a SELECT calls, then the SELECT with their
/// results.
///
/// # Errors
/// Invalid arguments and those of planning; 1317 and 3024 while waiting.
pub async fn select(
    session: &mut Session,
    query: &Select,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    if let Some(counted) = actions::counted(query) {
        return sequence::several(session, &counted, items).await;
    }
    if let Some(taking) = sequence_columns::taken(query)? {
        return sequence::columns::select(session, taking, items, parameters).await;
    }
    let Values { values, memory: _held, .. } = carry_out(session, query, &parameters).await?;
    let query = actions::with_values(query.clone(), values);
    query::select(session, &query, items, parameters).await
}

/// DO: as [`select`], but the result is discarded.
///
/// # Errors
/// As [`select`], and those of evaluating.
pub async fn discard(
    session: &mut Session,
    query: &Select,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    if let Reply::Stream(_, mut rows, _) = select(session, query, items, parameters).await? {
        while bounded(session, rows.next()).await?.is_some() {}
        session.evaluated(rows.warnings())?;
    }
    Ok(Reply::done())
}

/// Values of calls. The bytes of files among them stand in the text of the statement, where each
/// takes two signs, and in what it becomes.
struct Values {
    values: Vec<Returned>,
    bytes: usize,
    memory: SessionMemory,
}

impl Values {
    fn new(session: &Session) -> Self {
        Self { values: Vec::new(), bytes: 0, memory: SessionMemory::new(&session.usage) }
    }

    /// # Errors
    /// 3170 for more bytes of files than `max_allowed_packet` in all, 1041 without memory for them.
    fn add(&mut self, session: &Session, value: Returned) -> Result<()> {
        if let Returned::Bytes(file) = &value {
            self.bytes += file.len();
        }
        let bytes_max = session.settings.packet_bytes_max;
        if self.bytes > bytes_max {
            bail!(
                TooLarge,
                "LOAD_FILE reads more than {bytes_max} bytes in all (max_allowed_packet): use a \
                 statement for each file"
            );
        }
        self.memory.resize(4 * self.bytes as u64)?;
        self.values.push(value);
        Ok(())
    }
}

async fn carry_out(
    session: &mut Session,
    query: &Select,
    parameters: &[Parameter],
) -> Result<Values> {
    let mut values = Values::new(session);
    for call in actions::calls(query)? {
        let value = one(session, call, parameters).await?;
        values.add(session, value)?;
    }
    Ok(values)
}

/// A query with values in place of calls, and the memory that is held for them; `None` if it calls
/// nothing that is run before it.
///
/// # Errors
/// As [`select`].
pub async fn before(
    session: &mut Session,
    query: &Select,
    parameters: &[Parameter],
) -> Result<Option<(Select, SessionMemory)>> {
    if !actions::has_side_effects(query) {
        return Ok(None);
    }
    let Values { values, memory, .. } = carry_out(session, query, parameters).await?;
    Ok(Some((actions::with_values(query.clone(), values), memory)))
}

/// The rows of an INSERT with values in place of calls, and the memory that is held for them.
pub struct Filled {
    pub rows: Vec<Vec<Option<Scalar>>>,
    _memory: Option<SessionMemory>,
}

/// Puts the values of NEXTVAL, CURRVAL and LOAD_FILE in their place in the rows of an INSERT;
/// `None` if there are none.
///
/// # Errors
/// As [`sequence::filled`], and for too many bytes of files.
pub async fn filled(
    session: &mut Session,
    rows: &[Vec<Option<Scalar>>],
    parameters: &[Parameter],
) -> Result<Option<Filled>> {
    let filled = sequence::filled(session, rows).await?;
    let rows = filled.as_deref().unwrap_or(rows);
    let exprs = rows.iter().flatten().flatten();
    let names = exprs.flat_map(actions::files).collect::<Vec<_>>();
    if names.is_empty() {
        return Ok(filled.map(|rows| Filled { rows, _memory: None }));
    }
    let Values { values, memory, .. } = read(session, names, parameters).await?;
    let mut files = values.into_iter();
    let mut put =
        |value: &Option<Scalar>| value.clone().map(|expr| actions::with_files(expr, &mut files));
    let rows = rows.iter().map(|row| row.iter().map(&mut put).collect()).collect();
    Ok(Some(Filled { rows, _memory: Some(memory) }))
}

/// An UPDATE with the bytes of files in place of LOAD_FILE in its SET, and the memory that is held
/// for them; `None` if there are none.
///
/// # Errors
/// Those of evaluating names, and for too many bytes.
pub async fn changing(
    session: &mut Session,
    change: &Change,
    parameters: &[Parameter],
) -> Result<Option<(Change, SessionMemory)>> {
    let ChangeKind::Update { set } = &change.kind else { return Ok(None) };
    let exprs = set.iter().filter_map(|(_, value)| value.as_ref());
    let names = exprs.flat_map(actions::files).collect::<Vec<_>>();
    if names.is_empty() {
        return Ok(None);
    }
    let Values { values, memory, .. } = read(session, names, parameters).await?;
    let mut files = values.into_iter();
    let put = |(column, value): &(String, Option<Scalar>)| {
        let value = value.clone().map(|expr| actions::with_files(expr, &mut files));
        (column.clone(), value)
    };
    let set = set.iter().map(put).collect();
    let mut change = change.clone();
    change.kind = ChangeKind::Update { set };
    Ok(Some((change, memory)))
}

async fn read(
    session: &mut Session,
    names: Vec<Scalar>,
    parameters: &[Parameter],
) -> Result<Values> {
    let mut files = Values::new(session);
    for name in names {
        let name = text(&value(session, name, parameters).await?);
        let file = load_file(session, &name).await?.map_or(Returned::Null, Returned::Bytes);
        files.add(session, file)?;
    }
    Ok(files)
}

async fn one(session: &mut Session, call: Call, parameters: &[Parameter]) -> Result<Returned> {
    if let Some(sequence) = call.sequence {
        let call = SequenceCall { action: call.action, sequence };
        return sequence::value(session, &call).await.map(Returned::Number);
    }
    let mut arguments = Vec::new();
    for argument in call.arguments {
        arguments.push(value(session, argument, parameters).await?);
    }
    let name = || arguments.first().map_or_else(String::new, text);
    if call.action == Action::LoadFile {
        return Ok(load_file(session, &name()).await?.map_or(Returned::Null, Returned::Bytes));
    }
    let locks = &session.locks;
    let number = match call.action {
        Action::Sleep => {
            sleep(session, seconds(&arguments[0])?).await?;
            Some(0)
        }
        Action::GetLock => Some(get_lock(session, &name(), &arguments[1]).await?.into()),
        Action::ReleaseLock => locks.release(&name())?.map(u64::from),
        Action::ReleaseAllLocks => Some(locks.release_all()),
        Action::IsFreeLock => Some(locks.holder(&name())?.is_none().into()),
        Action::IsUsedLock => locks.holder(&name())?.map(u64::from),
        Action::SetLastInsertId => {
            let id = id_of(&arguments[0]);
            session.last_insert_id = id.unwrap_or(0);
            id
        }
        Action::NextValue | Action::CurrentValue => unreachable!("it has a sequence"),
        Action::LoadFile => unreachable!("it was done before"),
    };
    Ok(number.into())
}

/// The bytes of a file in the directory of `secure_file_priv`; `None` where there is none that the
/// user may read, or it is longer than `max_allowed_packet`, as in MySQL.
async fn load_file(session: &Session, name: &str) -> Result<Option<Vec<u8>>> {
    let Ok(mut file) = FileReader::open(session, name).await else { return Ok(None) };
    if file.len_bytes() > session.settings.packet_bytes_max as u64 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    while let Some(part) = bounded(session, file.next()).await? {
        bytes.extend(part);
    }
    Ok(Some(bytes))
}

async fn value(session: &mut Session, argument: Scalar, parameters: &[Parameter]) -> Result<Value> {
    values::value(session, &argument, parameters.to_vec()).await
}

async fn sleep(session: &Session, time: Duration) -> Result<()> {
    let clock = Arc::clone(session.shared.engine.clock());
    let slept = async {
        clock.sleep(time).await;
        Ok(())
    };
    bounded(session, slept).await
}

async fn get_lock(session: &Session, name: &str, timeout: &Value) -> Result<bool> {
    let clock = session.shared.engine.clock();
    // MySQL: a negative timeout means no limit, NULL means not to wait.
    let timeout = match timeout {
        Value::Null => Duration::ZERO,
        value => seconds(value).unwrap_or(FOR_EVER),
    };
    let deadline = Deadline::after(&**clock, timeout);
    bounded(session, session.locks.get(name, clock, deadline)).await
}

/// A number as an id, by its bits as in MySQL; `None` for NULL.
pub fn id_of(value: &Value) -> Option<u64> {
    match value {
        Value::Null => None,
        Value::Int(number) => Some(*number as u64),
        Value::UInt(number) => Some(*number),
        Value::Double(number) => Some(number.round() as i64 as u64),
        Value::Decimal(text) | Value::Text(text) => {
            Some(text.trim().parse::<f64>().map_or(0, |n| n.round() as i64 as u64))
        }
    }
}

/// Converts a number of seconds.
fn seconds(value: &Value) -> Result<Duration> {
    let seconds = match value {
        Value::Int(seconds) => *seconds as f64,
        Value::UInt(seconds) => *seconds as f64,
        Value::Double(seconds) => *seconds,
        Value::Decimal(text) | Value::Text(text) => text.trim().parse::<f64>().unwrap_or(0.0),
        Value::Null => bail!(WrongArguments, "Incorrect arguments to sleep."),
    };
    if seconds < 0.0 {
        bail!(WrongArguments, "Incorrect arguments to sleep.");
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(FOR_EVER).min(FOR_EVER))
}

/// A value as text, and NULL as none.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Decimal(text) | Value::Text(text) => text.clone(),
    }
}
