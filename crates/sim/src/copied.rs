//! What the model knows of tables that are copied beside loads.

use std::collections::BTreeMap;
use std::ops::Range;

use freshet_base::Lsn;
use freshet_schema::Table;
use freshet_storage::delta::Freshness;
use freshet_storage::snapshot::Snapshot;
use futures::FutureExt;

use crate::rows::{self, RowKind, is_missing};

/// One without a unique key, and a keyed one.
pub const COPIED: [&str; 2] = ["th", "kh"];

/// The loads of these tables, in the order of the log.
#[derive(Default)]
pub struct CopiedTables(BTreeMap<Lsn, (String, Range<i64>)>);

impl CopiedTables {
    pub fn loaded(&mut self, lsn: Lsn, table: &str, ids: Range<i64>) {
        let before = self.0.insert(lsn, (table.to_owned(), ids));
        assert!(before.is_none(), "two records at {lsn}");
    }

    /// Forgets what was lost with the end of the log.
    pub fn reopened(&mut self, log_end: Lsn) {
        self.0.split_off(&log_end.next());
    }

    /// Checks that each table has the rows of all its loads up to the horizon, each once, whichever
    /// copy has its name; returns how many tables were compared.
    ///
    /// # Panics
    /// When one has others.
    pub fn check(&self, snapshot: &Snapshot) -> u64 {
        let mut compared = 0;
        for name in COPIED.iter().filter(|_| snapshot.freshness == Freshness::Committed) {
            let Some(table) = snapshot.catalog.table("d", name) else { continue };
            // It may be too old to read.
            let Ok(read) = snapshot.table(table.id) else { continue };
            let read = read.unwrap_or_else(|| panic!("table {name} is gone"));
            if !matches!(read.resolved().now_or_never(), Some(Ok(()))) {
                continue;
            }
            let horizon = snapshot.horizon;
            match rows::read(&read) {
                Ok(rows) => {
                    assert!(rows == self.rows(name, horizon, &read.table), "{name} at {horizon}")
                }
                Err(error) => {
                    assert!(!is_missing(&error), "table {name} at {horizon}: {error}");
                    continue;
                }
            }
            compared += 1;
        }
        compared
    }

    fn rows(&self, name: &str, horizon: Lsn, table: &Table) -> Vec<rows::Row> {
        let (schema, kind) = (table.schema(), kind_of(name));
        let (mut all, mut last) = (Vec::new(), BTreeMap::new());
        let of_it = self.0.range(..=horizon).filter(|(_, (table, _))| table == name);
        for (_, (_, ids)) in of_it {
            match kind {
                RowKind::Version => {
                    let mut versions = Vec::new();
                    rows::expect((ids.clone(), kind), schema, schema, &mut versions);
                    rows::replace(&mut last, versions, schema);
                }
                _ => rows::expect((ids.clone(), kind), schema, schema, &mut all),
            }
        }
        all.extend(last.into_values());
        all.sort();
        all
    }
}

fn kind_of(name: &str) -> RowKind {
    if name.starts_with('k') { RowKind::Version } else { RowKind::Plain }
}
