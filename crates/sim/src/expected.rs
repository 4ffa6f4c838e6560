//! What readers must see at one horizon: the fold of all records up to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use freshet_base::{Lsn, PartitionId, TableId};
use freshet_schema::TableSchema;

use crate::events::{Event, Part};
use crate::rows::{self, Row, RowKind};

/// All tables at one horizon.
pub struct Expected {
    pub tables: BTreeMap<TableId, ExpectedTable>,
}

/// What a change of partitions does to rows.
#[derive(Clone)]
pub enum Divided {
    /// They go: the ranges of their dividers.
    Lost(Vec<Range<i64>>),
    /// Those of a range come back, as they were in this table.
    Back(Range<i64>, Arc<ExpectedTable>),
}

/// A table at one horizon.
#[derive(Clone, Default)]
pub struct ExpectedTable {
    /// Its records.
    pub parts: Vec<(Lsn, Part)>,
    /// What changes of partitions did behind so many parts, and where.
    pub cuts: Vec<(usize, Lsn, Divided)>,
    /// The table before each partition that is in the recycle bin, or was, went there.
    pub resting: BTreeMap<PartitionId, Arc<ExpectedTable>>,
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
                    tables.entry(*id).or_default().divide(*lsn, Divided::Lost(ranges.clone()));
                }
                Event::Rest(id, partition, range) => {
                    let table = tables.entry(*id).or_default();
                    table.resting.insert(*partition, Arc::new(table.clone()));
                    table.divide(*lsn, Divided::Lost(vec![range.clone()]));
                }
                Event::Recover(id, partition, range) => {
                    let table = tables.entry(*id).or_default();
                    let before = table.resting.remove(partition);
                    let before = before.expect("what comes back was in the recycle bin");
                    table.divide(*lsn, Divided::Back(range.clone(), before));
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
    fn divide(&mut self, lsn: Lsn, divided: Divided) {
        self.cuts.push((self.parts.len(), lsn, divided));
    }

    /// The LSN of the version with this number.
    fn lsn_of(&self, number: i64) -> Lsn {
        let part = self.parts.iter().find(|(_, part)| part.ids.contains(&number));
        part.expect("a version is of a part").0
    }

    /// Its rows under `schema`, of the records that are `shown`.
    pub fn rows(&self, schema: &TableSchema, shown: impl Fn(Lsn, &Part) -> bool) -> Vec<Row> {
        let (mut rows, mut last) = self.fold(schema, &shown);
        last.retain(|_, row| !rows::deletes(row.amount, schema));
        rows.extend(last.into_values());
        rows.sort();
        rows
    }

    /// Its rows without a unique key, and the last version of each key.
    fn fold(
        &self,
        schema: &TableSchema,
        shown: &dyn Fn(Lsn, &Part) -> bool,
    ) -> (Vec<Row>, BTreeMap<i64, Row>) {
        let (mut rows, mut last) = (Vec::new(), BTreeMap::new());
        let mut cuts = self.cuts.iter().peekable();
        for at in 0..=self.parts.len() {
            while let Some((_, _, divided)) = cuts.next_if(|(before, _, _)| *before <= at) {
                match divided {
                    Divided::Lost(ranges) => {
                        let is_cut = |divider| ranges.iter().any(|range| range.contains(&divider));
                        rows.retain(|row: &Row| !is_cut(row.divider(RowKind::Plain)));
                        last.retain(|_, row: &mut Row| !is_cut(row.divider(RowKind::Version)));
                    }
                    Divided::Back(range, before) => {
                        let (old, versions) = before.fold(schema, &|_, _| true);
                        let is_it = |row: &Row, kind| range.contains(&row.divider(kind));
                        rows.extend(old.into_iter().filter(|row| is_it(row, RowKind::Plain)));
                        let versions = versions.into_iter();
                        last.extend(versions.filter(|(_, row)| is_it(row, RowKind::Version)));
                    }
                }
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
        (rows, last)
    }
}
