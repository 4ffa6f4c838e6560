//! Writes a store to keep for `tests/formats`, when a format changes, and says where.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let store = common::Store::small();
    common::fill(&store);
    println!("{}", store.keep().display());
}
