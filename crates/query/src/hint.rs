//! Hints of PolarDB-X: `/*+TDDL:CMD_EXTRA(KEY=value)*/` in front of a statement or behind its first
//! keyword. Bad ones never fail a statement: what is wrong with them is told beside its result.

use std::borrow::Cow;

use freshet_base::comment;
use serde_json::Value;

/// Longer hints are not read.
const HINT_BYTES_MAX: usize = 16 << 10;

/// What a hint says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hint {
    /// Settings for the statement: keys in lower case, each once, and their values.
    pub settings: Vec<(String, String)>,
    /// Commands and keys that say where a statement runs, which have no effect here.
    pub routing: Vec<String>,
    /// What could not be understood.
    pub faults: Vec<String>,
}

/// The text of the hint of the statement that `sql` begins with: in front of it, or behind its
/// first keyword. Costs next to nothing where no comment is.
pub fn find(sql: &[u8]) -> Option<&[u8]> {
    let (hint, rest) = leading(sql);
    if hint.is_some() {
        return hint;
    }
    let keyword = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    leading(&rest[keyword..]).0
}

/// The hint among the blanks and comments that `text` begins with, and what follows them.
fn leading(mut text: &[u8]) -> (Option<&[u8]>, &[u8]) {
    loop {
        text = text.trim_ascii_start();
        if let Some(hint) = inside(text) {
            return (Some(hint), text);
        }
        let end = match text {
            [b'/', b'*', b'!', ..] => None,
            [b'/', b'*', comment @ ..] => comment::end(comment),
            _ => None,
        };
        let Some(end) = end else { return (None, text) };
        text = &text[end + 2..];
    }
}

/// What stands behind TDDL in the hint that `text` begins with.
fn inside(text: &[u8]) -> Option<&[u8]> {
    let [b'/', b'*' | b'!', rest @ ..] = text else { return None };
    let rest = rest.strip_prefix(b"+").unwrap_or(rest).trim_ascii_start();
    let (name, rest) = rest.split_at_checked(4)?;
    let group = rest.len() >= 6 && rest[..6].eq_ignore_ascii_case(b"_GROUP");
    let is_one = name.eq_ignore_ascii_case(b"TDDL")
        && (group || matches!(rest.trim_ascii_start().first(), Some(b':' | b'(')));
    if !is_one {
        return None;
    }
    let end = comment::end(rest)?;
    Some(&rest[..end - 2])
}

/// The length of the hint that `text` begins with.
pub(crate) fn length(text: &[u8]) -> Option<usize> {
    let inside = inside(text)?;
    let before = inside.as_ptr().addr() - text.as_ptr().addr();
    Some(before + inside.len() + 2)
}

/// Reads what [`find`] has found.
pub fn read(text: &[u8]) -> Hint {
    let mut hint = Hint::default();
    if text.len() > HINT_BYTES_MAX {
        hint.faults.push(format!("a hint has at most {HINT_BYTES_MAX} bytes"));
        return hint;
    }
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    if let Some(commands) = text.strip_prefix(':') {
        hint.commands(commands);
    } else if let Some(json) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        hint.json(json);
    } else if text.len() >= 6 && text.as_bytes()[..6].eq_ignore_ascii_case(b"_GROUP") {
        hint.routing.push("TDDL_GROUP".to_owned());
    } else {
        hint.fault(text);
    }
    hint
}

impl Hint {
    fn fault(&mut self, near: &str) {
        let near = near.chars().take(80).collect::<String>();
        self.faults.push(format!("Hint syntax error near '{near}'"));
    }

    fn set(&mut self, key: &str, value: &str) {
        let key = key.to_ascii_lowercase();
        match self.settings.iter().any(|(known, _)| *known == key) {
            true => self.faults.push(format!("Hint sets '{key}' twice; the first counts")),
            false => self.settings.push((key, value.to_owned())),
        }
    }

    /// A setting, or a command that is written like one, such as `node='0'`.
    fn assign(&mut self, key: &str, value: &str) {
        const ROUTING: [&str; 6] = ["node", "scan", "master", "slave", "index", "type"];
        match ROUTING.iter().any(|known| known.eq_ignore_ascii_case(key)) {
            true => self.routing.push(key.to_owned()),
            false => self.set(key, value),
        }
    }

    /// `CMD_EXTRA(a=1, b='2') node(0) c=3`.
    fn commands(&mut self, commands: &str) {
        let mut rest = commands.trim();
        while !rest.is_empty() {
            let Some((name, behind)) = word(rest) else { return self.fault(rest) };
            if let Some(given) = behind.strip_prefix('=') {
                let Some((value, behind)) = value(given.trim_start()) else {
                    return self.fault(rest);
                };
                self.assign(name, &value);
                rest = behind.trim_start();
                continue;
            }
            let arguments = behind.strip_prefix('(').and_then(parenthesised);
            let Some((arguments, behind)) = arguments else { return self.fault(rest) };
            if name.eq_ignore_ascii_case("CMD_EXTRA") {
                self.extra(arguments);
            } else if name.eq_ignore_ascii_case("SOCKET_TIMEOUT") {
                self.set(name, arguments.trim());
            } else {
                self.routing.push(name.to_owned());
            }
            rest = behind.trim_start();
        }
    }

