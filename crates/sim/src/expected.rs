//! What readers must see at one horizon: the fold of all records up to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use freshet_base::{Lsn, TableId};
use freshet_schema::TableSchema;

use crate::events::{Event, Part};
use crate::rows::{self, Row, RowKind};

/// All tables at one horizon.
pub struct Expected {
    pub tables: BTreeMap<TableId, ExpectedTable>,
}

/// A table at one horizon.
#[derive(Default)]
pub struct ExpectedTable {
    /// Its records.
    pub parts: Vec<(Lsn, Part)>,
    /// What was cut behind so many parts, and where.
    pub cuts: Vec<(usize, Lsn, Vec<Range<i64>>)>,
    /// The keys of rows that are forgotten behind so many parts, and up to which LSN these are.
    pub forgotten: Vec<(usize, Vec<i64>, Lsn)>,
    pub schema: Option<Arc<TableSchema>>,
    pub dropped: bool,
}

impl Expected {
    pub fn at(events: &BTreeMap<Lsn, Event>, horizon: Lsn) -> Self {
        let mut tables = BTreeMap::<TableId, ExpectedTable>::new();
        for (lsn, event) in events.range(..=horizon) {
            match event {
                Event::Load(parts, _) => {
                    for part in parts {
                        let table = tables.entry(part.table).or_default();
                        assert!(!table.dropped, "{lsn} is behind the drop of its table");
                        table.parts.push((*lsn, part.clone()));
                    }
                }
                Event::Truncate(ids) => {
                    for id in ids {
                        let table = tables.entry(*id).or_default();
                        table.parts.clear();
                        table.cuts.clear();
                        table.forgotten.clear();
                    }
                }
                Event::Alter(id, schema) => {
                    tables.entry(*id).or_default().schema = Some(Arc::clone(schema));
                }
                Event::Cut(id, ranges) => {
                    let table = tables.entry(*id).or_default();
                    table.cuts.push((table.parts.len(), *lsn, ranges.clone()));
                }
                Event::Forget(id, keys, to) => {
                    let table = tables.entry(*id).or_default();
                    table.forgotten.push((table.parts.len(), keys.clone(), *to));
                }
                Event::Drop(ids) => {
                    ids.iter().for_each(|id| tables.entry(*id).or_default().dropped = true);
                }
            }
        }
        Self { tables }
    }
}

impl ExpectedTable {
    /// The LSN of the version with this number.
    fn lsn_of(&self, number: i64) -> Lsn {
        let part = self.parts.iter().find(|(_, part)| part.ids.contains(&number));
        part.expect("a version is of a part").0
    }

    /// Its rows under `schema`, of the records that are `shown`.
    pub fn rows(&self, schema: &TableSchema, shown: impl Fn(Lsn, &Part) -> bool) -> Vec<Row> {
        let (mut rows, mut last) = (Vec::new(), BTreeMap::new());
        let mut cuts = self.cuts.iter().peekable();
        for at in 0..=self.parts.len() {
            while let Some((_, _, ranges)) = cuts.next_if(|(before, _, _)| *before <= at) {
                let is_cut = |divider| ranges.iter().any(|range| range.contains(&divider));
                rows.retain(|row: &Row| !is_cut(row.divider(RowKind::Plain)));
                last.retain(|_, row: &mut Row| !is_cut(row.divider(RowKind::Version)));
            }
            let forgotten = self.forgotten.iter().filter(|(behind, _, _)| *behind == at);
            for (_, keys, to) in forgotten {
                last.retain(|key, row: &mut Row| {
                    let is_named = keys.contains(key) && rows::deletes(row.amount, schema);
                    !(is_named && self.lsn_of(row.amount) <= *to)
                });
            }
            let Some((_, part)) = self.parts.get(at).filter(|(lsn, part)| shown(*lsn, part)) else {
                continue;
            };
            let of_part = (part.ids.clone(), part.kind);
            match part.kind {
                RowKind::Version => {
                    let mut versions = Vec::new();
                    rows::expect(of_part, &part.schema, schema, &mut versions);
                    rows::replace(&mut last, versions, schema);
                }
                RowKind::Removal => {
                    part.ids.clone().for_each(|id| drop(last.remove(&rows::key_of(id))));
                }
                RowKind::Gone => {
                    let at = rows.iter().position(|row: &Row| row.id == part.ids.start);
                    at.into_iter().for_each(|at| drop(rows.swap_remove(at)));
                }
                RowKind::Plain | RowKind::Debit => {
                    rows::expect(of_part, &part.schema, schema, &mut rows);
                }
            }
        }
        last.retain(|_, row| !rows::deletes(row.amount, schema));
        rows.extend(last.into_values());
        rows.sort();
        rows
    }
}
