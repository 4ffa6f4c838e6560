//! IF NOT EXISTS and IF EXISTS of sessions that run the same statements at once, as several copies
//! of a program do at their start.

use crate::common::TestServer;

#[test]
fn views_and_indexes_come_and_go_where_several_ask_for_them_at_once() {
    let server = TestServer::start();
    server.database("d").run("create table t (id int primary key, a int)");
    let clients = (0..4).map(|_| server.database("d")).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || {
                for _ in 0..25 {
                    client.run("create view if not exists v as select a from t");
                    client.run("create index if not exists i on t (a)");
                    client.run("drop index if exists i on t");
                    client.run("drop view if exists v");
                }
            });
        }
    });
    let mut client = server.database("d");
    assert_eq!(client.texts("show tables"), [["t"]]);
    let indexes = "select count(*) from information_schema.statistics where table_name = 't'";
    assert_eq!(client.one(indexes), "1");
}
