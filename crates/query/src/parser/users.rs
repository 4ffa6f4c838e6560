//! Parses accounts and privileges.

use freshet_base::{Result, bail, err};
pub use freshet_meta::Account;
use freshet_meta::{DefaultRoles, GrantObject, Privilege, Privileges, TlsRequirement, UserOption};
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::user_options::{self, AboutUser};

/// How an account authenticates.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Authentication {
    /// WITH, the authentication plugin.
    pub plugin: Option<String>,
    /// BY, in clear text.
    pub password: Option<String>,
    /// AS, the stored password hash.
    pub hash: Option<Vec<u8>>,
    /// BY RANDOM PASSWORD: the server makes one, and tells it.
    pub random: bool,
    /// REPLACE, the password before, in clear text.
    pub replaces: Option<String>,
    /// RETAIN CURRENT PASSWORD: the password before opens the account as well.
    pub retains: bool,
    /// DISCARD OLD PASSWORD: it does not any more.
    pub discards: bool,
}

impl Authentication {
    /// Whether it sets a password.
    pub fn sets_password(&self) -> bool {
        *self != Self { discards: self.discards, ..Self::default() }
    }
}

/// Keeps passwords out of logs.
impl std::fmt::Debug for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identified({:?}, password: {})", self.plugin, self.password.is_some())
    }
}

/// The arguments of GRANT or REVOKE.
#[derive(Clone, PartialEq, Debug)]
pub struct GrantStatement {
    pub privileges: Privileges,
    /// Privileges on columns alone.
    pub columns: Vec<(Privilege, Vec<String>)>,
    /// Dynamic privileges, which nothing asks for here.
    pub dynamic: Vec<String>,
    pub object: GrantTarget,
    pub accounts: Vec<Account>,
    /// IGNORE UNKNOWN USER of REVOKE: accounts that do not exist are left out, with a warning.
    pub ignores_unknown: bool,
}

/// The object of a grant.
#[derive(Clone, PartialEq, Debug)]
pub enum GrantTarget {
    /// `*.*`, `d.*` or `d.t`.
    Object(GrantObject),
    /// `*`: all tables of the selected database.
    SelectedDatabase,
    /// `t`: a table of the selected database.
    SelectedTable(String),
    /// WORKLOAD GROUP of this name; `%` for all of them.
    WorkloadGroup(String),
    /// REVOKE ALL PRIVILEGES, GRANT OPTION: whatever was granted, on whatever.
    Everything,
}

/// Parses `'user'@'host'` in any of its forms; unquoted `user@host` is a single token.
pub fn account(cursor: &mut Cursor<'_>) -> Result<Account> {
    if cursor.words("CURRENT_USER") {
        if cursor.token(&Token::LParen) {
            cursor.expect(&Token::RParen)?;
        }
        return Err(refuse("CURRENT_USER as the name of an account"));
    }
    let quoted =
        matches!(cursor.peek().token, Token::SingleQuotedString(_) | Token::DoubleQuotedString(_));
    let first = cursor.name_or_text()?;
    if !quoted && let Some((name, host)) = first.split_once('@') {
        let host = if host.is_empty() { cursor.name_or_text()? } else { host_rest(cursor, host)? };
        return Ok(Account { name: name.to_owned(), host });
    }
    if cursor.token(&Token::AtSign) {
        let start = cursor.name_or_text()?;
        return Ok(Account { name: first, host: host_rest(cursor, &start)? });
    }
    match cursor.peek_word(0) {
        Some(word) if word.starts_with('@') => {
            let word = cursor.name()?;
            let host = match &word[1..] {
                "" => cursor.name_or_text()?,
                host => host_rest(cursor, host)?,
            };
            Ok(Account { name: first, host })
        }
        _ => Ok(Account::anywhere(first)),
    }
}

/// Parses the part after RENAME USER: old and new accounts.
pub fn rename(cursor: &mut Cursor<'_>) -> Result<Vec<(Account, Account)>> {
    cursor.list(|cursor| {
        let from = account(cursor)?;
        cursor.expect_words("TO")?;
        Ok((from, account(cursor)?))
    })
}

