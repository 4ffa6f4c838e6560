use super::*;
use crate::{PacketWriter, client};

const PLAIN: Capabilities = Capabilities::PROTOCOL_41;

fn parsed(write: impl FnOnce(&mut PacketWriter), check: impl FnOnce(Command<'_>)) {
    let mut writer = PacketWriter::new();
    writer.set_capabilities(PLAIN);
    write(&mut writer);
    assert_eq!(writer.bytes()[3], 0, "a command starts with sequence id 0");
    check(Command::parse(&writer.bytes()[4..], PLAIN).unwrap());
}

#[test]
fn older_commands_are_statements() {
    for (payload, statement) in [
        (&[0x07, 0x04][..], "FLUSH TABLES"),
        (&[0x07, 0x1b], "FLUSH STATUS"),
        (&[0x08, 0x00], "SHUTDOWN"),
        (&[0x0a], "SHOW PROCESSLIST"),
    ] {
        let command = Command::parse(payload, PLAIN).unwrap();
        assert_eq!(command, Command::Query(statement.as_bytes()), "{payload:?}");
    }
    assert!(Command::parse(&[0x07], PLAIN).is_err(), "without flags");
}

#[test]
fn what_the_client_writes_is_what_the_server_reads() {
    parsed(|w| w.command_quit(), |c| assert_eq!(c, Command::Quit));
    parsed(|w| w.command_init_db("shop"), |c| assert_eq!(c, Command::InitDb("shop")));
    parsed(|w| w.command_query(b"select 1"), |c| assert_eq!(c, Command::Query(b"select 1")));
    parsed(
        |w| w.command_field_list("t", "a%"),
        |c| assert_eq!(c, Command::FieldList { table: "t", pattern: "a%" }),
    );
    parsed(|w| w.command_statistics(), |c| assert_eq!(c, Command::Statistics));
    parsed(|w| w.command_process_kill(9), |c| assert_eq!(c, Command::ProcessKill(9)));
    parsed(|w| w.command_ping(), |c| assert_eq!(c, Command::Ping));
    parsed(|w| w.command_reset_connection(), |c| assert_eq!(c, Command::ResetConnection));
    for on in [true, false] {
        let expected = Command::SetMultiStatements(on);
        parsed(|w| w.command_set_multi_statements(on), |c| assert_eq!(c, expected));
    }
    parsed(|w| w.command_prepare(b"select ?"), |c| assert_eq!(c, Command::Prepare(b"select ?")));
    parsed(|w| w.command_close(3), |c| assert_eq!(c, Command::CloseStatement(3)));
    parsed(|w| w.command_reset(3), |c| assert_eq!(c, Command::ResetStatement(3)));
    parsed(
        |w| w.command_fetch(3, 100),
        |c| assert_eq!(c, Command::Fetch { statement_id: 3, rows: 100 }),
    );
    parsed(
        |w| w.command_long_data(3, 1, b"piece"),
        |c| {
            let expected = Command::SendLongData { statement_id: 3, parameter: 1, data: b"piece" };
            assert_eq!(c, expected);
        },
    );
}

#[test]
fn change_user_in_short_and_full() {
    parsed(
        |w| w.command_change_user("ana", "shop", 45),
        |c| {
            let Command::ChangeUser(change) = c else { panic!("{c:?}") };
            assert_eq!((change.user, change.database), ("ana", Some("shop")));
            assert_eq!((change.collation, change.plugin), (Some(Collation(45)), None));
        },
    );
    let full = b"\x11ana\0\x03abc\0\x2d\0mysql_native_password\0\x04\x01k\x01v";
    let Ok(Command::ChangeUser(change)) = Command::parse(full, Capabilities::SERVER) else {
        panic!("a full COM_CHANGE_USER");
    };
    assert_eq!((change.auth_response, change.database), (&b"abc"[..], None));
    assert_eq!(change.plugin, Some("mysql_native_password"));
    assert_eq!(change.attributes.iter().collect::<Vec<_>>(), [("k".into(), "v".into())]);

    let Ok(Command::ChangeUser(change)) = Command::parse(b"\x11ana\0\0", Capabilities::SERVER)
    else {
        panic!("a short COM_CHANGE_USER");
    };
    assert_eq!((change.collation, change.plugin), (None, None));
}

#[test]
fn query_attributes_are_skipped() {
    let query = |payload| Command::parse(payload, Capabilities::SERVER);
    assert_eq!(query(b"\x03\x00\x01select 1"), Ok(Command::Query(b"select 1")));
    // Two attributes: n = NULL and s = 'xyz'.
    let two = b"\x03\x02\x01\x01\x01\x06\0\x01n\xfd\0\x01s\x03xyzselect 2";
    assert_eq!(query(two), Ok(Command::Query(b"select 2")));
    let unbound = query(b"\x03\x01\x01\x00\x00select 3").unwrap_err();
    assert_eq!(unbound, Error::Malformed { what: "query attributes without types" });
    assert!(query(b"\x03").is_err());

    let mut writer = PacketWriter::new();
    writer.set_capabilities(Capabilities::SERVER);
    writer.command_query(b"select 4");
    assert_eq!(query(&writer.bytes()[4..]), Ok(Command::Query(b"select 4")));
}

#[test]
fn unknown_commands_and_empty_packets_are_told_apart() {
    let error = Command::parse(&[0x1d], PLAIN).unwrap_err();
    assert_eq!((error.errno(), error.sqlstate()), (1047, "08S01"));
    let error = Command::parse(&[], PLAIN).unwrap_err();
    assert_eq!(error.to_string(), "Malformed communication packet: empty command");
    assert!(Command::parse(&[0x17, 1, 0, 0], PLAIN).is_err());
    assert!(Command::parse(b"\x02\xff", PLAIN).is_err());
}

#[test]
fn the_reply_of_a_prepare_counts_its_packets() {
    let reply = client::PreparedReply { statement_id: 1, columns: 2, parameters: 3, warnings: 0 };
    assert_eq!(reply.packets(PLAIN), 7);
    assert_eq!(reply.packets(Capabilities::SERVER), 5);
}
