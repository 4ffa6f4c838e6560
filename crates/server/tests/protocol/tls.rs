//! TLS: both protocols over it, what refuses plain connections, keys that change, handshakes that
//! are none.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Client, Failure, TestServer};
use freshet_server::{Settings, TlsSettings};
use freshet_wire::Capabilities;
use freshet_wire::client::Login;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn encrypted() -> Settings {
    let tls = TlsSettings { enabled: true, ..TlsSettings::default() };
    Settings { tls, ..Settings::local() }
}

/// What a client trusts, and shows.
struct Trust {
    roots: Vec<u8>,
    shown: Option<(Vec<u8>, Vec<u8>)>,
    versions: &'static [&'static SupportedProtocolVersion],
}

impl Trust {
    /// In the authority that a server has generated.
    fn generated(server: &TestServer) -> Self {
        let dir = &server.engine.config().data_dir;
        Self::of(std::fs::read(dir.join("tls/ca.pem")).unwrap())
    }

    fn of(roots: Vec<u8>) -> Self {
        Self { roots, shown: None, versions: rustls::ALL_VERSIONS }
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&self.roots) {
            roots.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match &self.shown {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(cert).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }

    fn wrap(&self, socket: TcpStream) -> Secure {
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(self.config(), name).unwrap(), socket)
    }

    fn log_in(
        &self,
        address: SocketAddr,
        user: &str,
        password: &str,
    ) -> Result<Client<Secure>, Failure> {
        let (socket, greeting) = asked(address);
        let mut client = Client::on(self.wrap(socket));
        let mut login = Login::new(user, password, None);
        login.capabilities = Capabilities::SERVER.with(Capabilities::SSL);
        login.transport_secure = true;
        client.prove(&mut login, (greeting, 1))?;
        Ok(client)
    }

