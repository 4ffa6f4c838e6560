//! Variables: logs, which are settings here.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, fixed, global};

pub const ALL: &[Variable] = &[
    global("general_log", Kind::Bool, "0", "Accepted: the log of the server is a setting."),
    global("general_log_file", Kind::Text, "", NO_EFFECT),
    fixed("log_error", Kind::Text, "stderr", "Where the server logs."),
    global(
        "log_error_verbosity",
        Kind::Int { min: 1, max: 3 },
        "2",
        "Accepted: the log of the server is a setting.",
    ),
    global("log_output", Kind::Text, "FILE", NO_EFFECT),
    global("log_queries_not_using_indexes", Kind::Bool, "0", NO_EFFECT),
    global("log_timestamps", Kind::OneOf(&["UTC", "SYSTEM"]), "UTC", NO_EFFECT),
    global("slow_launch_time", Kind::Int { min: 0, max: 31536000 }, "2", NO_EFFECT),
    global("slow_query_log", Kind::Bool, "0", "Accepted: there is no log of slow queries."),
    global("slow_query_log_file", Kind::Text, "", NO_EFFECT),
];
