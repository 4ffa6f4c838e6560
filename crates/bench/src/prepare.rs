//! Prepares the connections of a point on a target, with encoded requests.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;

use freshet_wire::PacketWriter;

use crate::body::BodyForm;
use crate::encode::{self, Commit, Request};
use crate::engine::Connection;
use crate::point::{Mode, Point, Size};
use crate::reply::Replies;
use crate::rows::Row;
use crate::session::{MysqlSession, PostgresSession};
use crate::socket::Socket;
use crate::table::{Dialect, Kind, Table};
use crate::target::{BodyProtocol, Target};

/// The number of different requests of a point: enough to defeat caches, few enough to encode in
/// advance.
const REQUESTS_MIN: usize = 8;
const REQUESTS_MAX: usize = 1024;
const ROWS_WANTED: usize = 20_000;
/// Rows from which the average row size is computed.
const SAMPLE_ROWS: usize = 1000;
/// The size of a row of `httplogs` as CSV.
const CSV_ROW_BYTES: usize = 126;

/// The rows of a point, divided into requests.
pub struct Batches {
    rows: Vec<Row>,
    rows_per_request: usize,
}

impl Batches {
    /// The rows of a point, which are the same for every target.
    pub fn of(point: &Point) -> Self {
        let rows_per_request = match point.size {
            Size::Rows(rows) => rows,
            Size::Bytes(bytes) => (bytes / CSV_ROW_BYTES).max(1),
        };
        let requests = (ROWS_WANTED / rows_per_request).clamp(REQUESTS_MIN, REQUESTS_MAX);
        let requests = requests.max(point.tables);
        Self { rows: point.source.rows(requests * rows_per_request), rows_per_request }
    }

    /// The average size of a row as CSV.
    pub fn row_bytes(&self) -> f64 {
        let sample = &self.rows[..self.rows.len().min(SAMPLE_ROWS)];
        encode::csv(sample, ',').len() as f64 / sample.len() as f64
    }

    fn iter(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunks(self.rows_per_request)
    }
}

/// Opens the connections of a point: logged in, statements prepared, requests encoded.
pub fn connections(
    target: &Target,
    point: &Point,
    batches: &Batches,
) -> Result<Vec<Connection>, String> {
    let tables = point.tables();
    match (point.mode, target.dialect) {
        (Mode::Body, _) => bodies(target, point, &tables[0], batches),
        (Mode::Text, Dialect::Postgres | Dialect::QuestDb) => {
            let requests = Arc::new(postgres_text(target, &tables, batches));
            repeat(point, || postgres(PostgresSession::open(target)?, &requests))
        }
        (Mode::Prepared, Dialect::Postgres | Dialect::QuestDb) => {
            let table = &tables[0];
            let encode = |rows| encode::postgres_execute(table, rows);
            let requests = Arc::new(batches.iter().map(encode).collect());
            repeat(point, || {
                let mut session = PostgresSession::open(target)?;
                let rows = batches.rows_per_request;
                let sql = encode::insert_prepared(table, target.dialect, rows);
                session.prepare(&sql, &parameter_types(table, rows))?;
                postgres(session, &requests)
            })
        }
        (Mode::Text, _) => {
            let mut session = MysqlSession::open(target)?;
            let requests = Arc::new(mysql_text(session.writer(), target, &tables, batches));
            repeat(point, || mysql(MysqlSession::open(target)?, &requests))
        }
        (Mode::Prepared, _) => mysql_prepared(target, point, &tables[0], batches),
    }
}

fn repeat(
    point: &Point,
    mut open: impl FnMut() -> Result<Connection, String>,
) -> Result<Vec<Connection>, String> {
    (0..point.connections).map(|_| open()).collect()
}

fn mysql(session: MysqlSession, requests: &Arc<Vec<Request>>) -> Result<Connection, String> {
    let (stream, capabilities) = session.into_parts();
    Connection::new(stream, Replies::mysql(capabilities), Arc::clone(requests))
}

fn postgres(session: PostgresSession, requests: &Arc<Vec<Request>>) -> Result<Connection, String> {
    Connection::new(Socket::plain(session.into_stream()), Replies::postgres(), Arc::clone(requests))
}

fn mysql_text(
    writer: &mut PacketWriter,
    target: &Target,
    tables: &[Table],
    batches: &Batches,
) -> Vec<Request> {
    let pairs = tables.iter().cycle().zip(batches.iter());
    pairs.map(|(table, rows)| encode::mysql_text(writer, table, target.dialect, rows)).collect()
}

