//! `validate_password.*`: what passwords the server accepts.

use freshet_base::{Result, bail};
use freshet_meta::Account;
use freshet_query::functions::password::PasswordRules;
use freshet_query::session::Value;

use crate::variables::{self, Globals};

/// Checks a new password of an account, which `by` sets.
///
/// # Errors
/// 1819 in MySQL's words.
pub fn check(globals: &Globals, account: &Account, by: &Account, password: &str) -> Result<()> {
    let values = globals.load();
    let policy = variables::find("validate_password.policy").expect("a variable of the registry");
    let Value::Text(policy) = policy.of(&values) else { return Ok(()) };
    if policy == "NONE" {
        return Ok(());
    }
    let number = |name: &str| i64::try_from(globals.number(name)).unwrap_or(i64::MAX);
    let rules = PasswordRules {
        length: number("validate_password.length"),
        mixed_case: number("validate_password.mixed_case_count"),
        numbers: number("validate_password.number_count"),
        specials: number("validate_password.special_char_count"),
    };
    let is_name = |account: &Account| {
        let name = &account.name;
        !name.is_empty() && (password == name || password.chars().eq(name.chars().rev()))
    };
    let names = globals.is_on("validate_password.check_user_name");
    let is_strong = match policy.as_str() {
        "LOW" => rules.are_met_by_length(password),
        _ => rules.are_met(password),
    };
    if password.is_empty() || !is_strong || names && (is_name(account) || is_name(by)) {
        bail!(PasswordPolicy, "Your password does not satisfy the current policy requirements");
    }
    Ok(())
}
