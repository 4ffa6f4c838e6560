//! What the hint of a statement changes: session variables, while it runs.

use freshet_query::hint::{self, Hint};
use freshet_query::session::Value;

use super::{Condition, Session};
use crate::settings::BatchPolicy;
use crate::variables::{self, VariableId};

/// The variables that a hint may set, because they are about one statement alone.
const HINTABLE: [&str; 16] = [
    BATCH[0],
    BATCH[1],
    BATCH[2],
    "cte_max_recursion_depth",
    "default_week_format",
    "enable_insert_strict",
    "group_commit",
    "group_concat_max_len",
    "innodb_lock_wait_timeout",
    "insert_max_filter_ratio",
    "insert_timeout",
    "max_execution_time",
    "query_timeout",
    "read_freshness",
    "sql_select_limit",
    "time_zone",
];
/// Those of them that change nothing but how an INSERT is read.
const BATCH: [&str; 3] =
    ["batch_insert_chunk_size", "batch_insert_policy", "max_batch_insert_sql_length"];

/// A hint, with what it means to a session.
#[derive(Clone, Debug, Default)]
pub struct Hinted {
    values: Vec<(VariableId, Value)>,
    /// What the client is told.
    notes: Vec<Condition>,
}

impl Hinted {
    /// The hint of the statement that `sql` begins with.
    pub fn of(sql: &[u8]) -> Option<Self> {
        hint::find(sql).map(|text| Self::new(&hint::read(text)))
    }

    pub fn new(hint: &Hint) -> Self {
        let mut hinted = Self::default();
        for fault in &hint.faults {
            hinted.note("Warning", 1064, fault.clone());
        }
        for command in &hint.routing {
            let message = format!(
                "Hint command '{command}' has no effect: the table decides where its rows are"
            );
            hinted.note("Note", 1235, message);
        }
        for (key, value) in &hint.settings {
            match key.as_str() {
                "socket_timeout" => hinted.timeout(value),
                _ => hinted.set(key, Value::Text(value.clone())),
            }
        }
        hinted
    }

    fn note(&mut self, level: &'static str, errno: u16, message: String) {
        self.notes.push(Condition { level, errno, message, state: None });
    }

    /// SOCKET_TIMEOUT, in milliseconds; 0 is none of its own.
    fn timeout(&mut self, value: &str) {
        match value.parse::<u32>() {
            Ok(0) => {}
            Ok(millis) => {
                self.set("max_execution_time", Value::Int(millis.into()));
                self.set("insert_timeout", Value::Int(millis.div_ceil(1000).into()));
            }
            Err(_) => {
                let message = format!("Hint 'socket_timeout' can't be set to '{value}'");
                self.note("Warning", 1231, message);
            }
        }
    }

    /// Unknown keys are those of features that do not exist here.
    fn set(&mut self, key: &str, value: Value) {
        let Some(id) = variables::find(key) else { return };
        let name = id.variable().name;
        if !HINTABLE.contains(&name) {
            let message = format!("Variable '{name}' cannot be set by a hint");
            return self.note("Warning", 3637, message);
        }
        match id.variable().accept(&value) {
            Ok((value, warning)) => {
                self.values.push((id, value));
                if let Some(message) = warning {
                    self.note("Warning", 1292, message);
                }
            }
            Err(error) => {
                self.note("Warning", error.code().errno(), error.message().to_owned());
            }
        }
    }

    /// Whether it changes more than how an INSERT is read, which needs no change of the session.
    pub fn changes_session(&self) -> bool {
        self.values.iter().any(|(id, _)| !BATCH.contains(&id.variable().name))
    }

    /// Whether the client is told of something.
    pub fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// The policy of an INSERT with this hint.
    pub fn batch(&self, mut policy: BatchPolicy) -> BatchPolicy {
        for (id, value) in &self.values {
            match (id.variable().name, value) {
                ("batch_insert_policy", Value::Text(name)) => policy.split = name == "SPLIT",
                ("batch_insert_chunk_size", Value::Int(rows)) => {
                    policy.rows = usize::try_from(*rows).unwrap_or(usize::MAX);
                }
                ("max_batch_insert_sql_length", Value::Int(kib)) => {
                    policy.from_kib = u64::try_from(*kib).unwrap_or(0);
                }
                _ => {}
            }
        }
        policy
    }
}

impl Session {
    /// Tells the client what its hint is not good for.
    pub fn tell_hint(&mut self, hinted: &Hinted) {
        for note in &hinted.notes {
            self.diagnostics.push(note.level, note.errno, note.message.clone());
        }
    }

    /// Sets the variables of a hint until it ends.
    pub fn begin_hint(&mut self, hinted: &Hinted) {
        if hinted.values.is_empty() {
            return;
        }
        let unhinted = (self.variables.clone(), self.sets_group_commit);
        self.unhinted.get_or_insert(unhinted);
        for (id, value) in &hinted.values {
            id.put(&mut self.variables, value.clone());
            self.sets_group_commit |= id.variable().name == "group_commit";
        }
        self.settings_changed();
    }

    /// Sets back what a hint has set, if one did.
    pub(super) fn end_hint(&mut self) {
        if let Some((variables, sets_group_commit)) = self.unhinted.take() {
            self.variables = variables;
            self.sets_group_commit = sets_group_commit;
            self.settings_changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hint_may_set_are_variables() {
        for name in HINTABLE {
            assert_eq!(variables::find(name).expect(name).variable().name, name);
        }
    }

    #[test]
    fn the_policy_of_a_hint_goes_over_that_of_the_session() {
        let session = BatchPolicy { split: true, from_kib: 256, rows: 200 };
        let hinted = |sql: &[u8]| Hinted::of(sql).expect("a hint");
        let hint = hinted(b"/*+TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=none)*/INSERT");
        assert_eq!(hint.batch(session), BatchPolicy { split: false, ..session });
        assert!(!hint.changes_session() && !hint.has_notes());
        let hint = hinted(
            b"/*+TDDL:MAX_BATCH_INSERT_SQL_LENGTH=1 BATCH_INSERT_CHUNK_SIZE_DEFAULT=5*/INSERT",
        );
        let other = hint.batch(session);
        assert_eq!((other.from_kib, other.rows), (1, 5));
        assert_eq!(other.piece(1023), None);
        assert_eq!(other.piece(1024), Some(5));
        assert!(hinted(b"/*+TDDL:SOCKET_TIMEOUT(5)*/INSERT").changes_session());
    }

    #[test]
    fn what_a_hint_may_not_do_is_told() {
        for (hint, errno) in [
            ("BATCH_INSERT_POLICY=maybe", 1231),
            ("BATCH_INSERT_CHUNK_SIZE=many", 1232),
            ("BATCH_INSERT_CHUNK_SIZE=0", 1292),
            ("SOCKET_TIMEOUT=soon", 1231),
            ("AUTOCOMMIT=0", 3637),
            ("node(1)", 1235),
            ("node(", 1064),
        ] {
            let hinted = Hinted::of(format!("/*+TDDL:{hint}*/INSERT").as_bytes()).expect(hint);
            assert_eq!(hinted.notes.iter().map(|note| note.errno).collect::<Vec<_>>(), [errno]);
        }
        assert!(!Hinted::of(b"/*+TDDL:UNKNOWN=1*/SELECT 1").expect("one").has_notes());
    }
}
