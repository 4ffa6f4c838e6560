//! Functions of IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datafusion::logical_expr::ScalarUDF;

use super::row::{Kind, Out, Row, RowFunction};

/// `INET_ATON(text)`; the last part of a short address is its low byte.
fn aton(row: &Row<'_>) -> Option<Out> {
    let parts = row.text(0).split('.').map(|part| part.parse::<u8>().ok());
    let parts = parts.collect::<Option<Vec<_>>>().filter(|parts| parts.len() <= 4)?;
    let (last, first) = parts.split_last()?;
    let high = first.iter().enumerate().map(|(at, part)| u32::from(*part) << (24 - 8 * at));
    Some(Out::Int((high.sum::<u32>() + u32::from(*last)).into()))
}

fn ntoa(row: &Row<'_>) -> Option<Out> {
    let bits = u32::try_from(row.int(0)).ok()?;
    Some(Out::Text(Ipv4Addr::from(bits).to_string()))
}

/// `INET6_ATON(text)`: 4 or 16 bytes.
fn aton6(row: &Row<'_>) -> Option<Out> {
    Some(Out::Bytes(match row.text(0).parse().ok()? {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }))
}

fn ntoa6(row: &Row<'_>) -> Option<Out> {
    let bytes = row.bytes(0);
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Out::Text(Ipv4Addr::from(octets).to_string()));
    }
    <[u8; 16]>::try_from(bytes).ok().map(|octets| Out::Text(Ipv6Addr::from(octets).to_string()))
}

/// Whether a value is a 16-byte address with this prefix of 12 bytes.
fn has_prefix(row: &Row<'_>, prefix: [u8; 12]) -> Option<Out> {
    let bytes = row.bytes(0);
    Some(Out::Int((bytes.len() == 16 && bytes[..12] == prefix).into()))
}

pub fn all() -> Vec<ScalarUDF> {
    let (text, bytes): (&[Kind], &[Kind]) = (&[Kind::Text], &[Kind::Bytes]);
    let one = (1, 1);
    [
        RowFunction::new("inet_aton", text, one, Kind::Int, aton),
        RowFunction::new("inet_ntoa", &[Kind::Int], one, Kind::Text, ntoa),
        RowFunction::new("inet6_aton", text, one, Kind::Bytes, aton6),
        RowFunction::new("inet6_ntoa", bytes, one, Kind::Text, ntoa6),
        RowFunction::new("is_ipv4", text, one, Kind::Int, |row| {
            Some(Out::Int(row.text(0).parse::<Ipv4Addr>().is_ok().into()))
        }),
        RowFunction::new("is_ipv6", text, one, Kind::Int, |row| {
            Some(Out::Int(row.text(0).parse::<Ipv6Addr>().is_ok().into()))
        }),
        RowFunction::new("is_ipv4_compat", bytes, one, Kind::Int, |row| has_prefix(row, [0; 12])),
        RowFunction::new("is_ipv4_mapped", bytes, one, Kind::Int, |row| {
            has_prefix(row, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255])
        }),
    ]
    .map(RowFunction::udf)
    .to_vec()
}
