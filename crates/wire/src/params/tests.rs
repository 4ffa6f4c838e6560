use super::*;
use crate::{Capabilities, Command, PacketWriter};
use proptest::prelude::*;

fn execute_bytes(capabilities: Capabilities, params: &[Param<'_>], bind: bool) -> Vec<u8> {
    let mut writer = PacketWriter::new();
    writer.set_capabilities(capabilities);
    writer.command_execute(5, params, bind);
    writer.bytes()[4..].to_vec()
}

fn execute(payload: &[u8], capabilities: Capabilities) -> Execute<'_> {
    match Command::parse(payload, capabilities) {
        Ok(Command::Execute(execute)) => execute,
        other => panic!("not an execute: {other:?}"),
    }
}

fn read<'a>(
    payload: &'a [u8],
    count: usize,
    types: &'a mut Vec<ParamType>,
    long_data: &'a LongData,
) -> Result<Vec<Param<'a>>> {
    Params::new(&execute(payload, Capabilities::PROTOCOL_41), count, types, long_data)?.collect()
}

#[test]
fn types_are_remembered_from_the_first_execute() {
    let (mut types, none) = (Vec::new(), LongData::default());
    let first = [Param::Int(-1), Param::Null, Param::Bytes(b"abc")];
    let payload = execute_bytes(Capabilities::PROTOCOL_41, &first, true);
    assert_eq!(read(&payload, 3, &mut types, &none).unwrap(), first);

    let second = [Param::Int(2), Param::Null, Param::Bytes(b"")];
    let payload = execute_bytes(Capabilities::PROTOCOL_41, &second, false);
    assert_eq!(read(&payload, 3, &mut types, &none).unwrap(), second);
}

#[test]
fn types_that_were_never_bound_are_an_error_of_the_statement() {
    let payload = execute_bytes(Capabilities::PROTOCOL_41, &[Param::Int(1)], false);
    let error = read(&payload, 1, &mut Vec::new(), &LongData::default()).unwrap_err();
    assert_eq!(error.errno(), 1210);
}

#[test]
fn every_width_and_sign_of_integers() {
    let bytes = |column_type: u8, sign: u8, value: &[u8]| {
        let mut payload = vec![0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, column_type, sign];
        payload.extend_from_slice(value);
        payload
    };
    for (column_type, sign, value, expected) in [
        (0x01, 0x00, &[0xff][..], Param::Int(-1)),
        (0x01, 0x80, &[0xff], Param::UInt(255)),
        (0x02, 0x00, &[0xff, 0xff], Param::Int(-1)),
        (0x0d, 0x80, &[0xea, 0x07], Param::UInt(2026)),
        (0x03, 0x00, &[0xff; 4], Param::Int(-1)),
        (0x09, 0x80, &[0xff; 4], Param::UInt(0xffff_ffff)),
        (0x08, 0x00, &[0xff; 8], Param::Int(-1)),
        (0x08, 0x80, &[0xff; 8], Param::UInt(u64::MAX)),
        (0x06, 0x00, &[], Param::Null),
        (0xf6, 0x00, b"\x041.50", Param::Decimal(b"1.50")),
        (0x00, 0x00, b"\x02-7", Param::Decimal(b"-7")),
        (0xfe, 0x00, b"\x01x", Param::Bytes(b"x")),
    ] {
        let payload = bytes(column_type, sign, value);
        let got =
            read(&payload, 1, &mut Vec::new(), &LongData::default()).map(|v| format!("{v:?}"));
        assert_eq!(got, Ok(format!("[{expected:?}]")));
    }
    let error = read(&bytes(0x0e, 0, &[]), 1, &mut Vec::new(), &LongData::default()).unwrap_err();
    assert_eq!(error, Error::Malformed { what: "parameter of an unknown type" });
}

#[test]
fn a_date_with_a_clock_is_a_datetime() {
    let mut payload = vec![0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0x0a, 0];
    payload.extend_from_slice(&[7, 0xea, 7, 1, 2, 3, 4, 5]);
    let date = Date { year: 2026, month: 1, day: 2 };
    let expected = DateTime { date, hour: 3, minute: 4, second: 5, micros: 0 };
    let mut types = Vec::new();
    let none = LongData::default();
    assert_eq!(read(&payload, 1, &mut types, &none).unwrap(), [Param::DateTime(expected)]);
}

#[test]
fn long_data_replaces_the_value_in_the_block() {
    let (mut types, mut long) = (Vec::new(), LongData::default());
    long.append(1, b"big ", 100);
    long.append(1, b"text", 100);
    assert_eq!(long.bytes(), 8 + LONG_VALUE_BYTES, "the text, and the value's place");
    // The client omits the value in the block, like that of a NULL, but does not set the NULL bit.
    let mut payload = execute_bytes(Capabilities::PROTOCOL_41, &[Param::Int(1), Param::Null], true);
    let null_bit = &mut payload[10];
    assert_eq!(*null_bit, 2);
    *null_bit = 0;
    let got = read(&payload, 2, &mut types, &long).unwrap();
    assert_eq!(got, [Param::Int(1), Param::Bytes(b"big text")]);
    long.clear();
    assert_eq!(long.bytes(), 0);
}

