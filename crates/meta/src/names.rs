//! Validation of names of databases, tables and columns.

use freshet_base::{Result, bail};
use freshet_schema::TableForm;

/// Maximum length of the name of a database or table, in characters.
pub(crate) const NAME_CHARS_MAX: usize = 64;
/// Maximum length of a column name, in bytes.
pub(crate) const COLUMN_NAME_BYTES_MAX: usize = 256;
/// The form of names in Doris.
const NAME_REGEX: &str = "^[a-zA-Z][a-zA-Z0-9-_]*$";
/// The prefix that Doris reserves for hidden columns.
const HIDDEN_PREFIX: &str = "__DORIS_";

fn is_doris_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && name.len() <= NAME_CHARS_MAX
}

/// MySQL accepts any character in quotes, except those that would be unsafe in a file name.
fn is_mysql_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.ends_with(' ')
        && !name.chars().any(|c| c.is_control() || matches!(c, '/' | '\\' | '.'))
}

/// Checks that a database can have this name.
pub(crate) fn check_database(name: &str) -> Result<()> {
    if !is_doris_name(name) {
        bail!(
            WrongDatabaseName,
            "Incorrect database name '{name}'. Database name regex is '{NAME_REGEX}'; \
             at most {NAME_CHARS_MAX} characters"
        );
    }
    Ok(())
}

/// Checks that a table of this form can have this name.
pub(crate) fn check_table(name: &str, form: TableForm) -> Result<()> {
    match form {
        TableForm::Olap if !is_doris_name(name) => bail!(
            WrongTableName,
            "Incorrect table name '{name}'. Table name regex is '{NAME_REGEX}'; \
             at most {NAME_CHARS_MAX} characters"
        ),
        TableForm::MySql if !is_mysql_name(name) => {
            bail!(WrongTableName, "Incorrect table name '{name}'")
        }
        _ => Ok(()),
    }
}

/// Checks that a partition can have this name.
pub(crate) fn check_partition(name: &str) -> Result<()> {
    if !is_mysql_name(name) {
        bail!(
            WrongTableName,
            "Incorrect partition name '{name}': at most {NAME_CHARS_MAX} characters, without \
             points and slashes"
        );
    }
    Ok(())
}

/// Names that a table can have instead of `name`, which is one.
pub(crate) fn similar(name: &str) -> impl Iterator<Item = String> + '_ {
    (1..).map(move |number: u64| {
        let suffix = format!("_{number}");
        let kept = name.chars().take(NAME_CHARS_MAX - suffix.len()).collect::<String>();
        kept + &suffix
    })
}

/// Checks that a foreign key can have this name.
pub(crate) fn check_constraint(name: &str) -> Result<()> {
    if name.chars().count() > NAME_CHARS_MAX {
        bail!(
            TooLongIdentifier,
            "Identifier name '{name}' is too long: names have at most {NAME_CHARS_MAX} characters; \
             give the FOREIGN KEY a shorter one by CONSTRAINT"
        );
    }
    if name.is_empty() || name.ends_with(' ') || name.chars().any(char::is_control) {
        bail!(WrongColumnName, "Incorrect constraint name '{name}'");
    }
    Ok(())
}

/// Checks that a column can have this name.
pub(crate) fn check_column(name: &str) -> Result<()> {
    let fits = !name.is_empty()
        && name.len() <= COLUMN_NAME_BYTES_MAX
        && !name.ends_with(' ')
        && !name.chars().any(char::is_control)
        && !name.to_ascii_uppercase().starts_with(HIDDEN_PREFIX);
    if !fits {
        bail!(
            WrongColumnName,
            "Incorrect column name '{name}': 1 to {COLUMN_NAME_BYTES_MAX} bytes, no control \
             characters, no space at the end, not beginning with {HIDDEN_PREFIX}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_like_another_is_one_too() {
        let names = similar("orders").take(2).collect::<Vec<_>>();
        assert_eq!(names, ["orders_1", "orders_2"]);
        for name in similar(&"t".repeat(64)).take(12) {
            check_table(&name, TableForm::Olap).unwrap();
        }
    }

    #[test]
    fn names_are_checked_as_doris_and_mysql_check_them() {
        let error = check_table("9tab", TableForm::Olap).unwrap_err();
        assert_eq!(error.code().errno(), 1103);
        let expected =
            "Incorrect table name '9tab'. Table name regex is '^[a-zA-Z][a-zA-Z0-9-_]*$'";
        assert!(error.message().starts_with(expected), "{error}");
        check_table("a-b_9", TableForm::Olap).unwrap();
        check_table("_prisma_migrations", TableForm::MySql).unwrap();
        check_table("9tab", TableForm::MySql).unwrap();
        assert!(check_table("../x", TableForm::MySql).is_err());
        assert!(check_table(&"t".repeat(65), TableForm::Olap).is_err());
        assert_eq!(check_database("").unwrap_err().code().errno(), 1102);
        assert_eq!(check_column("a ").unwrap_err().code().errno(), 1166);
        assert_eq!(check_column("__doris_version__").unwrap_err().code().errno(), 1166);
        check_constraint(&"\u{f6}".repeat(64)).unwrap();
        assert_eq!(check_constraint(&"f".repeat(65)).unwrap_err().code().errno(), 1059);
        assert_eq!(check_constraint("f ").unwrap_err().code().errno(), 1166);
        check_column("Gr\u{f6}\u{df}e (m)").unwrap();
    }
}
