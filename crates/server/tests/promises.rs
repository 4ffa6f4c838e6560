//! Guarantees of sessions: COMMIT, acknowledgements, cached plans, values, CREATE TABLE AS SELECT,
//! and limits on the memory of transactions.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod common;

#[path = "promises/budget.rs"]
mod budget;
#[path = "promises/changes_by_key.rs"]
mod changes_by_key;
#[path = "promises/claims.rs"]
mod claims;
#[path = "promises/create_as.rs"]
mod create_as;
#[path = "promises/dropped_partitions.rs"]
mod dropped_partitions;
#[path = "promises/exchanged.rs"]
mod exchanged;
#[path = "promises/horizon.rs"]
mod horizon;
#[path = "promises/idle.rs"]
mod idle;
#[path = "promises/keys_added.rs"]
mod keys_added;
#[path = "promises/large_transactions.rs"]
mod large_transactions;
#[path = "promises/literals.rs"]
mod literals;
#[path = "promises/loads.rs"]
mod loads;
#[path = "promises/locked_joins.rs"]
mod locked_joins;
#[path = "promises/model.rs"]
mod model;
#[path = "promises/overwrites.rs"]
mod overwrites;
#[path = "promises/persisted.rs"]
mod persisted;
#[path = "promises/plans.rs"]
mod plans;
#[path = "promises/points.rs"]
mod points;
#[path = "promises/rewrites.rs"]
mod rewrites;
#[path = "promises/several.rs"]
mod several;
#[path = "promises/uniques.rs"]
mod uniques;
#[path = "promises/unkeyed.rs"]
mod unkeyed;
#[path = "promises/upserted.rs"]
mod upserted;
#[path = "promises/where_missing.rs"]
mod where_missing;
