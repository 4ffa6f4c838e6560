//! The connections of the two loads, each with a thread.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use freshet_base::clock::{Clock, SystemClock};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tpchgen::generators::LineItemGenerator;

use super::{HTTP_CONNECTIONS, Plan, SQL_CONNECTIONS, Stream};
use crate::encode;
use crate::prepare::body_request;
use crate::reply::{Answer, Replies};
use crate::rows::{Row, httplogs, lineitem};
use crate::session::Session;
use crate::table;
use crate::target::{BodyProtocol, Target};

/// Rows per INSERT.
const INSERT_ROWS: usize = 500;
/// Rows per Stream Load, about a megabyte.
const LOAD_ROWS: usize = 8_000;

/// A connection's thread.
type Worker = JoinHandle<Result<(), String>>;

pub fn start(plan: &Plan, sql: &Arc<Stream>, http: &Arc<Stream>) -> Vec<Worker> {
    let target = Target { group_commit: Some("async_mode".to_owned()), ..plan.target.clone() };
    let inserts = (0..SQL_CONNECTIONS).map(|part| {
        let (target, stream, scale) = (target.clone(), Arc::clone(sql), plan.scale);
        std::thread::spawn(move || insert(&target, &stream, scale, part))
    });
    let loads = (0..HTTP_CONNECTIONS).map(|part| {
        let (target, stream) = (target.clone(), Arc::clone(http));
        std::thread::spawn(move || load(&target, &stream, part))
    });
    inserts.chain(loads).collect()
}

/// Inserts one connection's part of lineitem.
fn insert(target: &Target, stream: &Stream, scale: f64, part: usize) -> Result<(), String> {
    let clock = SystemClock::new();
    let table = table::lineitem();
    let mut session = Session::open(target)?;
    let generator = LineItemGenerator::new(scale, part as i32 + 1, SQL_CONNECTIONS as i32);
    let mut rows = Vec::with_capacity(INSERT_ROWS);
    let mut items = generator.iter().peekable();
    while let Some(item) = items.next() {
        rows.push(lineitem(&item));
        if rows.len() == INSERT_ROWS || items.peek().is_none() {
            let sql = encode::insert_text(&table, target.dialect, &rows);
            let sent = clock.now();
            session.query(&sql)?;
            stream.count(rows.len() as u64, sql.len() as u64, clock.now() - sent);
            rows.clear();
        }
    }
    Ok(())
}

/// Loads one connection's part of the log.
fn load(target: &Target, stream: &Stream, part: usize) -> Result<(), String> {
    let clock = SystemClock::new();
    let mut rng = StdRng::seed_from_u64(part as u64);
    let mut connection = Connection::open(&target.http_address)?;
    let share = stream.rows_planned as usize / HTTP_CONNECTIONS;
    let name = table::httplogs().name;
    for first in (0..share).step_by(LOAD_ROWS) {
        let numbers = first..share.min(first + LOAD_ROWS);
        let rows: Vec<Row> = numbers.map(|row| httplogs(&mut rng, row)).collect();
        let body = encode::csv(&rows, '|');
        let count = rows.len() as u64;
        let protocol = BodyProtocol::StreamLoad;
        let request = body_request(target, protocol, &name, body.as_bytes(), count, '|', None);
        let sent = clock.now();
        connection.ask(&request.bytes)?;
        stream.count(count, body.len() as u64, clock.now() - sent);
    }
    Ok(())
}

/// A connection for HTTP requests, one at a time.
struct Connection {
    stream: TcpStream,
    replies: Replies,
}

impl Connection {
    fn open(address: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Self { stream, replies: Replies::http() })
    }

    fn ask(&mut self, request: &[u8]) -> Result<(), String> {
        self.stream.write_all(request).map_err(|error| error.to_string())?;
        loop {
            match self.replies.next()? {
                Some(Answer::Done(_) | Answer::Prepared(_)) => return Ok(()),
                Some(Answer::Refused(why)) => return Err(why),
                None => {}
            }
            match self.stream.read(self.replies.spare()).map_err(|error| error.to_string())? {
                0 => return Err("the server closed the connection".to_owned()),
                count => self.replies.filled(count),
            }
        }
    }
}
