//! CHECK, ANALYZE, OPTIMIZE, REPAIR and CHECKSUM TABLE. Files are merged and statistics computed
//! without being asked; a CHECK reads all rows, by which the checksums of files are verified.

use std::fmt::Write;

use freshet_base::{ErrorCode, Result, bail};
use freshet_meta::{Object, Privilege};
use freshet_query::parser::{TableName, Tending, load_condition};
use freshet_query::session::Value;
use freshet_schema::Table;
use freshet_schema::sketch::SketchKind;

use super::{commit_first, values};
use crate::reply::Reply;
use crate::session::Session;
use crate::show::answer_rows;
use crate::show::listing::{Listing, some};

/// What CHECKSUM TABLE counts modulo, plus one: checksums have 32 bits.
const CHECKSUM_MASK: u128 = 0xffff_ffff;

/// Does it for each table, and tells how it went in rows of an answer.
///
/// # Errors
/// 1046 and 1142; 1317 and 3024 while rows are read.
pub async fn tend(session: &mut Session, tending: Tending, tables: &[TableName]) -> Result<Reply> {
    let mut named = Vec::new();
    for name in tables {
        let database = session.database_of(name.database.as_deref())?.to_owned();
        for privilege in rights(tending) {
            session.authorize(*privilege, Object::Table(&database, &name.table))?;
        }
        named.push((database, name.table.as_str()));
    }
    if let Tending::Checksum { quick } = tending {
        return checksums(session, &named, quick).await;
    }
    commit_first(session).await?;
    let mut listing = Listing::new(&["Table", "Op", "Msg_type", "Msg_text"]);
    for (database, table) in named {
        let full = format!("{database}.{table}");
        for (kind, text) in tended(session, tending, &database, table).await? {
            listing.add([full.as_str(), verb(tending), kind, text.as_str()]);
        }
    }
    Ok(answer_rows(listing))
}

/// Does it for partitions of a table, `None` being REBUILD, and all of them without names.
///
/// # Errors
/// 1142, 1505 for a table without partitions, 1507 for an unknown one in REBUILD; those of a read.
pub async fn tend_partitions(
    session: &mut Session,
    tending: Option<Tending>,
    (name, table): (&TableName, &Table),
    names: Option<&[String]>,
) -> Result<Reply> {
    let database = session.database_of(name.database.as_deref())?.to_owned();
    let needed = tending.map_or(&[Privilege::Alter][..], rights);
    for privilege in needed {
        session.authorize(*privilege, Object::Table(&database, &name.table))?;
    }
    if table.partition_by.is_none() && table.placement.is_none() {
        bail!(NotPartitioned, "Partition management on a not partitioned table is not possible");
    }
    let full = format!("{database}.{}", name.table);
    let is_unknown =
        |name: &&String| table.partition_by.is_some() && table.partition_at(name).is_none();
    let unknown = names.unwrap_or_default().iter().find(is_unknown);
    let Some(tending) = tending else {
        if let Some(unknown) = unknown {
            bail!(
                NoSuchPartition,
                "Error in list of partitions to REBUILD: table '{}' has no partition '{unknown}'",
                table.name
            );
        }
        return Ok(Reply::done());
    };
    let mut listing = Listing::new(&["Table", "Op", "Msg_type", "Msg_text"]);
    if unknown.is_some() {
        let text = format!("Error in list of partitions to {full}");
        listing.add([full.as_str(), verb(tending), "error", text.as_str()]);
        return Ok(answer_rows(listing));
    }
    commit_first(session).await?;
    for (kind, text) in tended(session, tending, &database, &name.table).await? {
        listing.add([full.as_str(), verb(tending), kind, text.as_str()]);
    }
    Ok(answer_rows(listing))
}

const fn rights(tending: Tending) -> &'static [Privilege] {
    match tending {
        Tending::Check | Tending::Checksum { .. } => &[Privilege::Select],
        Tending::Analyze | Tending::Optimize | Tending::Repair => {
            &[Privilege::Select, Privilege::Insert]
        }
    }
}

