use std::collections::BTreeMap;

use freshet_base::TableId;

/// Values that are kept per session; those of the oldest sequences go first.
const KEPT_MAX: usize = 1_000;

/// The last value that a session took of each sequence (CURRVAL).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Currents(BTreeMap<TableId, u64>);

impl Currents {
    pub fn note(&mut self, sequence: TableId, value: u64) {
        self.0.insert(sequence, value);
        if self.0.len() > KEPT_MAX {
            self.0.pop_first();
        }
    }

    pub fn of(&self, sequence: TableId) -> Option<u64> {
        self.0.get(&sequence).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_kept() {
        let mut currents = Currents::default();
        let kept = KEPT_MAX as u64;
        (1..=kept + 1).for_each(|id| currents.note(TableId(id), id * 10));
        assert_eq!(
            (currents.of(TableId(1)), currents.of(TableId(kept + 1))),
            (None, Some(kept * 10 + 10))
        );
    }
}
