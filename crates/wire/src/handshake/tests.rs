use super::*;

const CLIENT: Capabilities = Capabilities::SERVER;
const FRAME_HEADER: usize = crate::FRAME_HEADER_BYTES;

fn scramble() -> Scramble {
    Scramble::from_random(*b"abcdefghijklmnopqrst")
}

fn greeting() -> Greeting<'static> {
    Greeting {
        version: "8.0.36",
        connection_id: 7,
        scramble: scramble(),
        capabilities: Capabilities::SERVER,
        collation: Collation::UTF8MB4_0900_AI_CI,
        status: StatusFlags::AUTOCOMMIT,
        plugin: AuthPlugin::CachingSha2,
    }
}

fn hello(capabilities: Capabilities) -> ClientHello {
    ClientHello { capabilities, packet_bytes_max: 1 << 24, collation: Collation(45) }
}

fn payload(write: impl FnOnce(&mut PacketWriter)) -> Vec<u8> {
    let mut writer = PacketWriter::new();
    write(&mut writer);
    writer.bytes()[FRAME_HEADER..].to_vec()
}

#[test]
fn the_greeting_byte_for_byte() {
    let mut writer = PacketWriter::new();
    writer.greeting(&greeting());
    let mut expected = vec![0x4a, 0, 0, 0, 10];
    expected.extend_from_slice(b"8.0.36\0\x07\0\0\0abcdefgh\0");
    expected.extend_from_slice(&[0x8f, 0xa7, 0xff, 0x02, 0x00, 0xbf, 0x09, 21]);
    expected.extend_from_slice(&[0; 10]);
    expected.extend_from_slice(b"ijklmnopqrst\0caching_sha2_password\0");
    assert_eq!(writer.bytes(), expected);
    assert_eq!(Greeting::parse(&expected[FRAME_HEADER..]), Ok(greeting()));
}

#[test]
fn a_login_survives_every_set_of_capabilities() {
    let optional = [
        Capabilities::PLUGIN_AUTH_LENENC,
        Capabilities::CONNECT_WITH_DB,
        Capabilities::PLUGIN_AUTH,
        Capabilities::CONNECT_ATTRS,
    ];
    for set in 0..1 << optional.len() {
        let mut capabilities = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
        for (bit, flag) in optional.iter().enumerate() {
            capabilities = capabilities.set(*flag, set >> bit & 1 == 1);
        }
        let has = |flag| capabilities.contains(flag);
        let packet = payload(|w| {
            w.login(&LoginAnswer {
                hello: hello(capabilities),
                user: "ana",
                auth_response: b"0123456789",
                database: Some("shop"),
                plugin: AuthPlugin::Native,
                attributes: &[("_os", "Linux"), ("program_name", "mysql")],
            });
        });
        let Ok(HandshakeResponse::Login(login)) = HandshakeResponse::parse(&packet) else {
            panic!("not a login with {capabilities:?}");
        };
        assert_eq!(login.hello, hello(capabilities));
        assert_eq!((login.user, login.auth_response), ("ana", &b"0123456789"[..]));
        assert_eq!(login.database, has(Capabilities::CONNECT_WITH_DB).then_some("shop"));
        let plugin = has(Capabilities::PLUGIN_AUTH).then_some("mysql_native_password");
        assert_eq!(login.plugin, plugin);
        let attributes: Vec<_> = login.attributes.iter().collect();
        let expected = match has(Capabilities::CONNECT_ATTRS) {
            true => vec![("_os", "Linux"), ("program_name", "mysql")],
            false => Vec::new(),
        };
        let expected: Vec<_> =
            expected.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        assert_eq!(attributes, expected);
    }
}

#[test]
fn an_ssl_request_is_the_hello_alone() {
    let with_ssl = hello(CLIENT | Capabilities::SSL);
    let packet = payload(|w| w.packet(|out| PacketWriter::hello(&with_ssl, out)));
    assert_eq!(packet.len(), SSL_REQUEST_BYTES);
    assert_eq!(HandshakeResponse::parse(&packet), Ok(HandshakeResponse::Ssl(with_ssl)));

    let without = payload(|w| w.packet(|out| PacketWriter::hello(&hello(CLIENT), out)));
    assert!(HandshakeResponse::parse(&without).is_err());
}

#[test]
fn trailing_fields_may_be_missing() {
    let mut packet = payload(|w| w.packet(|out| PacketWriter::hello(&hello(CLIENT), out)));
    packet.extend_from_slice(b"root\0\0");
    let Ok(HandshakeResponse::Login(login)) = HandshakeResponse::parse(&packet) else {
        panic!("a short login is a login");
    };
    assert_eq!((login.user, login.database, login.plugin), ("root", None, None));

    packet.extend_from_slice(b"db\0mysql_native_password");
    let Ok(HandshakeResponse::Login(login)) = HandshakeResponse::parse(&packet) else {
        panic!("the last zero byte may be missing");
    };
    assert_eq!((login.database, login.plugin), (Some("db"), Some("mysql_native_password")));
}

#[test]
fn bad_answers_name_the_field() {
    let old = [0x05, 0xa4, 0x00, 0x00, 0x01, b'r', 0];
    let error = HandshakeResponse::parse(&old).unwrap_err();
    assert_eq!((error.errno(), error.sqlstate()), (1043, "08S01"));

    let mut packet = payload(|w| w.packet(|out| PacketWriter::hello(&hello(CLIENT), out)));
    packet.extend_from_slice(b"root\0\x14short");
    let error = HandshakeResponse::parse(&packet).unwrap_err();
    assert_eq!(error, Error::Malformed { what: "authentication response cut short" });
    packet.truncate(FRAME_HEADER + 20);
    assert!(HandshakeResponse::parse(&packet).is_err());
    assert!(HandshakeResponse::parse(&[]).is_err());
}

#[test]
fn attributes_that_lie_about_their_length_are_refused() {
    let mut packet = payload(|w| w.packet(|out| PacketWriter::hello(&hello(CLIENT), out)));
    packet.extend_from_slice(b"root\0\0db\0plugin\0\x04\x03ab\x01");
    let error = HandshakeResponse::parse(&packet).unwrap_err();
    assert_eq!(error, Error::Malformed { what: "connection attributes cut short" });
}
