//! Writes a store for `tests/formats` after a change of format, and prints where it is.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let store = common::Store::small();
    common::fill(&store);
    println!("{}", store.keep().display());
}
