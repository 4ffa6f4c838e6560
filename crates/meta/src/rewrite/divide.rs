//! ALTER TABLE that divides the rows of a table anew: PARTITION BY, REMOVE PARTITIONING, and other
//! numbers of partitions by HASH and KEY.

use freshet_base::{Result, bail, err};
use freshet_schema::{BUCKETS_MAX, TableForm};

use super::Edit;
use crate::partition::not_divided;
use crate::spec::{BucketsSpec, PartitionBySpec, PlacementSpec};

/// How the rows of a table are divided from there on.
#[derive(Clone, PartialEq, Debug)]
pub enum Division {
    /// PARTITION BY and the clauses of PolarDB-X.
    By(Box<DivisionSpec>),
    /// REMOVE PARTITIONING.
    Whole,
    /// COALESCE PARTITION: so many less.
    Fewer(u64),
    /// ADD PARTITION PARTITIONS: so many more.
    More(u64),
    /// SPLIT PARTITION: one becomes so many.
    Split(String, u64),
    /// MERGE PARTITIONS: these become one.
    Merge(Vec<String>),
}

/// The clauses of a CREATE TABLE that say it.
#[derive(Clone, PartialEq, Debug)]
pub struct DivisionSpec {
    /// The form of a table that could have them.
    pub form: TableForm,
    pub partition_by: Option<PartitionBySpec>,
    pub placement: Option<PlacementSpec>,
    pub buckets: BucketsSpec,
}

