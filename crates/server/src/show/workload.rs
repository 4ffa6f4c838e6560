//! SHOW WORKLOAD GROUPS, its table in `information_schema`, and SHOW PROPERTY.

use freshet_base::{Result, err};
use freshet_meta::{Account, Actor};
use freshet_query::system::Cell;

use super::listing::{Listing, some};
use super::users::shown_account;
use crate::Shared;
use crate::session::Session;

/// The groups that somebody may use, as rows of `information_schema.workload_groups`.
pub fn rows(shared: &Shared, actor: Actor<'_>) -> Vec<Vec<Cell>> {
    let catalog = shared.engine.catalog();
    let seen = catalog.groups().filter(|group| actor.may_use_group(&catalog, &group.name));
    let row = |group: &freshet_meta::WorkloadGroup| {
        let limits = group.limits;
        // It is made a moment after its statement is durable.
        let live = shared.workload.require(&group.name).ok();
        let (running, waiting) = live.as_ref().map_or((0, 0), |live| live.load());
        let memory = live.as_ref().map_or(0, |live| live.query().memory_bytes() as u64);
        let number = |number: u32| Cell::from(u64::from(number));
        let scan_threads = if limits.scan_threads == 0 { -1 } else { limits.scan_threads.into() };
        vec![
            group.id.into(),
            group.name.clone().into(),
            number(limits.cpu_share),
            format!("{}%", limits.cpu_percent_min).into(),
            format!("{}%", limits.cpu_percent_max).into(),
            format!("{}%", limits.memory_percent_max).into(),
            number(limits.concurrency_max),
            number(limits.queue_size_max),
            number(limits.queue_timeout_ms),
            Cell::Int(scan_threads),
            running.into(),
            waiting.into(),
            memory.into(),
            live.map_or(0, |live| live.busy_ms()).into(),
        ]
    };
    seen.map(|group| row(group)).collect()
}

/// SHOW WORKLOAD GROUPS.
pub fn groups(session: &Session) -> Listing {
    let columns = [
        "#Id",
        "Name",
        "#cpu_share",
        "min_cpu_percent",
        "max_cpu_percent",
        "memory_limit",
        "#max_concurrency",
        "#max_queue_size",
        "#queue_timeout",
        "#scan_thread_num",
        "#running_query_num",
        "#waiting_query_num",
    ];
    let mut listing = Listing::new(&columns);
    for row in rows(&session.shared, session.client.actor()) {
        listing.push(row.into_iter().take(columns.len()).map(|cell| match cell {
            Cell::Text(text) => Some(text.into_owned()),
            Cell::Int(number) => some(number),
            Cell::Null | Cell::Time(_) => None,
        }));
    }
    listing
}

/// SHOW PROPERTY.
///
/// # Errors
/// 1227 for another account without CREATE USER, 1396 if there is none.
pub fn properties(session: &Session, account: Option<&Account>) -> Result<Listing> {
    let account = shown_account(session, account)?;
    let catalog = session.shared.engine.catalog();
    let user = catalog
        .user(account)
        .ok_or_else(|| err!(CannotUser, "Operation SHOW PROPERTY failed for {account}"))?;
    let mut listing = Listing::new(&["Key", "Value"]);
    for (name, value) in user.show_properties() {
        listing.add([name, &value]);
    }
    Ok(listing)
}
