//! Generates `docs/variables.md` from the registry.

use std::fmt::Write;

use super::{ALL, Reach};

pub fn document() -> String {
    let mut page = "# Session variables\n\n\
        Generated from `crates/server/src/variables/registry` by `make docs`; a test compares \
        the two.\n\n\
        `SET [SESSION] x = v` changes the session's value, `SET GLOBAL x = v` the one that new \
        sessions begin with, `DEFAULT` goes back to it. `@@x`, `@@session.x`, `@@global.x` and \
        `SHOW [GLOBAL] VARIABLES` read them.\n\n\
        `SET PERSIST x = v` is `SET GLOBAL`, also for the next starts, where it counts before the \
        settings of the server; `SET PERSIST_ONLY` is for these alone. `RESET PERSIST [x]` takes \
        it back for the next start. `performance_schema.persisted_variables` lists what is kept, \
        in `persisted_variables.json` of the data directory.\n\n\
        | variable | default | scope | what it does |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for variable in ALL.iter() {
        let default = if variable.default.is_empty() { "empty" } else { variable.default };
        let scope = match (variable.reach, variable.read_only) {
            (_, true) => "global, read only",
            (Reach::Both, false) => "global, session",
            (Reach::Begin, false) => "global, read only in sessions",
            (Reach::Global, false) => "global",
            (Reach::Session, false) => "session",
        };
        let (name, about) = (variable.name, variable.about);
        writeln!(page, "| `{name}` | `{default}` | {scope} | {about} |")
            .expect("writing to a string cannot fail");
    }
    page
}
