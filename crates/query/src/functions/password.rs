//! How strong a password is, by the variables `validate_password.*` of MySQL.

use datafusion::logical_expr::ScalarUDF;

use super::row::{Kind, Out, RowFunction};

/// Behind VALIDATE_PASSWORD_STRENGTH: the password, and the numbers of [`PasswordRules`].
pub const STRENGTH: &str = "mysql_password_strength";

/// What a password needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PasswordRules {
    /// Characters.
    pub length: i64,
    /// Lower case letters, and as many of upper case.
    pub mixed_case: i64,
    pub numbers: i64,
    /// Characters that are neither letters nor digits.
    pub specials: i64,
}

impl PasswordRules {
    /// Whether a password is long enough, as the policy LOW asks. What it has to contain makes it
    /// as long.
    pub fn are_met_by_length(&self, password: &str) -> bool {
        let needed = self.numbers + self.specials + 2 * self.mixed_case;
        count(password, |_| true) >= self.length.max(needed)
    }

    /// Whether it contains what it has to, too, as MEDIUM asks, and STRONG without a dictionary.
    pub fn are_met(&self, password: &str) -> bool {
        self.are_met_by_length(password)
            && count(password, char::is_lowercase) >= self.mixed_case
            && count(password, char::is_uppercase) >= self.mixed_case
            && count(password, |one| one.is_ascii_digit()) >= self.numbers
            && count(password, |one| !one.is_alphanumeric()) >= self.specials
    }

    /// 0 to 100, as VALIDATE_PASSWORD_STRENGTH tells it.
    pub fn strength(&self, password: &str) -> i64 {
        match password {
            _ if count(password, |_| true) < 4 => 0,
            _ if !self.are_met_by_length(password) => 25,
            _ if !self.are_met(password) => 50,
            _ => 100,
        }
    }
}

fn count(password: &str, is: fn(char) -> bool) -> i64 {
    i64::try_from(password.chars().filter(|one| is(*one)).count()).unwrap_or(i64::MAX)
}

pub fn all() -> Vec<ScalarUDF> {
    let strength = RowFunction::new(STRENGTH, &[Kind::Text, Kind::Int], (5, 5), Kind::Int, |row| {
        let [length, mixed_case, numbers, specials] = [1, 2, 3, 4].map(|at| row.int(at));
        let rules = PasswordRules { length, mixed_case, numbers, specials };
        Some(Out::Int(rules.strength(row.text(0))))
    });
    vec![strength.udf()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strength_is_that_of_mysql() {
        let rules = PasswordRules { length: 8, mixed_case: 1, numbers: 1, specials: 1 };
        for (password, strength) in [
            ("", 0),
            ("abc", 0),
            ("abcd", 25),
            ("abcdefg", 25),
            ("abcdefgh", 50),
            ("abcdefG1", 50),
            ("N0Tweak$_@123!", 100),
            ("\u{e4}\u{c4}12345!", 100),
        ] {
            assert_eq!(rules.strength(password), strength, "{password}");
        }
        let long = PasswordRules { mixed_case: 5, ..rules };
        assert_eq!(long.strength("abcdefghijk"), 25, "it needs 12 characters");
    }
}
