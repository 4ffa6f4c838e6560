//! Routing of requests.

use std::borrow::Cow;

use hyper::body::Incoming;
use hyper::{Method, Request};
use percent_encoding::percent_decode_str;

use freshet_base::{Error, ErrorCode, err};
use serde_json::Value;

use super::answer::{Answer, envelope, metrics_reply, refusal, refusal_with, text_reply};
use super::auth::authenticate;
use super::client::Client;
use super::{Http, admin, load, query};

/// The longest database or table name in a path, in bytes before percent-decoding.
const NAME_BYTES_MAX: usize = 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Route {
    StreamLoad {
        database: String,
        table: String,
    },
    HttpStream,
    /// The second phase of a load of two.
    TwoPhase {
        database: String,
    },
    Health,
    Metrics,
    ErrorLog,
    Bootstrap,
    Backends,
    WalSize,
    LoadState {
        database: String,
    },
    LoadInfo {
        database: String,
    },
    Schema {
        database: String,
        table: String,
    },
    /// Whether columns of a table can be added and dropped at once.
    LightChange {
        database: String,
        table: String,
    },
    Login,
    /// The nodes, as connectors ask for them.
    Nodes(NodeList),
    /// A statement.
    Query {
        database: String,
    },
    /// What is answered by the MySQL protocol alone.
    Refused(&'static str),
    /// The path exists, for another method.
    WrongMethod,
    Nothing,
}

/// A list of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NodeList {
    /// `/rest/v1/system?path=//backends`: objects.
    System,
    /// `/rest/v2/manager/node/backends`: `host:port` texts.
    Backends,
    Frontends,
}

