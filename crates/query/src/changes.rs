//! UPDATE and DELETE of several tables: what the statement says, and the change of each table.

use freshet_base::{Result, bail};

use crate::change::{Change, ChangeKind, Rows};
use crate::syntax::{Scalar, TableName};

/// A table, and the name by which expressions refer to it.
pub type Target = (TableName, String);

/// UPDATE or DELETE of joined tables that changes several of them, or does not say which.
#[derive(Clone, PartialEq, Debug)]
pub struct Changes {
    pub(crate) kind: ChangesKind,
    /// All that it names, but for derived tables.
    pub(crate) tables: Vec<Target>,
    /// The database that tables without one must be of, where the statement says so.
    pub in_database: Option<String>,
    pub(crate) ignores: bool,
    pub(crate) rows: Rows,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ChangesKind {
    Update(Vec<Assignment>),
    /// Places among the tables.
    Delete(Vec<usize>),
}

/// A column and what it gets; `None` for DEFAULT.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Assignment {
    /// The place of its table; `None` where the statement does not say it.
    pub of: Option<usize>,
    pub column: String,
    pub value: Option<Scalar>,
}

impl Changes {
    /// Whether it is a DELETE.
    pub fn is_delete(&self) -> bool {
        matches!(self.kind, ChangesKind::Delete(_))
    }

    /// The query of the rows to be changed, for EXPLAIN.
    pub fn found(&self) -> crate::syntax::Select {
        let at = match &self.kind {
            ChangesKind::Update(set) => set.first().and_then(|first| first.of).unwrap_or(0),
            ChangesKind::Delete(places) => places[0],
        };
        self.change(at, ChangeKind::Delete, Vec::new()).found()
    }

    /// The change of each table; `has` says whether a table has a column.
    ///
    /// # Errors
    /// 1052 and 1054 for a column of several tables and of none; those of `has`.
    pub fn each(&self, has: impl Fn(&TableName, &str) -> Result<bool>) -> Result<Vec<Change>> {
        let mut parts = Vec::<(usize, ChangeKind)>::new();
        match &self.kind {
            ChangesKind::Delete(places) => {
                parts.extend(places.iter().map(|&at| (at, ChangeKind::Delete)));
            }
            ChangesKind::Update(set) => {
                for assignment in set {
                    let at = match assignment.of {
                        Some(at) => at,
                        None => self.table_with(&assignment.column, &has)?,
                    };
                    let value = (assignment.column.clone(), assignment.value.clone());
                    match parts.iter_mut().find(|(known, _)| *known == at) {
                        Some((_, ChangeKind::Update { set })) => set.push(value),
                        _ => parts.push((at, ChangeKind::Update { set: vec![value] })),
                    }
                }
            }
        }
        let places = parts.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        let beside = |at: usize| {
            let others = places.iter().filter(|other| **other != at);
            others.map(|other| self.tables[*other].0.clone()).collect()
        };
        Ok(parts.into_iter().map(|(at, kind)| self.change(at, kind, beside(at))).collect())
    }

    fn change(&self, at: usize, kind: ChangeKind, beside: Vec<TableName>) -> Change {
        let (target, name) = self.tables[at].clone();
        let (ignores, view, rows) = (self.ignores, None, self.rows.clone());
        Change { kind, target, name, ignores, view, beside, rows }
    }

    /// The place of the only table that has this column.
    fn table_with(
        &self,
        column: &str,
        has: impl Fn(&TableName, &str) -> Result<bool>,
    ) -> Result<usize> {
        let mut found = None;
        for (at, (table, _)) in self.tables.iter().enumerate() {
            if !has(table, column)? {
                continue;
            }
            if found.replace(at).is_some() {
                bail!(AmbiguousColumn, "Column '{column}' in field list is ambiguous");
            }
        }
        match found {
            Some(at) => Ok(at),
            None => bail!(UnknownColumn, "Unknown column '{column}' in 'field list'"),
        }
    }
}
