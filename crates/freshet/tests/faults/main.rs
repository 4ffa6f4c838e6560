//! Faults of the environment, on the real binary: full and broken disks, missing and damaged files,
//! clients that die or stall, descriptors and memory exhausted.
// Tests inspect the server's files from outside.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounts;
mod damage;
mod disks;
mod exchange;
mod groups;
mod keys;
mod large;
mod memory;
mod misuse;
mod nested;
mod overwrites;
mod privacy;
mod rewrites;
mod sequence;
mod uniques;
mod upserts;
mod versions;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use freshet_torture::client::{Client, Failure};
use freshet_torture::http::{get, load_head};
use freshet_torture::server::{Server, Setup};
use freshet_torture::writers::create_tables;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::Signal;

const END_PATIENCE: Duration = Duration::from_secs(60);

struct World {
    _dir: tempfile::TempDir,
    setup: Setup,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    World { _dir: dir, setup }
}

/// A place in the code where the server dies, and how often it is passed before.
type Failpoint = (&'static str, u64);

/// What writers do in a life of the server.
struct Load {
    ms: std::ops::Range<u64>,
    /// What is waited for where it does not die by itself: the machine may have others to serve.
    work_min: u64,
}

impl World {
    /// Begins a life of the server: `look` sees what the one before left, and in every other life
    /// it dies at one of the failpoints, unless somebody kills it before. `None` if it came there
    /// during its start.
    fn begin_life(
        &self,
        life: u64,
        failpoints: &[Failpoint],
        random: &mut StdRng,
        look: impl FnOnce(&mut Client),
    ) -> Option<Server> {
        let mut server = self.setup.start().unwrap();
        look(&mut Client::connect(server.mysql_port).unwrap());
        if life.is_multiple_of(2) {
            return Some(server);
        }
        let (name, passes) = failpoints[life as usize / 2 % failpoints.len()];
        let skip = random.random_range(0..passes);
        server.stop().unwrap();
        let setup = self.setup.clone().with("failpoints", format!("{name}=abort@{skip}"));
        let mut server = setup.spawn().unwrap();
        server.wait_ready().is_ok().then_some(server)
    }

    /// The last life: looks before and after the flush of a table, stops, and checks the files.
    fn end(&self, table: &str, mut look: impl FnMut(&mut Client)) {
        let mut server = self.setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        look(&mut client);
        client.query(&format!("FLUSH TABLES {table}")).unwrap();
        look(&mut client);
        server.stop().unwrap();
        self.setup.check_files().unwrap();
    }
}

/// Lets writers work, who count what they have done, and then kills the server.
fn end_life(mut server: Server, life: u64, load: Load, done: &AtomicU64, random: &mut StdRng) {
    let (before, began) = (done.load(Ordering::Relaxed), Instant::now());
    sleep(Duration::from_millis(random.random_range(load.ms)));
    let is_little = || done.load(Ordering::Relaxed) < before + load.work_min;
    while life.is_multiple_of(2) && is_little() && began.elapsed() < END_PATIENCE {
        sleep(Duration::from_millis(20));
    }
    server.kill();
}

/// A started server with the tables.
fn started(setup: &Setup) -> (Server, Client) {
    let server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    create_tables(&mut client).unwrap();
    (server, client)
}

fn insert(client: &mut Client, id: u64) -> Result<(), Failure> {
    let body = "x".repeat(150);
    client.query(&format!("INSERT INTO torture.events_0 VALUES ({id}, 0, '{body}')")).map(drop)
}

fn insert_many(client: &mut Client, ids: std::ops::Range<u64>) {
    let rows = ids.map(|id| format!("({id}, 0, '{}')", "y".repeat(150))).collect::<Vec<_>>();
    for part in rows.chunks(200) {
        let sql = format!("INSERT INTO torture.events_0 VALUES {}", part.join(","));
        client.query(&sql).unwrap();
    }
}

fn count(client: &mut Client) -> i64 {
    client.number("SELECT COUNT(*) FROM torture.events_0").unwrap()
}

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path, ending)),
            false if path.to_string_lossy().ends_with(ending) => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

