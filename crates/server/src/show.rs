//! SHOW and DESCRIBE.

mod alters;
mod bin;
mod catalog;
pub mod config;
mod dynamic;
mod empty;
mod ended;
mod global_indexes;
pub mod listing;
mod loads;
mod lock_waits;
mod nodes;
mod order;
mod partitions;
mod policies;
mod proc;
mod replicas;
mod rights;
mod sequences;
mod server;
mod status;
pub mod system;
mod tablets;
mod users;
mod workload;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use freshet_base::Result;
use freshet_query::RecordBatch;
use freshet_query::parser::{Filter, Show, ShowWhat, TableName};
use freshet_query::result::{ResultColumn, ResultType, text_batch};
use freshet_wire::PacketWriter;

use crate::Shared;
use crate::mysql::results;
use crate::reader::Reader;
use crate::reply::{Reply, bounded};
use crate::session::Session;
use crate::show::listing::{Listing, Row};

/// # Errors
/// Unknown names, missing privileges.
pub async fn show(session: &mut Session, show: &Show) -> Result<Reply> {
    let mut listing = match &show.what {
        ShowWhat::LoadWarnings { database, url } => {
            loads::load_warnings(session, database.as_deref(), url.as_deref()).await?
        }
        what => listing(session, what)?,
    };
    if let Some(Filter::Like(pattern)) = &show.filter {
        // LIKE filters by name; one of the lists has the name in its second column.
        let at = like_column(&show.what);
        listing.rows.retain(|row| {
            row.get(at).and_then(Option::as_deref).is_some_and(|name| like(pattern, name))
        });
        if matches!(show.what, ShowWhat::Databases | ShowWhat::Tables { .. }) {
            let heading = &mut listing.columns[0].name;
            *heading = format!("{heading} ({pattern})");
        }
    }
    answer(session, listing, show).await
}

async fn answer(session: &mut Session, mut listing: Listing, show: &Show) -> Result<Reply> {
    let names = listing.columns.iter().map(|column| &*column.name).collect::<Vec<_>>();
    if let Some(Filter::Where(condition)) = &show.filter {
        let batch = text_batch(&names, &listing.rows);
        let condition = &match show.what {
            ShowWhat::Transaction { .. } => condition.clone().renamed("ID", "TransactionId"),
            _ => condition.clone(),
        };
        let reader = Reader::new(session).await?;
        let batches = session.shared.query.filter(&batch, condition, reader);
        let batches = bounded(session, batches).await?;
        listing.rows = batches.iter().flat_map(texts).collect();
    }
    order::sort(&listing.columns, &mut listing.rows, &show.order)?;
    if let Some((count, offset)) = show.limit {
        let skipped = listing.rows.into_iter().skip(usize::try_from(offset).unwrap_or(usize::MAX));
        listing.rows = skipped.take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
    }
    Ok(answer_rows(listing))
}

/// The answer that has these rows.
pub fn answer_rows(listing: Listing) -> Reply {
    let names = listing.columns.iter().map(|column| &*column.name).collect::<Vec<_>>();
    let batch = with_types(text_batch(&names, &listing.rows), &listing.columns);
    Reply::Table(listing.columns, batch)
}

/// The same rows, with columns of integers and times converted from text.
pub fn with_types(texts: RecordBatch, columns: &[ResultColumn]) -> RecordBatch {
    let array = |(column, texts): (&ResultColumn, &ArrayRef)| {
        let array = match column.ty {
            ResultType::LongLong if column.is_unsigned() => cast(texts, &DataType::UInt64),
            ResultType::LongLong => cast(texts, &DataType::Int64),
            ResultType::DateTime => cast(texts, &DataType::Timestamp(TimeUnit::Microsecond, None)),
            _ => Ok(Arc::clone(texts)),
        };
        let array = array.expect("texts are cast to what they say, or to NULL");
        (column.name.clone(), array, true)
    };
    let arrays = columns.iter().zip(texts.columns()).map(array);
    RecordBatch::try_from_iter_with_nullable(arrays).expect("columns stay as long as they are")
}

