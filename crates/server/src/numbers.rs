//! `SELECT 1` on the thread of the connection: pools ask it of a connection before they lend it.
//!
//! A text of plain numbers that the planner has answered is kept with the columns of its result, so
//! that the answer has the same ones. What does not fit goes the ordinary road.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_query::result::ResultColumn;
use freshet_wire::PacketWriter;
use parking_lot::RwLock;

use crate::digests::{Asked, Outcome};
use crate::mysql::results;
use crate::session::Session;

/// Texts that are kept; when there are more, all are forgotten.
const TEXTS_MAX: usize = 64;
/// Longer texts go the ordinary road.
const TEXT_BYTES_MAX: usize = 64;
/// More digits may not be a BIGINT.
const DIGITS_MAX: usize = 18;

/// The columns of texts of numbers, for all sessions: they depend on the text alone.
#[derive(Default)]
pub struct NumberTexts {
    by_text: RwLock<HashMap<Vec<u8>, Arc<[ResultColumn]>>>,
}

/// The numbers of `SELECT number, number [FROM DUAL]`, as they stand there.
fn numbers(sql: &[u8]) -> Option<Vec<&[u8]>> {
    let (select, mut rest) = sql.split_at_checked("select".len())?;
    let begins = select.eq_ignore_ascii_case(b"select") && rest.first()?.is_ascii_whitespace();
    if !begins || sql.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut numbers = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, behind) = rest.split_at(digits);
        let is_plain = matches!(number, [b'0'] | [b'1'..=b'9', ..]) && digits <= DIGITS_MAX;
        if !is_plain {
            return None;
        }
        numbers.push(number);
        if !behind.first().is_none_or(|byte| byte.is_ascii_whitespace() || *byte == b',') {
            return None;
        }
        rest = behind.trim_ascii_start();
        if let [b',', more @ ..] = rest {
            rest = more;
            continue;
        }
        let mut words = rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let is_end = match (words.next(), words.next(), words.next()) {
            (None, ..) => true,
            (Some(from), Some(dual), None) => {
                from.eq_ignore_ascii_case(b"from") && dual.eq_ignore_ascii_case(b"dual")
            }
            _ => false,
        };
        return is_end.then_some(numbers);
    }
}

/// The text without what is around the statement.
fn trimmed(sql: &[u8]) -> &[u8] {
    let sql = sql.trim_ascii();
    sql.strip_suffix(b";").unwrap_or(sql).trim_ascii_end()
}

/// Keeps the columns of a text that was answered, if it asks for numbers.
pub fn learn(session: &Session, sql: &str, columns: &[ResultColumn]) {
    let sql = trimmed(sql.as_bytes());
    if numbers(sql).is_none_or(|numbers| numbers.len() != columns.len()) {
        return;
    }
    let by_text = &session.shared.numbers.by_text;
    // A text that is known comes here where a transaction was lost, say.
    if by_text.read().contains_key(sql) {
        return;
    }
    let mut known = by_text.write();
    if known.len() >= TEXTS_MAX {
        known.clear();
    }
    known.insert(sql.to_vec(), columns.into());
}

/// Answers a text if it asks for numbers; false if it has to go the ordinary road.
pub fn answer(session: &mut Session, sql: &[u8], writer: &mut PacketWriter) -> bool {
    let sql = trimmed(sql);
    let Some(numbers) = numbers(sql) else { return false };
    let columns = session.shared.numbers.by_text.read().get(sql).cloned();
    let Some(columns) = columns else { return false };
    let settings = &session.settings;
    // A transaction that was lost is told by the ordinary road.
    if settings.select_limit == 0 || !session.transactions.reads_anew(settings) {
        return false;
    }
    let began = session.shared.engine.clock().now();
    results::begin(writer, &columns, session);
    let mut row = writer.text_row(numbers.len());
    numbers.into_iter().for_each(|number| row.bytes(number));
    row.finish();
    session.diagnostics.clear();
    session.info.clear();
    (session.found_rows, session.row_count) = (1, -1);
    results::end(writer, session, false);
    let metrics = session.shared.metrics();
    metrics.queries.inc();
    let ended = session.shared.engine.clock().now();
    metrics.query_seconds.observe(ended.saturating_sub(began).as_secs_f64());
    session.count_digest(&Asked::of(sql, sql), (began, ended), Outcome::Sent(1));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_told_from_all_else() {
        let of = |sql: &'static str| {
            let numbers = numbers(trimmed(sql.as_bytes()))?;
            Some(numbers.into_iter().map(|one| str::from_utf8(one).unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(of("SELECT 1"), Some(vec!["1"]));
        assert_eq!(of(" select\t1 , 20,3 ; "), Some(vec!["1", "20", "3"]));
        assert_eq!(of("select 0 from\nDual;"), Some(vec!["0"]));
        for other in [
            "select",
            "select1",
            "select ",
            "select 1,",
            "select 1 2",
            "select 1 a",
            "select 01",
            "select 1.5",
            "select 1e3",
            "select -1",
            "select 1 from t",
            "select 1 from dual x",
            "select 1 limit 0",
            "select 1;;",
            "select 1; select 2",
            "select /* */ 1",
            "select 1 -- x",
            "select 9999999999999999999",
            "selected 1",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
