//! ALTER TABLE of partitions: the partitions that a table has behind it, and those that it loses.

use freshet_base::{Error, Result, TableId, bail, err};
use freshet_schema::{
    Partition, PartitionBy, PartitionMethod, PartitionValues, TABLETS_MAX, Table, TableForm,
};

use crate::create::{NewPartition, one_more};
use crate::meta::Meta;
use crate::names;
use crate::spec::PartitionSpec;

/// A change of the partitions of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartitionChange {
    Add(Vec<PartitionSpec>),
    Drop {
        names: Vec<String>,
        if_exists: bool,
    },
    /// Of these, or of all.
    Truncate(Option<Vec<String>>),
    Rename {
        from: String,
        to: String,
    },
}

/// What the record of a change says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repartition {
    pub by: PartitionBy,
    /// All that the table has from there on. Ids that it had keep their rows; others are new.
    pub partitions: Vec<Partition>,
    /// Those whose ids, and with them their rows, are gone.
    pub removed: Vec<Partition>,
}

/// What a change comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionsChanged {
    /// `None` if nothing changes.
    pub record: Option<Repartition>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

/// A change while it is worked out.
struct Changing {
    partitions: Vec<Partition>,
    removed: Vec<Partition>,
    notes: Vec<String>,
}

impl Meta {
    /// What a change of partitions comes to, with new ids. A table whose partitions are as they
    /// were needs no record.
    ///
    /// # Errors
    /// 1505 for a table without partitions, 1507 and 1735 for partitions that there are none, 1508
    /// for the last one; for added ones those of CREATE TABLE.
    pub fn change_partitions(
        &self,
        id: TableId,
        change: &PartitionChange,
    ) -> Result<PartitionsChanged> {
        let catalog = self.catalog();
        let table = catalog.require(id)?;
        let Some(by) = &table.partition_by else {
            bail!(
                NotPartitioned,
                "Partition management on a not partitioned table is not possible"
            );
        };
        let (partitions, removed, notes) = (table.partitions.clone(), Vec::new(), Vec::new());
        let mut changed = Changing { partitions, removed, notes };
        match change {
            PartitionChange::Add(specs) => self.add_partitions(table, specs, &mut changed)?,
            PartitionChange::Drop { names, if_exists } => {
                drop_partitions(table, names, *if_exists, &mut changed)?;
            }
            PartitionChange::Truncate(names) => {
                let all = || table.partitions.iter().map(|one| one.name.clone()).collect();
                let names = names.clone().unwrap_or_else(all);
                self.empty_partitions(table, &names, &mut changed)?;
            }
            PartitionChange::Rename { from, to } => rename(table, from, to, &mut changed)?,
        }
        let Changing { partitions, removed, notes } = changed;
        let by = by.clone();
        let is_new = partitions != table.partitions;
        Ok(PartitionsChanged {
            record: is_new.then_some(Repartition { by, partitions, removed }),
            notes,
        })
    }

    fn add_partitions(
        &self,
        table: &Table,
        specs: &[PartitionSpec],
        to: &mut Changing,
    ) -> Result<()> {
        let by = table.partition_by.as_ref().expect("it is divided");
        let of =
            |one: &Partition| NewPartition { name: one.name.clone(), values: one.values.clone() };
        let mut known = table.partitions.iter().map(of).collect::<Vec<_>>();
        for spec in specs {
            if spec.if_not_exists && known.iter().any(|one| is_named(&one.name, &spec.name)) {
                to.notes.push(format!("Duplicate partition name {}", spec.name));
                continue;
            }
            let columns = &table.schema().columns;
            let new = one_more(by, columns, table.form, &known, spec)?;
            known.push(new.clone());
            if known.len() * table.buckets() as usize > TABLETS_MAX {
                bail!(
                    TooManyPartitions,
                    "Too many partitions (including subpartitions) were defined: {} of {} buckets \
                     each, limit {TABLETS_MAX} in a table",
                    known.len(),
                    table.buckets()
                );
            }
            to.partitions.push(self.partition_of(new, table.buckets(), table.incarnation())?);
        }
        if by.method == PartitionMethod::Range {
            let columns = by.columns.len();
            to.partitions.sort_by_key(|one| one.values.as_ref()?.range(columns));
        }
        Ok(())
    }

    /// New ids stand where the old ones were.
    fn empty_partitions(&self, table: &Table, names: &[String], to: &mut Changing) -> Result<()> {
        for name in names {
            let at = to.partitions.iter().position(|one| is_named(&one.name, name));
            let old = &mut to.partitions[at.ok_or_else(|| unknown_partition(table, name))?];
            if to.removed.iter().any(|one| is_named(&one.name, name)) {
                continue;
            }
            let new = NewPartition { name: old.name.clone(), values: old.values.clone() };
            let new = self.partition_of(new, table.buckets(), table.incarnation())?;
            to.removed.push(std::mem::replace(old, new));
        }
        Ok(())
    }
}

fn is_named(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// 1735 in MySQL's words.
pub fn unknown_partition(table: &Table, name: &str) -> Error {
    err!(UnknownPartition, "Unknown partition '{name}' in table '{}'", table.name)
}

fn drop_partitions(
    table: &Table,
    names: &[String],
    if_exists: bool,
    to: &mut Changing,
) -> Result<()> {
    for name in names {
        match to.partitions.iter().position(|one| is_named(&one.name, name)) {
            Some(at) => to.removed.push(to.partitions.remove(at)),
            None if if_exists || to.removed.iter().any(|one| is_named(&one.name, name)) => {
                to.notes.push(format!("Wrong partition name or partition list: '{name}'"));
            }
            None => bail!(
                NoSuchPartition,
                "Wrong partition name or partition list: table '{}' has no partition '{name}'",
                table.name
            ),
        }
    }
    if to.partitions.is_empty() {
        bail!(
            LastPartition,
            "Cannot remove all partitions, use DROP TABLE instead, or TRUNCATE TABLE: at least one \
             partition should stay"
        );
    }
    if table.form == TableForm::MySql {
        close_gaps(&mut to.partitions);
    }
    Ok(())
}

/// In MySQL a range begins where the one before it ends.
fn close_gaps(partitions: &mut [Partition]) {
    let mut before = None;
    for one in partitions {
        if let Some(PartitionValues::Range { lower, upper }) = &mut one.values {
            *lower = before.replace(upper.clone());
        }
    }
}

fn rename(table: &Table, from: &str, to: &str, changed: &mut Changing) -> Result<()> {
    names::check_partition(to)?;
    let at = changed.partitions.iter().position(|one| is_named(&one.name, from));
    let at = at.ok_or_else(|| unknown_partition(table, from))?;
    let taken = changed.partitions.iter().position(|one| is_named(&one.name, to));
    if taken.is_some_and(|taken| taken != at) {
        bail!(PartitionExists, "Duplicate partition name {to}");
    }
    to.clone_into(&mut changed.partitions[at].name);
    Ok(())
}
