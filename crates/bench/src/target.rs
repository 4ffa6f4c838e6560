//! Targets: the servers to measure.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::body::BodyForm;
use crate::socket;
use crate::table::Dialect;

/// The protocol for requests with bodies (W5, W7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyProtocol {
    /// Stream Load of Freshet.
    StreamLoad,
    /// LOAD DATA LOCAL INFILE.
    LoadData,
    /// COPY FROM STDIN.
    Copy,
    /// InfluxDB's line protocol over HTTP.
    Lines,
    /// INSERT .. FORMAT CSV over HTTP.
    ClickHouse,
}

/// A server to measure, given as `scheme://user:password@host:port/database?name=..&pid=..`, with
/// further settings `http` (a port), `dir`, `sync`, `group_commit`, `form` (of bodies, see
/// [`BodyForm`]) and `tls` (authorities in PEM).
///
/// Schemes: `freshet`, `mysql`, `postgres`, `questdb`, `clickhouse`, `null`.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name in results.
    pub name: String,
    pub dialect: Dialect,
    /// Host and port of the SQL protocol.
    pub address: String,
    /// Host and port of the HTTP server.
    pub http_address: String,
    pub user: String,
    /// Empty for none.
    pub password: String,
    /// Created if it is missing.
    pub database: String,
    /// The server's process, for its CPU, memory and disk usage; 0 if unknown.
    pub pid: u32,
    /// The data directory, for counting files.
    pub directory: Option<String>,
    /// What an acknowledgement guarantees, in words.
    pub sync: String,
    /// Freshet's `group_commit`: `off_mode`, `sync_mode` or `async_mode`.
    pub group_commit: Option<String>,
    /// Freshet's form of bodies.
    pub form: BodyForm,
    /// How MySQL's protocol is encrypted; `None` for not at all.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// The protocol for bodies.
    pub fn body_protocol(&self) -> BodyProtocol {
        match self.dialect {
            Dialect::Freshet | Dialect::Null => BodyProtocol::StreamLoad,
            Dialect::Mysql => BodyProtocol::LoadData,
            Dialect::Postgres => BodyProtocol::Copy,
            Dialect::QuestDb => BodyProtocol::Lines,
            Dialect::ClickHouse => BodyProtocol::ClickHouse,
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or("a target is scheme://host:port/db")?;
        let (dialect, sync) = match scheme {
            "freshet" => (Dialect::Freshet, "synced log"),
            "mysql" => (Dialect::Mysql, "synced log"),
            "postgres" => (Dialect::Postgres, "synced log"),
            "questdb" => (Dialect::QuestDb, "no sync"),
            "clickhouse" => (Dialect::ClickHouse, "no sync"),
            "null" => (Dialect::Null, "one flush, nothing kept"),
            _ => return Err(format!("unknown scheme `{scheme}`")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("root", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let host = address.split(':').next().unwrap_or_default();
        let mut target = Self {
            name: scheme.to_owned(),
            dialect,
            address: address.to_owned(),
            http_address: address.to_owned(),
            user: user.to_owned(),
            password: password.to_owned(),
            database: if database.is_empty() { "bench" } else { database }.to_owned(),
            pid: 0,
            directory: None,
            sync: sync.to_owned(),
            group_commit: None,
            form: BodyForm::Csv,
            tls: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}`: no value"))?;
            match key {
                "name" => target.name = value.to_owned(),
                "pid" => target.pid = value.parse().map_err(|_| format!("pid `{value}`"))?,
                "http" => target.http_address = format!("{host}:{value}"),
                "dir" => target.directory = Some(value.to_owned()),
                "sync" => target.sync = value.replace('+', " "),
                "tls" => target.tls = Some(socket::trust(Path::new(value))?),
                "form" => target.form = value.parse()?,
                "group_commit" => target.group_commit = Some(value.to_owned()),
                _ => return Err(format!("unknown setting `{key}` of a target")),
            }
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let url = "freshet://root:x@127.0.0.1:9030/b?name=f&pid=7&http=8030&group_commit=sync_mode";
        let target: Target = url.parse().unwrap();
        assert_eq!(target.address, "127.0.0.1:9030");
        assert_eq!(target.http_address, "127.0.0.1:8030");
        assert_eq!((target.user.as_str(), target.password.as_str()), ("root", "x"));
        assert_eq!((target.name.as_str(), target.pid), ("f", 7));
        let plain: Target = "mysql://127.0.0.1:3306".parse().unwrap();
        assert_eq!((plain.user.as_str(), plain.database.as_str()), ("root", "bench"));
        let packed: Target = "freshet://h:1/d?form=lz4".parse().unwrap();
        assert_eq!((plain.form, packed.form), (BodyForm::Csv, BodyForm::Lz4));
        assert!("freshet://h:1/d?form=rar".parse::<Target>().unwrap_err().contains("rar"));
        assert!("oracle://x".parse::<Target>().unwrap_err().contains("oracle"));
        assert!("mysql://h:1/d?color=red".parse::<Target>().unwrap_err().contains("color"));
    }
}
