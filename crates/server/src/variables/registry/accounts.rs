//! Variables: accounts, their passwords and logins.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both, fixed, global};

pub const ALL: &[Variable] = &[
    global(
        "generated_random_password_length",
        Kind::Int { min: 5, max: 255 },
        "20",
        "The characters of a password that IDENTIFIED BY RANDOM PASSWORD makes.",
    ),
    global(
        "activate_all_roles_on_login",
        Kind::Bool,
        "0",
        "Whether a login makes all roles of the account active, and not only its default roles.",
    ),
    fixed("authentication_policy", Kind::Text, "*,,", "Any plugin; its first factor alone counts."),
    global(
        "connection_control_failed_connections_threshold",
        Kind::Int { min: 0, max: 2147483647 },
        "3",
        "Failed logins in a row, per user name and address, after which further ones are delayed; \
         ten times as many per address. 0 switches delays off.",
    ),
    global(
        "connection_control_max_connection_delay",
        Kind::Int { min: 1000, max: 2147483647 },
        "5000",
        "The maximum delay of a login in milliseconds; limited to half of `connect_timeout`.",
    ),
    global(
        "connection_control_min_connection_delay",
        Kind::Int { min: 1000, max: 2147483647 },
        "1000",
        "The minimum delay of a delayed login in milliseconds.",
    ),
    fixed(
        "default_authentication_plugin",
        Kind::Text,
        "caching_sha2_password",
        "The plugin of accounts that are created without one.",
    ),
    fixed(
        "default_password_lifetime",
        Kind::Int { min: 0, max: 65535 },
        "0",
        "Passwords expire as ALTER USER says it, else never.",
    ),
    fixed("mandatory_roles", Kind::Text, "", "Empty: no role is granted to everybody."),
    fixed("partial_revokes", Kind::Bool, "0", "There are no partial revokes."),
    global(
        "password_history",
        Kind::Int { min: 0, max: 4294967295 },
        "0",
        "The last passwords of an account that it must not have again (3638), where its PASSWORD \
         HISTORY says nothing; at most 100 are remembered.",
    ),
    global(
        "password_require_current",
        Kind::Bool,
        "0",
        "Whether a change of the own password takes the old one (`REPLACE 'old'`; 3892), where \
         PASSWORD REQUIRE CURRENT of the account says nothing. Who has CREATE USER need not say \
         it.",
    ),
    global(
        "password_reuse_interval",
        Kind::Int { min: 0, max: 4294967295 },
        "0",
        "Days for which an account must not have a password again (3638), where its PASSWORD REUSE \
         INTERVAL says nothing.",
    ),
    both("print_identified_with_as_hex", Kind::Bool, "0", NO_EFFECT),
    fixed(
        "skip_show_database",
        Kind::Bool,
        "0",
        "SHOW DATABASES shows what the account has privileges on.",
    ),
    global(
        "validate_password.check_user_name",
        Kind::Bool,
        "1",
        "Whether a password must not be the name of its account, or of who sets it, forwards or \
         backwards; behind `validate_password.policy`.",
    ),
    global(
        "validate_password.length",
        Kind::Int { min: 0, max: 1024 },
        "8",
        "The characters that a password has at least; other names of these variables have `_` in \
         place of the period.",
    ),
    global(
        "validate_password.mixed_case_count",
        Kind::Int { min: 0, max: 1024 },
        "1",
        "The lower case letters, and the upper case ones, that MEDIUM asks for.",
    ),
    global(
        "validate_password.number_count",
        Kind::Int { min: 0, max: 1024 },
        "1",
        "The digits that MEDIUM asks for.",
    ),
    global(
        "validate_password.policy",
        Kind::OneOf(&["LOW", "MEDIUM", "STRONG", "NONE"]),
        "NONE",
        "What CREATE USER, ALTER USER and SET PASSWORD ask of passwords (1819): LOW the length, \
         MEDIUM and STRONG what they contain too. A start takes it from the setting \
         `password_policy`.",
    ),
    global(
        "validate_password.special_char_count",
        Kind::Int { min: 0, max: 1024 },
        "1",
        "The characters other than letters and digits that MEDIUM asks for.",
    ),
];
