//! Variables: character sets, collations and languages.

use super::super::kind::{Kind, Variable};
use super::{both, fixed};

pub const ALL: &[Variable] = &[
    both(
        "character_set_client",
        Kind::Charset { nullable: false },
        "utf8mb4",
        "The character set of statements.",
    ),
    both(
        "character_set_connection",
        Kind::Charset { nullable: false },
        "utf8mb4",
        "The character set of literals.",
    ),
    both(
        "character_set_database",
        Kind::Charset { nullable: false },
        "utf8mb4",
        "The character set of the current database.",
    ),
    both(
        "character_set_filesystem",
        Kind::Charset { nullable: false },
        "binary",
        "The character set of file names.",
    ),
    both(
        "character_set_results",
        Kind::Charset { nullable: true },
        "utf8mb4",
        "The character set of results; always UTF-8.",
    ),
    both(
        "character_set_server",
        Kind::Charset { nullable: false },
        "utf8mb4",
        "The character set of new databases.",
    ),
    fixed("character_set_system", Kind::Text, "utf8mb3", "The character set of identifiers."),
    fixed("character_sets_dir", Kind::Text, "", "Empty: character sets are in the program."),
    both(
        "collation_connection",
        Kind::Collation,
        "utf8mb4_0900_ai_ci",
        "The collation of literals.",
    ),
    both(
        "collation_database",
        Kind::Collation,
        "utf8mb4_0900_ai_ci",
        "The collation of the current database, set by USE.",
    ),
    both("collation_server", Kind::Collation, "utf8mb4_0900_ai_ci", "That of new databases."),
    both(
        "default_collation_for_utf8mb4",
        Kind::OneOf(&["utf8mb4_0900_ai_ci"]),
        "utf8mb4_0900_ai_ci",
        "The collation of utf8mb4 without COLLATE; no other.",
    ),
    both("lc_messages", Kind::OneOf(&["en_US"]), "en_US", "The language of messages; no other."),
    fixed("lc_messages_dir", Kind::Text, "", "Empty: messages are in the program."),
    both(
        "lc_time_names",
        Kind::OneOf(&["en_US"]),
        "en_US",
        "The language of names of days and months; no other.",
    ),
];
