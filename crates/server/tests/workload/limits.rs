//! What a group may have of memory and threads, and limits of accounts.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::*;

#[test]
fn a_query_that_exceeds_the_memory_of_its_group_ends_alone() {
    let server = TestServer::start();
    let mut root = server.database("d");
    with_large_table(&mut root);
    root.run("create workload group small properties ('memory_limit' = '1%')");
    // 256 MiB are there, and 20 MB of texts wanted.
    let query = "select length(group_concat(repeat(concat(a.s, b.s), 3) separator '')) \
                 from d.large a join d.large b join (select 1 from d.large limit 4) c";
    root.run("set group_concat_max_len = 1000000000");
    let expected = root.one(query);
    root.run("set workload_group = 'small'");
    let refused = root.fails(query);
    assert_eq!(refused.errno, 1038, "{refused:?}");
    let part = "the query needs more memory than workload group 'small' gives its queries, 2684354 \
                bytes or 1 % of query_memory (memory_limit)";
    assert!(refused.message.contains(part), "{refused:?}");
    assert_eq!(root.one("select count(*) from d.large"), "60", "the session goes on");
    root.run("set workload_group = ''");
    assert_eq!(root.one(query), expected, "another group has not noticed");
    root.run("alter workload group small properties ('memory_limit' = '100%')");
    root.run("set workload_group = 'small'");
    assert_eq!(root.one(query), expected);
    let memory = "select sum(memory_bytes) from information_schema.workload_groups";
    assert_eq!(root.one(memory), "0", "all is given back");
}

/// Runs until its client is gone.
const ENDLESS: &str = "select sum(a.n * b.n * c.n % 7) from d.n a join d.n b join d.n c";

/// The time that queries of a group had on threads, in milliseconds.
fn thread_ms(root: &mut Client, group: &str) -> f64 {
    let of = "select thread_ms from information_schema.workload_groups";
    root.one(&format!("{of} where name = '{group}'")).parse().unwrap()
}

fn with_numbers(server: &TestServer) -> Client {
    let mut root = server.database("d");
    root.run("create table n (n int)");
    let rows = (0..3000).map(|n| format!("({n})")).collect::<Vec<_>>();
    root.run(&format!("insert into n values {}", rows.join(",")));
    root
}

/// Sessions of a group that have something to do all the time.
fn busy(server: &TestServer, group: &str, sessions: usize) -> Vec<Client> {
    let session = |_| {
        let mut client = server.connect();
        client.run(&format!("set workload_group = '{group}'"));
        begin(&mut client, ENDLESS);
        client
    };
    (0..sessions).map(session).collect()
}

/// Waits until groups `many` and `few`, which both always want more, divide the threads as they
/// should. One window of time says too little: the machine has other work, which the shares of this
/// server do not see.
#[track_caller]
fn divide(root: &mut Client, wanted: f64) {
    let used = |root: &mut Client| ["many", "few"].map(|group| thread_ms(root, group));
    let mut before = used(root);
    eventually(&format!("for one of 'few' {wanted:.2} of 'many'"), || {
        let now = used(root);
        let had = [now[0] - before[0], now[1] - before[1]];
        if had[0] + had[1] < 4000.0 {
            return false;
        }
        before = now;
        (wanted * 0.7..wanted * 1.4).contains(&(had[0] / had[1]))
    });
}

#[test]
fn groups_that_want_more_have_threads_by_their_shares() {
    let server = TestServer::start();
    let mut root = with_numbers(&server);
    root.run("create workload group many properties ('cpu_share' = '900')");
    root.run("create workload group few properties ('cpu_share' = '300')");
    // Alone a group has all threads, whatever its share is.
    let _many = busy(&server, "many", 6);
    eventually("many are busy", || thread_ms(&mut root, "many") > 500.0);
    let _few = busy(&server, "few", 3);
    eventually("few are busy", || thread_ms(&mut root, "few") > 500.0);
    // In the order of arrival it were always 2.
    divide(&mut root, 3.0);
    root.run("alter workload group many properties ('cpu_share' = '100')");
    divide(&mut root, 1.0 / 3.0);
    // What is kept for a group goes before shares: 80 of 100 parts.
    root.run("alter workload group many properties ('min_cpu_percent' = '80%')");
    root.run("alter workload group few properties ('min_cpu_percent' = '20%')");
    divide(&mut root, 4.0);
}