fn flip(path: &Path, offset: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], offset).unwrap();
}

#[test]
fn a_failed_sync_ends_the_process_and_the_restart_is_clean() {
    let world = world();
    let (mut server, mut client) = started(&world.setup);
    insert(&mut client, 1).unwrap();
    server.stop().unwrap();
    for point in ["wal-after-write=eio@3", "wal-before-write=enospc@3"] {
        let mut server = world.setup.clone().with("failpoints", point).start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        let failed = (100..200).find_map(|id| insert(&mut client, id).err());
        assert!(matches!(failed, Some(Failure::Lost(_))), "{point}: {failed:?}");
        let status = server.wait_end(END_PATIENCE).expect("the process ends");
        assert!(!status.success());
        assert!(server.said().contains("log"), "{point}: {}", server.said());
        world.setup.check_files().unwrap();
    }
    let server = world.setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert!(count(&mut client) >= 1);
}

#[test]
fn a_flush_without_room_refuses_nothing_that_is_logged() {
    let world = world();
    let setup = world.setup.clone().with("failpoints", "flush-before-write=enospc");
    let (server, mut client) = started(&setup);
    insert_many(&mut client, 0..4000);
    assert_eq!(count(&mut client), 4000);
    drop(server);
    let server = world.setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert_eq!(count(&mut client), 4000);
}

#[test]
fn a_missing_log_file_is_named_and_given_up_only_when_told() {
    let world = world();
    let (mut server, mut client) = started(&world.setup);
    insert(&mut client, 1).unwrap();
    server.kill();
    let log = files(&world.setup.data_dir.join("wal"), "");
    let gone = log.first().expect("there is a log file");
    std::fs::remove_file(gone).unwrap();
    let name = gone.file_name().unwrap().to_string_lossy().into_owned();

    let refused = world.setup.start().unwrap_err();
    assert!(refused.contains(&name), "{refused}");
    let (status, said) = world.setup.run(&["check"]).unwrap();
    assert!(status.code() == Some(1) && said.contains(&name), "{status}: {said}");
    let (status, said) = world.setup.run(&["repair"]).unwrap();
    assert!(status.code() == Some(1) && said.contains("--accept"), "{status}: {said}");
    world.setup.start().unwrap_err();

    let (status, said) = world.setup.run(&["repair", "--accept"]).unwrap();
    assert!(status.success(), "{status}: {said}");
    let mut server = world.setup.start().unwrap();
    server.stop().unwrap();
}

#[test]
fn a_damaged_segment_is_named_and_everything_else_is_served() {
    let world = world();
    let (mut server, mut client) = started(&world.setup);
    client.query("INSERT INTO torture.events_1 VALUES (1, 0, 'a')").unwrap();
    insert_many(&mut client, 0..4000);
    client.query("FLUSH TABLES torture.events_0").unwrap();
    server.stop().unwrap();
    let segments = files(&world.setup.data_dir, ".parquet");
    let damaged = segments.first().expect("something was flushed");
    flip(damaged, 60);

    let (status, said) = world.setup.run(&["check"]).unwrap();
    let name = damaged.file_name().unwrap().to_string_lossy().into_owned();
    assert!(status.code() == Some(1) && said.contains(&name), "{status}: {said}");
    let server = world.setup.clone().with("compaction", "false").start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    let refused = client.query("SELECT SUM(LENGTH(body)), SUM(id) FROM torture.events_0");
    assert!(refused.is_err_and(|error| error.to_string().contains(&name)));
    assert_eq!(client.number("SELECT COUNT(*) FROM torture.events_1").unwrap(), 1);
    client.query("INSERT INTO torture.events_1 VALUES (2, 0, 'b')").unwrap();
}

#[test]
fn a_second_server_is_refused() {
    let world = world();
    let (_server, _client) = started(&world.setup);
    let refused = world.setup.start().unwrap_err();
    assert!(refused.contains("another server has the store"), "{refused}");
}

