//! What a session is told is so: COMMIT, acknowledgements, plans that are kept.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod common;

#[path = "promises/horizon.rs"]
mod horizon;
#[path = "promises/idle.rs"]
mod idle;
#[path = "promises/plans.rs"]
mod plans;
