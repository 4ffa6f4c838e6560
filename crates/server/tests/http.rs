//! The HTTP interface: a server in this process, sockets, raw requests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "http/admin.rs"]
mod admin;
#[path = "http/checks.rs"]
mod checks;
#[path = "http/client.rs"]
mod client;
#[path = "http/columnar.rs"]
mod columnar;
#[path = "http/connectors.rs"]
mod connectors;
#[path = "http/deleting.rs"]
mod deleting;
#[path = "http/generated.rs"]
mod generated;
#[path = "http/labels.rs"]
mod labels;
#[path = "http/large.rs"]
mod large;
#[path = "http/load.rs"]
mod load;
#[path = "http/mapped.rs"]
mod mapped;
#[path = "http/negative.rs"]
mod negative;
#[path = "http/nested.rs"]
mod nested;
#[path = "http/orc.rs"]
mod orc;
#[path = "http/partial.rs"]
mod partial;
#[path = "http/prepared_partial.rs"]
mod prepared_partial;
#[path = "http/query.rs"]
mod query;
#[path = "http/rejects.rs"]
mod rejects;
#[path = "http/rough.rs"]
mod rough;
#[path = "http/sequence.rs"]
mod sequence;
#[path = "http/site.rs"]
mod site;
#[path = "http/sketches.rs"]
mod sketches;
#[path = "http/two_phase.rs"]
mod two_phase;
#[path = "http/uniques.rs"]
mod uniques;
