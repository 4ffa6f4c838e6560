//! Variables: what the server is.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both, fixed, global};

pub const ALL: &[Variable] = &[
    global("automatic_sp_privileges", Kind::Bool, "1", "Accepted; there are no stored programs."),
    fixed("basedir", Kind::Text, "/usr/", "Accepted, without effect."),
    fixed("datadir", Kind::Text, "", "The directory of the store."),
    global(
        "event_scheduler",
        Kind::OneOf(&["OFF", "ON", "DISABLED"]),
        "OFF",
        "Accepted: there are no events.",
    ),
    global("flush", Kind::Bool, "0", "Accepted: each commit is durable."),
    fixed("have_dynamic_loading", Kind::Text, "NO", "There are no plugins to load."),
    fixed("have_geometry", Kind::Text, "NO", "There are no geometries."),
    fixed("have_profiling", Kind::Text, "NO", "There are no profiles."),
    fixed("have_query_cache", Kind::Text, "NO", "There is no query cache."),
    fixed("have_rtree_keys", Kind::Text, "NO", "There are no geometries."),
    fixed("have_statement_timeout", Kind::Text, "YES", "Statements have timeouts."),
    fixed("have_symlink", Kind::Text, "DISABLED", "Tables are in the directory of the store."),
    fixed("hostname", Kind::Text, "localhost", "The name of the machine."),
    fixed("language", Kind::Text, "/usr/share/mysql/english/", NO_EFFECT),
    fixed("large_files_support", Kind::Bool, "1", "Files may be large."),
    fixed("license", Kind::Text, "Apache-2.0", "The licence of the server."),
    fixed("locked_in_memory", Kind::Bool, "0", "Whether the server is locked in memory."),
    fixed("lower_case_file_system", Kind::Bool, "0", "Whether file names are case-insensitive."),
    fixed(
        "lower_case_table_names",
        Kind::Int { min: 0, max: 2 },
        "0",
        "Names of databases and tables are case-sensitive.",
    ),
    both(
        "max_sp_recursion_depth",
        Kind::Int { min: 0, max: 255 },
        "0",
        "Accepted: there are no stored programs.",
    ),
    fixed(
        "open_files_limit",
        Kind::Int { min: 0, max: i64::MAX },
        "0",
        "0: the limit of the operating system.",
    ),
    fixed(
        "performance_schema",
        Kind::Bool,
        "1",
        "Statements are counted by their digests; nothing is gathered about waits.",
    ),
    fixed("pid_file", Kind::Text, "", "Empty: there is none."),
    fixed("plugin_dir", Kind::Text, "", "Empty: there are no plugins to load."),
    global(
        "stored_program_cache",
        Kind::Int { min: 16, max: 524288 },
        "256",
        "Accepted: there are no stored programs.",
    ),
    fixed("system_time_zone", Kind::Text, "UTC", "The time zone of the server."),
    fixed("tmpdir", Kind::Text, "", NO_EFFECT),
    fixed("version", Kind::Text, "", "The version of the server, as in the greeting."),
    fixed("version_comment", Kind::Text, "Freshet", "The name of the server."),
    fixed("version_compile_machine", Kind::Text, "", "What the server was built for."),
    fixed("version_compile_os", Kind::Text, "Linux", "What the server was built for."),
    fixed("version_compile_zlib", Kind::Text, "", "Empty: what it is built with has other names."),
];
