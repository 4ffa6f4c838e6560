use freshet_base::Result;
use sqlparser::ast::{Expr, Value, ValueWithSpan};
use sqlparser::tokenizer::{Span, Token};

use super::cursor::{Cursor, refuse};
use super::prepare::user_variable;
use super::users::{Account, account, replaced, retained};
use crate::session::Scope;
use crate::syntax::Scalar;

/// Whether the next start of the server has a value, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persists {
    No,
    /// PERSIST.
    Too,
    /// PERSIST_ONLY: only the next start has it.
    Only,
}

impl Persists {
    fn of(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "persist" => Self::Too,
            "persist_only" => Self::Only,
            _ => Self::No,
        }
    }
}

/// The target of an assignment.
#[derive(Clone, PartialEq, Debug)]
pub enum SetTarget {
    /// A system variable.
    System {
        scope: Scope,
        /// In lower case.
        name: String,
        persists: Persists,
    },
    /// RESET PERSIST: the next start does not have what SET PERSIST has kept.
    ResetPersist {
        /// In lower case; `None` for all variables.
        name: Option<String>,
        if_exists: bool,
    },
    /// The name of a user variable in lower case.
    User(String),
    /// SET NAMES.
    Names {
        /// `None` for DEFAULT.
        charset: Option<String>,
        collation: Option<String>,
    },
    /// SET CHARACTER SET; `None` for DEFAULT.
    Charset(Option<String>),
    Password {
        /// `None` for the session's own account.
        account: Option<Account>,
        /// The new password in clear text.
        password: String,
        /// REPLACE: the password before, in clear text.
        replaces: Option<String>,
        /// RETAIN CURRENT PASSWORD.
        retains: bool,
    },
    Transaction {
        /// The scope; `Any` is the next transaction only.
        scope: Scope,
        /// For example `REPEATABLE-READ`.
        isolation: Option<String>,
        /// READ ONLY (true) or READ WRITE.
        read_only: Option<bool>,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Assignment {
    pub target: SetTarget,
    /// `None` for DEFAULT, and for targets that contain the value.
    pub value: Option<Scalar>,
}

/// Parses the part after SET.
pub fn set(cursor: &mut Cursor<'_>) -> Result<Vec<Assignment>> {
    if cursor.words("RESOURCE GROUP") {
        return Err(refuse("SET RESOURCE GROUP"));
    }
    cursor.list(assignment)
}

/// Parses the part after UNSET, of Doris: a variable gets its default.
pub fn unset(cursor: &mut Cursor<'_>) -> Result<Vec<Assignment>> {
    let scope = match cursor.one_of(&["GLOBAL", "SESSION"]) {
        Some("GLOBAL") => Scope::Global,
        _ => Scope::Session,
    };
    cursor.expect_words("VARIABLE")?;
    if cursor.words("ALL") {
        return Err(refuse("UNSET VARIABLE ALL"));
    }
    let name = cursor.name()?.to_lowercase();
    Ok(vec![of(SetTarget::System { scope, name, persists: Persists::No })])
}

/// Parses the part after RESET PERSIST.
pub fn reset_persist(cursor: &mut Cursor<'_>) -> Result<Vec<Assignment>> {
    let if_exists = cursor.words("IF EXISTS");
    let name = match !if_exists && cursor.at_end() {
        true => None,
        false => {
            let name = cursor.name()?;
            Some(dotted(cursor, name)?.to_lowercase())
        }
    };
    Ok(vec![of(SetTarget::ResetPersist { name, if_exists })])
}

fn of(target: SetTarget) -> Assignment {
    Assignment { target, value: None }
}

fn assignment(cursor: &mut Cursor<'_>) -> Result<Assignment> {
    if cursor.words("NAMES") {
        let charset = or_default(cursor)?;
        let collation = cursor.words("COLLATE").then(|| cursor.name_or_text()).transpose()?;
        return Ok(of(SetTarget::Names { charset, collation }));
    }
    if cursor.words("CHARACTER SET") || cursor.words("CHARSET") {
        return Ok(of(SetTarget::Charset(or_default(cursor)?)));
    }
    if cursor.words("PASSWORD") {
        return password(cursor);
    }
    let said = cursor.one_of(&["GLOBAL", "SESSION", "LOCAL", "PERSIST", "PERSIST_ONLY"]);
    let persists = said.map_or(Persists::No, Persists::of);
    let scope = match said {
        Some("SESSION" | "LOCAL") => Some(Scope::Session),
        Some(_) => Some(Scope::Global),
        None => None,
    };
    if cursor.words("TRANSACTION") {
        return transaction(cursor, scope.unwrap_or(Scope::Any));
    }
    let target = variable(cursor, scope, persists)?;
    if !cursor.token(&Token::Eq) {
        cursor.expect(&Token::Assignment)?;
    }
    Ok(Assignment { target, value: value(cursor)? })
}

fn or_default(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if cursor.words("DEFAULT") {
        return Ok(None);
    }
    cursor.name_or_text().map(Some)
}

/// Parses `x`, `@@x`, `@@session.x`, `@@global.x` or `@x`.
fn variable(
    cursor: &mut Cursor<'_>,
    scope: Option<Scope>,
    persists: Persists,
) -> Result<SetTarget> {
    if let Some(name) = user_variable(cursor)? {
        return Ok(SetTarget::User(name));
    }
    let mut name = cursor.name()?.to_lowercase();
    if let Some(system) = name.strip_prefix("@@") {
        let persists = Persists::of(system);
        let (scope, name) = match system {
            "global" | "persist" | "persist_only" if cursor.token(&Token::Period) => {
                (Scope::Global, cursor.name()?)
            }
            "session" | "local" if cursor.token(&Token::Period) => (Scope::Session, cursor.name()?),
            _ => (Scope::Session, system.to_owned()),
        };
        let name = dotted(cursor, name)?.to_lowercase();
        return Ok(SetTarget::System { scope, name, persists });
    }
    name = dotted(cursor, name)?.to_lowercase();
    Ok(SetTarget::System { scope: scope.unwrap_or(Scope::Session), name, persists })
}

/// The name with what follows a period in it, as names of MySQL's components have one.
fn dotted(cursor: &mut Cursor<'_>, name: String) -> Result<String> {
    Ok(match cursor.token(&Token::Period) {
        true => format!("{name}.{}", cursor.name()?),
        false => name,
    })
}

/// Parses a value: an expression, or a single word such as ON or `async_mode`, which stands for its
/// text.
fn value(cursor: &mut Cursor<'_>) -> Result<Option<Scalar>> {
    let ends = matches!(cursor.parser.peek_nth_token_ref(1).token, Token::Comma | Token::EOF);
    let Some(word) = cursor.peek_word(0).filter(|_| ends) else { return cursor.expr().map(Some) };
    match word.as_str() {
        "DEFAULT" => {
            cursor.name()?;
            Ok(None)
        }
        "TRUE" | "FALSE" | "NULL" => cursor.expr().map(Some),
        _ if word.starts_with('@') => cursor.expr().map(Some),
        _ => {
            let value = Value::SingleQuotedString(cursor.name()?);
            Ok(Some(Scalar(Expr::Value(ValueWithSpan { value, span: Span::empty() }))))
        }
    }
}

fn password(cursor: &mut Cursor<'_>) -> Result<Assignment> {
    let account = cursor.words("FOR").then(|| account(cursor)).transpose()?;
    if cursor.words("TO RANDOM") {
        return Err(refuse("SET PASSWORD TO RANDOM"));
    }
    cursor.expect(&Token::Eq)?;
    let wrapped = cursor.words("PASSWORD");
    if wrapped {
        cursor.expect(&Token::LParen)?;
    }
    let password = cursor.text()?;
    if wrapped {
        cursor.expect(&Token::RParen)?;
    }
    let replaces = replaced(cursor)?;
    let retains = retained(cursor);
    Ok(of(SetTarget::Password { account, password, replaces, retains }))
}

/// Parses the part after SET TRANSACTION.
fn transaction(cursor: &mut Cursor<'_>, scope: Scope) -> Result<Assignment> {
    let (mut isolation, mut read_only) = (None, None);
    loop {
        if cursor.words("ISOLATION LEVEL") {
            let levels = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
            let level = cursor.one_of(&levels).ok_or_else(|| cursor.error())?;
            isolation = Some(level.replace(' ', "-"));
        } else if cursor.words("READ ONLY") {
            read_only = Some(true);
        } else {
            cursor.expect_words("READ WRITE")?;
            read_only = Some(false);
        }
        if !cursor.token(&Token::Comma) {
            return Ok(of(SetTarget::Transaction { scope, isolation, read_only }));
        }
    }
}
