//! Constant rows of system tables.

use freshet_schema::{Collation, Zone};

use super::Cell;

/// Character set, collation, whether it is the character set's default, and its id.
const COLLATIONS: [(&str, &str, bool, i64); 16] = [
    ("utf8mb4", "utf8mb4_0900_ai_ci", true, 255),
    ("utf8mb4", "utf8mb4_bin", false, 46),
    ("utf8mb4", "utf8mb4_general_ci", false, 45),
    ("utf8mb4", "utf8mb4_unicode_ci", false, 224),
    ("utf8mb4", "utf8mb4_unicode_520_ci", false, 246),
    ("utf8mb4", "utf8mb4_0900_as_cs", false, 278),
    ("utf8mb4", "utf8mb4_0900_as_ci", false, 305),
    ("utf8mb4", "utf8mb4_0900_bin", false, 309),
    ("utf8mb3", "utf8mb3_general_ci", true, 33),
    ("utf8mb3", "utf8mb3_bin", false, 83),
    ("utf8", "utf8_general_ci", true, 33),
    ("utf8", "utf8_bin", false, 83),
    ("latin1", "latin1_swedish_ci", true, 8),
    ("latin1", "latin1_bin", false, 47),
    ("ascii", "ascii_general_ci", true, 11),
    ("binary", "binary", true, 63),
];

/// Whether spaces at the end of texts count.
fn pad(collation: &str) -> &'static str {
    match Collation::standing_for(collation) {
        Some(collation) if collation.pads() => "PAD SPACE",
        _ => "NO PAD",
    }
}

fn yes(value: bool) -> Cell {
    (if value { "Yes" } else { "" }).into()
}

/// Name, support, comment, transactions, XA and savepoints of each engine.
pub const ENGINES: [[&str; 6]; 2] = [
    [
        "InnoDB",
        "DEFAULT",
        "Columns in sorted files, recent rows in memory, one log",
        "YES",
        "NO",
        "YES",
    ],
    ["OLAP", "YES", "The same, of tables that are created as in Doris", "YES", "NO", "YES"],
];

pub fn engines() -> Vec<Vec<Cell>> {
    ENGINES.map(|engine| engine.map(Cell::from).to_vec()).to_vec()
}

/// The ways in which clients prove who they are, as plugins of MySQL.
pub const PLUGINS: [&str; 2] = ["mysql_native_password", "caching_sha2_password"];

pub fn plugins() -> Vec<Vec<Cell>> {
    let row = |name: &str| {
        vec![
            name.into(),
            "1.0".into(),
            "ACTIVE".into(),
            "AUTHENTICATION".into(),
            "2.1".into(),
            Cell::Null,
            Cell::Null,
            "Freshet".into(),
            "Built in".into(),
            "Apache-2.0".into(),
            "FORCE".into(),
        ]
    };
    PLUGINS.map(row).to_vec()
}

pub fn character_sets() -> Vec<Vec<Cell>> {
    let defaults = COLLATIONS.iter().filter(|(_, _, default, _)| *default);
    defaults
        .map(|(set, collation, _, _)| {
            let bytes = match *set {
                "utf8mb4" => 4,
                "utf8" | "utf8mb3" => 3,
                _ => 1_i64,
            };
            vec![(*set).into(), (*collation).into(), (*set).into(), bytes.into()]
        })
        .collect()
}

pub fn collations() -> Vec<Vec<Cell>> {
    COLLATIONS
        .iter()
        .map(|(set, collation, default, id)| {
            vec![
                (*collation).into(),
                (*set).into(),
                (*id).into(),
                yes(*default),
                yes(true),
                1_i64.into(),
                pad(collation).into(),
            ]
        })
        .collect()
}

pub fn applicability() -> Vec<Vec<Cell>> {
    COLLATIONS.iter().map(|(set, collation, ..)| vec![(*collation).into(), (*set).into()]).collect()
}

/// Name and number of each time zone.
pub fn time_zones() -> Vec<Vec<Cell>> {
    (1_i64..).zip(Zone::names()).map(|(at, name)| vec![name.into(), at.into()]).collect()
}
