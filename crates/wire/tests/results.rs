//! Replies written by the server's side are parsed by the client's side.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use freshet_wire::client::{BinaryCells, Encoding, Outcome, Outcomes, PreparedReply, Rows, Value};
use freshet_wire::{
    Capabilities, Collation, ColumnDefinition, ColumnFlags, ColumnType, Date, DateTime, OkPacket,
    PAYLOAD_BYTES_MAX_DEFAULT, PacketReader, PacketWriter, Param, Prepared, StatusFlags, Time,
};

const OLD: Capabilities = Capabilities::PROTOCOL_41;
const NEW: Capabilities = Capabilities::SERVER;

/// The packets of a reply, in order.
fn packets(capabilities: Capabilities, write: impl FnOnce(&mut PacketWriter)) -> Vec<Vec<u8>> {
    let mut writer = PacketWriter::new();
    writer.set_capabilities(capabilities);
    writer.reply_to(1);
    write(&mut writer);
    let mut reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
    reader.feed(writer.bytes());
    let (mut packets, mut sequence) = (Vec::new(), 1);
    while let Some(packet) = reader.next_packet(sequence).unwrap() {
        sequence = packet.reply_sequence();
        packets.push(packet.payload.to_vec());
    }
    assert_eq!(reader.unread_bytes(), 0);
    packets
}

fn outcomes(
    encoding: Encoding,
    capabilities: Capabilities,
    write: impl FnOnce(&mut PacketWriter),
) -> Vec<Outcome> {
    let mut outcomes = Outcomes::new(encoding, capabilities);
    let packets = packets(capabilities, write);
    for (index, packet) in packets.iter().enumerate() {
        let done = outcomes.on_packet(packet).unwrap();
        assert_eq!(done, index + 1 == packets.len(), "packet {index}");
    }
    outcomes.into_inner()
}

fn rows(outcome: &Outcome) -> &Rows {
    match outcome {
        Outcome::Rows(rows) => rows,
        other => panic!("not rows: {other:?}"),
    }
}

fn column(name: &str, column_type: ColumnType) -> ColumnDefinition<'_> {
    ColumnDefinition::new(name, column_type)
}

const DATE: Date = Date { year: 2026, month: 11, day: 21 };
const DATETIME: DateTime = DateTime { date: DATE, hour: 8, minute: 9, second: 10, micros: 110_000 };
const TIME: Time = Time { negative: true, days: 1, hour: 2, minute: 3, second: 4, micros: 0 };

#[test]
fn column_definitions_byte_for_byte() {
    let id = ColumnDefinition {
        schema: "shop",
        table: "o",
        table_original: "orders",
        name: "id",
        name_original: "id",
        collation: Collation::BINARY,
        length: 20,
        flags: ColumnFlags::NOT_NULL | ColumnFlags::PRIMARY_KEY | ColumnFlags::UNSIGNED,
        ..ColumnDefinition::new("id", ColumnType::LongLong)
    };
    let packets = packets(OLD, |w| w.columns(&[id], StatusFlags::AUTOCOMMIT));
    assert_eq!(packets.len(), 3);
    assert_eq!(packets[0], [1]);
    let expected =
        b"\x03def\x04shop\x01o\x06orders\x02id\x02id\x0c\x3f\0\x14\0\0\0\x08\x23\0\0\0\0";
    assert_eq!(packets[1], expected);
    assert_eq!(packets[2], [0xfe, 0, 0, 2, 0]);
    assert_eq!(ColumnDefinition::parse(&packets[1]), Ok(id));
}

#[test]
fn text_results_in_both_forms() {
    for capabilities in [OLD, NEW] {
        let got = outcomes(Encoding::Text, capabilities, |w| {
            let columns = [column("a", ColumnType::LongLong), column("b", ColumnType::VarString)];
            w.columns(&columns, StatusFlags::AUTOCOMMIT);
            for (a, b) in [(1, Some("x")), (-2, None)] {
                let mut row = w.text_row(2);
                row.int(a);
                match b {
                    Some(text) => row.bytes(text.as_bytes()),
                    None => row.null(),
                }
                row.finish();
            }
            w.result_end(StatusFlags::AUTOCOMMIT, 5);
        });
        let rows = rows(&got[0]);
        assert_eq!(rows.names, ["a", "b"]);
        assert_eq!((rows.status, rows.warnings), (StatusFlags::AUTOCOMMIT, 5));
        let bytes = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        assert_eq!(rows.rows, [[bytes("1"), bytes("x")], [bytes("-2"), Value::Null]]);
    }
}

