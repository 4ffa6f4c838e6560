//! Statements of Doris about workload groups and properties of accounts.

use freshet_base::Result;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::users::{Account, account};

/// A statement about workload groups, or about the properties of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkloadStatement {
    Create {
        name: String,
        /// Names and values.
        properties: Vec<(String, String)>,
        if_not_exists: bool,
    },
    Alter {
        name: String,
        /// Names and values.
        properties: Vec<(String, String)>,
    },
    Drop {
        name: String,
        if_exists: bool,
    },
    /// SET PROPERTY.
    SetProperty {
        /// FOR; `None` for the session's own account.
        account: Option<Account>,
        /// Names and values.
        properties: Vec<(String, String)>,
    },
}

/// Parses the part after CREATE WORKLOAD GROUP.
pub fn create(cursor: &mut Cursor<'_>) -> Result<WorkloadStatement> {
    let if_not_exists = cursor.words("IF NOT EXISTS");
    let name = name(cursor)?;
    let properties = match cursor.words("PROPERTIES") {
        true => cursor.properties()?,
        false => Vec::new(),
    };
    Ok(WorkloadStatement::Create { name, properties, if_not_exists })
}

/// Parses the part after ALTER WORKLOAD GROUP.
pub fn alter(cursor: &mut Cursor<'_>) -> Result<WorkloadStatement> {
    let name = name(cursor)?;
    cursor.expect_words("PROPERTIES")?;
    Ok(WorkloadStatement::Alter { name, properties: cursor.properties()? })
}

/// Parses the part after DROP WORKLOAD GROUP.
pub fn drop(cursor: &mut Cursor<'_>) -> Result<WorkloadStatement> {
    let if_exists = cursor.words("IF EXISTS");
    Ok(WorkloadStatement::Drop { name: name(cursor)?, if_exists })
}

fn name(cursor: &mut Cursor<'_>) -> Result<String> {
    let name = cursor.name_or_text()?;
    match cursor.words("FOR") {
        true => Err(refuse("WORKLOAD GROUP .. FOR a compute group")),
        false => Ok(name),
    }
}

/// Whether SET PROPERTY comes next, rather than SET of a variable of that name.
pub fn set_property_follows(cursor: &mut Cursor<'_>) -> bool {
    let is_text = matches!(
        cursor.parser.peek_nth_token_ref(1).token,
        Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)
    );
    let is_for = cursor.peek_word(1).as_deref() == Some("FOR");
    (is_text || is_for) && cursor.words("PROPERTY")
}

/// Parses the part after SET PROPERTY.
pub fn set_property(cursor: &mut Cursor<'_>) -> Result<WorkloadStatement> {
    let account = cursor.words("FOR").then(|| account(cursor)).transpose()?;
    let properties = cursor.list(Cursor::property)?;
    Ok(WorkloadStatement::SetProperty { account, properties })
}
