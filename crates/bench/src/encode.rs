//! Encoding of rows as requests, done before the measurement.

use std::fmt::Write as _;

use base64::Engine as _;
use freshet_wire::{PacketWriter, Param};

use crate::rows::{Cell, Row};
use crate::table::{Dialect, Kind, Table};

/// The placeholder of a serial number that is stamped in later; generated rows do not contain it.
const SERIAL_MARK: u64 = 4_222_222_222;

/// How a serial number is encoded, always in the same number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialForm {
    /// Ten decimal digits.
    Digits,
    /// Eight bytes, little endian.
    Little,
    /// Four bytes, big endian.
    Big,
}

impl SerialForm {
    fn mark(self) -> Vec<u8> {
        match self {
            Self::Digits => SERIAL_MARK.to_string().into_bytes(),
            Self::Little => SERIAL_MARK.to_le_bytes().to_vec(),
            Self::Big => (SERIAL_MARK as u32).to_be_bytes().to_vec(),
        }
    }

    fn put(self, number: u64, out: &mut [u8]) {
        match self {
            Self::Little => out[..8].copy_from_slice(&number.to_le_bytes()),
            Self::Big => out[..4].copy_from_slice(&(number as u32).to_be_bytes()),
            Self::Digits => {
                let mut rest = number;
                for digit in out[..10].iter_mut().rev() {
                    *digit = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
            }
        }
    }
}

/// The request that commits a prepared load.
#[derive(Clone, Debug)]
pub struct Commit {
    pub path: String,
    /// Each ends with CRLF.
    pub headers: String,
}

impl Commit {
    /// The request for the transaction with this id.
    pub fn request(&self, txn: u64) -> Vec<u8> {
        let headers = format!("{}txn_operation: commit\r\ntxn_id: {txn}\r\n", self.headers);
        http("PUT", &self.path, &headers, b"", 0).bytes
    }
}

/// An encoded request.
#[derive(Clone, Debug)]
pub struct Request {
    pub bytes: Vec<u8>,
    pub rows: u64,
    /// How the load is committed, if the request only prepares it.
    pub commit: Option<Commit>,
    /// The offsets of serial numbers, one per row, or none.
    serials: Vec<u32>,
    /// Whether they are stamped in no order.
    scatters: bool,
    form: SerialForm,
}

impl Request {
    /// A request with these rows; if they have serial numbers, their offsets are located.
    fn new(bytes: Vec<u8>, rows: &[Row], form: SerialForm) -> Self {
        let has = |cell| rows.first().is_some_and(|row| row.contains(cell));
        let scatters = has(&Cell::Scattered);
        let stamped = scatters || has(&Cell::Serial);
        let serials = if stamped { find_all(&bytes, &form.mark()) } else { Vec::new() };
        assert!(!stamped || serials.len() == rows.len(), "one serial a row");
        Self { bytes, rows: rows.len() as u64, commit: None, serials, scatters, form }
    }

    /// A request that is sent unchanged.
    pub fn fixed(bytes: Vec<u8>, rows: u64) -> Self {
        let (serials, form) = (Vec::new(), SerialForm::Digits);
        Self { bytes, rows, commit: None, serials, scatters: false, form }
    }

    /// Whether it has serial numbers to stamp.
    pub fn is_stamped(&self) -> bool {
        !self.serials.is_empty()
    }

    /// Copies the request to `out`, with serial numbers from `first` on.
    pub fn stamp(&self, first: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.bytes);
        for (number, at) in (first..).zip(&self.serials) {
            let number = if self.scatters { scattered(number) } else { number };
            self.form.put(number, &mut out[*at as usize..]);
        }
    }
}

/// A number of 31 bits for each other one: an odd factor has an inverse there.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b1) & 0x7fff_ffff
}

fn find_all(bytes: &[u8], mark: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + mark.len() <= bytes.len() {
        if bytes[at..].starts_with(mark) {
            found.push(u32::try_from(at).expect("a request is shorter than 4 GiB"));
            at += mark.len();
        } else {
            at += 1;
        }
    }
    found
}

/// An INSERT of these rows as text.
pub fn insert_text(table: &Table, dialect: Dialect, rows: &[Row]) -> String {
    let mut sql = table.insert_into(dialect);
    for (index, row) in rows.iter().enumerate() {
        sql.push_str(if index == 0 { "(" } else { ",(" });
        for (column, cell) in row.iter().enumerate() {
            if column > 0 {
                sql.push(',');
            }
            put_literal(cell, &mut sql);
        }
        if dialect == Dialect::QuestDb && table.arrives() {
            sql.push_str(",systimestamp()");
        }
        sql.push(')');
    }
    sql
}