/// Answers a request.
pub(super) async fn answer(http: &Http, client: &Client, request: Request<Incoming>) -> Answer {
    match route(request.method(), request.uri().path()) {
        Route::StreamLoad { database, table } => {
            let asked = load::Asked::StreamLoad { database: &database, table: &table };
            load::put(http, client, asked, request).await
        }
        Route::HttpStream => load::put(http, client, load::Asked::HttpStream, request).await,
        Route::TwoPhase { database } => {
            load::two_phase::put(http, client, &database, request.headers()).await
        }
        Route::Query { database } => query::post(http, client, &database, request).await,
        Route::Health => admin::health(),
        Route::Metrics => metrics_reply(admin::metrics(http)),
        Route::ErrorLog => match error_log(http, client, &request).await {
            Ok(text) => text_reply(text),
            Err(error) => refusal(&error),
        },
        Route::WrongMethod => {
            refusal_with(&err!(NotSupported, "{} is not for this path", request.method()), 405)
        }
        Route::Nothing => not_found(request.uri().path()),
        route => {
            let account = authenticate(http, client, request.headers()).await;
            let answered = match account {
                Ok(account) => match client.assign_slot(http, &account) {
                    Ok(()) => asked(http, client, &account, route, &request).await,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            answered.unwrap_or_else(|error| refusal(&error))
        }
    }
}

/// The reasons of rejected rows, which quote the rows; who has the URL may read them.
async fn error_log(
    http: &Http,
    client: &Client,
    request: &Request<Incoming>,
) -> Result<Vec<u8>, Error> {
    http.passwords.check_transport(client.transport())?;
    http.book.read_log(&parameter(request, "file")).await
}

/// Answers a request that needs an account.
async fn asked(
    http: &Http,
    client: &Client,
    account: &freshet_meta::Account,
    route: Route,
    request: &Request<Incoming>,
) -> Result<Answer, Error> {
    let label = || parameter(request, "label");
    match route {
        Route::Bootstrap => Ok(envelope("success", &admin::bootstrap(http))),
        Route::Backends => Ok(envelope("success", &admin::backends(client))),
        Route::WalSize => {
            let data = admin::wal_size(http, client, &parameter(request, "host_ports"));
            Ok(envelope("OK", &data))
        }
        Route::LoadState { database } => {
            let state = admin::load_state(http, account, &database, &label()).await?;
            Ok(envelope("success", &state))
        }
        Route::LoadInfo { database } => admin::load_info(http, account, &database, &label()).await,
        Route::Schema { database, table } => {
            Ok(envelope("success", &admin::schema(http, account, &database, &table)?))
        }
        Route::LightChange { database, table } => {
            let light = admin::light_change(http, account, &database, &table)?;
            Ok(envelope("success", &light))
        }
        Route::Login => Ok(envelope("success", &Value::from("Login success!"))),
        Route::Nodes(NodeList::System) => {
            let path = parameter(request, "path");
            Ok(envelope("success", &admin::system(client, &path)?))
        }
        Route::Nodes(NodeList::Backends) => {
            Ok(envelope("success", &admin::node_list(client.local.port(), client)))
        }
        Route::Nodes(NodeList::Frontends) => {
            Ok(envelope("success", &admin::node_list(http.config.mysql_port, client)))
        }
        Route::Refused(what) => Err(err!(
            NotSupported,
            "{what} is not served over HTTP; connect by the MySQL protocol to port {}",
            http.config.mysql_port
        )),
        other => unreachable!("{other:?} needs no account"),
    }
}

fn not_found(path: &str) -> Answer {
    let shown: String = path.chars().take(200).collect();
    let error = Error::new(ErrorCode::Unknown, format!("there is nothing at {shown}"));
    refusal_with(&error, 404)
}

fn route(method: &Method, path: &str) -> Route {
    let parts: Vec<&str> = path.split('/').skip(1).take(6).collect();
    let get = method == Method::GET || method == Method::HEAD;
    let of = |wanted: bool, route: Route| if wanted { route } else { Route::WrongMethod };
    match parts[..] {
        ["metrics"] => of(get, Route::Metrics),
        ["api", "health"] => of(get, Route::Health),
        ["api", "bootstrap"] => of(get, Route::Bootstrap),
        ["api", "backends"] => of(get, Route::Backends),
        ["api", "get_wal_size"] => of(get, Route::WalSize),
        ["rest", "v1", "login"] => of(get || method == Method::POST, Route::Login),
        ["rest", "v1", "system"] => of(get, Route::Nodes(NodeList::System)),
        ["rest", "v2", "manager", "node", "backends"] => of(get, Route::Nodes(NodeList::Backends)),
        ["rest", "v2", "manager", "node", "frontends"] => {
            of(get, Route::Nodes(NodeList::Frontends))
        }
        ["api", "query", _, database] => named(database, "")
            .map_or(Route::Nothing, |(database, _)| {
                of(method == Method::POST, Route::Query { database })
            }),
        ["api", "query_detail", ..] => Route::Refused("the profile of a statement"),
        ["api", _, _, "_query_plan"] => Route::Refused("a plan of a query"),
        ["api", "enable_light_schema_change", database, table] => named(database, table)
            .map_or(Route::Nothing, |(database, table)| {
                of(get, Route::LightChange { database, table })
            }),
        ["api", "_http_stream"] => of(method == Method::PUT, Route::HttpStream),
        ["api", "_load_error_log"] => of(get, Route::ErrorLog),
        ["api", database, "get_load_state"] => named(database, "")
            .map_or(Route::Nothing, |(database, _)| of(get, Route::LoadState { database })),
        ["api", database, "_load_info"] => named(database, "")
            .map_or(Route::Nothing, |(database, _)| of(get, Route::LoadInfo { database })),
        ["api", database, "_stream_load_2pc"] | ["api", database, _, "_stream_load_2pc"] => {
            let put = method == Method::PUT;
            named(database, "")
                .map_or(Route::Nothing, |(database, _)| of(put, Route::TwoPhase { database }))
        }
        ["api", database, table, "_schema"] => named(database, table)
            .map_or(Route::Nothing, |(database, table)| of(get, Route::Schema { database, table })),
        ["api", database, table, "_stream_load"] => {
            let put = method == Method::PUT;
            named(database, table).map_or(Route::Nothing, |(database, table)| {
                of(put, Route::StreamLoad { database, table })
            })
        }
        _ => Route::Nothing,
    }
}

fn named(database: &str, table: &str) -> Option<(String, String)> {
    Some((decoded(database, false)?, decoded(table, false)?))
}

/// The value of a query parameter; empty if absent.
fn parameter(request: &Request<Incoming>, name: &str) -> String {
    value_of(request.uri().query().unwrap_or_default(), name)
}

fn value_of(query: &str, name: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let found = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next();
    found.and_then(|value| decoded(value, true)).unwrap_or_default()
}

/// Percent-decoded text; `None` if it is not UTF-8 or too long. A percent sign without two digits
/// after it stands for itself, as in browsers.
fn decoded(text: &str, plus_is_blank: bool) -> Option<String> {
    if text.len() > NAME_BYTES_MAX {
        return None;
    }
    let text = if plus_is_blank { text.replace('+', " ") } else { text.to_owned() };
    percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        let load = |database: &str, table: &str| Route::StreamLoad {
            database: database.to_owned(),
            table: table.to_owned(),
        };
        assert_eq!(route(&Method::PUT, "/api/d/t/_stream_load"), load("d", "t"));
        assert_eq!(route(&Method::PUT, "/api/a%20b/%C3%A9/_stream_load"), load("a b", "\u{e9}"));
        assert_eq!(route(&Method::POST, "/api/d/t/_stream_load"), Route::WrongMethod);
        assert_eq!(route(&Method::PUT, "/api/%zz/t/_stream_load"), load("%zz", "t"));
        assert_eq!(route(&Method::PUT, "/api/%ff/t/_stream_load"), Route::Nothing);
        assert_eq!(route(&Method::PUT, "/api/d/t/_stream_load/x"), Route::Nothing);
        assert_eq!(route(&Method::GET, "/api/health"), Route::Health);
        assert_eq!(route(&Method::PUT, "/api/_http_stream"), Route::HttpStream);
        assert_eq!(route(&Method::GET, "/"), Route::Nothing);
        assert_eq!(route(&Method::GET, ""), Route::Nothing);
    }

    #[test]
    fn parameters_are_decoded() {
        assert_eq!(value_of("a=1&label=x%3Ay+z", "label"), "x:y z");
        assert_eq!(value_of("a=1", "label"), "");
        assert_eq!(value_of("label=%ff", "label"), "");
    }
}