#[test]
fn a_group_has_no_more_of_the_threads_than_it_may() {
    let server = TestServer::start();
    let mut root = with_numbers(&server);
    root.run("create workload group few properties ('max_cpu_percent' = '10%')");
    let _few = busy(&server, "few", 4);
    eventually("it is busy", || thread_ms(&mut root, "few") > 50.0);
    let (before, began) = (thread_ms(&mut root, "few"), Instant::now());
    // Without the limit it has both threads nearly all the time.
    eventually("it rests", || {
        let used = thread_ms(&mut root, "few") - before;
        let time_ms = began.elapsed().as_secs_f64() * 1000.0;
        used > 300.0 && time_ms > 5000.0 && used < 0.3 * 2.0 * time_ms
    });
}

#[test]
fn an_account_has_as_many_queries_as_its_property_says() {
    let server = TestServer::start();
    let mut root = server.database("d");
    with_large_table(&mut root);
    root.run("create user u");
    root.run("grant all on d.* to u");
    root.run("set property for u 'max_query_instances' = '1'");
    let (mut first, mut second) = (as_user(&server, "u"), as_user(&server, "u"));
    begin(&mut first, LARGE);
    waits_for(&mut root, "normal", 1, 0);
    let refused = second.fails("select count(*) from d.large");
    assert_eq!((refused.errno, refused.sqlstate.as_str()), (1226, "42000"));
    assert!(refused.message.contains("'max_query_instances'"), "{refused:?}");
    assert_eq!(root.one("select count(*) from d.large"), "60");
    end(&mut first);
    eventually("it has ended", || {
        matches!(second.query("select count(*) from d.large"), Outcome::Rows(_))
    });
    root.run("set property for u 'max_user_connections' = '2'");
    assert_eq!(Client::connect(server.address, "u", "", None).err().unwrap().errno, 1226);
}

#[test]
fn a_session_begins_with_the_timeouts_of_its_account_and_has_no_longer_ones() {
    let server = TestServer::start();
    let mut root = with_numbers(&server);
    root.run("create user u");
    root.run("grant all on d.* to u");
    root.run(
        "set property for u 'query_timeout' = '1', 'parallel_fragment_exec_instance_num' = '1'",
    );
    let mut client = as_user(&server, "u");
    let variables = "select @@query_timeout, @@parallel_fragment_exec_instance_num";
    assert_eq!(client.texts(variables), [["1", "1"]]);
    client.run("set query_timeout = 900");
    let late = client.fails(ENDLESS);
    assert_eq!(late.errno, 3024);
    assert!(late.message.contains("query_timeout of the account is 1 s"), "{late:?}");
    client.run("set max_execution_time = 100");
    assert!(client.fails(ENDLESS).message.contains("max_execution_time is 100 ms"));
    // What it says of parts it says whoever else the machine works for.
    root.run("set property for u 'query_timeout' = '900'");
    let mut client = as_user(&server, "u");
    let parts = |client: &mut Client| {
        client.texts("explain format=tree select n, count(*) from d.n group by n").concat().concat()
    };
    assert!(!parts(&mut client).contains("Repartition"), "{}", parts(&mut client));
}

#[test]
fn loads_of_an_account_are_limited_by_its_property() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    root.run("create user u");
    root.run("grant all on d.* to u");
    root.run("set property for u 'max_stream_loads' = '1'");
    let begin = |length: usize| {
        let mut socket = TcpStream::connect(server.http_address()).unwrap();
        let basic = BASE64_STANDARD.encode("u:");
        let head = format!("Authorization: Basic {basic}\r\nConnection: close\r\nHost: h\r\n");
        write!(socket, "PUT /api/d/t/_stream_load HTTP/1.1\r\n{head}").unwrap();
        write!(socket, "Content-Length: {length}\r\n\r\n1\n").unwrap();
        socket
    };
    let answer = |mut socket: TcpStream| {
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    let mut open = begin(4);
    let mut refused = String::new();
    eventually("the first one runs", || {
        refused = answer(begin(2));
        !refused.contains("\"Status\": \"Success\"")
    });
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(
        refused.contains("1 loads of 'u'@'%' run already (max_stream_loads is 1)"),
        "{refused}"
    );
    open.write_all(b"2\n").unwrap();
    assert!(answer(open).contains("\"Status\": \"Success\""));
    assert!(answer(begin(2)).contains("\"Status\": \"Success\""));
}
