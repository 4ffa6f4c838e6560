use freshet_base::ColumnId;
use proptest::prelude::*;

use super::*;
use crate::Column;

fn column(at: usize, ty: ColumnType, nullable: bool) -> Column {
    Column { nullable, ..Column::new(ColumnId(at as u32), format!("c{at}"), ty) }
}

fn schema(types: &[(ColumnType, bool)]) -> TableSchema {
    let columns =
        types.iter().enumerate().map(|(at, &(ty, nullable))| column(at, ty, nullable)).collect();
    TableSchema::new(SchemaVersion(1), columns, vec![0])
}

fn int_and_text() -> TableSchema {
    schema(&[(ColumnType::Int { unsigned: false }, false), (ColumnType::Text, true)])
}

fn encode(rows: &[(i32, Option<&str>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RowWriter::new(2, &mut bytes);
    for (number, text) in rows {
        writer.begin_row();
        writer.put_encoded(&number.to_le_bytes());
        let put = writer.cell(|out| match text {
            Some(text) => {
                put_bytes(out, text.as_bytes());
                Ok::<_, ()>(Put::Value)
            }
            None => Ok(Put::Null),
        });
        assert_eq!(put, Ok(()));
        writer.end_row();
    }
    assert_eq!(writer.rows(), rows.len());
    bytes
}

#[test]
fn a_row_is_bitmap_then_cells() {
    assert_eq!(encode(&[(1, Some("ab"))]), [0, 1, 0, 0, 0, 2, b'a', b'b']);
    assert_eq!(encode(&[(-1, None)]), [0b10, 255, 255, 255, 255]);
}

#[test]
fn the_cursor_walks_what_the_writer_wrote() {
    let long = "x".repeat(70_000);
    let bytes = encode(&[(7, Some("")), (8, None), (9, Some(&long))]);
    let schema = int_and_text();
    assert_eq!(validate(&schema, &bytes, 3), Ok(()));
    let mut cells = Vec::new();
    let mut cursor = RowCursor::new(&schema, &bytes);
    while cursor.next_row(|at, cell| {
        cells.push((at, cell.map(<[u8]>::to_vec)));
        Ok(())
    }) == Ok(true)
    {}
    let numbers = |value: i32| Some(value.to_le_bytes().to_vec());
    assert_eq!(cells[0], (0, numbers(7)));
    assert_eq!(cells[1], (1, Some(Vec::new())));
    assert_eq!(cells[3], (1, None));
    assert_eq!(cells[5], (1, Some(long.into_bytes())));
}

#[test]
fn whole_rows_are_found_wherever_the_bytes_end() {
    let long = "x".repeat(200);
    let rows = [(7, Some("")), (8, None), (9, Some(&*long)), (10, Some("ab"))];
    let ends = (0..=rows.len()).map(|count| encode(&rows[..count]).len()).collect::<Vec<_>>();
    let (bytes, cells) = (encode(&rows), RowCells::new(&int_and_text()));
    for cut in 0..=bytes.len() {
        let count = ends.iter().rposition(|end| *end <= cut).unwrap();
        assert_eq!(cells.whole_rows(&bytes[..cut]), (ends[count], count), "cut at {cut}");
    }
}

#[test]
fn an_aborted_row_leaves_no_trace() {
    let mut bytes = encode(&[(1, None)]);
    let before = bytes.clone();
    let mut writer = RowWriter::new(2, &mut bytes);
    writer.begin_row();
    writer.put_encoded(&5i32.to_le_bytes());
    writer.abort_row();
    writer.begin_row();
    writer.put_encoded(&1i32.to_le_bytes());
    writer.put_null();
    writer.end_row();
    assert_eq!(writer.rows(), 1);
    assert_eq!(bytes, [before.clone(), before].concat());
}

#[test]
fn what_is_wrong_is_named() {
    let schema = int_and_text();
    let reason = |bytes: &[u8], count| validate(&schema, bytes, count).unwrap_err().reason;
    let good = encode(&[(1, Some("ab"))]);
    assert!(reason(&good, 2).contains("as many rows"));
    assert!(reason(&good[..7], 1).contains("inside a cell"));
    assert!(reason(&[0b100, 1, 0, 0, 0, 0], 1).contains("do not exist"));
    assert!(reason(&[0b01, 0], 1).contains("takes none"));
    assert!(reason(&[0, 1, 0, 0, 0, 1, 0xff], 1).contains("type of its column"));
    // A length that is not in its shortest encoding.
    assert!(reason(&[0, 1, 0, 0, 0, 0x81, 0x00, b'a'], 1).contains("inside a cell"));
}

#[test]
fn values_outside_of_their_type_are_found() {
    let refuse = |ty, cell: &[u8]| assert!(check_cell(ty, cell).is_err(), "{ty} {cell:?}");
    refuse(ColumnType::MediumInt { unsigned: false }, &(1i32 << 23).to_le_bytes());
    refuse(ColumnType::MediumInt { unsigned: true }, &(1u32 << 24).to_le_bytes());
    refuse(ColumnType::Double, &f64::NAN.to_le_bytes());
    refuse(ColumnType::Decimal { precision: 3, scale: 1 }, &1000i64.to_le_bytes());
    refuse(ColumnType::Decimal { precision: 38, scale: 0 }, &i128::MAX.to_le_bytes());
    refuse(ColumnType::Date, &(DAYS_MAX + 1).to_le_bytes());
    refuse(ColumnType::DateTime { fsp: 0 }, &(MICROS_MIN - 1).to_le_bytes());
    assert_eq!(
        check_cell(ColumnType::MediumInt { unsigned: false }, &(-1i32 << 23).to_le_bytes()),
        Ok(())
    );
    assert_eq!(
        check_cell(ColumnType::Decimal { precision: 3, scale: 1 }, &(-999i64).to_le_bytes()),
        Ok(())
    );
}

#[test]
fn lengths_have_one_encoding() {
    for length in [0, 1, 127, 128, 300, 1 << 14, (1 << 24) - 1, u32::MAX as usize] {
        let mut bytes = Vec::new();
        put_length(&mut bytes, length);
        assert_eq!(take_length(&bytes), Some((length, bytes.len())));
        assert_eq!(take_length(&bytes[..bytes.len() - 1]), None);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_validation_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let all = schema(&[
            (ColumnType::Boolean, true),
            (ColumnType::MediumInt { unsigned: false }, true),
            (ColumnType::Text, true),
            (ColumnType::LargeInt, true),
            (ColumnType::Decimal { precision: 10, scale: 2 }, true),
            (ColumnType::Decimal { precision: 30, scale: 2 }, true),
            (ColumnType::Timestamp { fsp: 6 }, true),
            (ColumnType::Blob, true),
            (ColumnType::Date, false),
        ]);
        for count in 0..3 {
            let _ = validate(&all, &bytes, count);
        }
    }

    #[test]
    fn rows_survive_their_encoding(
        rows in prop::collection::vec((any::<i32>(), prop::option::of(".{0,20}")), 0..20)
    ) {
        let borrowed: Vec<_> = rows.iter().map(|(n, t)| (*n, t.as_deref())).collect();
        let bytes = encode(&borrowed);
        prop_assert_eq!(validate(&int_and_text(), &bytes, rows.len()), Ok(()));
    }
}

#[test]
fn cells_are_found_without_the_others() {
    let int = ColumnType::Int { unsigned: false };
    let schema = schema(&[(int, true), (int, false), (ColumnType::Text, true), (int, true)]);
    let cells = RowCells::new(&schema);
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for row in 0..8u8 {
        let mut writer = RowWriter::new(4, &mut bytes);
        writer.begin_row();
        let mut put = |is_null: bool, cell: &[u8], content: &[u8]| {
            if is_null {
                writer.put_null()
            } else {
                writer.put_encoded(cell)
            }
            expected.push((!is_null).then(|| content.to_vec()));
        };
        put(row & 1 != 0, &[row; 4], &[row; 4]);
        put(false, &[1; 4], &[1; 4]);
        put(row & 2 != 0, b"\x02ab", b"ab");
        put(row & 4 != 0, &[9; 4], &[9; 4]);
        writer.end_row();
    }
    let mut rest = bytes.as_slice();
    for row in expected.chunks(4) {
        let found = (0..4).map(|column| cells.cell(rest, column).map(<[u8]>::to_vec));
        assert_eq!(found.collect::<Vec<_>>(), row);
        rest = &rest[cells.row_bytes(rest)..];
    }
    assert!(rest.is_empty());
    let rows = cells.rows(&bytes).collect::<Vec<_>>();
    assert_eq!(rows.len(), expected.len() / 4);
    assert_eq!(rows.concat(), bytes);
}