/// Parses the rest of an unquoted host with dots.
fn host_rest(cursor: &mut Cursor<'_>, start: &str) -> Result<String> {
    let mut host = start.to_owned();
    while cursor.token(&Token::Period) {
        host.push('.');
        match cursor.number_opt() {
            Some(number) => host += &number.to_string(),
            None => host += &cursor.name()?,
        }
    }
    Ok(host)
}

/// Parses `IDENTIFIED [WITH plugin] [BY 'password' | AS 'hash' | BY PASSWORD 'hash']`.
pub fn identified(cursor: &mut Cursor<'_>) -> Result<Authentication> {
    let mut identified = Authentication::default();
    if !cursor.words("IDENTIFIED") {
        return Ok(identified);
    }
    if cursor.words("WITH") {
        identified.plugin = Some(cursor.name_or_text()?);
    }
    if cursor.words("BY PASSWORD") || cursor.words("AS") {
        identified.hash = Some(hash(cursor)?);
        return Ok(identified);
    }
    if cursor.words("BY RANDOM PASSWORD") {
        identified.random = true;
        identified.replaces = replaced(cursor)?;
    } else if cursor.words("BY") {
        identified.password = Some(cursor.text()?);
        identified.replaces = replaced(cursor)?;
    }
    Ok(identified)
}

/// Parses REPLACE and the password before, if they come next.
pub fn replaced(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    cursor.words("REPLACE").then(|| cursor.text()).transpose()
}

/// Whether RETAIN CURRENT PASSWORD comes next.
pub fn retained(cursor: &mut Cursor<'_>) -> bool {
    cursor.words("RETAIN CURRENT PASSWORD")
}

/// Parses a hash given as text or in hexadecimal.
fn hash(cursor: &mut Cursor<'_>) -> Result<Vec<u8>> {
    let Token::HexStringLiteral(digits) = &cursor.peek().token else {
        return Ok(cursor.text()?.into_bytes());
    };
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes = digits.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>();
    let bytes = bytes.ok_or_else(|| cursor.error())?;
    cursor.parser.next_token();
    Ok(bytes)
}

/// What CREATE USER and ALTER USER say of accounts.
#[derive(Clone, PartialEq, Debug)]
pub struct UserClauses {
    /// The accounts and their authentication; [`own_account`] stands for that of the session.
    pub users: Vec<(Account, Authentication)>,
    /// DEFAULT ROLE.
    pub roles: Option<DefaultRoles>,
    /// REQUIRE.
    pub tls: Option<TlsRequirement>,
    pub options: Vec<UserOption>,
    pub about: Option<AboutUser>,
}

impl UserClauses {
    /// Whether one of the accounts is that of the session.
    pub fn have_own(&self) -> bool {
        self.users.iter().any(|(account, _)| *account == own_account())
    }

    /// Whether they only name accounts.
    pub fn are_names(&self) -> bool {
        let of_user = |(_, how): &(Account, Authentication)| *how == Authentication::default();
        let is_said = self.tls.is_some() || !self.options.is_empty() || self.about.is_some();
        !is_said && self.users.iter().all(of_user)
    }
}

/// What stands for the account of the session, where a statement says USER() or CURRENT_USER(): no
/// account has an empty name.
pub fn own_account() -> Account {
    Account { name: String::new(), host: String::new() }
}

/// Parses accounts with their authentication, default roles, REQUIRE and options. ALTER USER may
/// name that of the session, and say what becomes of the password before.
pub fn user_clauses(cursor: &mut Cursor<'_>, alters: bool) -> Result<UserClauses> {
    let users = cursor.list(|cursor| {
        let account = match alters && names_own(cursor)? {
            true => own_account(),
            false => account(cursor)?,
        };
        let mut how = identified(cursor)?;
        // CREATE USER has neither: there is no password before.
        if alters {
            how.retains = how.sets_password() && retained(cursor);
            how.discards = !how.sets_password() && cursor.words("DISCARD OLD PASSWORD");
        }
        Ok((account, how))
    })?;
    if cursor.one_of(&["ADD", "MODIFY", "DROP"]).is_some() {
        return Err(refuse("several factors of authentication"));
    }
    let roles = cursor.words("DEFAULT ROLE").then(|| default_roles(cursor)).transpose()?;
    let tls = cursor.words("REQUIRE").then(|| requirement(cursor)).transpose()?;
    let (options, about) = user_options::options(cursor)?;
    Ok(UserClauses { users, roles, tls, options, about })
}