#[test]
fn wrong_long_data_is_reported_by_the_execute() {
    let payload = execute_bytes(Capabilities::PROTOCOL_41, &[Param::Int(1)], true);
    let mut long = LongData::default();
    long.append(0, &[0; 60], 100);
    long.append(0, &[0; 60], 100);
    let error = read(&payload, 1, &mut Vec::new(), &long).unwrap_err();
    assert_eq!(error, Error::LongDataTooLarge { parameter: 0, bytes_max: 100 });

    let mut long = LongData::default();
    long.append(1, b"x", 100);
    let error = read(&payload, 1, &mut Vec::new(), &long).unwrap_err();
    assert!(matches!(error, Error::WrongArguments { .. }));
}

#[test]
fn attributes_behind_the_parameters_are_ignored() {
    let sent = [Param::Int(1), Param::Bytes(b"attribute")];
    let payload = execute_bytes(Capabilities::SERVER, &sent, true);
    let (mut types, none) = (Vec::new(), LongData::default());
    let execute = execute(&payload, Capabilities::SERVER);
    let params = Params::new(&execute, 1, &mut types, &none).unwrap();
    assert_eq!(params.collect::<Result<Vec<_>>>().unwrap(), [Param::Int(1)]);
    let error = Params::new(&execute, 3, &mut types, &none).unwrap_err();
    assert!(matches!(error, Error::WrongArguments { .. }));
}

#[test]
fn the_count_is_there_with_and_without_its_flag() {
    const FLAGS: usize = 5;
    let sent = [Param::Int(1), Param::Null];
    let mut payload = execute_bytes(Capabilities::SERVER, &sent, true);
    assert_eq!(std::mem::replace(&mut payload[FLAGS], 0), 8);
    let (mut types, none) = (Vec::new(), LongData::default());
    let unflagged = execute(&payload, Capabilities::SERVER);
    let params = Params::new(&unflagged, 2, &mut types, &none).unwrap();
    assert_eq!(params.collect::<Result<Vec<_>>>().unwrap(), sent);

    let mut payload = execute_bytes(Capabilities::SERVER, &[], true);
    assert_eq!(std::mem::replace(&mut payload[FLAGS], 0), 8);
    payload.pop();
    let empty = execute(&payload, Capabilities::SERVER);
    assert_eq!(Params::new(&empty, 0, &mut types, &none).unwrap().count(), 0);
}

#[test]
fn a_cut_block_ends_with_one_error() {
    let payload = execute_bytes(Capabilities::PROTOCOL_41, &[Param::Int(1), Param::Int(2)], true);
    let (mut types, none) = (Vec::new(), LongData::default());
    let execute = execute(&payload[..payload.len() - 9], Capabilities::PROTOCOL_41);
    let params = Params::new(&execute, 2, &mut types, &none).unwrap();
    let got: Vec<_> = params.collect();
    assert_eq!(got, [Err(Error::Malformed { what: "integer parameter cut short" })]);
}

fn any_param() -> impl Strategy<Value = Param<'static>> {
    let clock = (0..24u8, 0..60u8, 0..60u8, 0..1_000_000u32);
    let date = (0..10_000u16, 0..13u8, 0..32u8);
    let date = date.prop_map(|(year, month, day)| Date { year, month, day });
    let datetime =
        (date.clone(), clock.clone()).prop_map(|(date, (hour, minute, second, micros))| {
            Param::DateTime(DateTime { date, hour, minute, second, micros })
        });
    let time = (any::<bool>(), 1..35u32, clock).prop_map(
        |(negative, days, (hour, minute, second, micros))| {
            Param::Time(Time { negative, days, hour, minute, second, micros })
        },
    );
    prop_oneof![
        Just(Param::Null),
        any::<i64>().prop_map(Param::Int),
        any::<u64>().prop_map(Param::UInt),
        any::<f32>().prop_map(Param::Float),
        any::<f64>().prop_map(Param::Double),
        (0..600usize).prop_map(|len| Param::Bytes(&[b'x'; 600][..len])),
        (0..66usize).prop_map(|len| Param::Decimal(&[b'1'; 66][..len])),
        date.prop_map(Param::Date),
        datetime,
        time,
    ]
}

proptest! {
    #[test]
    fn parameters_round_trip(
        params in prop::collection::vec(any_param(), 0..40),
        named in any::<bool>(),
    ) {
        let capabilities =
            Capabilities::PROTOCOL_41.set(Capabilities::QUERY_ATTRIBUTES, named);
        let payload = execute_bytes(capabilities, &params, true);
        let (mut types, none) = (Vec::new(), LongData::default());
        let execute = execute(&payload, capabilities);
        prop_assert_eq!((execute.statement_id, execute.cursor), (5, false));
        let read = Params::new(&execute, params.len(), &mut types, &none).unwrap();
        prop_assert_eq!(read.collect::<Result<Vec<_>>>().unwrap(), params);
    }
}