#[test]
fn binary_results_carry_every_type() {
    let unsigned = ColumnDefinition {
        flags: ColumnFlags::UNSIGNED,
        ..column("unsigned", ColumnType::LongLong)
    };
    let columns = [
        column("tiny", ColumnType::Tiny),
        column("short", ColumnType::Short),
        column("long", ColumnType::Long),
        column("longlong", ColumnType::LongLong),
        unsigned,
        column("float", ColumnType::Float),
        column("double", ColumnType::Double),
        column("text", ColumnType::VarString),
        column("decimal", ColumnType::NewDecimal),
        column("date", ColumnType::Date),
        column("datetime", ColumnType::DateTime),
        column("time", ColumnType::Time),
        column("null", ColumnType::Blob),
    ];
    for capabilities in [OLD, NEW] {
        let got = outcomes(Encoding::Binary, capabilities, |w| {
            w.columns(&columns, StatusFlags::NONE);
            let mut row = w.binary_row(columns.len());
            row.i8(-1);
            row.i16(-2);
            row.i32(-3);
            row.i64(-4);
            row.i64(-1);
            row.float(0.5);
            row.double(-0.25);
            row.bytes(b"text");
            row.decimal(-12345, 2);
            row.date(DATE);
            row.datetime(DATETIME);
            row.time(TIME);
            row.null();
            row.finish();
            w.result_end(StatusFlags::NONE, 0);
        });
        let expected = [
            Value::Int(-1),
            Value::Int(-2),
            Value::Int(-3),
            Value::Int(-4),
            Value::UInt(u64::MAX),
            Value::Float(0.5),
            Value::Double(-0.25),
            Value::Bytes(b"text".to_vec()),
            Value::Bytes(b"-123.45".to_vec()),
            Value::Date(DATE),
            Value::DateTime(DATETIME),
            Value::Time(TIME),
            Value::Null,
        ];
        assert_eq!(rows(&got[0]).rows, [expected]);
    }
}

#[test]
fn several_results_end_with_the_one_that_announces_no_more() {
    for capabilities in [OLD, NEW] {
        let more = StatusFlags::AUTOCOMMIT | StatusFlags::MORE_RESULTS_EXISTS;
        let got = outcomes(Encoding::Text, capabilities, |w| {
            w.ok(&OkPacket { affected_rows: 300, status: more, info: "one", ..Default::default() });
            w.columns(&[column("c", ColumnType::Date)], more);
            let mut row = w.text_row(1);
            row.date(DATE);
            row.finish();
            w.result_end(more, 0);
            w.err(1146, "42S02", "Table 'db.t' doesn't exist");
        });
        assert_eq!(got.len(), 3);
        assert!(matches!(&got[0], Outcome::Ok { affected_rows: 300, info, .. } if info == "one"));
        assert_eq!(rows(&got[1]).rows, [[Value::Bytes(b"2026-11-21".to_vec())]]);
        assert!(
            matches!(&got[2], Outcome::Err { errno: 1146, sqlstate, .. } if sqlstate == "42S02")
        );
    }
}

#[test]
fn an_error_may_end_the_rows() {
    let got = outcomes(Encoding::Text, NEW, |w| {
        w.columns(&[column("c", ColumnType::Long)], StatusFlags::NONE);
        let mut row = w.text_row(1);
        row.uint(1);
        row.finish();
        w.text_row(1).uint(2);
        w.err(3024, "HY000", "maximum statement execution time exceeded");
    });
    assert!(matches!(&got[..], [Outcome::Err { errno: 3024, .. }]));
}