impl Edit<'_> {
    /// Applies what divides the rows.
    pub(super) fn divide(&mut self, division: &Division) -> Result<()> {
        match division {
            Division::Split(name, into) => {
                self.check_hashed(std::slice::from_ref(name), "SPLIT PARTITION")?;
                self.divide(&Division::More(into.saturating_sub(1)))?;
            }
            Division::Merge(names) => {
                self.check_hashed(names, "MERGE PARTITIONS")?;
                self.divide(&Division::Fewer(names.len() as u64 - 1))?;
            }
            Division::By(written) => self.divide_by(written)?,
            Division::Whole => {
                if self.spec.partition_by.is_none() && self.spec.placement.is_none() {
                    return Err(not_divided());
                }
                self.spec.partition_by = None;
                if self.spec.placement.take().is_some() {
                    self.spec.buckets = BucketsSpec::Unset;
                }
            }
            Division::Fewer(0) => {
                bail!(NoneCoalesced, "At least one partition must be coalesced");
            }
            Division::Fewer(count) => {
                let now = self.hashed_into("COALESCE PARTITION")?;
                if *count >= now {
                    bail!(
                        LastPartition,
                        "Cannot remove all partitions, use DROP TABLE instead: table '{}' has \
                         {now}",
                        self.table.name
                    );
                }
                self.hash_into(now - count);
            }
            Division::More(0) => bail!(NoneAdded, "At least one partition must be added"),
            Division::More(count) => {
                let now = self.hashed_into("ADD PARTITION PARTITIONS")?;
                let sum = now.saturating_add(*count);
                if sum > u64::from(BUCKETS_MAX) {
                    bail!(
                        TooManyPartitions,
                        "Too many partitions (including subpartitions) were defined: {sum} of \
                         table '{}', limit {BUCKETS_MAX}",
                        self.table.name
                    );
                }
                self.hash_into(sum);
            }
        }
        Ok(())
    }

    /// Checks names of partitions by HASH or KEY. They are those of MySQL, from p0 on, or those of
    /// PolarDB-X, up to pn.
    fn check_hashed(&self, names: &[String], what: &str) -> Result<()> {
        let count = self.hashed_into(what)?;
        let is_one = |name: &String| {
            let number =
                name.strip_prefix(['p', 'P']).and_then(|digits| digits.parse::<u64>().ok());
            number.is_some_and(|number| number <= count)
        };
        let is_twice = |at: usize| names[..at].iter().any(|it| it.eq_ignore_ascii_case(&names[at]));
        match (0..names.len()).find(|&at| !is_one(&names[at]) || is_twice(at)) {
            None => Ok(()),
            Some(at) => bail!(
                NoSuchPartition,
                "Error in list of partitions to {what}: table '{}' has no partition '{}', or it is \
                 named twice; it has {count}",
                self.table.name,
                names[at]
            ),
        }
    }

    fn divide_by(&mut self, written: &DivisionSpec) -> Result<()> {
        let is_olap = self.spec.form == TableForm::Olap;
        if !is_olap && written.form == TableForm::Olap {
            bail!(
                NotSupported,
                "Table '{}' is in the form of MySQL, and [..) ranges, FROM .. TO .. and AUTO \
                 PARTITION BY are for tables in the form of Doris; write VALUES LESS THAN",
                self.table.name
            );
        }
        if is_olap && written.placement.is_some() {
            bail!(
                NotSupported,
                "This version of Freshet doesn't yet support a change of how the rows of table \
                 '{}', which is in the form of Doris, are distributed: PARTITION BY is by RANGE or \
                 LIST there, and the rows of each partition stay distributed as they are",
                self.table.name
            );
        }
        self.spec.partition_by.clone_from(&written.partition_by);
        if !is_olap {
            self.spec.placement.clone_from(&written.placement);
            self.spec.distribution = None;
            self.spec.buckets = written.buckets;
        }
        Ok(())
    }

    /// The number of partitions of a table that is divided by HASH or KEY.
    fn hashed_into(&self, what: &str) -> Result<u64> {
        if self.spec.partition_by.is_some() {
            return Err(match what {
                "COALESCE PARTITION" | "SPLIT PARTITION" => err!(
                    OnlyHash,
                    "{what} can only be used on HASH/KEY partitions: those of table \
                     '{}' are by RANGE or LIST, write DROP or REORGANIZE PARTITION",
                    self.table.name
                ),
                _ => err!(
                    PartitionsMissing,
                    "For RANGE and LIST partitions each partition must be defined: write ADD \
                     PARTITION (PARTITION p VALUES ..)"
                ),
            });
        }
        match &self.spec.placement {
            Some(placement) if counted_by(&placement.text).is_some() => {
                Ok(u64::from(self.table.buckets))
            }
            Some(placement) => bail!(
                NotSupported,
                "This version of Freshet doesn't yet support '{what}' of a table with '{}'; say \
                 with ALTER TABLE .. PARTITION BY how its rows are divided",
                placement.text
            ),
            None => Err(not_divided()),
        }
    }

    /// Changes the number in the clause PARTITION BY HASH or KEY, or DBPARTITION BY.
    fn hash_into(&mut self, count: u64) {
        let placement = self.spec.placement.as_mut().expect("it is divided by a clause");
        let counted = counted_by(&placement.text).expect("the clause has a number");
        let text = placement.text.trim_end_matches(|last: char| last.is_ascii_digit());
        let text = text.trim_end();
        let by = match text.len().checked_sub(counted.len()).and_then(|at| text.get(at..)) {
            Some(last) if last.eq_ignore_ascii_case(counted) => {
                text[..text.len() - last.len()].trim_end()
            }
            _ => placement.text.trim_end(),
        };
        placement.text = format!("{by} {counted} {count}");
        self.spec.buckets = BucketsSpec::Count(count);
    }
}

/// The word before the number of partitions in a clause, which may be left out; none of
/// subpartitions, which are all counted together.
fn counted_by(clause: &str) -> Option<&'static str> {
    let words = words(clause);
    if words.starts_with("PARTITION BY ") {
        return (!words.contains(" SUBPARTITION BY ")).then_some("PARTITIONS");
    }
    let starts = words.starts_with("DBPARTITION BY ") || words.starts_with("TBPARTITION BY ");
    starts.then_some("TBPARTITIONS")
}

/// A clause with one space between words, in capital letters.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_uppercase()
}