    fn http(&self, address: SocketAddr, request: &str) -> String {
        let mut stream = self.wrap(TcpStream::connect(address).unwrap());
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// A socket that was greeted and has asked for TLS, and the greeting.
fn asked(address: SocketAddr) -> (TcpStream, Vec<u8>) {
    let mut plain = Client::on(TcpStream::connect(address).unwrap());
    let (greeting, _) = plain.packet(0).unwrap();
    let hello = freshet_wire::handshake::Greeting::parse(&greeting).unwrap();
    assert!(hello.capabilities.contains(Capabilities::SSL));
    plain.socket.write_all(&ssl_request()).unwrap();
    (plain.socket, greeting)
}

fn ssl_request() -> Vec<u8> {
    let capabilities = Capabilities::SERVER.with(Capabilities::SSL);
    let mut packet = vec![32, 0, 0, 1];
    packet.extend(capabilities.bits().to_le_bytes());
    packet.extend((16_u32 << 20).to_le_bytes());
    packet.push(45);
    packet.extend([0; 23]);
    packet
}

fn plain(address: SocketAddr, user: &str, password: &str) -> Result<Client, Failure> {
    Client::connect(address, user, password, None)
}

const GET: &str = "GET /api/bootstrap HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
    Authorization: Basic cm9vdDo=\r\n\r\n";

#[test]
fn a_client_of_each_version_logs_in_and_moves_large_packets() {
    let server = TestServer::with(encrypted());
    let mut root = server.connect();
    let of_own = "show status where variable_name in ('Ssl_cipher', 'Ssl_version')";
    assert_eq!(root.texts(of_own), [["Ssl_cipher", ""], ["Ssl_version", ""]]);
    root.run("create user app identified with caching_sha2_password by 'secret'");
    root.run("grant all on *.* to app");
    static OLD: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
    static NEW: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
    for (versions, name) in [(&OLD, "TLSv1.2"), (&NEW, "TLSv1.3")] {
        let trust = Trust { versions, ..Trust::generated(&server) };
        assert_eq!(trust.log_in(server.address, "app", "wrong").err().unwrap().errno, 1045);
        // The first login sends the password, the second answers the scramble.
        for _ in 0..2 {
            let mut client = trust.log_in(server.address, "app", "secret").unwrap();
            assert_eq!(client.one("select 1"), "1");
            let status = client.texts(of_own);
            assert!(status[0][1].contains("AES") || status[0][1].contains("CHACHA"), "{status:?}");
            assert!(!status[0][1].contains("WITH"), "{status:?}");
            assert_eq!(status[1][1], name);
            let long = "x".repeat(3 << 20);
            assert_eq!(client.one(&format!("select '{long}'")), long);
        }
    }
    assert_eq!(root.one("select @@have_ssl"), "YES");
}

#[test]
fn rows_are_inserted_and_commands_pipelined_under_tls() {
    let server = TestServer::with(encrypted());
    let mut client = Trust::generated(&server).log_in(server.address, "root", "").unwrap();
    client.run("create database d");
    client.run("use d");
    client.run("create table t (a int)");
    for at in 0..100 {
        client.writer.command_query(format!("insert into t values ({at})").as_bytes());
    }
    client.send();
    for _ in 0..100 {
        client.outcomes(freshet_wire::client::Encoding::Text);
    }
    assert_eq!(client.one("select count(*) from t"), "100");
    let sum = client.texts("select a.a from t a, t b, t c where c.a < 5").len();
    assert_eq!(sum, 50_000);
}

#[test]
fn generated_keys_belong_to_their_owner_and_stay_through_a_restart() {
    let server = TestServer::with(encrypted());
    let dir = server.engine.config().data_dir.join("tls");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for name in ["ca.pem", "server-cert.pem", "server-key.pem"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
    let trust = Trust::generated(&server);
    let server = server.restart_with(encrypted());
    trust.log_in(server.address, "root", "").unwrap();
    // Without its certificate a key is made anew, and so is what clients trust.
    let dir = server.engine.config().data_dir.join("tls");
    std::fs::remove_file(dir.join("server-cert.pem")).unwrap();
    let server = server.restart_with(encrypted());
    Trust::generated(&server).log_in(server.address, "root", "").unwrap();
    assert_ne!(Trust::generated(&server).roots, trust.roots);
}

#[test]
fn plain_connections_are_refused_where_tls_is_required() {
    let server = TestServer::with(encrypted());
    let trust = Trust::generated(&server);
    let mut root = server.connect();
    root.run("set global require_secure_transport = on");
    let refused = plain(server.address, "root", "").err().unwrap();
    assert_eq!((refused.errno, &*refused.sqlstate), (3159, "HY000"));
    assert_eq!(root.one("select 1"), "1", "an open connection stays");
    trust.log_in(server.address, "root", "").unwrap();
    let mut socket = TcpStream::connect(server.http_address()).unwrap();
    socket.write_all(GET.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("insecure"), "{answer}");
    let answer = trust.http(server.http_address(), GET);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    root.run("set global require_secure_transport = default");
    plain(server.address, "root", "").unwrap();
}

#[test]
fn a_server_without_tls_offers_none_and_cannot_require_it() {
    let server = TestServer::start();
    let mut root = server.connect();
    assert_eq!(root.one("select @@have_ssl"), "DISABLED");
    assert_eq!(root.fails("set global require_secure_transport = 1").errno, 3160);
    assert_eq!(root.fails("alter instance reload tls").errno, 3160);
    assert!(!server.engine.config().data_dir.join("tls").exists());
    let mut socket = Client::on(TcpStream::connect(server.address).unwrap());
    socket.packet(0).unwrap();
    socket.socket.write_all(&ssl_request()).unwrap();
    let (error, _) = socket.packet(2).unwrap();
    assert_eq!(error[..3], [0xff, 0x13, 0x04], "1043");
}

#[test]
fn https_takes_loads_and_names_itself_in_urls() {
    let server = TestServer::with(encrypted());
    let mut root = server.database("d");
    root.run("create table t (a int not null)");
    let trust = Trust::generated(&server);
    let load = |header: &str, body: &str| {
        let length = body.len();
        trust.http(
            server.http_address(),
            &format!(
                "PUT /api/d/t/_stream_load HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\
                 Authorization: Basic cm9vdDo=\r\nContent-Length: {length}\r\n{header}\r\n{body}"
            ),
        )
    };
    let rows = (0..200_000).map(|row| format!("{row}\n")).collect::<String>();
    let answer = load("", &rows);
    assert!(answer.contains("\"NumberLoadedRows\": 200000"), "{answer}");
    let answer = load("max_filter_ratio: 1\r\n", "1\nx\n");
    assert!(answer.contains("https://localhost:1/api/_load_error_log"), "{answer}");
    assert_eq!(root.one("select count(*) from t"), "200001");
}

/// An authority, and certificates that it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// A certificate for localhost and its key.
    fn sign(&self) -> (Vec<u8>, Vec<u8>) {
        let issuer: &Issuer<'_, _> = &self.0;
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let cert = cert.signed_by(&key, issuer).unwrap();
        (cert.pem().into_bytes(), key.serialize_pem().into_bytes())
    }
}

/// Files of keys that a test gives to a server.
struct Given(tempfile::TempDir);

impl Given {
    fn new(keys: &(Vec<u8>, Vec<u8>), ca: Option<&Authority>) -> (Self, Settings) {
        let given = Self(tempfile::tempdir().unwrap());
        given.put(keys);
        let ca_file = ca.map(|ca| {
            std::fs::write(given.path("ca"), ca.pem()).unwrap();
            given.path("ca")
        });
        let (cert_file, key_file) = (Some(given.path("cert")), Some(given.path("key")));
        let tls = TlsSettings { enabled: true, cert_file, key_file, ca_file };
        (given, Settings { tls, ..Settings::local() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, (cert, key): &(Vec<u8>, Vec<u8>)) {
        std::fs::write(self.path("cert"), cert).unwrap();
        std::fs::write(self.path("key"), key).unwrap();
    }
}

#[test]
fn accounts_may_require_tls_and_a_certificate() {
    let (own, clients) = (Authority::new("own"), Authority::new("clients"));
    let (_files, settings) = Given::new(&own.sign(), Some(&clients));
    let server = TestServer::with(settings);
    let mut root = server.connect();
    root.run("create user safe identified by 'p' require ssl");
    root.run("create user known require x509");
    root.run("create user free");
    assert_eq!(root.fails("create user x require subject '/CN=x'").errno, 1235);
    let shown = root.one("show create user known");
    assert!(shown.contains(" REQUIRE X509 "), "{shown}");
    let trust = Trust::of(own.pem());
    let certified = Trust { shown: Some(clients.sign()), ..Trust::of(own.pem()) };
    let errno = |login: Result<Client<Secure>, Failure>| login.err().map(|failure| failure.errno);
    assert_eq!(plain(server.address, "safe", "p").err().unwrap().errno, 1045);
    assert_eq!(errno(trust.log_in(server.address, "safe", "p")), None);
    assert_eq!(errno(trust.log_in(server.address, "known", "")), Some(1045));
    assert_eq!(errno(certified.log_in(server.address, "known", "")), None);
    assert_eq!(errno(certified.log_in(server.address, "free", "")), None);
    plain(server.address, "free", "").unwrap();
    // A password that changes leaves what is required of the connection.
    root.run("alter user safe identified by 'q'");
    assert_eq!(plain(server.address, "safe", "q").err().unwrap().errno, 1045);
    root.run("alter user safe require none");
    plain(server.address, "safe", "q").unwrap();
    root.run("alter user safe require ssl");
    // By HTTP too.
    let get = |user: &str| {
        let basic = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, user);
        GET.replace("cm9vdDo=", &basic)
    };
    let mut socket = TcpStream::connect(server.http_address()).unwrap();
    socket.write_all(get("safe:q").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(trust.http(server.http_address(), &get("safe:q")).starts_with("HTTP/1.1 200"));
    // Nobody may lift what is required of the own account.
    let mut safe = trust.log_in(server.address, "safe", "q").unwrap();
    assert_eq!(safe.fails("alter user safe require none").errno, 1227);
    // A certificate of another authority ends the handshake.
    let strange = Trust { shown: Some(own.sign()), ..Trust::of(own.pem()) };
    let (socket, _) = asked(server.address);
    let mut stream = strange.wrap(socket);
    let refused = stream.write_all(b"x").and_then(|()| stream.read(&mut [0; 16]));
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn keys_are_replaced_without_a_restart() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let (files, settings) = Given::new(&before.sign(), None);
    let server = TestServer::with(settings);
    let (old, new) = (Trust::of(before.pem()), Trust::of(after.pem()));
    let mut client = old.log_in(server.address, "root", "").unwrap();
    files.put(&after.sign());
    old.log_in(server.address, "root", "").unwrap();
    client.run("alter instance reload tls");
    assert_eq!(client.one("select 1"), "1", "an open connection keeps its keys");
    new.log_in(server.address, "root", "").unwrap();
    let mut stream = old.wrap(asked(server.address).0);
    assert!(stream.write_all(b"x").is_err(), "the old authority has not signed this");
    // Files that do not go together change nothing.
    std::fs::write(files.path("key"), after.sign().1).unwrap();
    let refused = client.fails("alter instance reload tls");
    assert!(refused.message.contains("tls_cert_file"), "{refused:?}");
    std::fs::write(files.path("cert"), b"nothing").unwrap();
    assert!(client.fails("alter instance reload tls").message.contains("no certificates"));
    new.log_in(server.address, "root", "").unwrap();
    client.run("create user clerk");
    let mut clerk = new.log_in(server.address, "clerk", "").unwrap();
    assert_eq!(clerk.fails("alter instance reload tls").errno, 1227);
}

#[test]
fn handshakes_that_are_none_end_and_cost_others_nothing() {
    let settings = Settings {
        connect_timeout: Duration::from_secs(2),
        http_header_timeout: Duration::from_secs(1),
        ..encrypted()
    };
    let server = TestServer::with(settings);
    let closes = |mut socket: TcpStream, what: &str| {
        let began = Instant::now();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = socket.read_to_end(&mut rest);
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        rest
    };
    for (what, bytes) in [
        ("noise", vec![0x5a; 4096]),
        ("a command behind the request", b"\x09\0\0\x02\x03select 1".to_vec()),
        ("a record that does not end", vec![HANDSHAKE, 3, 1, 0x40, 0, 1]),
        ("nothing", Vec::new()),
    ] {
        let (mut socket, _) = asked(server.address);
        socket.write_all(&bytes).unwrap();
        closes(socket, what);
        if bytes.first() == Some(&HANDSHAKE) || bytes.is_empty() {
            let mut socket = TcpStream::connect(server.http_address()).unwrap();
            socket.write_all(&bytes).unwrap();
            closes(socket, what);
        }
    }
    // A request and a command sent at once: what is not encrypted is never a command.
    let mut socket = Client::on(TcpStream::connect(server.address).unwrap());
    socket.packet(0).unwrap();
    let login = b"\x24\0\0\x02\x0d\xa2\x08\0\0\0\0\x01\x2d";
    socket.socket.write_all(&[&ssl_request()[..], login, &[0; 27]].concat()).unwrap();
    let rest = closes(socket.socket, "plain bytes behind the request");
    assert!(rest.first().is_none_or(|first| *first == 0x15), "an alert or nothing: {rest:?}");
    Trust::generated(&server).log_in(server.address, "root", "").unwrap();
    assert_eq!(server.connect().one("select 1"), "1");
    let mut root = server.connect();
    let deadline = Instant::now() + Duration::from_secs(20);
    while root.one("select count(*) from information_schema.processlist") != "1" {
        assert!(Instant::now() < deadline, "connections are left over");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The first byte of a handshake.
const HANDSHAKE: u8 = 0x16;
