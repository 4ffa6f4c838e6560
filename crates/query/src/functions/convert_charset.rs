//! Bytes of other character sets than UTF-8, in which all texts are held: CONVERT(x USING charset).

use datafusion::logical_expr::ScalarUDF;
use freshet_schema::Charset;

use super::row::{Kind, Out, Row, RowFunction, Source};

/// The function behind `CONVERT(x USING charset)`: a text as it is, and the text of bytes.
pub const DECODED: &str = "mysql_decoded";
/// The bytes of a text in a character set.
pub const ENCODED: &str = "mysql_encoded";

fn charset(row: &Row<'_>) -> Charset {
    Charset::named(row.text(1)).expect("its call was made for a known character set")
}

fn decoded(row: &Row<'_>) -> Option<Out> {
    let text = match row.source(0) {
        Source::Bytes => charset(row).decode(row.bytes(0)),
        _ => str::from_utf8(row.bytes(0)).ok().map(str::to_owned),
    };
    text.map(Out::Text)
}

fn encoded(row: &Row<'_>) -> Option<Out> {
    Some(Out::Bytes(match row.source(0) {
        Source::Bytes => row.bytes(0).to_vec(),
        _ => charset(row).encode(str::from_utf8(row.bytes(0)).ok()?),
    }))
}

pub fn all() -> Vec<ScalarUDF> {
    let kinds = &[Kind::Bytes, Kind::Text];
    vec![
        RowFunction::new(DECODED, kinds, (2, 2), Kind::Text, decoded).udf(),
        RowFunction::new(ENCODED, kinds, (2, 2), Kind::Bytes, encoded).udf(),
    ]
}
