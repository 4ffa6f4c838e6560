//! Logins: client and server exchange packets through packet readers and writers.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use freshet_wire::auth::{AuthPlugin, Credential, Scramble, SlowHash};
use freshet_wire::client::{Login, LoginStep};
use freshet_wire::handshake::{Greeting, HandshakeResponse};
use freshet_wire::login::{AuthStep, Authenticator, PasswordKey};
use freshet_wire::{
    Capabilities, Collation, OkPacket, PAYLOAD_BYTES_MAX_DEFAULT, PacketReader, PacketWriter,
    StatusFlags,
};

/// One side of a connection.
struct End {
    reader: PacketReader,
    writer: PacketWriter,
}

impl End {
    fn new() -> Self {
        Self { reader: PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT), writer: PacketWriter::new() }
    }

    /// Passes the written bytes to the other side.
    fn send(&mut self, to: &mut End) {
        to.reader.feed(self.writer.bytes());
        self.writer.clear();
    }

    /// The next packet, in the sequence of the last written packet.
    fn receive(&mut self) -> Vec<u8> {
        let packet = self.reader.next_packet(self.writer.sequence()).unwrap().unwrap();
        let payload = packet.payload.to_vec();
        let sequence = packet.reply_sequence();
        self.writer.reply_to(sequence);
        payload
    }
}

/// A stand-in for encryption that reverses the bytes after a marker.
struct TurnAround;

const MARK: u8 = 0xee;

const PEM: &str = "-----BEGIN PUBLIC KEY-----";

impl PasswordKey for TurnAround {
    fn public_key_pem(&self) -> &str {
        PEM
    }

    fn decrypt(&self, ciphertext: &[u8]) -> Option<Vec<u8>> {
        let (mark, turned) = ciphertext.split_first()?;
        (*mark == MARK).then(|| turned.iter().rev().copied().collect())
    }
}

fn turn_around(key: &str, plain: &[u8]) -> Option<Vec<u8>> {
    (key == PEM).then(|| [MARK].into_iter().chain(plain.iter().rev().copied()).collect())
}

/// The result of a login at the server, and the number of packets that the client sent.
fn log_in(
    credential: Credential,
    greeted_plugin: AuthPlugin,
    secure: bool,
    mut login: Login<'_>,
) -> (AuthStep, usize) {
    let scramble = Scramble::from_random(*b"abcdefghijklmnopqrst");
    let (mut server, mut client) = (End::new(), End::new());
    server.writer.greeting(&Greeting {
        version: "8.0.36",
        connection_id: 1,
        scramble,
        capabilities: Capabilities::SERVER,
        collation: Collation::UTF8MB4_0900_AI_CI,
        status: StatusFlags::AUTOCOMMIT,
        plugin: greeted_plugin,
    });
    server.send(&mut client);
    login.transport_secure = secure;
    login.encryption = Some(turn_around);
    let mut exchange = Authenticator::new(credential, scramble, secure);
    let mut sent = 0;
    loop {
        let packet = client.receive();
        match login.on_packet(&mut client.writer, &packet).unwrap() {
            LoginStep::Wait => continue,
            LoginStep::Send => sent += 1,
            other => panic!("the server has not decided yet: {other:?}"),
        }
        client.send(&mut server);
        let packet = server.receive();
        let step = if sent == 1 {
            let Ok(HandshakeResponse::Login(request)) = HandshakeResponse::parse(&packet) else {
                panic!("not a login");
            };
            server.writer.set_capabilities(request.hello.capabilities & Capabilities::SERVER);
            exchange.begin(&mut server.writer, request.plugin, request.auth_response)
        } else {
            exchange.advance(&mut server.writer, &packet, Some(&TurnAround))
        };
        if step == AuthStep::Continue {
            server.send(&mut client);
            continue;
        }
        let accepted = matches!(step, AuthStep::Accepted { .. });
        match accepted {
            true => server.writer.ok(&OkPacket::default()),
            false => server.writer.err(1045, "28000", "Access denied"),
        }
        server.send(&mut client);
        let mut packet = client.receive();
        if login.on_packet(&mut client.writer, &packet).unwrap() == LoginStep::Wait {
            packet = client.receive();
        }
        match login.on_packet(&mut client.writer, &packet).unwrap() {
            LoginStep::Done(_) => assert!(accepted),
            LoginStep::Refused(err) => {
                assert!(!accepted);
                assert_eq!((err.errno, err.sqlstate), (1045, "28000"));
            }
            other => panic!("not the end of a login: {other:?}"),
        }
        return (step, sent);
    }
}