fn texts(batch: &RecordBatch) -> Vec<Row> {
    let cell = |array: &ArrayRef, row: usize| {
        let texts = array.as_string_view();
        (!texts.is_null(row)).then(|| texts.value(row).to_owned())
    };
    let row = |row: usize| batch.columns().iter().map(|array| cell(array, row)).collect();
    (0..batch.num_rows()).map(row).collect()
}

fn like_column(what: &ShowWhat) -> usize {
    match what {
        ShowWhat::Partitions(_)
        | ShowWhat::TemporaryPartitions(_)
        | ShowWhat::GlobalIndexes(_)
        | ShowWhat::Plain("SEQUENCES" | "WORKLOAD GROUPS") => 1,
        _ => 0,
    }
}

fn listing(session: &Session, what: &ShowWhat) -> Result<Listing> {
    match what {
        ShowWhat::Databases => catalog::databases(session),
        ShowWhat::Tables { full, database } => catalog::tables(session, *full, database.as_deref()),
        ShowWhat::TableStatus { database } => catalog::table_status(session, database.as_deref()),
        ShowWhat::Within { what, database } => empty::within(session, what, database.as_deref()),
        ShowWhat::Columns { full, table } => catalog::columns(session, table, *full),
        ShowWhat::Index(table) => catalog::index(session, table),
        ShowWhat::GlobalIndexes(table) => global_indexes::listing(session, table.as_ref()),
        ShowWhat::CreateTable(table) => catalog::create_table(session, table),
        ShowWhat::CreateView(view) => catalog::create_view_of(session, view),
        ShowWhat::CreateSequence(name) => sequences::create(session, name),
        ShowWhat::CreateDatabase(name) => catalog::create_database(session, name),
        ShowWhat::Partitions(table) => partitions::partitions(session, table),
        ShowWhat::TemporaryPartitions(table) => partitions::temporary(session, table),
        ShowWhat::RowPolicies(of) => policies::listing(session, of.as_ref()),
        ShowWhat::DynamicPartitions { database } => dynamic::tables(session, database.as_deref()),
        ShowWhat::Tablets { table, partitions } => tablets::tablets(session, table, partitions),
        ShowWhat::Tablet(id) => replicas::tablet(session, *id),
        ShowWhat::ReplicaStatus { table, partitions } => {
            replicas::status(session, table, partitions)
        }
        ShowWhat::ReplicaDistribution { table, partitions } => {
            replicas::distribution(session, table, partitions)
        }
        ShowWhat::Trash { on } => replicas::trash(session, on.as_deref()),
        ShowWhat::Variables(scope) => Ok(server::variables(session, *scope)),
        ShowWhat::Status(_) => Ok(status::rows(&session.shared, &session.client)),
        ShowWhat::Warnings { errors_only, count } => {
            Ok(server::warnings(session, *errors_only, *count))
        }
        ShowWhat::Processlist { full } => Ok(server::processlist(session, *full)),
        ShowWhat::Grants { account, using } => users::grants(session, account.as_ref(), using),
        ShowWhat::Property(account) => workload::properties(session, account.as_ref()),
        ShowWhat::CreateUser(account) => users::create_user(session, account.as_ref()),
        ShowWhat::Transaction { database } => loads::transactions(session, database.as_deref()),
        ShowWhat::Load { database } => loads::loads(session, database.as_deref()),
        ShowWhat::StreamLoad { database } => loads::stream_loads(session, database.as_deref()),
        ShowWhat::LoadWarnings { .. } => unreachable!("its files are read before"),
        ShowWhat::LastInsert => Ok(loads::last_insert(session)),
        ShowWhat::AlterTableColumn { database } => alters::jobs(session, database.as_deref()),
        ShowWhat::Data(table) => nodes::data(session, table.as_ref()),
        ShowWhat::Engine(name) => server::engine(session, name),
        ShowWhat::Proc(path) => proc::proc(session, path),
        ShowWhat::Config => config::listing(session),
        ShowWhat::Plain("SEQUENCES") => sequences::sequences(session),
        ShowWhat::Plain("CATALOG RECYCLE BIN") => bin::listing(session),
        ShowWhat::Plain("WORKLOAD GROUPS") => Ok(workload::groups(session)),
        ShowWhat::Plain("BACKENDS") => Ok(nodes::backends(&session.shared)),
        ShowWhat::Plain("FRONTENDS") => Ok(nodes::frontends(&session.shared)),
        ShowWhat::Plain(what) => {
            empty::authorize(session, what)?;
            Ok(server::plain(what))
        }
    }
}

