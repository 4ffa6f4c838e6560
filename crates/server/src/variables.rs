//! System variables: a typed registry with scopes, defaults and bounds.
//!
//! `docs/variables.md` is generated from it; a test compares the two.

mod document;
mod identity;
mod kind;
mod persisted;
mod registry;
mod value;
mod values;

use freshet_base::{Result, bail, err};
use freshet_query::session::Value;
use parking_lot::RwLock;

pub use document::document;
pub use identity::server_uuid;
pub use kind::{Kind, Reach, Variable};
pub use persisted::{FILE as PERSISTED_FILE, Kept, Persisted};
pub use registry::ALL;
pub use value::{charset_name, zone_of};
pub use values::Values;

/// The message of a warning, if any.
pub type Warning = Option<String>;

/// The index of a variable in the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VariableId(usize);

impl VariableId {
    pub fn variable(self) -> &'static Variable {
        &ALL[self.0]
    }

    /// Its value in `values`.
    pub fn of(self, values: &Values) -> &Value {
        values.get(self)
    }

    /// Sets a value without validating it.
    pub fn put(self, values: &mut Values, value: Value) {
        values.put(self, value);
    }
}

/// Looks up a name, case-insensitively; some variables have an alias, and each one another with
/// `experimental_` before it, as in Doris.
pub fn find(name: &str) -> Option<VariableId> {
    let place = |name: &str| ALL.binary_search_by(|one| one.name.cmp(name)).ok().map(VariableId);
    // The server itself names them as they are written, many at each login.
    place(name).or_else(|| {
        let name = name.to_ascii_lowercase();
        let plain = name.strip_prefix("experimental_").unwrap_or(&name);
        let alias = ALIASES.iter().find(|(alias, _)| *alias == plain);
        place(&name).or_else(|| place(alias.map_or(plain, |(_, of)| of)))
    })
}

/// Aliases and the names they stand for.
pub const ALIASES: [(&str, &str); 12] = [
    ("batch_insert_chunk_size_default", "batch_insert_chunk_size"),
    ("enable_single_replica_insert", "experimental_enable_single_replica_insert"),
    ("max_statement_time", "max_execution_time"),
    ("storage_engine", "default_storage_engine"),
    ("tx_isolation", "transaction_isolation"),
    ("tx_read_only", "transaction_read_only"),
    ("validate_password_check_user_name", "validate_password.check_user_name"),
    ("validate_password_length", "validate_password.length"),
    ("validate_password_mixed_case_count", "validate_password.mixed_case_count"),
    ("validate_password_number_count", "validate_password.number_count"),
    ("validate_password_policy", "validate_password.policy"),
    ("validate_password_special_char_count", "validate_password.special_char_count"),
];

/// Looks up a name.
///
/// # Errors
/// 1193 for an unknown variable.
pub fn require(name: &str) -> Result<VariableId> {
    find(name).ok_or_else(|| err!(UnknownVariable, "Unknown system variable '{name}'"))
}

/// The value in the form of SHOW VARIABLES.
pub fn shown(id: VariableId, value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Double(number) if id.variable().kind == Kind::Seconds => format!("{number:.6}"),
        Value::Double(number) => format!("{number}"),
        Value::Decimal(text) | Value::Text(text) => text.clone(),
    };
    match (id.variable().kind, text.as_str()) {
        (Kind::Bool | Kind::Off, "0") => "OFF".to_owned(),
        (Kind::Bool | Kind::Off, _) => "ON".to_owned(),
        (Kind::Flag, "0") => "false".to_owned(),
        (Kind::Flag, _) => "true".to_owned(),
        _ => text,
    }
}

/// The global values, which new sessions start with.
pub struct Globals {
    values: RwLock<Values>,
}

impl Globals {
    /// The defaults, overridden by `known`.
    ///
    /// # Panics
    /// When `known` names an unknown variable, or a default is invalid: mistakes in the registry.
    pub fn new(known: &[(&str, Value)]) -> Self {
        let mut values = ALL.iter().map(Variable::default_value).collect::<Vec<_>>();
        for (name, value) in known {
            let id = find(name).expect("the server knows variables of the registry");
            values[id.0] = value.clone();
        }
        Self { values: RwLock::new(Values::new(&values)) }
    }

    /// The value of a non-negative integer variable.
    ///
    /// # Panics
    /// When there is no such variable.
    pub fn number(&self, name: &str) -> usize {
        let id = find(name).expect("a variable of the registry");
        match id.of(&self.load()) {
            Value::Int(number) => usize::try_from(*number).unwrap_or(0),
            other => unreachable!("{name} is a number, and not {other:?}"),
        }
    }

    /// Whether a switch is on.
    ///
    /// # Panics
    /// When there is no such variable.
    pub fn is_on(&self, name: &str) -> bool {
        self.number(name) != 0
    }

    pub fn load(&self) -> Values {
        self.values.read().clone()
    }

    /// SET GLOBAL; `None` is DEFAULT.
    ///
    /// # Errors
    /// 1228, 1231, 1232 and 1238.
    pub fn set(&self, id: VariableId, value: Option<&Value>) -> Result<Warning> {
        let (value, warning) = Self::accepted(id, value)?;
        self.put(id, value);
        Ok(warning)
    }

    /// Sets a value that SET GLOBAL accepts.
    pub fn put(&self, id: VariableId, value: Value) {
        self.values.write().put(id, value);
    }

    /// The value that SET GLOBAL would set.
    ///
    /// # Errors
    /// Those of [`Self::set`].
    pub fn accepted(id: VariableId, value: Option<&Value>) -> Result<(Value, Warning)> {
        let variable = id.variable();
        check_settable(variable)?;
        if variable.reach == Reach::Session {
            bail!(
                VariableScope,
                "Variable '{}' is a SESSION variable and can't be used with SET GLOBAL",
                variable.name
            );
        }
        match value {
            Some(value) => variable.accept(value),
            None => Ok((variable.default_value(), None)),
        }
    }
}

/// SET SESSION; `None` is DEFAULT, the global value.
///
/// # Errors
/// 1229, 1231, 1232, 1238 and 1621.
pub fn set_session(
    values: &mut Values,
    id: VariableId,
    value: Option<&Value>,
    globals: &Globals,
) -> Result<Warning> {
    let variable = id.variable();
    check_settable(variable)?;
    if variable.reach == Reach::Global {
        bail!(
            VariableGlobalOnly,
            "Variable '{}' is a GLOBAL variable and should be set with SET GLOBAL",
            variable.name
        );
    }
    if variable.reach == Reach::Begin {
        bail!(
            VariableSessionReadOnly,
            "SESSION variable '{}' is read-only. Use SET GLOBAL to assign the value",
            variable.name
        );
    }
    let (value, warning) = match value {
        Some(value) => variable.accept(value)?,
        None => (id.of(&globals.load()).clone(), None),
    };
    values.put(id, value);
    Ok(warning)
}

fn check_settable(variable: &Variable) -> Result<()> {
    if variable.read_only {
        bail!(VariableReadOnly, "Variable '{}' is a read only variable", variable.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