/// Parses `NONE | ALL | role, ..`.
pub fn default_roles(cursor: &mut Cursor<'_>) -> Result<DefaultRoles> {
    Ok(match cursor.one_of(&["NONE", "ALL"]) {
        Some("NONE") => DefaultRoles::None,
        Some(_) => DefaultRoles::All,
        None => DefaultRoles::These(cursor.list(account)?),
    })
}

/// Consumes USER() or CURRENT_USER, if it is next.
fn names_own(cursor: &mut Cursor<'_>) -> Result<bool> {
    let is_call =
        |cursor: &Cursor<'_>| matches!(cursor.parser.peek_nth_token_ref(1).token, Token::LParen);
    if !(cursor.peek_word(0).as_deref() == Some("USER") && is_call(cursor))
        && cursor.peek_word(0).as_deref() != Some("CURRENT_USER")
    {
        return Ok(false);
    }
    cursor.name()?;
    if cursor.token(&Token::LParen) {
        cursor.expect(&Token::RParen)?;
    }
    Ok(true)
}

/// Parses what follows REQUIRE.
fn requirement(cursor: &mut Cursor<'_>) -> Result<TlsRequirement> {
    match cursor.one_of(&["NONE", "SSL", "X509", "SUBJECT", "ISSUER", "CIPHER"]) {
        Some("NONE") => Ok(TlsRequirement::None),
        Some("SSL") => Ok(TlsRequirement::Ssl),
        Some("X509") => Ok(TlsRequirement::X509),
        Some(what) => Err(refuse(&format!("REQUIRE {what}"))),
        None => Err(cursor.error()),
    }
}

/// Whether REVOKE is that of everything; if so its words are consumed.
pub fn revokes_everything(cursor: &mut Cursor<'_>) -> bool {
    let parse = |cursor: &mut Cursor<'_>| {
        cursor.expect_words("ALL")?;
        cursor.words("PRIVILEGES");
        cursor.expect(&Token::Comma)?;
        cursor.expect_words("GRANT OPTION")?;
        cursor.expect_words("FROM")
    };
    cursor.attempt(parse).is_some()
}

/// Parses the accounts of such a REVOKE.
pub fn revoking_everything(cursor: &mut Cursor<'_>) -> Result<GrantStatement> {
    Ok(GrantStatement {
        privileges: Privileges::NONE,
        columns: Vec::new(),
        dynamic: Vec::new(),
        object: GrantTarget::Everything,
        accounts: cursor.list(account)?,
        ignores_unknown: cursor.words("IGNORE UNKNOWN USER"),
    })
}

/// Parses the part after GRANT (`to` = "TO") or REVOKE ("FROM").
pub fn granting(cursor: &mut Cursor<'_>, to: &str) -> Result<GrantStatement> {
    let (mut privileges, mut columns, mut dynamic) = (Privileges::NONE, Vec::new(), Vec::new());
    let named = cursor.list(privilege)?;
    let all_dynamic = named.iter().all(|one| matches!(one, Named::Dynamic(_)));
    for one in named {
        match one {
            Named::Whole(one) => privileges = one.iter().fold(privileges, Privileges::with),
            Named::OnColumns(one, names) => {
                columns.extend(one.iter().map(|privilege| (privilege, names.clone())));
            }
            Named::Dynamic(name) => dynamic.push(name),
        }
    }
    cursor.expect_words("ON")?;
    let named_none = privileges.is_empty() && columns.is_empty() && dynamic.is_empty();
    let object = match cursor.words("WORKLOAD GROUP") {
        true => workload_group(cursor, named_none)?,
        false => {
            if let Some(kind) = cursor.one_of(&["PROCEDURE", "FUNCTION"]) {
                let name = cursor.table()?.table;
                bail!(UnknownFunction, "{kind} {name} does not exist");
            }
            cursor.words("TABLE");
            object(cursor)?
        }
    };
    cursor.expect_words(to)?;
    let accounts = cursor.list(account)?;
    if cursor.words("WITH GRANT OPTION") {
        if let GrantTarget::WorkloadGroup(_) = object {
            return Err(refuse("WITH GRANT OPTION of a workload group"));
        }
        // Of a dynamic privilege it is of that alone.
        if !all_dynamic {
            privileges = privileges.with(Privilege::GrantOption);
        }
    }
    let ignores_unknown = to == "FROM" && cursor.words("IGNORE UNKNOWN USER");
    Ok(GrantStatement { privileges, columns, dynamic, object, accounts, ignores_unknown })
}

