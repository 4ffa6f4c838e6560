//! Clients that speak the protocol wrongly, for some seconds; `make hostile` runs them for an hour.

use freshet_torture::hostile::{Options, run};
use freshet_torture::server::Setup;

use super::*;

#[test]
fn nobody_notices_clients_that_speak_the_protocol_wrongly() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let options = Options { setup, seed: 19, time: Duration::from_secs(6), clients: 6 };
    println!("{}", run(&options).unwrap());
}
