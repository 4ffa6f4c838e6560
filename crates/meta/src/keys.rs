//! The keys of the store, whose values are JSON.

use freshet_base::{DbId, Error, ErrorCode, Result, TableId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::rowset::RowsetMeta;
use crate::user::Account;

pub(crate) const FORMAT: &str = "/format";
pub(crate) const LOG: &str = "/log";
pub(crate) const SETTLED: &str = "/settled";
pub(crate) const DATABASES: &str = "/db/";
pub(crate) const TABLES: &str = "/table/";
pub(crate) const ROWSETS: &str = "/rowset/";
pub(crate) const LABELS: &str = "/label/";
pub(crate) const LABEL_CLOCK: &str = "/label-clock";
pub(crate) const USERS: &str = "/user/";

pub(crate) fn database(id: DbId) -> String {
    format!("{DATABASES}{id}")
}

pub(crate) fn table(id: TableId) -> String {
    format!("{TABLES}{id}")
}

pub(crate) fn flushed(id: TableId) -> String {
    format!("/flushed/{id}")
}

/// Numbers have a fixed width, so that a scan returns the rowsets of a tablet in LSN order.
pub(crate) fn rowset(rowset: &RowsetMeta) -> String {
    let RowsetMeta { id, tablet, lsn_first, lsn_last, .. } = rowset;
    format!("{ROWSETS}{tablet}/{:020}-{:020}-{id}", lsn_first.get(), lsn_last.get())
}

pub(crate) fn labels(db: DbId) -> String {
    format!("{LABELS}{db}/")
}

pub(crate) fn label(db: DbId, label: &str) -> String {
    format!("{LABELS}{db}/{label}")
}

pub(crate) fn ids(kind: &str) -> String {
    format!("/ids/{kind}")
}

pub(crate) fn user(account: &Account) -> String {
    format!("{USERS}{}@{}", account.name, account.host)
}

/// Encodes a value for the store.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("metadata has text keys and finite numbers only")
}

/// Decodes the value at `key`.
pub(crate) fn decode<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let message = format!(
            "metadata at '{key}' cannot be read: {error}; restore meta.redb from a backup, \
             or open it with the version that wrote it"
        );
        Error::new(ErrorCode::Corruption, message).with_source(error)
    })
}