/// The workload group of a grant, whose only privilege is USAGE_PRIV.
fn workload_group(cursor: &mut Cursor<'_>, named_none: bool) -> Result<GrantTarget> {
    if !named_none {
        bail!(
            IllegalGrant,
            "Illegal GRANT/REVOKE command; the privilege on a workload group is USAGE_PRIV"
        );
    }
    cursor.name_or_text().map(GrantTarget::WorkloadGroup)
}

/// A privilege as GRANT names it.
enum Named {
    Whole(Privileges),
    OnColumns(Privileges, Vec<String>),
    Dynamic(String),
}

fn privilege(cursor: &mut Cursor<'_>) -> Result<Named> {
    let mut words = Vec::new();
    while !matches!(cursor.peek().token, Token::Comma | Token::LParen | Token::EOF)
        && cursor.peek_word(0).is_some_and(|word| word != "ON" && word != "TO" && word != "FROM")
    {
        words.push(cursor.name()?);
    }
    let name = words.join(" ");
    if name.is_empty() {
        return Err(cursor.error());
    }
    if name.eq_ignore_ascii_case("PROXY") {
        return Err(refuse("the privilege PROXY"));
    }
    if is_dynamic(&name) {
        return Ok(Named::Dynamic(name.to_uppercase()));
    }
    let privileges = Privilege::parse(&name).ok_or_else(|| {
        err!(Syntax, "You have an error in your SQL syntax; '{name}' is no privilege")
    })?;
    if !cursor.token(&Token::LParen) {
        return Ok(Named::Whole(privileges));
    }
    let of_columns = [Privilege::Select, Privilege::Insert, Privilege::Update];
    if !of_columns.iter().any(|one| Privileges::NONE.with(*one) == privileges) {
        bail!(
            Syntax,
            "You have an error in your SQL syntax; '{name}' is no privilege on columns: SELECT, \
             INSERT and UPDATE are"
        );
    }
    let columns = cursor.list(|cursor| cursor.name())?;
    cursor.expect(&Token::RParen)?;
    Ok(Named::OnColumns(privileges, columns))
}

/// Whether it is a privilege that MySQL registers at its start; nothing asks for them here.
fn is_dynamic(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    const OTHERS: [&str; 12] = [
        "ALLOW_NONEXISTENT_DEFINER",
        "AUDIT_ABORT_EXEMPT",
        "FIREWALL_EXEMPT",
        "FIREWALL_USER",
        "INNODB_REDO_LOG_ARCHIVE",
        "INNODB_REDO_LOG_ENABLE",
        "REPLICATION_APPLIER",
        "RESOURCE_GROUP_USER",
        "SET_USER_ID",
        "SHOW_ROUTINE",
        "SYSTEM_USER",
        "GROUP_REPLICATION_STREAM",
    ];
    name.ends_with("_ADMIN") || name.starts_with("FLUSH_") || OTHERS.contains(&&*name)
}

fn object(cursor: &mut Cursor<'_>) -> Result<GrantTarget> {
    let star = |cursor: &mut Cursor<'_>| cursor.token(&Token::Mul);
    if star(cursor) {
        if !cursor.token(&Token::Period) {
            return Ok(GrantTarget::SelectedDatabase);
        }
        cursor.expect(&Token::Mul)?;
        // Doris: catalog.database.table.
        if cursor.token(&Token::Period) {
            cursor.expect(&Token::Mul)?;
        }
        return Ok(GrantTarget::Object(GrantObject::Server));
    }
    let first = cursor.name_or_text()?;
    if !cursor.token(&Token::Period) {
        return Ok(GrantTarget::SelectedTable(first));
    }
    if star(cursor) {
        return Ok(GrantTarget::Object(GrantObject::Database(first)));
    }
    let table = cursor.name()?;
    Ok(GrantTarget::Object(GrantObject::Table(first, table)))
}
