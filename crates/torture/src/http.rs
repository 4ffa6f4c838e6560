//! A blocking client for stream loads.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use base64::Engine;

use crate::client::{Failure, PATIENCE};

/// The maximum length of a response.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// The result of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loaded {
    Success,
    /// Its label belongs to a load that has succeeded.
    LabelUsed,
}

/// The head of a stream load whose Content-Length is `body_bytes`.
pub fn load_head(table: &str, headers: &[(&str, &str)], body_bytes: usize) -> String {
    let headers = [&[("column_separator", ",")], headers].concat();
    put_head(&format!("/api/torture/{table}/_stream_load"), &headers, body_bytes)
}

fn put_head(path: &str, headers: &[(&str, &str)], body_bytes: usize) -> String {
    let credentials = base64::engine::general_purpose::STANDARD.encode("root:");
    let mut head = format!(
        "PUT {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\n\
         Content-Length: {body_bytes}\r\nConnection: close\r\n"
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head + "\r\n"
}

/// Sends `request` to `port` and reads until the server closes the connection.
///
/// # Errors
/// [`Failure::Lost`] and [`Failure::Hung`].
pub fn ask(port: u16, request: &[u8]) -> Result<Answer, Failure> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    parse(&answer).ok_or_else(|| Failure::Lost(format!("answer cut short: {answer:?}")))
}

/// Sends a GET request.
///
/// # Errors
/// [`Failure::Lost`] and [`Failure::Hung`].
pub fn get(port: u16, path: &str) -> Result<Answer, Failure> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ask(port, request.as_bytes())
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let promised = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = promised.is_none_or(|bytes| bytes == body.len());
    whole.then(|| Answer { status, body: body.to_owned() })
}

/// Loads CSV.
///
/// # Errors
/// See [`Failure`].
pub fn stream_load(
    port: u16,
    table: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Loaded, Failure> {
    loaded(&reply(port, load_head(table, headers, body.len()) + body)?)
}

/// Loads CSV by Http Stream, whose columns are `columns` of the table in this order.
///
/// # Errors
/// See [`Failure`].
pub fn http_stream(
    port: u16,
    (table, columns): (&str, &str),
    mode: &str,
    body: &str,
) -> Result<Loaded, Failure> {
    let sql = format!(
        "INSERT INTO torture.{table} ({columns}) SELECT c1, c2, c3 FROM \
         http_stream(\"format\" = \"csv\", \"column_separator\" = \",\")"
    );
    let headers = [("sql", sql.as_str()), ("group_commit", mode)];
    loaded(&reply(port, put_head("/api/_http_stream", &headers, body.len()) + body)?)
}

/// Loads CSV in two phases: prepares it, and commits or aborts it. In a mode of group commit its
/// commit joins a group.
///
/// # Errors
/// See [`Failure`].
pub fn two_phase_load(
    port: u16,
    (table, mode): (&str, &str),
    commit: bool,
    body: &str,
) -> Result<Loaded, Failure> {
    let headers = [
        ("two_phase_commit", "true"),
        ("columns", "id,amount,body"),
        ("group_commit", mode),
        ("group_commit_labels", "true"),
    ];
    let prepared = reply(port, load_head(table, &headers, body.len()) + body)?;
    loaded(&prepared)?;
    let id = prepared.json["TxnId"].to_string();
    let operation = if commit { "commit" } else { "abort" };
    let headers = [("txn_id", id.as_str()), ("txn_operation", operation)];
    let ended = reply(port, put_head("/api/torture/_stream_load_2pc", &headers, 0))?;
    match ended.json["status"] == "Success" {
        true => Ok(Loaded::Success),
        false => Err(ended.refused()),
    }
}

/// An answer to a load.
struct Reply {
    status: u16,
    json: serde_json::Value,
}

impl Reply {
    fn refused(&self) -> Failure {
        Failure::Refused { errno: self.status, message: self.json.to_string() }
    }
}

fn reply(port: u16, request: String) -> Result<Reply, Failure> {
    let answer = ask(port, request.as_bytes())?;
    match serde_json::from_str(&answer.body) {
        Ok(json) => Ok(Reply { status: answer.status, json }),
        Err(_) => Err(Failure::Refused {
            errno: answer.status,
            message: format!("no JSON: {}", answer.body),
        }),
    }
}

fn loaded(reply: &Reply) -> Result<Loaded, Failure> {
    match reply.json["Status"].as_str() {
        Some("Success") => Ok(Loaded::Success),
        Some("Label Already Exists") if reply.json["ExistingJobStatus"] == "FINISHED" => {
            Ok(Loaded::LabelUsed)
        }
        _ => Err(reply.refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_only_whole() {
        let text = "HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno";
        assert_eq!(parse(text), Some(Answer { status: 503, body: "no".to_owned() }));
        assert_eq!(parse(&text[..text.len() - 1]), None);
        assert_eq!(parse("HTTP/1.1 200 OK\r\n"), None);
    }
}
