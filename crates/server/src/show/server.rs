//! SHOW of the server's state: variables, status, connections, grants, and constant lists.

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_meta::{Object, Privilege, Privileges};
use freshet_query::session::Scope;
use freshet_query::system::{ENGINES, PLUGINS};
use freshet_schema::Collation;

use super::empty;
use super::listing::{Listing, Row, some};
use super::status;
use crate::process::Process;
use crate::session::Session;
use crate::variables::{self, ALIASES, ALL, Kept, Reach, Values};

/// Characters of a statement in SHOW PROCESSLIST without FULL.
const INFO_CHARS: usize = 100;

/// SHOW VARIABLES.
pub fn variables(session: &Session, scope: Scope) -> Listing {
    let globals = session.shared.globals.load();
    let values = if scope == Scope::Global { &globals } else { &session.variables };
    variable_rows(values, &globals)
}

/// Names and values of all variables; those that are global only are taken from `globals`.
pub fn variable_rows(values: &Values, globals: &Values) -> Listing {
    let mut listing = Listing::new(&["Variable_name", "Value"]);
    let names = ALL.iter().map(|variable| variable.name);
    let mut names = names.chain(ALIASES.iter().map(|(alias, _)| *alias)).collect::<Vec<_>>();
    names.sort_unstable();
    for name in names {
        let id = variables::find(name).expect("a name of the registry");
        let values = if id.variable().reach == Reach::Global { globals } else { values };
        listing.add([name, &variables::shown(id, id.of(values))]);
    }
    listing
}

/// What SET PERSIST has kept, but for variables that this version does not have.
pub fn persisted_rows(kept: &Kept) -> Listing {
    let mut listing = Listing::new(&["Variable_name", "Value"]);
    for (name, value) in kept {
        if let Some(id) = variables::find(name) {
            listing.add([name.as_str(), &variables::shown(id, value)]);
        }
    }
    listing
}

/// SHOW WARNINGS and SHOW ERRORS, or their COUNT(*).
pub fn warnings(session: &Session, errors_only: bool, count: bool) -> Listing {
    let all = &session.diagnostics;
    let taken = || all.conditions.iter().filter(|one| !errors_only || one.level == "Error");
    if count {
        let name = if errors_only { "#@@session.error_count" } else { "#@@session.warning_count" };
        let mut listing = Listing::new(&[name]);
        let number = if errors_only { taken().count() as u64 } else { all.count };
        listing.push([some(number)]);
        return listing;
    }
    let mut listing = Listing::new(&["Level", "#Code", "Message"]);
    for one in taken() {
        listing.add([one.level, &one.errno.to_string(), &one.message]);
    }
    listing
}

/// SHOW PROCESSLIST: all connections for users with PROCESS, else those of the own account.
pub fn processlist(session: &Session, full: bool) -> Listing {
    let mut listing =
        Listing::new(&["#Id", "User", "Host", "db", "Command", "#Time", "State", "Info"]);
    for process in visible(session) {
        let details = process.details();
        let seconds = process.seconds(session.shared.engine.clock().now());
        let info = match details.info.as_str() {
            "" => None,
            info if full => some(info),
            info => some(info.chars().take(INFO_CHARS).collect::<String>()),
        };
        listing.push([
            some(process.id),
            some(details.user),
            some(&process.peer),
            details.database.map(|name| name.to_string()),
            some(process.activity().name()),
            some(seconds),
            some(details.state),
            info,
        ]);
    }
    listing
}

/// SHOW ENGINE .. STATUS.
///
/// # Errors
/// 1227, and 1286 for an engine that there is not.
pub fn engine(session: &Session, name: &str) -> Result<Listing> {
    session.authorize(Privilege::Process, Object::Server)?;
    let known = ["OLAP", "InnoDB"].into_iter().find(|known| known.eq_ignore_ascii_case(name));
    let Some(known) = known else {
        bail!(UnknownEngine, "Unknown storage engine '{name}'; there are OLAP and InnoDB");
    };
    let mut listing = Listing::new(&["Type", "Name", "Status"]);
    let status = status::rows(&session.shared, &session.client);
    let line = |row: Row| row.into_iter().flatten().collect::<Vec<_>>().join(": ");
    let lines = status.rows.into_iter().map(line).collect::<Vec<_>>();
    listing.add([known, "", &lines.join("\n")]);
    Ok(listing)
}