fn postgres_text(target: &Target, tables: &[Table], batches: &Batches) -> Vec<Request> {
    let pairs = tables.iter().cycle().zip(batches.iter());
    pairs.map(|(table, rows)| encode::postgres_text(table, target.dialect, rows)).collect()
}

/// Statement ids differ between connections, so requests are encoded once for each id.
fn mysql_prepared(
    target: &Target,
    point: &Point,
    table: &Table,
    batches: &Batches,
) -> Result<Vec<Connection>, String> {
    let sql = encode::insert_prepared(table, target.dialect, batches.rows_per_request);
    let mut by_statement: HashMap<u32, Arc<Vec<Request>>> = HashMap::new();
    repeat(point, || {
        let mut session = MysqlSession::open(target)?;
        let id = session.prepare(&sql)?;
        let requests = by_statement.entry(id).or_insert_with(|| {
            let writer = session.writer();
            let encode = |rows| encode::mysql_execute(writer, id, rows);
            Arc::new(batches.iter().map(encode).collect())
        });
        let requests = Arc::clone(requests);
        mysql(session, &requests)
    })
}

/// Type ids of PostgreSQL; 0 has the server infer the type from the column.
fn parameter_types(table: &Table, rows: usize) -> Vec<u32> {
    let id = |kind| match kind {
        Kind::SmallInt => 21,
        Kind::Int => 23,
        Kind::BigInt => 20,
        _ => 0,
    };
    let row: Vec<u32> = table.columns.iter().map(|(_, kind)| id(*kind)).collect();
    row.repeat(rows)
}

fn bodies(
    target: &Target,
    point: &Point,
    table: &Table,
    batches: &Batches,
) -> Result<Vec<Connection>, String> {
    let protocol = target.body_protocol();
    let mut writer = match protocol {
        BodyProtocol::LoadData => Some(MysqlSession::open(target)?),
        _ => None,
    };
    let mut encode = |rows: &[Row]| {
        let count = rows.len() as u64;
        let body = match protocol {
            BodyProtocol::Lines => encode::lines(table, rows).into_bytes(),
            BodyProtocol::StreamLoad => target.form.body(table, rows),
            _ => encode::csv(rows, ',').into_bytes(),
        };
        body_request(target, protocol, &table.name, &body, count, ',', writer.as_mut())
    };
    let requests = Arc::new(batches.iter().map(&mut encode).collect());
    repeat(point, || body_connection(target, protocol, &requests))
}

/// A request that loads a body, of the target's form for Stream Load and else of CSV or lines.
pub fn body_request(
    target: &Target,
    protocol: BodyProtocol,
    table: &str,
    body: &[u8],
    rows: u64,
    separator: char,
    session: Option<&mut MysqlSession>,
) -> Request {
    match protocol {
        BodyProtocol::LoadData => {
            let session = session.expect("LOAD DATA is encoded by a session");
            encode::mysql_load(session.writer(), table, body, rows, separator)
        }
        BodyProtocol::Copy => encode::postgres_copy(table, body, rows, separator),
        BodyProtocol::Lines => encode::http("POST", "/write?precision=n", "", body, rows),
        BodyProtocol::ClickHouse => {
            let path = format!("/?query=INSERT%20INTO%20{table}%20FORMAT%20CSV");
            encode::http("POST", &path, "", body, rows)
        }
        BodyProtocol::StreamLoad => {
            let path = format!("/api/{}/{table}/_stream_load", target.database);
            let login = encode::basic_auth(&target.user, &target.password);
            let form = target.form.headers();
            let mut headers = format!("{login}{form}column_separator: {separator}\r\n");
            if let Some(mode) = &target.group_commit {
                headers.push_str(&format!("group_commit: {mode}\r\n"));
            }
            let commit = (target.form == BodyForm::TwoPhases).then(|| {
                let path = format!("/api/{}/_stream_load_2pc", target.database);
                Commit { path, headers: login }
            });
            let mut request = encode::http("PUT", &path, &headers, body, rows);
            request.commit = commit;
            request
        }
    }
}

/// A connection for requests with bodies.
pub fn body_connection(
    target: &Target,
    protocol: BodyProtocol,
    requests: &Arc<Vec<Request>>,
) -> Result<Connection, String> {
    match protocol {
        BodyProtocol::LoadData => mysql(MysqlSession::open(target)?, requests),
        BodyProtocol::Copy => postgres(PostgresSession::open(target)?, requests),
        BodyProtocol::StreamLoad | BodyProtocol::Lines | BodyProtocol::ClickHouse => {
            let stream = TcpStream::connect(&target.http_address)
                .map_err(|error| format!("{}: {error}", target.http_address))?;
            Connection::new(Socket::plain(stream), Replies::http(), Arc::clone(requests))
        }
    }
}
