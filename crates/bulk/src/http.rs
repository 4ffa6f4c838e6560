//! Sends blocks by Stream Load.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use ureq::Agent;

use crate::args::Server;
use crate::exit::Result;
use crate::tls::of_https;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a server may take for a block: it may have to wait for room, too.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(600);
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// What became of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Loaded(Loaded),
    /// An earlier attempt has succeeded.
    LoadedBefore,
    /// Nobody knows, or it has no room just now: the same block may be sent again.
    Again(String),
    /// Too many of its rows are bad; nothing of it was loaded.
    BadRows(Rejected),
    /// It will never succeed.
    Refused(String),
}

/// What a server says of a block that it has loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loaded {
    pub rows: u64,
    pub rejected: Rejected,
}

/// The rows that were rejected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rejected {
    pub count: u64,
    /// The reasons, for the first ones.
    pub log: String,
    /// Whether the log says where they are, line by line.
    pub is_located: bool,
}

/// One server's Stream Load.
pub struct Loader {
    agent: Agent,
    base: String,
    authorization: String,
}

impl Loader {
    /// # Errors
    /// When the authority of its certificate cannot be read.
    pub fn new(server: &Server) -> Result<Self> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .timeout_recv_response(Some(ANSWER_TIME_MAX))
            .timeout_recv_body(Some(ANSWER_TIME_MAX))
            .timeout_send_body(Some(ANSWER_TIME_MAX));
        if let Some(ca) = &server.tls_ca {
            config = config.tls_config(of_https(ca)?);
        }
        let scheme = if server.tls_ca.is_some() { "https" } else { "http" };
        let credentials = BASE64.encode(format!("{}:{}", server.user, server.password));
        Ok(Self {
            agent: config.build().into(),
            base: format!("{scheme}://{}", server.http_place()),
            authorization: format!("Basic {credentials}"),
        })
    }

    /// Sends a body to a table.
    pub fn send(
        &self,
        (database, table): (&str, &str),
        headers: &[(String, String)],
        label: &str,
        body: &[u8],
    ) -> Answer {
        let (database, table) = (path_part(database), path_part(table));
        let url = format!("{}/api/{database}/{table}/_stream_load", self.base);
        let mut request = self
            .agent
            .put(&url)
            .header("Authorization", &self.authorization)
            .header("Expect", "100-continue")
            .header("label", label);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut response = match request.send(body) {
            Ok(response) => response,
            Err(error) => return of_error(&error),
        };
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        match body {
            Ok(body) => self.answer(status, &body),
            Err(error) => of_error(&error),
        }
    }

    fn answer(&self, status: u16, body: &str) -> Answer {
        let Ok(reply) = serde_json::from_str::<Value>(body) else {
            let text = format!("HTTP status {status}: {}", body.trim());
            return if status >= 500 { Answer::Again(text) } else { Answer::Refused(text) };
        };
        let message = || reply["Message"].as_str().or(reply["msg"].as_str()).unwrap_or(body);
        let number = |name: &str| reply[name].as_u64().unwrap_or(0);
        let rejected = || Rejected {
            count: number("NumberFilteredRows"),
            log: reply["ErrorURL"].as_str().map(|url| self.log(url)).unwrap_or_default(),
            is_located: false,
        };
        match reply["Status"].as_str() {
            // Committed and soon visible.
            Some("Success" | "Publish Timeout") => {
                Answer::Loaded(Loaded { rows: number("NumberLoadedRows"), rejected: rejected() })
            }
            Some("Label Already Exists") => match reply["ExistingJobStatus"].as_str() {
                Some("FINISHED") => Answer::LoadedBefore,
                _ => Answer::Again("an earlier attempt is still running".to_owned()),
            },
            Some("Fail") if number("NumberFilteredRows") > 0 => Answer::BadRows(rejected()),
            _ if status >= 500 => Answer::Again(message().to_owned()),
            _ => Answer::Refused(message().to_owned()),
        }
    }

    /// The reasons of rejected rows. Without them rows are still counted.
    fn log(&self, url: &str) -> String {
        let mut request = self.agent.get(url);
        // Whoever else the reply names does not get to know the password.
        if url.strip_prefix(&self.base).is_some_and(|path| path.starts_with('/')) {
            request = request.header("Authorization", &self.authorization);
        }
        let read = request.call().and_then(|mut response| {
            response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string()
        });
        read.unwrap_or_else(|error| format!("the server's reasons cannot be read: {error}\n"))
    }
}

fn of_error(error: &ureq::Error) -> Answer {
    match error {
        // What the options made wrong no attempt makes right.
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Answer::Refused(error.to_string()),
        _ => Answer::Again(error.to_string()),
    }
}

/// A name as a part of a path.
fn path_part(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    name.bytes().fold(String::new(), |text, byte| match plain(&byte) {
        true => text + char::from(byte).encode_utf8(&mut [0; 4]),
        false => text + &format!("%{byte:02X}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn answers(status: u16, body: &str, expected: &Answer) {
        let loader = Loader::new(&Server::default()).unwrap();
        assert_eq!(&loader.answer(status, body), expected);
    }

    #[test]
    fn only_what_may_change_is_tried_again() {
        let label = |state: &str| {
            format!(r#"{{"Status":"Label Already Exists","ExistingJobStatus":"{state}"}}"#)
        };
        answers(200, &label("FINISHED"), &Answer::LoadedBefore);
        let running = Answer::Again("an earlier attempt is still running".to_owned());
        answers(200, &label("RUNNING"), &running);
        let failed = r#"{"Status":"Fail","Message":"no"}"#;
        answers(200, failed, &Answer::Refused("no".to_owned()));
        answers(401, failed, &Answer::Refused("no".to_owned()));
        answers(503, failed, &Answer::Again("no".to_owned()));
        answers(502, "gateway", &Answer::Again("HTTP status 502: gateway".to_owned()));
        answers(404, "what", &Answer::Refused("HTTP status 404: what".to_owned()));
        let bad = r#"{"Status":"Fail","NumberFilteredRows":3}"#;
        let rejected = Rejected { count: 3, ..Rejected::default() };
        answers(200, bad, &Answer::BadRows(rejected));
    }

    #[test]
    fn names_are_parts_of_a_path() {
        assert_eq!(path_part("a b/\u{e9}"), "a%20b%2F%C3%A9");
    }
}
