//! The values of all variables.

use std::sync::Arc;

use freshet_query::session::Value;

use super::VariableId;

/// The values of a piece.
const PIECE: usize = 16;

/// The values of all variables, in registry order. A copy shares the pieces in which neither sets
/// anything: each connection has values of its own, and few of them differ from the global ones.
#[derive(Clone, PartialEq, Debug)]
pub struct Values(Arc<Vec<Arc<Vec<Value>>>>);

impl Values {
    /// These values, one for each variable of the registry.
    pub fn new(all: &[Value]) -> Self {
        Self(Arc::new(all.chunks(PIECE).map(|piece| Arc::new(piece.to_vec())).collect()))
    }

    /// The value of a variable.
    pub fn get(&self, id: VariableId) -> &Value {
        &self.0[id.0 / PIECE][id.0 % PIECE]
    }

    /// Sets a value without validating it; one that it has already costs nothing.
    pub fn put(&mut self, id: VariableId, value: Value) {
        if *self.get(id) != value {
            let piece = &mut Arc::make_mut(&mut self.0)[id.0 / PIECE];
            Arc::make_mut(piece)[id.0 % PIECE] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_what_is_not_set() {
        let all = (0..3 * PIECE as i64).map(Value::Int).collect::<Vec<_>>();
        let globals = Values::new(&all);
        let mut own = globals.clone();
        own.put(VariableId(1), Value::Int(1));
        assert!(Arc::ptr_eq(&own.0, &globals.0), "it has that value");
        own.put(VariableId(PIECE + 2), Value::Int(-1));
        assert_eq!(*own.get(VariableId(PIECE + 2)), Value::Int(-1));
        assert_eq!(*globals.get(VariableId(PIECE + 2)), all[PIECE + 2]);
        assert!(!Arc::ptr_eq(&own.0[1], &globals.0[1]));
        assert!(Arc::ptr_eq(&own.0[0], &globals.0[0]) && Arc::ptr_eq(&own.0[2], &globals.0[2]));
        let same = (0..all.len()).filter(|at| own.get(VariableId(*at)) == &all[*at]).count();
        assert_eq!(same, all.len() - 1);
    }
}
