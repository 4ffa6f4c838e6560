//! What a system variable is: its type, scopes and bounds.

use freshet_query::session::Value;

/// The type of a variable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Bool,
    /// A boolean that is off and stays so: it would change what statements do.
    Off,
    /// An integer that stays as it is: another one would change what statements answer.
    Only(i64),
    /// A boolean shown as `true` or `false`, as in Doris.
    Flag,
    /// An integer; values out of bounds are clamped with a warning.
    Int {
        min: i64,
        max: i64,
    },
    /// A number from 0 to 1.
    Ratio,
    /// A number of seconds with a fraction, shown with six digits.
    Seconds,
    /// One of these names, case-insensitively.
    OneOf(&'static [&'static str]),
    /// The same, but not by the index of a name.
    NameOf(&'static [&'static str]),
    /// Any text.
    Text,
    /// Comma-separated names of SQL modes.
    SqlMode,
    /// A time zone, as an offset or a name.
    Zone,
    Charset {
        /// Whether NULL is allowed.
        nullable: bool,
    },
    Collation,
}

/// The scopes of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Global and session; sessions start with the global value.
    Both,
    /// Global and session, but the session value is read-only.
    Begin,
    /// Global only.
    Global,
    /// Session only.
    Session,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Variable {
    /// In lower case.
    pub name: &'static str,
    pub kind: Kind,
    pub reach: Reach,
    /// Whether SET refuses it.
    pub read_only: bool,
    /// In the form that SET accepts.
    pub default: &'static str,
    /// The description in the documentation.
    pub about: &'static str,
}

impl Variable {
    pub fn default_value(&self) -> Value {
        let text = Value::Text(self.default.to_owned());
        let (value, _) = self.accept(&text).expect("a default is a value of its variable");
        value
    }
}