/// # Errors
/// 1046, 1049 and 1146.
pub async fn describe(
    session: &mut Session,
    table: &TableName,
    column: Option<&str>,
) -> Result<Reply> {
    let what = ShowWhat::Columns { full: false, table: table.clone() };
    let filter = column.map(|pattern| Filter::Like(pattern.to_owned()));
    show(session, &Show { what, filter, order: Vec::new(), limit: None }).await
}

/// COM_FIELD_LIST.
///
/// # Errors
/// 1046 and 1146.
pub fn field_list(
    session: &Session,
    table: &str,
    pattern: &str,
    writer: &mut PacketWriter,
) -> Result<()> {
    let table = TableName { database: None, table: table.to_owned() };
    let columns = catalog::field_columns(session, &table)?;
    let taken =
        columns.iter().filter(|(column, _)| pattern.is_empty() || like(pattern, &column.name));
    let collation = results::result_collation(session);
    let fields =
        taken.map(|(column, default)| (results::definition(column, collation), default.as_deref()));
    writer.field_list(fields, session.status());
    Ok(())
}

/// The text of COM_STATISTICS.
pub fn statistics(shared: &Shared) -> String {
    let uptime = shared.engine.clock().now().saturating_sub(shared.started).as_secs();
    let (threads, questions) = (shared.processes.count(), status::questions(shared));
    let average = questions as f64 / uptime.max(1) as f64;
    format!(
        "Uptime: {uptime}  Threads: {threads}  Questions: {questions}  Slow queries: 0  Opens: 0  \
         Flush tables: 0  Open tables: {}  Queries per second avg: {average:.3}",
        shared.engine.catalog().tables().count()
    )
}

/// Whether a name matches a pattern of `%`, `_` and `\`, case-insensitively.
pub fn like(pattern: &str, name: &str) -> bool {
    let pattern = pattern.to_lowercase().chars().collect::<Vec<_>>();
    let name = name.to_lowercase().chars().collect::<Vec<_>>();
    let (mut p, mut n) = (0, 0);
    let mut retry = None;
    loop {
        match pattern.get(p) {
            Some('%') => {
                retry = Some((p, n));
                p += 1;
                continue;
            }
            Some('_') if n < name.len() => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            Some('\\') if pattern.get(p + 1).is_some_and(|c| name.get(n) == Some(c)) => {
                (p, n) = (p + 2, n + 1);
                continue;
            }
            Some(c) if name.get(n) == Some(c) => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            None if n == name.len() => return true,
            _ => {}
        }
        let Some((percent, from)) = retry else { return false };
        if from >= name.len() {
            return false;
        }
        retry = Some((percent, from + 1));
        (p, n) = (percent + 1, from + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn patterns_match_names_in_any_case() {
        for (pattern, name, matches) in [
            ("%", "", true),
            ("ver%", "VERSION", true),
            ("%on", "version", true),
            ("v_rsion", "version", true),
            ("v\\_rsion", "version", false),
            ("a\\_b", "a_b", true),
            ("%a%b", "xaxb", true),
            ("%a%b", "xaxbx", false),
            ("abc", "ab", false),
        ] {
            assert_eq!(like(pattern, name), matches, "{pattern} {name}");
        }
    }
}
