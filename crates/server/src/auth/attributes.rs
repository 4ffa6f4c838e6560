//! COMMENT and ATTRIBUTE of accounts: a JSON object that is kept for people and programs.

use freshet_base::{Result, bail, err};
use freshet_meta::User;
use freshet_query::parser::AboutUser;
use serde_json::{Map, Value};

/// The largest object of an account.
const BYTES_MAX: usize = 65_536;

/// The object that an account has behind a statement: a comment is its member `comment`, and an
/// attribute is merged into it, as JSON_MERGE_PATCH does; `None` where nothing is left.
///
/// # Errors
/// 3140 for what is no JSON object, and beyond the limit.
pub fn changed(user: &User, about: &AboutUser) -> Result<Option<String>> {
    let mut object = match &user.attributes {
        Some(text) => object_of(text)?,
        None => Map::new(),
    };
    match about {
        AboutUser::Comment(comment) => {
            object.insert("comment".to_owned(), Value::String(comment.clone()));
        }
        AboutUser::Attribute(text) => patch(&mut object, object_of(text)?),
    }
    if object.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    put(&mut text, &Value::Object(object));
    if text.len() > BYTES_MAX {
        bail!(
            InvalidJson,
            "The attributes of {} would have {} bytes; {BYTES_MAX} is the limit",
            user.account,
            text.len()
        );
    }
    Ok(Some(text))
}

fn object_of(text: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => bail!(InvalidJson, "Invalid JSON text: an attribute is a JSON object"),
        Err(error) => Err(err!(InvalidJson, "Invalid JSON text: \"{error}\"")),
    }
}

/// Merges an object into another one: NULL removes a member, and objects are merged themselves.
fn patch(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (_, Value::Null) => {
                into.remove(&name);
            }
            (Some(Value::Object(inner)), Value::Object(value)) => patch(inner, value),
            (_, Value::Object(value)) => {
                let mut inner = Map::new();
                patch(&mut inner, value);
                into.insert(name, Value::Object(inner));
            }
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// Writes JSON as MySQL shows it: blanks behind colons and commas, short names first.
fn put(out: &mut String, value: &Value) {
    match value {
        Value::Object(object) => {
            let mut members = object.iter().collect::<Vec<_>>();
            members.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(&Value::String(name.clone()).to_string());
                out.push_str(": ");
                put(out, value);
            }
            out.push('}');
        }
        Value::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                put(out, value);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use freshet_meta::{Account, AuthData};

    use super::*;

    #[test]
    fn comments_and_attributes_are_one_object() {
        let mut user = User::new(Account::anywhere("u"), AuthData::default());
        let mut change = |about: AboutUser| {
            user.attributes = changed(&user, &about).unwrap();
            user.attributes.clone()
        };
        let attribute = |text: &str| AboutUser::Attribute(text.to_owned());
        let told = change(AboutUser::Comment("it's".to_owned()));
        assert_eq!(told.unwrap(), r#"{"comment": "it's"}"#);
        let told = change(attribute(r#"{"team":{"b":[1,2],"a":null},"id":7}"#));
        assert_eq!(told.unwrap(), r#"{"id": 7, "team": {"b": [1, 2]}, "comment": "it's"}"#);
        let told = change(attribute(r#"{"team":{"c":true},"comment":null}"#));
        assert_eq!(told.unwrap(), r#"{"id": 7, "team": {"b": [1, 2], "c": true}}"#);
        assert_eq!(change(attribute(r#"{"team":null,"id":null}"#)), None);
        let user = User::new(Account::anywhere("u"), AuthData::default());
        let errno = |text: &str| changed(&user, &attribute(text)).unwrap_err().code().errno();
        assert_eq!((errno("[1]"), errno("{")), (3140, 3140));
        assert_eq!(errno(&format!(r#"{{"a":"{}"}}"#, "x".repeat(70_000))), 3140);
    }
}
