//! STATEMENT_DIGEST and STATEMENT_DIGEST_TEXT.

use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use freshet_base::{ErrorCode, err};

use super::row::{Kind, Out, Row, RowFunction};
use crate::digest::{hash_of, text_of};
use crate::error::external;
use crate::parser::parse;
use crate::session::SqlMode;

fn digested(row: &Row<'_>) -> Result<String> {
    let sql = row.text(0);
    let failed = |why: &str| {
        external(err!(DigestArgument, "Could not parse argument to digest function: \"{why}\"."))
    };
    match parse(sql, SqlMode::default()) {
        Err(error) if matches!(error.code(), ErrorCode::Syntax | ErrorCode::EmptyQuery) => {
            return Err(failed(error.message()));
        }
        // What is not supported has a text all the same.
        Ok(_) | Err(_) => {}
    }
    text_of(sql).ok_or_else(|| failed("a text or comment has no end"))
}

fn digest_text(row: &Row<'_>) -> Result<Option<Out>> {
    digested(row).map(|text| Some(Out::Text(text)))
}

fn digest_hash(row: &Row<'_>) -> Result<Option<Out>> {
    Ok(Some(Out::Text(hash_of(&digested(row)?))))
}

pub fn all() -> Vec<ScalarUDF> {
    let (of, one) = (&[Kind::Text], (1, 1));
    vec![
        RowFunction::fallible("statement_digest_text", of, one, Kind::Text, digest_text).udf(),
        RowFunction::fallible("statement_digest", of, one, Kind::Text, digest_hash).udf(),
    ]
}
