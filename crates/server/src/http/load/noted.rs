//! What is remembered of stream loads.

use freshet_ingest::rejects::Rejects;
use freshet_meta::Account;

use super::headers::LoadHeaders;
use super::reply::{LoadReply, Status};
use crate::http::Http;
use crate::http::client::Client;
use crate::load_book::{Allowance, LoadKind, LoadNote};

/// Whose rows go where.
pub(super) struct Place {
    pub account: Account,
    pub database: String,
    pub table: String,
    pub allowance: Allowance,
}

/// What a load may by its headers.
pub(super) fn allowance(http: &Http, headers: &LoadHeaders) -> Allowance {
    let timeout = match headers.two_phases {
        true => http.keep_prepared(headers),
        false => headers.timeout,
    };
    Allowance { timeout, max_filter_ratio: headers.max_filter_ratio }
}

/// Remembers a load, unless its group does, and the rows that it has rejected.
pub(super) fn note(
    http: &Http,
    client: &Client,
    place: Place,
    (reply, rejects): (&LoadReply, Rejects),
) {
    let is_of_group = reply.grouped && reply.status == Status::Success;
    if is_of_group && reply.rows_filtered == 0 {
        return;
    }
    let ended_micros = http.clock().wall_micros();
    let took_micros = i64::try_from(reply.times.total.as_micros()).unwrap_or(i64::MAX);
    let Place { account, database, table, allowance } = place;
    let note = http.book.add(LoadNote {
        kind: LoadKind::Stream,
        database,
        table,
        label: reply.label.clone(),
        txn: reply.txn,
        status: reply.status.name(),
        message: reply.message.clone(),
        error_url: reply.error_url.clone(),
        rows_total: reply.rows_total,
        rows_loaded: reply.rows_loaded,
        rows_filtered: reply.rows_filtered,
        rows_unselected: reply.rows_unselected,
        body_bytes: reply.body_bytes,
        began_micros: ended_micros.saturating_sub(took_micros),
        ended_micros,
        client: client.address.ip().to_string(),
        account,
        comment: reply.comment.clone(),
        allowance,
    });
    if rejects.count() > 0 {
        http.book.add_rejected(note, rejects.into_kept());
    }
}