const fn verb(tending: Tending) -> &'static str {
    match tending {
        Tending::Analyze => "analyze",
        Tending::Check => "check",
        Tending::Checksum { .. } => "checksum",
        Tending::Optimize => "optimize",
        Tending::Repair => "repair",
    }
}

/// Kinds and texts of what is told of a table.
async fn tended(
    session: &mut Session,
    tending: Tending,
    database: &str,
    name: &str,
) -> Result<Vec<(&'static str, String)>> {
    let told = |kind, text: &str| (kind, text.to_owned());
    let ok = || told("status", "OK");
    let is_view = session.shared.engine.catalog().view(database, name).is_some();
    let table = session.definition(database, name);
    Ok(match (tending, table) {
        (Tending::Check, _) if is_view => vec![ok()],
        (_, Err(_)) if is_view => {
            vec![("Error", not_a_table(database, name)), told("status", "Operation failed")]
        }
        (_, Err(error)) => {
            vec![("Error", error.message().to_owned()), told("status", "Operation failed")]
        }
        (Tending::Check, Ok(table)) => match checksum(session, database, name, &table).await {
            Ok(_) => vec![ok()],
            Err(error) if matches!(error.code(), ErrorCode::Corruption | ErrorCode::Io) => {
                vec![("error", error.message().to_owned()), told("error", "Corrupt")]
            }
            Err(error) => return Err(error),
        },
        (Tending::Repair, Ok(_)) => {
            vec![told("note", "The storage engine for the table doesn't support repair")]
        }
        (Tending::Optimize, Ok(_)) => {
            vec![told("note", "Files are merged by the server as rows come"), ok()]
        }
        (_, Ok(_)) => vec![ok()],
    })
}

fn not_a_table(database: &str, name: &str) -> String {
    format!("'{database}.{name}' is not BASE TABLE")
}

async fn checksums(session: &mut Session, tables: &[(String, &str)], quick: bool) -> Result<Reply> {
    let mut listing = Listing::new(&["Table", "#Checksum"]);
    for (database, name) in tables {
        let is_view = session.shared.engine.catalog().view(database, name).is_some();
        let sum = match session.definition(database, name) {
            Ok(_) if quick => None,
            Ok(table) => Some(checksum(session, database, name, &table).await?),
            Err(_) if is_view => {
                session.diagnostics.push("Warning", 1347, not_a_table(database, name));
                None
            }
            Err(error) => {
                let (errno, message) = (error.code().errno(), error.message().to_owned());
                session.diagnostics.push("Error", errno, message);
                None
            }
        };
        listing.push([some(format!("{database}.{name}")), sum.map(|sum| sum.to_string())]);
    }
    Ok(answer_rows(listing))
}

/// A checksum of the rows of a table, in whatever order they are.
async fn checksum(
    session: &mut Session,
    database: &str,
    name: &str,
    table: &Table,
) -> Result<u128> {
    let mut text = "(SELECT SUM(CRC32(CONCAT_WS('#'".to_owned();
    for column in table.schema().shown() {
        let name = quoted(&column.name);
        let column = match column.ty.sketch() {
            None => name,
            Some(SketchKind::Bitmap) => format!("BITMAP_TO_BASE64({name})"),
            Some(SketchKind::Hll) => format!("HLL_TO_BASE64({name})"),
        };
        write!(text, ", IFNULL(CRC32({column}), '-')").expect("a String takes all text");
    }
    let (database, name) = (quoted(database), quoted(name));
    write!(text, "))) FROM {database}.{name})").expect("a String takes all text");
    match values::value(session, &load_condition(&text)?, Vec::new()).await? {
        Value::Null => Ok(0),
        Value::Int(sum) => Ok(u128::from(sum.unsigned_abs()) & CHECKSUM_MASK),
        Value::UInt(sum) => Ok(u128::from(sum) & CHECKSUM_MASK),
        Value::Decimal(sum) | Value::Text(sum) if sum.parse::<u128>().is_ok() => {
            Ok(sum.parse::<u128>().unwrap_or(0) & CHECKSUM_MASK)
        }
        other => bail!(Unknown, "a sum of checksums is {other:?}"),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
