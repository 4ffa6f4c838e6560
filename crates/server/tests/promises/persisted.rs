//! SET PERSIST.

use crate::common::{Client, TestServer};

#[test]
fn what_is_persisted_is_there_after_a_start() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.run("set persist group_commit = 'async_mode', global query_timeout = 77");
    client.run("set persist_only query_timeout = 88, persist long_query_time = 2.5");
    client.run("set persist max_connections = 50");
    client.run("reset persist max_connections");
    let of = "select @@global.group_commit, @@global.query_timeout, @@global.long_query_time, \
              @@global.max_connections";
    assert_eq!(client.texts(of)[0], ["async_mode", "77", "2.5", "50"]);
    drop(client);
    let server = server.restart();
    let mut client = server.connect();
    let found = client.texts(of).remove(0);
    assert_eq!(found[..3], ["async_mode", "88", "2.5"]);
    assert_ne!(found[3], "50");
    assert_eq!(client.one("select @@group_commit"), "async_mode", "sessions begin with it");
    let kept = "select * from performance_schema.persisted_variables order by 1";
    let names = client.texts(kept).into_iter().map(|row| row[0].clone()).collect::<Vec<_>>();
    assert_eq!(names, ["group_commit", "long_query_time", "query_timeout"]);
    client.run("reset persist");
    drop(client);
    let server = server.restart();
    assert_eq!(server.connect().texts(kept), Vec::<Vec<String>>::new());
    assert_ne!(server.connect().one("select @@global.query_timeout"), "88");
}

#[test]
fn who_may_not_set_global_may_not_persist() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.run("create user nobody");
    client.run("set persist long_query_time = 2");
    let mut other = Client::connect(server.address, "nobody", "", None).unwrap();
    for sql in [
        "set persist long_query_time = 1",
        "set persist_only long_query_time = 1",
        "reset persist",
        "reset persist if exists long_query_time",
    ] {
        assert_eq!(other.fails(sql).errno, 1227, "{sql}");
    }
    let kept = "select variable_value from performance_schema.persisted_variables";
    assert_eq!(client.one(kept), "2.000000");
}

#[test]
fn of_several_at_once_the_last_one_is_kept() {
    let server = TestServer::start();
    let mut client = server.connect();
    for round in 0..20 {
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let mut other = server.connect();
                let sql = format!("set persist query_timeout = {}", round * 10 + number);
                scope.spawn(move || other.run(&sql));
            }
        });
        let kept = client.one("select variable_value from performance_schema.persisted_variables");
        assert_eq!(kept, client.one("select @@global.query_timeout"), "in round {round}");
    }
}
