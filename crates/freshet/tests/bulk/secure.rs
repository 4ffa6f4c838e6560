//! Passwords and TLS.

use crate::World;

#[test]
fn passwords_and_tls() {
    let mut world = World::new();
    for sql in [
        "CREATE USER plain IDENTIFIED WITH caching_sha2_password BY 'pl''ain'",
        "CREATE USER safe IDENTIFIED BY 'safe' REQUIRE SSL",
        "GRANT ALL ON bulk.* TO plain",
        "GRANT ALL ON bulk.* TO safe",
    ] {
        world.client.query(sql).unwrap();
    }
    let file = world.write("t.csv", "1,a,\\N\n");
    let ca = world.path("data/tls/ca.pem").display().to_string();
    // Without TLS the password goes under the key of the server.
    world.run(&["load", &file, "-u", "plain", "-p", "pl'ain"], 0);
    let said = world.run(&["load", &file, "-u", "plain", "-p", "wrong"], 1);
    assert!(said.contains("error 1045"), "{said}");
    let said = world.run(&["dump", "t", "-u", "safe", "-p", "safe"], 1);
    assert!(said.contains("error 1045"), "{said}");
    let safe = ["-u", "safe", "-p", "safe", "--tls-ca", &ca, "--again"];
    world.run(&[&["load", &file], &safe[..]].concat(), 0);
    assert_eq!(world.rows().len(), 2);
    let output = world.tool(&[&["dump", "t"], &safe[..6]].concat()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1,a,\\N\n1,a,\\N\n");
    // A certificate of its own is none of another authority.
    let stranger = World::new();
    let other = stranger.path("data/tls/ca.pem").display().to_string();
    let said = world.run(&["dump", "t", "--tls-ca", &other], 1);
    assert!(said.contains("certificate"), "{said}");
}