/// An INSERT of `rows` rows with parameters.
pub fn insert_prepared(table: &Table, dialect: Dialect, rows: usize) -> String {
    let mut sql = table.insert_into(dialect);
    let mut number = 0;
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ",(" });
        for column in 0..table.columns.len() {
            number += 1;
            if column > 0 {
                sql.push(',');
            }
            match dialect {
                Dialect::Postgres | Dialect::QuestDb => put(&mut sql, format_args!("${number}")),
                _ => sql.push('?'),
            }
        }
        if dialect == Dialect::QuestDb && table.arrives() {
            sql.push_str(",systimestamp()");
        }
        sql.push(')');
    }
    sql
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all");
}

fn put_literal(cell: &Cell, out: &mut String) {
    let quoted = matches!(cell, Cell::Text(_) | Cell::Date(_) | Cell::DateTime(_));
    if quoted {
        out.push('\'');
    }
    put_plain(cell, out);
    if quoted {
        out.push('\'');
    }
}

fn put_plain(cell: &Cell, out: &mut String) {
    match cell {
        Cell::Serial | Cell::Scattered => put(out, format_args!("{SERIAL_MARK}")),
        Cell::Int(value) => put(out, format_args!("{value}")),
        Cell::Decimal(value) => put(out, format_args!("{}.{:02}", value / 100, value % 100)),
        Cell::Text(text) => out.push_str(text),
        Cell::Date(d) => put(out, format_args!("{:04}-{:02}-{:02}", d.year, d.month, d.day)),
        Cell::DateTime(at) => {
            let d = at.date;
            put(out, format_args!("{:04}-{:02}-{:02}", d.year, d.month, d.day));
            put(out, format_args!(" {:02}:{:02}:{:02}", at.hour, at.minute, at.second));
        }
    }
}

/// A value as text, without quotes.
pub fn plain(cell: &Cell) -> String {
    let mut text = String::new();
    put_plain(cell, &mut text);
    text
}

/// Rows as CSV with `separator` between values and a newline after each row.
pub fn csv(rows: &[Row], separator: char) -> String {
    let mut out = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            if column > 0 {
                out.push(separator);
            }
            put_plain(cell, &mut out);
        }
        out.push('\n');
    }
    out
}

/// COM_QUERY with an INSERT of these rows.
pub fn mysql_text(
    writer: &mut PacketWriter,
    table: &Table,
    dialect: Dialect,
    rows: &[Row],
) -> Request {
    let sql = insert_text(table, dialect, rows);
    writer.command_query(sql.as_bytes());
    Request::new(take(writer), rows, SerialForm::Digits)
}

/// COM_STMT_EXECUTE of an INSERT of these rows.
pub fn mysql_execute(writer: &mut PacketWriter, statement_id: u32, rows: &[Row]) -> Request {
    let mut texts = Vec::new();
    for cell in rows.iter().flatten() {
        let mut text = String::new();
        if matches!(cell, Cell::Decimal(_)) {
            put_plain(cell, &mut text);
        }
        texts.push(text);
    }
    let cells = rows.iter().flatten().zip(&texts);
    let params: Vec<Param<'_>> = cells.map(|(cell, text)| param(cell, text)).collect();
    writer.command_execute(statement_id, &params, true);
    Request::new(take(writer), rows, SerialForm::Little)
}

fn param<'a>(cell: &'a Cell, text: &'a str) -> Param<'a> {
    match cell {
        Cell::Serial | Cell::Scattered => Param::Int(SERIAL_MARK.cast_signed()),
        Cell::Int(value) => Param::Int(*value),
        Cell::Decimal(_) => Param::Bytes(text.as_bytes()),
        Cell::Text(text) => Param::Bytes(text.as_bytes()),
        Cell::Date(date) => Param::Date(*date),
        Cell::DateTime(at) => Param::DateTime(*at),
    }
}

/// LOAD DATA LOCAL INFILE, followed by the file that the server will request.
pub fn mysql_load(
    writer: &mut PacketWriter,
    table: &str,
    body: &[u8],
    rows: u64,
    separator: char,
) -> Request {
    let sql = format!(
        "LOAD DATA LOCAL INFILE 'body' INTO TABLE {table} FIELDS TERMINATED BY '{separator}'"
    );
    writer.command_query(sql.as_bytes());
    // The server's request for the file has sequence id 1.
    writer.reply_to(2);
    writer.infile_piece(body);
    writer.infile_piece(b"");
    Request::fixed(take(writer), rows)
}

fn take(writer: &mut PacketWriter) -> Vec<u8> {
    let bytes = writer.bytes().to_vec();
    writer.clear();
    bytes
}