#[test]
fn a_cell_larger_than_a_frame_is_not_taken_for_the_end() {
    let giant = vec![b'g'; (1 << 24) + 5];
    for capabilities in [OLD, NEW] {
        let got = outcomes(Encoding::Text, capabilities, |w| {
            w.columns(&[column("c", ColumnType::LongBlob)], StatusFlags::NONE);
            let mut row = w.text_row(1);
            row.bytes(&giant);
            row.finish();
            w.result_end(StatusFlags::NONE, 0);
        });
        assert!(rows(&got[0]).rows == [[Value::Bytes(giant.clone())]]);
    }
}

#[test]
fn a_prepare_reply_defines_parameters_and_columns() {
    for (capabilities, ends) in [(OLD, 2), (NEW, 0)] {
        let columns = [column("c", ColumnType::Long)];
        let packets = packets(capabilities, |w| {
            w.prepared(&Prepared {
                statement_id: 9,
                parameters: 2,
                columns: &columns,
                status: StatusFlags::AUTOCOMMIT,
                warnings: 0,
            });
        });
        assert_eq!(packets[0], [0, 9, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0]);
        let reply = PreparedReply::parse(&packets[0]).unwrap();
        assert_eq!((reply.statement_id, reply.parameters, reply.columns), (9, 2, 1));
        assert_eq!(packets.len(), 1 + 3 + ends);
        assert_eq!(packets.len(), 1 + reply.packets(capabilities));
        assert_eq!(ColumnDefinition::parse(&packets[1]), Ok(ColumnDefinition::parameter()));
    }
    let insert = packets(OLD, |w| {
        w.prepared(&Prepared {
            statement_id: 1,
            parameters: 0,
            columns: &[],
            status: StatusFlags::NONE,
            warnings: 0,
        });
    });
    assert_eq!(insert.len(), 1);
}

#[test]
fn a_cursor_answers_without_rows_and_fetches_answer_without_columns() {
    let columns = [column("c", ColumnType::Long)];
    let opened = packets(OLD, |w| w.cursor(&columns, StatusFlags::AUTOCOMMIT, 0));
    assert_eq!(opened.last().unwrap(), &[0xfe, 0, 0, 0x42, 0]);
    assert_eq!(opened.len(), 3);
    let opened = packets(NEW, |w| w.cursor(&columns, StatusFlags::AUTOCOMMIT, 0));
    assert_eq!(opened.last().unwrap(), &[0xfe, 0, 0, 0x42, 0, 0, 0]);

    let fetched = packets(NEW, |w| {
        let mut row = w.binary_row(1);
        row.i32(7);
        row.finish();
        w.result_end(StatusFlags::LAST_ROW_SENT, 0);
    });
    let types = [(ColumnType::Long, ColumnFlags::NONE)];
    let cells: Vec<_> = BinaryCells::new(&fetched[0], &types).unwrap().collect();
    assert_eq!(cells, [Ok(Param::Int(7))]);
}

#[test]
fn the_plain_packets() {
    assert_eq!(packets(NEW, |w| w.local_infile("/tmp/x")), [b"\xfb/tmp/x"]);
    assert_eq!(packets(NEW, |w| w.statistics("Uptime: 1")), [b"Uptime: 1"]);
    let fields = packets(OLD, |w| {
        let fields =
            [(column("a", ColumnType::Long), Some("7")), (column("b", ColumnType::Long), None)];
        w.field_list(fields, StatusFlags::AUTOCOMMIT);
    });
    assert_eq!(fields.len(), 3);
    assert!(fields[0].ends_with(b"\x017") && fields[1].ends_with(b"\xfb"));
    assert_eq!(fields[2], [0xfe, 0, 0, 2, 0]);
    let file = outcomes_of_infile();
    assert_eq!(file, [Outcome::LocalInfile("data.csv".into())]);
}

fn outcomes_of_infile() -> Vec<Outcome> {
    let mut outcomes = Outcomes::new(Encoding::Text, NEW);
    assert_eq!(outcomes.on_packet(b"\xfbdata.csv"), Ok(false));
    outcomes.into_inner()
}