    /// `a=1, b='2'`.
    fn extra(&mut self, arguments: &str) {
        let mut rest = arguments.trim();
        while !rest.is_empty() {
            let given = word(rest).and_then(|(key, behind)| {
                let (value, behind) = value(behind.strip_prefix('=')?.trim_start())?;
                Some((key, value, behind.trim_start()))
            });
            let Some((key, value, behind)) = given else { return self.fault(rest) };
            self.set(key, &value);
            rest = match behind.strip_prefix(',') {
                Some(more) if !more.trim().is_empty() => more.trim_start(),
                None if behind.is_empty() => return,
                _ => return self.fault(behind),
            };
        }
    }

    /// `{"extra": {"a": 1}, "type": "direct"}`.
    fn json(&mut self, json: &str) {
        let Ok(Value::Object(all)) = serde_json::from_str(json) else { return self.fault(json) };
        for (key, value) in all {
            match value {
                Value::Object(extra) if key.eq_ignore_ascii_case("extra") => {
                    for (key, value) in extra {
                        match scalar(&value) {
                            Some(value) => self.set(&key, &value),
                            None => self.fault(&key),
                        }
                    }
                }
                _ => self.routing.push(key),
            }
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(on) => Some(on.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A name, and the text behind it and the blanks after it.
fn word(text: &str) -> Option<(&str, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim_start()))
}

/// A value, in quotes or up to a blank or a comma, and the text behind it.
fn value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let quote = text.chars().next()?;
    if matches!(quote, '\'' | '"') {
        let end = 1 + text[1..].find(quote)?;
        return Some((Cow::Borrowed(&text[1..end]), &text[end + 1..]));
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '=');
    let end = text.find(ends).unwrap_or(text.len());
    (end > 0).then(|| (Cow::Borrowed(&text[..end]), &text[end..]))
}

/// What stands in front of the parenthesis that closes, and the text behind it.
fn parenthesised(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some((&text[..at], &text[at + 1..])),
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(sql: &str) -> Vec<(String, String)> {
        let hint = read(find(sql.as_bytes()).unwrap_or_else(|| panic!("a hint in {sql}")));
        assert_eq!(hint.faults, Vec::<String>::new(), "{sql}");
        hint.settings
    }

    #[test]
    fn every_spelling_is_the_same_hint() {
        let wanted = [("batch_insert_policy".to_owned(), "NONE".to_owned())];
        for hint in [
            "/*+TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=NONE)*/",
            "/*+TDDL: cmd_extra( Batch_Insert_Policy = 'NONE' ) */",
            "/*+ TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=\"NONE\")*/",
            "/!+TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=NONE)*/",
            "/!TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=NONE)*/",
            "/*TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=NONE)*/",
            "/*+tddl:BATCH_INSERT_POLICY=NONE*/",
            "/*+TDDL({\"extra\":{\"BATCH_INSERT_POLICY\":\"NONE\"}})*/",
            "/*TDDL({\"type\":\"direct\",\"extra\":{\"BATCH_INSERT_POLICY\":\"NONE\"}})*/",
        ] {
            assert_eq!(settings(&format!("{hint} INSERT INTO t VALUES (1)")), wanted);
            assert_eq!(settings(&format!("INSERT {hint} INTO t VALUES (1)")), wanted);
            assert_eq!(settings(&format!(" /* a */ insert/* b */{hint}into t")), wanted);
        }
    }

    #[test]
    fn other_comments_and_other_places_have_no_hints() {
        for sql in [
            "SELECT 1",
            "/* TDDL is not a hint here */ SELECT 1",
            "/*+ SET_VAR(a=1) */ SELECT 1",
            "SELECT 1 /*+TDDL:a=1*/",
            "/*!40101 SET a=1 */ /*+TDDL:a=1*/",
            "/*+TDDL:a=1",
            "/*",
            "",
        ] {
            assert_eq!(find(sql.as_bytes()), None, "{sql}");
        }
    }

    #[test]
    fn commands_stand_beside_each_other() {
        let hint = read(b":node(0,'a)') CMD_EXTRA(A=1,B=TRUE) slave() WORKLOAD=AP node='0'");
        assert_eq!(hint.routing, ["node", "slave", "node"]);
        let pairs = hint.settings.iter().map(|(key, value)| format!("{key}={value}"));
        assert_eq!(pairs.collect::<Vec<_>>(), ["a=1", "b=TRUE", "workload=AP"]);
        assert!(hint.faults.is_empty());
        assert_eq!(read(b":socket_timeout(900)").settings[0].1, "900");
        assert_eq!(read(b"_GROUP({groupIndex:0})").routing, ["TDDL_GROUP"]);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for bad in [
            ":CMD_EXTRA(",
            ":CMD_EXTRA(A)",
            ":CMD_EXTRA(A=1,)",
            ":CMD_EXTRA(A='1)",
            ":CMD_EXTRA(A=1 B=2)",
            ":node",
            ":=1",
            "({extra:1})",
            "({\"extra\":{\"a\":[1]}})",
            "(",
            ":a=1 a=2",
        ] {
            assert_eq!(read(bad.as_bytes()).faults.len(), 1, "{bad}");
        }
        assert_eq!(read(&[b' '; HINT_BYTES_MAX + 1]).faults.len(), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
            let sql = [b"/*+TDDL:", &bytes[..], b"*/"].concat();
            let found = find(&sql).expect("it begins and ends as a hint");
            read(found);
            find(&bytes);
        }

        #[test]
        fn no_signs_are_too_strange(text in "[A-Za{}()='\",:/*! +]{0,40}") {
            read(text.as_bytes());
            find(text.as_bytes());
            find(format!("/!TDDL:{text}").as_bytes());
        }
    }
}
