//! The registry of system variables, by theme.

mod accounts;
mod buffers;
mod charsets;
mod connections;
mod doris;
mod innodb;
mod loads;
mod logs;
mod queries;
mod replication;
mod server;
mod told;
mod transactions;

use std::sync::LazyLock;

use super::kind::{Kind, Reach, Variable};

/// What is said of a variable that is only there to be read and set.
const NO_EFFECT: &str = "Accepted, without effect.";
/// A number that is not negative.
const NUMBER: Kind = Kind::Int { min: 0, max: i64::MAX };

const fn both(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Both, read_only: false, default, about }
}

const fn begin(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Begin, read_only: false, default, about }
}

const fn session(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Session, read_only: false, default, about }
}

const fn global(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Global, read_only: false, default, about }
}

const fn fixed(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Global, read_only: true, default, about }
}

const THEMES: [&[Variable]; 13] = [
    accounts::ALL,
    buffers::ALL,
    charsets::ALL,
    connections::ALL,
    doris::ALL,
    innodb::ALL,
    loads::ALL,
    logs::ALL,
    queries::ALL,
    replication::ALL,
    server::ALL,
    told::ALL,
    transactions::ALL,
];

/// All variables, ordered by name.
pub static ALL: LazyLock<Vec<Variable>> = LazyLock::new(|| {
    let mut all = THEMES.concat();
    all.sort_unstable_by_key(|variable| variable.name);
    all
});
