use super::*;
use crate::rows::Source;
use crate::table::{httplogs, ints, lineitem, sbtest1};

#[test]
fn text_reads_as_sql() {
    let rows = [vec![Cell::Int(1), Cell::Int(2)], vec![Cell::Int(3), Cell::Int(4)]];
    assert_eq!(
        insert_text(&ints(), Dialect::Freshet, &rows),
        "INSERT INTO ints VALUES (1,2),(3,4)"
    );
    assert_eq!(
        insert_text(&ints(), Dialect::QuestDb, &rows[..1]),
        "INSERT INTO ints (a, b, arrived) VALUES (1,2,systimestamp())"
    );
    assert_eq!(
        insert_prepared(&ints(), Dialect::Postgres, 2),
        "INSERT INTO ints VALUES ($1,$2),($3,$4)"
    );
    let line = insert_text(&lineitem(), Dialect::Mysql, &Source::Lineitem.rows(1));
    let start = "(1,155190,7706,1,17.00,21168.23,0.04,0.02,'N','O','1996-03-13'";
    assert!(line.contains(start), "{line}");
}

#[test]
fn a_row_of_the_log_takes_126_bytes() {
    let rows = Source::Httplogs.rows(20_000);
    let bytes = csv(&rows, ',').len() as f64 / rows.len() as f64;
    assert!((124.0..128.0).contains(&bytes), "{bytes}");
}

#[test]
fn stamps_are_found_and_replaced_in_every_form() {
    let rows = Source::Sbtest1.rows(3);
    let mut out = Vec::new();
    let text = mysql_text(&mut PacketWriter::new(), &sbtest1(), Dialect::Mysql, &rows);
    text.stamp(41, &mut out);
    let sql = String::from_utf8_lossy(&out);
    assert!(sql.contains("(0000000041,") && sql.contains("(0000000043,"), "{sql}");
    let execute = mysql_execute(&mut PacketWriter::new(), 1, &rows);
    execute.stamp(7, &mut out);
    assert_eq!(find_all(&out, &SERIAL_MARK.to_le_bytes()), [] as [u32; 0]);
    assert_eq!(out.len(), execute.bytes.len());
    let bind = postgres_execute(&sbtest1(), &rows);
    assert!(bind.is_stamped());
}

#[test]
fn scattered_numbers_differ_and_fit() {
    let numbers = (1..=100_000).map(scattered).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(numbers.len(), 100_000);
    assert!(numbers.iter().all(|number| *number <= i32::MAX as u64));
    let mut out = Vec::new();
    let rows = Source::Scattered.rows(2);
    let text = mysql_text(&mut PacketWriter::new(), &sbtest1(), Dialect::Mysql, &rows);
    text.stamp(1, &mut out);
    let sql = String::from_utf8_lossy(&out);
    assert!(sql.contains("(0506952113,") && sql.contains("(1013904226,"), "{sql}");
}

#[test]
fn the_line_protocol_keeps_text_quoted_and_times_in_nanoseconds() {
    let rows = Source::Httplogs.rows(1);
    let text = lines(&httplogs(), &rows);
    assert!(text.starts_with("httplogs clientip=\"10."), "{text}");
    assert!(text.ends_with(" 1767225600000000000\n"), "{text}");
}
