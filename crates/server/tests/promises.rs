//! What a session is told is so: COMMIT, acknowledgements, plans that are kept, values, tables that
//! are made with their rows, and what transactions may take from others.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod common;

#[path = "promises/budget.rs"]
mod budget;
#[path = "promises/create_as.rs"]
mod create_as;
#[path = "promises/horizon.rs"]
mod horizon;
#[path = "promises/idle.rs"]
mod idle;
#[path = "promises/literals.rs"]
mod literals;
#[path = "promises/model.rs"]
mod model;
#[path = "promises/plans.rs"]
mod plans;
