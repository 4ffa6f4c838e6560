//! Statements that take minutes to plan, on as many connections as there are threads for that.

use super::*;

/// What must always answer has so long, on a machine that does other work too.
const AT_ONCE: Duration = Duration::from_secs(2);
const DRAIN: Duration = Duration::from_secs(3);

fn heavy() -> String {
    let days = (0..240).map(|day| format!(" + INTERVAL {day} DAY")).collect::<String>();
    format!("SELECT {}", vec![format!("NOW(){days}"); 30].join(", "))
}

fn at_once<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    assert!(began.elapsed() < AT_ONCE, "{what} took {:?}", began.elapsed());
    done
}

#[test]
fn a_server_that_plans_on_all_threads_serves_and_stops() {
    let world = world();
    let (mut server, mut client) = started(&world.setup.clone().with("drain_timeout", "3s"));
    let mut planning = Vec::new();
    for _ in 0..6 {
        let mut client = Client::connect(server.mysql_port).unwrap();
        client.send_query(&heavy()).unwrap();
        planning.push(client);
    }
    sleep(Duration::from_millis(500));
    for id in 0..3 {
        at_once("health", || get(server.http_port, "/api/health").unwrap());
        at_once("login", || Client::connect(server.mysql_port).unwrap());
        at_once("INSERT", || insert(&mut client, id).unwrap());
        at_once("SELECT", || client.number("SELECT 1").unwrap());
        at_once("SHOW PROCESSLIST", || client.query("SHOW PROCESSLIST").unwrap());
    }
    let began = Instant::now();
    server.signal(Signal::TERM);
    server.wait_end(END_PATIENCE).expect("it stops");
    let took = began.elapsed();
    assert!(took < DRAIN + Duration::from_secs(5), "it stopped after {took:?}");
}