/// The simple query protocol of PostgreSQL with an INSERT of these rows.
pub fn postgres_text(table: &Table, dialect: Dialect, rows: &[Row]) -> Request {
    let mut bytes = Vec::new();
    postgres_message(&mut bytes, b'Q', |out| {
        out.extend_from_slice(insert_text(table, dialect, rows).as_bytes());
        out.push(0);
    });
    Request::new(bytes, rows, SerialForm::Digits)
}

/// Bind, Execute and Sync of the prepared statement `s`.
pub fn postgres_execute(table: &Table, rows: &[Row]) -> Request {
    let cells: Vec<(&Cell, Kind)> = rows
        .iter()
        .flat_map(|row| row.iter().zip(table.columns.iter().map(|(_, kind)| *kind)))
        .collect();
    let count = (cells.len() as u16).to_be_bytes();
    let mut bytes = Vec::new();
    postgres_message(&mut bytes, b'B', |out| {
        out.extend_from_slice(b"\0s\0");
        out.extend_from_slice(&count);
        for (cell, _) in &cells {
            let binary = matches!(cell, Cell::Serial | Cell::Scattered | Cell::Int(_));
            out.extend_from_slice(&u16::from(binary).to_be_bytes());
        }
        out.extend_from_slice(&count);
        for (cell, kind) in &cells {
            let value = postgres_value(cell, *kind);
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(&value);
        }
        out.extend_from_slice(&0u16.to_be_bytes());
    });
    postgres_message(&mut bytes, b'E', |out| out.extend_from_slice(&[0; 5]));
    postgres_message(&mut bytes, b'S', |_| {});
    Request::new(bytes, rows, SerialForm::Big)
}

fn postgres_value(cell: &Cell, kind: Kind) -> Vec<u8> {
    match (cell, kind) {
        (Cell::Serial | Cell::Scattered, _) => (SERIAL_MARK as u32).to_be_bytes().to_vec(),
        (Cell::Int(value), Kind::SmallInt) => (*value as i16).to_be_bytes().to_vec(),
        (Cell::Int(value), Kind::Int) => (*value as i32).to_be_bytes().to_vec(),
        (Cell::Int(value), _) => value.to_be_bytes().to_vec(),
        _ => {
            let mut text = String::new();
            put_plain(cell, &mut text);
            text.into_bytes()
        }
    }
}

/// COPY FROM STDIN, followed by its data.
pub fn postgres_copy(table: &str, body: &[u8], rows: u64, separator: char) -> Request {
    let sql = format!("COPY {table} FROM STDIN (FORMAT csv, DELIMITER '{separator}')");
    let mut bytes = Vec::new();
    postgres_message(&mut bytes, b'Q', |out| {
        out.extend_from_slice(sql.as_bytes());
        out.push(0);
    });
    for piece in body.chunks(64 << 10) {
        postgres_message(&mut bytes, b'd', |out| out.extend_from_slice(piece));
    }
    postgres_message(&mut bytes, b'c', |_| {});
    Request::fixed(bytes, rows)
}

/// Appends a message of PostgreSQL's protocol: kind, length, and what `fill` appends.
pub fn postgres_message(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// An HTTP request with a body; each of `headers` ends with CRLF.
pub fn http(method: &str, path: &str, headers: &str, body: &[u8], rows: u64) -> Request {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    Request::fixed(bytes, rows)
}

/// The Authorization header for HTTP Basic.
pub fn basic_auth(user: &str, password: &str) -> String {
    let token = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Authorization: Basic {token}\r\n")
}

/// Rows of `httplogs` in InfluxDB's line protocol, for QuestDB.
pub fn lines(table: &Table, rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        out.push_str(&table.name);
        let mut before = ' ';
        for ((name, _), cell) in table.columns.iter().zip(row) {
            match cell {
                Cell::Text(text) => put(&mut out, format_args!("{before}{name}=\"{text}\"")),
                Cell::Int(value) => put(&mut out, format_args!("{before}{name}={value}i")),
                _ => continue,
            }
            before = ',';
        }
        let nanos = 1000 * row.iter().find_map(micros_of).unwrap_or_default();
        put(&mut out, format_args!(" {nanos}\n"));
    }
    out
}

/// Microseconds since 1970-01-01 of a time in January 2026, the month of `httplogs`.
pub fn micros_of(cell: &Cell) -> Option<u64> {
    const JANUARY_2026_SECONDS: u64 = 1_767_225_600;
    let Cell::DateTime(at) = cell else { return None };
    let hours = (u64::from(at.date.day) - 1) * 24 + u64::from(at.hour);
    let seconds = (hours * 60 + u64::from(at.minute)) * 60 + u64::from(at.second);
    Some((JANUARY_2026_SECONDS + seconds) * 1_000_000)
}

#[cfg(test)]
mod tests;
