//! What a load asks for: a stream load by its path and headers, an Http Stream by its statement.

use freshet_base::{Result, bail, err};
use freshet_meta::{Actor, Catalog, Object, Privilege, authorize};
use freshet_query::parser::{HttpStream, http_stream};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use super::headers::LoadHeaders;
use crate::insert::names_sign;

pub(super) struct Request {
    pub database: String,
    pub table: String,
    pub headers: LoadHeaders,
    /// The statement of an Http Stream.
    pub stream: Option<HttpStream>,
}

impl Request {
    /// `PUT /api/{database}/{table}/_stream_load`.
    ///
    /// # Errors
    /// Those of [`LoadHeaders::parse`].
    pub(super) fn stream_load(database: &str, table: &str, headers: &HeaderMap) -> Result<Self> {
        Ok(Self {
            database: database.to_owned(),
            table: table.to_owned(),
            headers: LoadHeaders::parse(headers)?,
            stream: None,
        })
    }

    /// `PUT /api/_http_stream` with the header `sql`. The properties in its statement are headers
    /// of a stream load; they come before those of the request.
    ///
    /// # Errors
    /// Syntax, and those of [`LoadHeaders::parse`].
    pub(super) fn http_stream(headers: &HeaderMap) -> Result<Self> {
        let Some(sql) = headers.get("sql") else {
            bail!(WrongArguments, "an Http Stream needs its statement in the header 'sql'");
        };
        let sql = std::str::from_utf8(sql.as_bytes())
            .map_err(|_| err!(WrongArguments, "header 'sql' is not UTF-8"))?;
        let stream = http_stream(sql)?;
        let mut merged = headers.clone();
        for (name, value) in &stream.properties {
            let name = name.to_ascii_lowercase();
            let wrong = || err!(WrongArguments, "'{name}' is not a property of http_stream(...)");
            let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let value = as_header(&name, value);
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| wrong())?;
            merged.insert(known, value);
        }
        let mut checked = LoadHeaders::parse(&merged)?;
        if checked.may_delete() {
            bail!(NotSupported, "load by MERGE or DELETE is for Stream Load, not for Http Stream");
        }
        if checked.negative {
            bail!(NotSupported, "'negative' is for Stream Load: an Http Stream selects -v");
        }
        if checked.columns.is_some() || checked.condition.is_some() {
            bail!(WrongArguments, "an Http Stream has its columns and conditions in its statement");
        }
        if let Some(label) = &stream.label {
            checked.label = Some(label.clone());
        }
        let Some(database) = stream.table.database.clone() else {
            bail!(NoDatabase, "No database selected: the statement names its table as db.table");
        };
        let table = stream.table.table.clone();
        Ok(Self { database, table, headers: checked, stream: Some(stream) })
    }

    /// Checks that the account may delete if the statement says which rows do, as of an INSERT.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn authorize_deletes(&self, catalog: &Catalog, actor: Actor<'_>) -> Result<()> {
        if !names_sign(self.stream.as_ref().and_then(|stream| stream.columns.as_deref())) {
            return Ok(());
        }
        let object = Object::Table(&self.database, &self.table);
        authorize(catalog, actor, Privilege::Delete, object)
    }
}

/// A property's text as the header has it: without control characters.
fn as_header(name: &str, value: &str) -> String {
    // SQL makes `x01` of '\x01', which is no separator that anybody would want.
    if ["column_separator", "line_delimiter"].contains(&name)
        && let Some(digits) = value.strip_prefix('x')
        && digits.len() == 2
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    {
        return format!("\\x{digits}");
    }
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        match character.is_ascii_control() {
            true => text.push_str(&format!("\\x{:02x}", u32::from(character))),
            false => text.push(character),
        }
    }
    text
}
