//! Values of ENUM and SET: texts of a list, or the numbers of these.

use super::bad::BadValue;
use crate::collation::weights;
use crate::row::{Put, put_bytes};
use crate::{Column, ColumnType};

/// The number of an ENUM's text: its place in the list from 1 on, or 0 for the empty text of a
/// value that was none of them.
pub fn number_of_label(labels: &[String], text: &str) -> u64 {
    labels.iter().position(|label| label == text).map_or(0, |at| at as u64 + 1)
}

/// The number of a SET's text: a bit for each of its members.
pub fn number_of_set(labels: &[String], text: &str) -> u64 {
    bits_of(text, |member| labels.iter().position(|label| label == member)).0
}

/// The place in a column's list of what is equal to a text by the collation of the column.
fn place_of(column: &Column, text: &str) -> Option<usize> {
    let same = column.labels.iter().position(|label| label == text);
    if same.is_some() || column.collation.is_by_bytes() {
        return same;
    }
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    weights::put(column.collation, text, &mut wanted);
    column.labels.iter().position(|label| {
        found.clear();
        weights::put(column.collation, label, &mut found);
        found == wanted
    })
}

/// The bits of the members, and whether all of them are in the list.
fn bits_of(text: &str, place_of: impl Fn(&str) -> Option<usize>) -> (u64, bool) {
    let (mut bits, mut all) = (0, true);
    for member in text.split(',').filter(|_| !text.is_empty()) {
        match place_of(member) {
            Some(at) => bits |= 1 << at,
            None => all = false,
        }
    }
    (bits, all)
}

/// Appends the cell of a text: labels, or digits of their number where it is no label.
pub(super) fn put_labels(column: &Column, text: &[u8], out: &mut Vec<u8>) -> Result<Put, BadValue> {
    let text = std::str::from_utf8(text).map_err(|_| BadValue::NotUtf8)?.trim_end_matches(' ');
    let number = || text.parse::<u64>().map_err(|_| BadValue::NotLabel);
    if let ColumnType::Set { .. } = column.ty {
        return match bits_of(text, |member| place_of(column, member)) {
            (bits, true) => Ok(put_set(column, bits, out)),
            (0, false) => put_number(column, number()?.into(), out),
            (_, false) => Err(BadValue::NotLabel),
        };
    }
    match place_of(column, text) {
        None => put_number(column, number()?.into(), out),
        Some(at) => {
            put_bytes(out, column.labels[at].as_bytes());
            Ok(Put::Value)
        }
    }
}

/// Appends the cell of a number.
pub(super) fn put_number(
    column: &Column,
    number: i128,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let number = u64::try_from(number).map_err(|_| BadValue::NotLabel)?;
    if let ColumnType::Set { .. } = column.ty {
        return match number & !all_of(column) {
            0 => Ok(put_set(column, number, out)),
            _ => Err(BadValue::NotLabel),
        };
    }
    let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let label = at.and_then(|at| column.labels.get(at)).ok_or(BadValue::NotLabel)?;
    put_bytes(out, label.as_bytes());
    Ok(Put::Value)
}

/// Appends what a lax mode stores for a value that is not of the list: the members that are, or
/// the empty text.
pub(super) fn put_known(column: &Column, literal: super::Literal<'_>, out: &mut Vec<u8>) -> Put {
    use super::Literal;
    let ColumnType::Set { .. } = column.ty else {
        put_bytes(out, b"");
        return Put::Value;
    };
    let bits = match literal {
        Literal::Int(number) => u64::try_from(number).unwrap_or(0),
        Literal::Text(text) | Literal::Binary(text) | Literal::Number(text) => {
            let text = String::from_utf8_lossy(text);
            match bits_of(text.trim_end_matches(' '), |member| place_of(column, member)).0 {
                0 => text.trim().parse().unwrap_or(0),
                bits => bits,
            }
        }
        Literal::Null | Literal::Float(_) | Literal::Time(_) | Literal::Sketch(_) => 0,
    };
    put_set(column, bits & all_of(column), out)
}

/// The bits of all labels.
fn all_of(column: &Column) -> u64 {
    match u32::try_from(column.labels.len()) {
        Ok(count @ 0..64) => (1 << count) - 1,
        _ => u64::MAX,
    }
}

fn put_set(column: &Column, bits: u64, out: &mut Vec<u8>) -> Put {
    let members = column.labels.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    let members = members.map(|(_, label)| label.as_str()).collect::<Vec<_>>();
    put_bytes(out, members.join(",").as_bytes());
    Put::Value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::take_length;
    use freshet_base::ColumnId;

    fn column(ty: ColumnType) -> Column {
        let labels = ["b", "a", "2"].map(str::to_owned).into();
        Column { labels, ..Column::new(ColumnId(1), "c", ty) }
    }

    fn text(ty: ColumnType, text: &str) -> Result<String, BadValue> {
        let mut out = Vec::new();
        let _: Put = put_labels(&column(ty), text.as_bytes(), &mut out)?;
        let (_, taken) = take_length(&out).unwrap();
        Ok(String::from_utf8(out[taken..].to_vec()).unwrap())
    }

    #[test]
    fn a_label_comes_before_a_number() {
        let of = |value| text(ColumnType::Enum { len: 1 }, value);
        assert_eq!(of("a  ").unwrap(), "a");
        assert_eq!(of("2").unwrap(), "2");
        assert_eq!(of("1").unwrap(), "b");
        for bad in ["", "0", "4", "A", "a,b", "-1"] {
            assert_eq!(of(bad), Err(BadValue::NotLabel), "{bad}");
        }
    }

    #[test]
    fn the_lowest_number_is_no_label() {
        let (column, text) = (column(ColumnType::Enum { len: 1 }), i128::MIN.to_string());
        let (rules, mut out) = (crate::Rules::default(), Vec::new());
        let put = crate::value::put_number(&column, text.as_bytes(), &rules, &mut out);
        assert_eq!(put.err(), Some(BadValue::NotLabel));
    }

    #[test]
    fn members_are_stored_once_and_in_order() {
        let of = |value| text(ColumnType::Set { len: 5 }, value);
        assert_eq!(of("2,b,2").unwrap(), "b,2");
        assert_eq!(of("").unwrap(), "");
        assert_eq!(of("6").unwrap(), "a,2");
        for bad in ["8", "a,z", "z", ","] {
            assert_eq!(of(bad), Err(BadValue::NotLabel), "{bad}");
        }
        assert_eq!(number_of_set(&column(ColumnType::Set { len: 5 }).labels, "b,2"), 5);
    }
}