/// The connections that a session may see.
pub fn visible(session: &Session) -> Vec<Arc<Process>> {
    let all = session.authorize(Privilege::Process, Object::Server).is_ok();
    let mut processes = session.shared.processes.list();
    processes.retain(|process| {
        all || process.details().account.as_ref() == Some(&session.client.account)
    });
    processes
}

/// Lists that depend on little or nothing.
pub fn plain(what: &str) -> Listing {
    match what {
        "ENGINES" | "STORAGE ENGINES" => engines(),
        "COLLATION" => collations(),
        "CHARACTER SET" | "CHARSET" => charsets(),
        "PLUGINS" => plugins(),
        "PRIVILEGES" => privileges(),
        "CATALOGS" => {
            let mut listing = Listing::new(&["CatalogId", "CatalogName", "Type", "IsCurrent"]);
            listing.add(["0", "internal", "internal", "yes"]);
            listing
        }
        other => empty::listing(other),
    }
}

fn engines() -> Listing {
    let mut listing =
        Listing::new(&["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"]);
    ENGINES.into_iter().for_each(|engine| listing.add(engine));
    listing
}

fn collations() -> Listing {
    let mut listing = Listing::new(&[
        "Collation",
        "Charset",
        "#Id",
        "Default",
        "Compiled",
        "#Sortlen",
        "Pad_attribute",
    ]);
    for (name, charset, id, default) in [
        ("binary", "binary", "63", "Yes"),
        ("latin1_swedish_ci", "latin1", "8", "Yes"),
        ("utf8mb3_general_ci", "utf8mb3", "33", "Yes"),
        ("utf8mb4_0900_ai_ci", "utf8mb4", "255", "Yes"),
        ("utf8mb4_0900_as_ci", "utf8mb4", "305", ""),
        ("utf8mb4_0900_as_cs", "utf8mb4", "278", ""),
        ("utf8mb4_0900_bin", "utf8mb4", "309", ""),
        ("utf8mb4_bin", "utf8mb4", "46", ""),
        ("utf8mb4_general_ci", "utf8mb4", "45", ""),
        ("utf8mb4_unicode_520_ci", "utf8mb4", "246", ""),
        ("utf8mb4_unicode_ci", "utf8mb4", "224", ""),
    ] {
        let pads = Collation::standing_for(name).is_some_and(Collation::pads);
        let pad = if pads { "PAD SPACE" } else { "NO PAD" };
        listing.add([name, charset, id, default, "Yes", "1", pad]);
    }
    listing
}

fn charsets() -> Listing {
    let mut listing = Listing::new(&["Charset", "Description", "Default collation", "#Maxlen"]);
    listing.add(["binary", "Binary pseudo charset", "binary", "1"]);
    listing.add(["latin1", "cp1252 West European", "latin1_swedish_ci", "1"]);
    listing.add(["utf8mb3", "UTF-8 Unicode", "utf8mb3_general_ci", "3"]);
    listing.add(["utf8mb4", "UTF-8 Unicode", "utf8mb4_0900_ai_ci", "4"]);
    listing
}

fn plugins() -> Listing {
    let mut listing = Listing::new(&["Name", "Status", "Type", "Library", "License"]);
    for name in PLUGINS {
        let cell = |text: &str| some(text);
        let authentication = cell("AUTHENTICATION");
        listing.push([cell(name), cell("ACTIVE"), authentication, None, cell("Apache-2.0")]);
    }
    listing
}

fn privileges() -> Listing {
    let mut listing = Listing::new(&["Privilege", "Context", "Comment"]);
    for privilege in Privilege::ALL {
        let is_of_server = Privileges::of_server_alone().has(*privilege);
        let context = if is_of_server { "Server Admin" } else { "Databases,Tables" };
        let (first, rest) = privilege.name().split_at(1);
        let name = first.to_owned() + &rest.to_lowercase();
        listing.add([&name, context, privilege.comment()]);
    }
    listing
}
