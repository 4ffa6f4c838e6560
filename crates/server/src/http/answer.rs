//! HTTP responses. Bodies are complete before sending, so that head and body are one write.

use bytes::Bytes;
use freshet_base::{Error, Retry};
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"freshet\", charset=\"UTF-8\"");

/// A response with a complete body.
pub(super) type Answer = Response<Full<Bytes>>;

fn reply(content_type: HeaderValue, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

pub(super) fn json_reply(json: String) -> Answer {
    reply(JSON, json)
}

pub(super) fn text_reply(text: impl Into<Bytes>) -> Answer {
    reply(TEXT, text)
}

pub(super) fn metrics_reply(text: String) -> Answer {
    reply(METRICS, text)
}

/// A success in the envelope of Doris's HTTP interface.
pub(super) fn envelope(message: &str, data: &Value) -> Answer {
    json_reply(format!("{{\"msg\":{},\"code\":0,\"data\":{data},\"count\":0}}", json!(message)))
}

/// An error in the same envelope.
pub(super) fn refusal(error: &Error) -> Answer {
    refusal_with(error, error.code().http_status())
}

/// The same with another status.
pub(super) fn refusal_with(error: &Error, status: u16) -> Answer {
    let message = json!(error.message());
    let response =
        json_reply(format!("{{\"msg\":{message},\"code\":{status},\"data\":null,\"count\":0}}"));
    refused(response, status, error.retry())
}

/// Sets the status of an error response, and its Retry-After header.
pub(super) fn refused(mut response: Answer, status: u16, retry: Retry) -> Answer {
    let status = StatusCode::from_u16(status).expect("errors have statuses of HTTP");
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, BASIC);
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = match retry {
            Retry::After(time) => time.as_secs().max(1),
            Retry::No | Retry::Now | Retry::Unknown => 1,
        };
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_base::err;

    #[test]
    fn refusals_say_what_to_do_next() {
        let full =
            err!(OutOfRoom, "full").with_retry(Retry::After(std::time::Duration::from_secs(3)));
        let answer = refusal(&full);
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()[RETRY_AFTER], "3");
        let denied = refusal(&err!(AccessDenied, "who are you"));
        assert_eq!(denied.status(), 401);
        assert!(denied.headers().contains_key(WWW_AUTHENTICATE));
    }
}
