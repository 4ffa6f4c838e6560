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
    let credentials = base64::engine::general_purpose::STANDARD.encode("root:");
    let mut head = format!(
        "PUT /api/torture/{table}/_stream_load HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Basic {credentials}\r\nContent-Length: {body_bytes}\r\n\
         Connection: close\r\ncolumn_separator: ,\r\n"
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
    let request = load_head(table, headers, body.len()) + body;
    let answer = ask(port, request.as_bytes())?;
    let refused = |message: String| Failure::Refused { errno: answer.status, message };
    let reply: serde_json::Value = serde_json::from_str(&answer.body)
        .map_err(|_| refused(format!("no JSON: {}", answer.body)))?;
    match reply["Status"].as_str() {
        Some("Success") => Ok(Loaded::Success),
        Some("Label Already Exists") if reply["ExistingJobStatus"] == "FINISHED" => {
            Ok(Loaded::LabelUsed)
        }
        _ => Err(refused(answer.body.clone())),
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
