//! The keys of the store. A value has the form that [`crate::disk`] gives it.

use freshet_base::{DbId, Error, ErrorCode, PartitionId, Result, RowsetId, TableId};
use prost::Message;

pub(crate) use crate::disk::encode;
use crate::disk::{self, OnDisk};
use crate::rowset::RowsetMeta;
use crate::user::Account;

pub(crate) const FORMAT: &str = "/format";
pub(crate) const LOG: &str = "/log";
pub(crate) const SETTLED: &str = "/settled";
pub(crate) const DATABASES: &str = "/db/";
pub(crate) const TABLES: &str = "/table/";
pub(crate) const ROWSETS: &str = "/rowset/";
pub(crate) const MARKS: &str = "/marks/";
pub(crate) const RESTING: &str = "/resting/";
pub(crate) const LABELS: &str = "/label/";
pub(crate) const LABEL_CLOCK: &str = "/label-clock";
pub(crate) const LABEL_LIMITS: &str = "/label-limits";
pub(crate) const USERS: &str = "/user/";
pub(crate) const VIEWS: &str = "/view/";
pub(crate) const WORKLOAD_GROUPS: &str = "/workload-group/";

pub(crate) fn database(id: DbId) -> String {
    format!("{DATABASES}{id}")
}

pub(crate) fn table(id: TableId) -> String {
    format!("{TABLES}{id}")
}

pub(crate) fn flushed(id: TableId) -> String {
    format!("/flushed/{id}")
}

/// The end of the generated ids of a table.
pub(crate) fn counter(id: TableId) -> String {
    format!("/counter/{id}")
}

/// Numbers have a fixed width, so that a scan returns the rowsets of a tablet in LSN order.
pub(crate) fn rowset(rowset: &RowsetMeta) -> String {
    let RowsetMeta { id, tablet, lsn_first, lsn_last, .. } = rowset;
    format!("{ROWSETS}{tablet}/{:020}-{:020}-{id}", lsn_first.get(), lsn_last.get())
}

/// Of all mark files of a table.
pub(crate) fn marks(table: TableId) -> String {
    format!("{MARKS}{table}/")
}

pub(crate) fn mark_file(table: TableId, number: RowsetId) -> String {
    format!("{MARKS}{table}/{number}")
}

/// A partition in the recycle bin.
pub(crate) fn resting(table: TableId, partition: PartitionId) -> String {
    format!("{RESTING}{table}/{partition}")
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

pub(crate) fn view(db: DbId, name: &str) -> String {
    format!("{VIEWS}{db}/{name}")
}

pub(crate) fn workload_group(name: &str) -> String {
    format!("{WORKLOAD_GROUPS}{name}")
}

/// Decodes the value at `key`.
pub(crate) fn decode<T: OnDisk<Form: Message + Default>>(key: &str, bytes: &[u8]) -> Result<T> {
    disk::decode(bytes).map_err(|error| {
        let message = format!(
            "metadata at '{key}' cannot be read: {error}; restore meta.redb from a backup, \
             or open it with the version that wrote it"
        );
        Error::new(ErrorCode::Corruption, message).with_source(error)
    })
}
