//! A short crash test with `kill -9`; `make crash` is the long version.

use std::path::Path;

use freshet_torture::crash::{Options, run};
use freshet_torture::server::Setup;

const CYCLES: u32 = 30;

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let tally = run(&Options { setup, cycles: CYCLES, seed: 1, verbose: false });
    let tally = tally.unwrap_or_else(|error| panic!("{error}"));
    println!("{tally}");
    assert_eq!(tally.crashes, CYCLES);
    assert!(tally.at_failpoints > 0 && tally.acked > 0 && tally.sent_again > 0, "{tally}");
}
