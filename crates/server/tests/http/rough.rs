//! Clients that violate the protocol or disconnect.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use freshet_server::LoadLimits;
use freshet_server::http::{HttpConfig, fuzz_headers};
use serde_json::json;

use crate::client::ROOT;
use crate::site::Site;

#[test]
fn who_is_not_known_loads_nothing() {
    let site = Site::new();
    for credentials in ["x: y", "Authorization: Basic cm9vdDp3cm9uZw==", "Authorization: Basic ?"] {
        let path = "/api/d/t/_stream_load";
        let answer = site.client().request("PUT", path, &[credentials], b"1\t1\ta");
        assert_eq!(answer.status, 401);
        assert!(answer.head.to_lowercase().contains("www-authenticate: basic"));
        let reply = answer.json();
        assert!(reply["Message"].as_str().unwrap().starts_with("[NOT_AUTHORIZED]"));
    }
    assert_eq!(site.get("/api/bootstrap", &[]).status, 401);
    assert_eq!(site.rows(), Vec::<String>::new());
    site.stop();
}

#[test]
fn a_refusal_comes_before_the_body_is_wanted() {
    let site = Site::new();
    let mut client = site.client();
    let lines = ["Content-Length: 1000000", "Expect: 100-continue"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    assert_eq!(client.answer().status, 401, "and not 100");
    site.stop();
}

#[test]
fn a_refused_client_that_sends_on_hears_the_answer_and_may_go_on() {
    let site = Site::new();
    let mut client = site.client();
    let body = vec![b'x'; 8 << 20];
    let path = "/api/d/t/_stream_load";
    let answer = client.request("PUT", path, &[ROOT, "format: xml"], &body);
    assert_eq!((answer.status, &answer.json()["Status"]), (200, &json!("Fail")));
    assert_eq!(client.put(&[], "1,1,a").json()["Status"], "Success");
    site.stop();
}

#[test]
fn a_body_needs_a_length_and_keeps_to_it() {
    let site = Site::new();
    let mut client = site.client();
    client.head("PUT", "/api/d/t/_stream_load", &[ROOT]);
    let reply = client.answer().json();
    assert!(reply["Message"].as_str().unwrap().contains("content_length is empty"));
    let mut client = site.client();
    let lines = [ROOT, "column_separator: ,", "Content-Length: 100"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    client.0.write_all(b"1,1,a\n").unwrap();
    drop(client);
    // Who sends too little and still listens is told.
    let mut client = site.client();
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    client.0.write_all(b"1,1,a\n").unwrap();
    client.0.shutdown(Shutdown::Write).unwrap();
    let reply = client.answer().json();
    let message = reply["Message"].as_str().unwrap();
    assert!(message.contains("receive body don't equal with body bytes: 6 bytes"), "{message}");
    let limit = ["format: json", "strip_outer_array: true", "Content-Length: 999999999"];
    let mut client = site.client();
    client.head("PUT", "/api/d/t/_stream_load", &[&[ROOT][..], &limit].concat());
    let reply = client.answer().json();
    let too_large = "body size 999999999 exceed BE's conf `streaming_load_json_max_mb` 100. \
                     increase it if you are sure this load is reasonable";
    assert!(reply["Message"].as_str().unwrap().contains(too_large), "{reply}");
    assert_eq!(site.rows(), Vec::<String>::new());
    site.stop();
}

#[test]
fn malformed_requests_close_their_connection_only() {
    let site = Site::new();
    let mut good = site.client();
    assert_eq!(good.put(&[], "1,1,a").json()["Status"], "Success");
    for bytes in [&b"\x16\x03\x01 nonsense\r\n\r\n"[..], b"GET\r\n\r\n", b"PUT / HTTP/9.9\r\n\r\n"]
    {
        let mut client = site.client();
        client.0.write_all(bytes).unwrap();
        let answer = client.answer();
        assert_eq!(answer.status, 400, "{}", answer.head);
        assert!(client.is_closed());
    }
    let mut client = site.client();
    let lines = [ROOT, "Transfer-Encoding: chunked"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    client.0.write_all(b"zz\r\n").unwrap();
    let reply = client.answer().json();
    assert_eq!(reply["Status"], "Fail");
    assert!(client.is_closed());
    assert_eq!(good.put(&[], "2,2,b").json()["Status"], "Success");
    site.stop();
}

#[test]
fn silence_ends_a_connection_and_its_load() {
    let silence_max = Duration::from_millis(50);
    let site = Site::with(HttpConfig { silence_max, ..HttpConfig::default() });
    let mut idle = site.client();
    let mut client = site.client();
    let lines = [ROOT, "column_separator: ,", "Content-Length: 100", "label: slow"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    client.0.write_all(b"1,1,a\n").unwrap();
    assert!(client.is_closed() && idle.is_closed());
    assert_eq!(site.load(&["label: slow"], "2,2,b\n")["Status"], "Success");
    site.stop();
}

#[test]
fn too_many_loads_and_connections_are_told_to_come_again() {
    let loads = LoadLimits { loads_max: 0, ..LoadLimits::default() };
    let config = HttpConfig { loads, connections_max: 1, ..HttpConfig::default() };
    let site = Site::with(config);
    let mut client = site.client();
    let answer = client.put(&[], "1,1,a");
    assert_eq!((answer.status, &answer.json()["Status"]), (503, &json!("Fail")));
    assert!(answer.head.to_lowercase().contains("retry-after: 1"));
    assert_eq!(site.client().answer().status, 503);
    drop(client);
    site.stop();
}

#[test]
fn headers_of_any_bytes_are_read() {
    fuzz_headers(b"label: x\nmax_filter_ratio: 0.5\ncolumns:`\xff,=\nformat: json\njsonpaths: [");
    fuzz_headers(b"Basic \xff\xfe\n:\n\n");
    fuzz_headers(b"Basic cm9vdDo=");
}