#[test]
fn clients_that_die_or_stall_disturb_nobody() {
    let world = world();
    let (server, mut client) = started(&world.setup);
    let connect = |port: u16| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    for cut in [1, 40, 4000] {
        // In the middle of a statement, a handshake, a body.
        let mut dying = Client::connect(server.mysql_port).unwrap();
        let statement = format!("\u{1}\u{27}\0\0\u{3}SELECT '{}", "z".repeat(cut));
        dying.stream().write_all(statement.as_bytes()).unwrap();
        connect(server.mysql_port).write_all(&vec![7; cut]).unwrap();
        let head = load_head("events_0", &[], 10_000);
        let body = "1,0,a\n".repeat(cut / 8);
        connect(server.http_port).write_all((head + &body).as_bytes()).unwrap();
    }
    // One client requests a large result and does not read it.
    insert_many(&mut client, 0..4000);
    let mut stalled = Client::connect(server.mysql_port).unwrap();
    stalled
        .send_query("SELECT a.body, b.body FROM torture.events_0 a, torture.events_0 b")
        .unwrap();
    sleep(Duration::from_millis(300));
    for id in 10_000..10_020 {
        insert(&mut client, id).unwrap();
    }
    assert_eq!(count(&mut client), 4020);
    assert_eq!(get(server.http_port, "/api/health").unwrap().status, 200);
}

#[test]
fn a_stopped_process_goes_on_where_it_was() {
    let world = world();
    let (server, mut client) = started(&world.setup);
    insert(&mut client, 1).unwrap();
    server.signal(Signal::STOP);
    wait_until_stopped(&server);
    let port = server.mysql_port;
    let waiting = thread::spawn(move || insert(&mut client, 2).map(|()| client));
    sleep(Duration::from_secs(2));
    assert!(!waiting.is_finished());
    server.signal(Signal::CONT);
    waiting.join().unwrap().unwrap();
    assert_eq!(count(&mut Client::connect(port).unwrap()), 2);
}

/// Waits until all threads have stopped: on a busy machine some run a little longer after SIGSTOP.
fn wait_until_stopped(server: &Server) {
    let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T')
    };
    let deadline = Instant::now() + END_PATIENCE;
    let threads = format!("/proc/{}/task", server.pid());
    while !std::fs::read_dir(&threads).unwrap().all(is_stopped) {
        assert!(Instant::now() < deadline, "a stopped process stops");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn with_few_descriptors_connections_are_refused_and_service_goes_on() {
    let mut world = world();
    let shell = "ulimit -n 64; exec \"$0\" \"$@\"";
    world.setup.wrapper = ["sh", "-c", shell].map(str::to_owned).to_vec();
    let (server, mut client) = started(&world.setup);
    let held = (0..100)
        .filter_map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, server.mysql_port)).ok())
        .collect::<Vec<_>>();
    sleep(Duration::from_millis(300));
    insert(&mut client, 1).unwrap();
    drop(held);
    let deadline = Instant::now() + END_PATIENCE;
    while Client::connect(server.mysql_port).is_err() {
        assert!(Instant::now() < deadline, "connections are taken again");
        sleep(Duration::from_millis(20));
    }
    assert_eq!(count(&mut client), 1);
    let logged = server.said().matches("cannot accept a connection").count();
    assert!((1..=2).contains(&logged), "logged at most once per protocol, not {logged} times");
}

#[test]
fn rubbish_on_the_sockets_is_survived() {
    let world = world();
    let (server, mut client) = started(&world.setup);
    for port in [server.mysql_port, server.http_port] {
        for fill in [0x00, 0x16, 0xff, b'G'] {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            // The server may close the connection before it has read everything.
            let _ = stream.write_all(&[fill; 70_000]);
            let _ = stream.read(&mut [0; 1000]);
        }
    }
    insert(&mut client, 1).unwrap();
    assert_eq!(count(&mut client), 1);
}
