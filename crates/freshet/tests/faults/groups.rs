//! Workload groups and properties of accounts under `kill -9`: what was acknowledged is there.

use super::*;

const CRASHES: u32 = 4;

/// Changes a group and an account until the server dies; returns what was acknowledged last.
fn write(port: u16, from: u32) -> u32 {
    let mut done = from;
    let Ok(mut client) = Client::connect(port) else { return done };
    for number in from + 1.. {
        let group = format!("g{}", number % 3);
        let statements = [
            format!("CREATE WORKLOAD GROUP IF NOT EXISTS {group}"),
            format!("ALTER WORKLOAD GROUP {group} PROPERTIES ('queue_timeout' = '{number}')"),
            format!("GRANT USAGE_PRIV ON WORKLOAD GROUP {group} TO u"),
            format!("SET PROPERTY FOR u 'query_timeout' = '{number}'"),
        ];
        for statement in statements {
            if client.query(&statement).is_err() {
                return done;
            }
        }
        done = number;
    }
    done
}

#[test]
fn groups_and_properties_outlive_a_crash() {
    let world = world();
    let mut done = 0;
    for crash in 0..CRASHES {
        let mut server = world.setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        if crash == 0 {
            client.query("CREATE USER u").unwrap();
        }
        let port = server.mysql_port;
        let writer = thread::spawn(move || write(port, done));
        let query = "SELECT MAX(queue_timeout) FROM information_schema.workload_groups";
        let began = Instant::now();
        let is_ahead = |client: &mut Client| client.number(query).unwrap() > i64::from(done) + 3;
        while !is_ahead(&mut client) && began.elapsed() < END_PATIENCE {
            sleep(Duration::from_millis(10));
        }
        server.kill();
        let acknowledged = writer.join().unwrap();
        assert!(acknowledged > done, "that is no test");
        done = acknowledged;
        let mut server = world.setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        let group = format!("{query} WHERE name = 'g{}'", done % 3);
        assert!(client.number(&group).unwrap() >= i64::from(done));
        let grants = client.query("SHOW GRANTS FOR u").unwrap();
        assert!(grants.concat().concat().contains(&format!("WORKLOAD GROUP 'g{}'", done % 3)));
        let property = client.query("SHOW PROPERTY FOR u LIKE 'query_timeout'").unwrap();
        assert!(property[0][1].parse::<u32>().unwrap() >= done);
        server.stop().unwrap();
    }
}