fn login(password: &'static str) -> Login<'static> {
    Login::new("ana", password, Some("shop"))
}

/// The number of packets that a client sends after the fast path failed: a request for the key, and
/// the password.
fn full_exchange(plugin: AuthPlugin) -> usize {
    match plugin {
        AuthPlugin::Native => 0,
        AuthPlugin::CachingSha2 => 2,
    }
}

const ACCEPTED: AuthStep = AuthStep::Accepted { fast_hash: None };

#[test]
fn both_plugins_take_one_packet_when_guessed_right_and_two_after_a_switch() {
    for (credential, plugin, other) in [
        (Credential::native(b"secret"), AuthPlugin::Native, AuthPlugin::CachingSha2),
        (Credential::sha2_fast(b"secret"), AuthPlugin::CachingSha2, AuthPlugin::Native),
    ] {
        for (greeted, packets) in [(plugin, 1), (other, 2)] {
            let right = log_in(credential.clone(), greeted, false, login("secret"));
            assert_eq!(right, (ACCEPTED, packets));
            let wrong = log_in(credential.clone(), greeted, false, login("wrong"));
            let wrong_packets = packets + full_exchange(plugin);
            assert_eq!(wrong, (AuthStep::Rejected { password_given: true }, wrong_packets));
            let none = log_in(credential.clone(), greeted, false, login(""));
            assert_eq!(none, (AuthStep::Rejected { password_given: false }, packets));
        }
    }
}

#[test]
fn an_empty_password_needs_no_switch() {
    for plugin in [AuthPlugin::Native, AuthPlugin::CachingSha2] {
        for greeted in [AuthPlugin::Native, AuthPlugin::CachingSha2] {
            let step = log_in(Credential::Empty(plugin), greeted, false, login(""));
            assert_eq!(step, (ACCEPTED, 1));
        }
        let given = log_in(Credential::Empty(plugin), plugin, false, login("x"));
        assert_eq!(given.0, AuthStep::Rejected { password_given: true });
    }
}

#[test]
fn unknown_users_are_refused_like_wrong_passwords() {
    for plugin in [AuthPlugin::Native, AuthPlugin::CachingSha2] {
        for password in ["", "secret"] {
            let step = log_in(Credential::Never(plugin), plugin, false, login(password));
            let password_given = !password.is_empty();
            let packets = if password_given { 1 + full_exchange(plugin) } else { 1 };
            assert_eq!(step, (AuthStep::Rejected { password_given }, packets));
        }
    }
}

#[test]
fn the_full_exchange_shows_the_password_by_tls_or_by_key() {
    let salt = Scramble::from_random([77; 20]);
    let credential = Credential::Sha2Slow(SlowHash::new(b"secret", salt, 1).unwrap());
    let fast_hash = AuthStep::Accepted { fast_hash: credential.fast_hash(b"secret") };
    for (secure, packets) in [(true, 2), (false, 3)] {
        let plugin = AuthPlugin::CachingSha2;
        let right = log_in(credential.clone(), plugin, secure, login("secret"));
        assert_eq!(right, (fast_hash.clone(), packets));
        let wrong = log_in(credential.clone(), plugin, secure, login("wrong"));
        assert_eq!(wrong, (AuthStep::Rejected { password_given: true }, packets));
    }
}

#[test]
fn either_of_two_passwords_is_taken_and_its_own_fast_hash_kept() {
    let slow = |password: &[u8], salt| {
        let salt = Scramble::from_random([salt; 20]);
        Credential::Sha2Slow(SlowHash::new(password, salt, 1).unwrap())
    };
    let either = |first: &Credential, second: &Credential| {
        Credential::Either(Box::new(first.clone()), Box::new(second.clone()))
    };
    let (new, old) = (slow(b"secret", 77), slow(b"before", 78));
    let plugin = AuthPlugin::CachingSha2;
    for (password, of) in [("secret", &new), ("before", &old)] {
        let fast_hash = of.fast_hash(password.as_bytes());
        assert!(fast_hash.is_some());
        let step = log_in(either(&new, &old), plugin, false, login(password));
        assert_eq!(step, (AuthStep::Accepted { fast_hash }, 3));
    }
    let wrong = log_in(either(&new, &old), plugin, false, login("wrong"));
    assert_eq!(wrong, (AuthStep::Rejected { password_given: true }, 3));
    let none = log_in(either(&new, &old), plugin, false, login(""));
    assert_eq!(none, (AuthStep::Rejected { password_given: false }, 1));

    let native = either(&Credential::native(b"secret"), &Credential::native(b"before"));
    for (password, accepted) in [("secret", true), ("before", true), ("wrong", false)] {
        let (step, _) = log_in(native.clone(), AuthPlugin::Native, false, login(password));
        assert_eq!(step == ACCEPTED, accepted, "{password}");
    }
}

#[test]
fn where_nobody_reads_along_the_password_may_come_either_way() {
    let salt = Scramble::from_random([77; 20]);
    let slow = Credential::Sha2Slow(SlowHash::new(b"secret", salt, 1).unwrap());
    let scramble = Scramble::from_random(*b"abcdefghijklmnopqrst");
    let hidden = |plain: &[u8]| {
        let masked: Vec<u8> =
            plain.iter().zip(scramble.bytes().iter().cycle()).map(|(a, b)| a ^ b).collect();
        turn_around(PEM, &masked).unwrap()
    };
    for (secure, answer, accepted) in [
        (true, hidden(b"secret\0"), true),
        (true, b"secret\0".to_vec(), true),
        (true, b"wrong\0".to_vec(), false),
        (false, hidden(b"secret\0"), true),
        (false, b"secret\0".to_vec(), false),
    ] {
        let mut exchange = Authenticator::new(slow.clone(), scramble, secure);
        let mut writer = PacketWriter::new();
        let plugin = Some(AuthPlugin::CachingSha2.name());
        assert_eq!(exchange.begin(&mut writer, plugin, &[9; 32]), AuthStep::Continue);
        let step = exchange.advance(&mut writer, &answer, Some(&TurnAround));
        assert_eq!(matches!(step, AuthStep::Accepted { .. }), accepted, "{secure} {answer:?}");
    }
}

#[test]
fn change_user_runs_a_whole_exchange_under_a_new_scramble() {
    let scramble = Scramble::from_random([42; 20]);
    let (mut server, mut client) = (End::new(), End::new());
    let credential = Credential::sha2_fast(b"secret");
    let mut exchange = Authenticator::new(credential, scramble, false);
    client.writer.command_change_user("ana", "shop", 45);
    client.send(&mut server);
    server.writer.reply_to(0);
    server.receive();
    assert_eq!(exchange.switch(&mut server.writer), AuthStep::Continue);
    server.send(&mut client);
    let mut again = login("secret");
    // A login that has processed its greeting answers an AuthSwitchRequest.
    let mut greeting = PacketWriter::new();
    greeting.greeting(&Greeting {
        version: "8.0.36",
        connection_id: 1,
        scramble: Scramble::from_random([1; 20]),
        capabilities: Capabilities::SERVER,
        collation: Collation::UTF8MB4_BIN,
        status: StatusFlags::AUTOCOMMIT,
        plugin: AuthPlugin::Native,
    });
    again.on_packet(&mut PacketWriter::new(), &greeting.bytes()[4..]).unwrap();
    let request = client.receive();
    assert_eq!(again.on_packet(&mut client.writer, &request).unwrap(), LoginStep::Send);
    client.send(&mut server);
    let response = server.receive();
    assert_eq!(exchange.advance(&mut server.writer, &response, None), ACCEPTED);
}

/// Servers such as MariaDB read what the request for TLS says, and not what the login repeats.
#[test]
fn the_request_for_tls_names_what_the_login_does() {
    let mut greeting = PacketWriter::new();
    greeting.greeting(&Greeting {
        version: "10.11.6-MariaDB",
        connection_id: 1,
        scramble: Scramble::from_random([1; 20]),
        capabilities: Capabilities::SERVER
            .with(Capabilities::SSL)
            .without(Capabilities::QUERY_ATTRIBUTES),
        collation: Collation::UTF8MB4_BIN,
        status: StatusFlags::AUTOCOMMIT,
        plugin: AuthPlugin::Native,
    });
    let greeting = &greeting.bytes()[4..];
    for database in [None, Some("shop")] {
        let mut login = Login::new("ana", "", database);
        let (mut server, mut client) = (End::new(), End::new());
        client.writer.reply_to(1);
        assert!(login.request_tls(&mut client.writer, greeting).unwrap());
        login.on_packet(&mut client.writer, greeting).unwrap();
        client.send(&mut server);
        server.writer.reply_to(1);
        let request = server.receive();
        let Ok(HandshakeResponse::Ssl(asked)) = HandshakeResponse::parse(&request) else {
            panic!("not a request for TLS");
        };
        let answer = server.receive();
        let Ok(HandshakeResponse::Login(login)) = HandshakeResponse::parse(&answer) else {
            panic!("not a login");
        };
        assert_eq!(asked, login.hello);
        assert!(asked.capabilities.contains(Capabilities::SSL));
        assert!(!asked.capabilities.contains(Capabilities::QUERY_ATTRIBUTES));
        let has_database = asked.capabilities.contains(Capabilities::CONNECT_WITH_DB);
        assert_eq!(has_database, database.is_some());
    }
    let mut plain = PacketWriter::new();
    plain.greeting(&Greeting {
        version: "8.0.36",
        connection_id: 1,
        scramble: Scramble::from_random([1; 20]),
        capabilities: Capabilities::SERVER.without(Capabilities::SSL),
        collation: Collation::UTF8MB4_BIN,
        status: StatusFlags::AUTOCOMMIT,
        plugin: AuthPlugin::Native,
    });
    let mut out = PacketWriter::new();
    let asked = Login::new("ana", "", None).request_tls(&mut out, &plain.bytes()[4..]);
    assert!(!asked.unwrap() && out.bytes().is_empty());
}
