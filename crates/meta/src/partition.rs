//! ALTER TABLE of partitions: the partitions that a table has behind it, and those that it loses.

use freshet_base::{Error, ErrorCode, PartitionId, Result, TableId, bail, err};
use freshet_schema::partition::{all_digits, tell_others, value_text};
use freshet_schema::value::temporal::parse;
use freshet_schema::{
    AutoPartition, Column, Partition, PartitionBy, PartitionKey, PartitionMethod, PartitionValues,
    TABLETS_MAX, Table, TableForm,
};

use crate::catalog::Catalog;
use crate::create::{Known, NewPartition, buckets_of, one_by_one, one_more};
use crate::dynamic::Dynamic;
use crate::fold::{Definition, Divide};
use crate::meta::Meta;
use crate::names;
use crate::rowset::RowsetMeta;
use crate::spec::{BucketsSpec, DistributionSpec, PartitionSpec, ValueSpec};

mod exchange;
mod recover;
mod reorganize;

use reorganize::Reorganized;

pub use exchange::{Exchanged, Replacing};
pub(crate) use exchange::{check_unique_in_partition, not_divided};

/// The maximum length of a name that follows from values.
const AUTO_NAME_CHARS_MAX: usize = 60;

/// A change of the partitions of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartitionChange {
    Add(Vec<PartitionSpec>),
    /// One with DISTRIBUTED BY, which is that of the table, and BUCKETS.
    AddDistributed {
        spec: PartitionSpec,
        distribution: DistributionSpec,
        buckets: BucketsSpec,
    },
    /// Those that AUTO PARTITION makes for rows with these values of the columns of PARTITION BY.
    Make(Vec<PartitionKey>),
    /// What the clock says, see [`Dynamic`].
    Follow,
    Drop {
        names: Vec<String>,
        if_exists: bool,
        /// Not into the recycle bin.
        force: bool,
    },
    /// Of these, or of all.
    Truncate(Option<Vec<String>>),
    Rename {
        from: String,
        to: String,
    },
    /// REORGANIZE: the rows of some partitions go to new ones.
    Reorganize {
        from: Vec<String>,
        into: Vec<PartitionSpec>,
    },
    /// SPLIT PARTITION .. AT: the rows below a value go to the first of two new ones.
    SplitAt {
        from: String,
        at: Vec<ValueSpec>,
        into: [String; 2],
    },
    /// MERGE PARTITIONS: the rows of some go to one.
    Merge {
        from: Vec<String>,
        to: String,
    },
    /// MOVE PARTITIONS to another node, of which there is none.
    Move(Vec<String>),
    /// Properties of these, or of all, none of which has an effect.
    Modify {
        names: Option<Vec<String>>,
        pairs: Vec<(String, String)>,
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
    /// Files of new partitions, whose rows come with the record.
    pub files: Vec<RowsetMeta>,
    /// Whether the removed ones go to the recycle bin: when, in microseconds since 1970-01-01 UTC.
    /// All their rows are in files then.
    pub rests_micros: Option<i64>,
    /// Partitions that are in the recycle bin no longer, with their files.
    pub forgotten: Vec<PartitionId>,
}

impl Repartition {
    /// Other partitions of a table that loses none.
    pub fn of(by: PartitionBy, partitions: Vec<Partition>) -> Self {
        let (removed, files, forgotten) = (Vec::new(), Vec::new(), Vec::new());
        Self { by, partitions, removed, files, rests_micros: None, forgotten }
    }

    /// The effect on metadata.
    pub fn event(self, table: TableId) -> Divide {
        let Self { partitions, rests_micros, forgotten, .. } = self;
        Divide { table, partitions, rests_micros, forgotten }
    }

    /// Whether the recycle bin changes.
    pub fn is_of_bin(&self) -> bool {
        self.rests_micros.is_some() || !self.forgotten.is_empty()
    }

    /// Whether it takes rows away, and brings none.
    pub fn only_removes(&self) -> bool {
        let removes = !self.removed.is_empty() || !self.forgotten.is_empty();
        removes && self.files.is_empty()
    }
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
        let Some(by) = &table.partition_by else { return Err(not_divided()) };
        let (partitions, removed, notes) = (table.partitions.clone(), Vec::new(), Vec::new());
        let mut changed = Changing { partitions, removed, notes };
        match change {
            PartitionChange::Add(specs) => {
                self.add_partitions(table, specs, buckets_of_new(&catalog, table), &mut changed)?;
                check_names_beside(&catalog, table, &changed.partitions)?;
            }
            PartitionChange::Make(keys) => self.make_partitions(table, keys, &mut changed)?,
            PartitionChange::Follow => self.follow_clock(table, &mut changed)?,
            PartitionChange::Drop { names, if_exists, force: _ } => {
                drop_partitions(table, names, *if_exists, &mut changed)?;
            }
            PartitionChange::Truncate(names) => {
                let all = || table.partitions.iter().map(|one| one.name.clone()).collect();
                let names = names.clone().unwrap_or_else(all);
                self.empty_partitions(table, &names, &mut changed)?;
            }
            PartitionChange::Rename { from, to } => rename(table, from, to, &mut changed)?,
            PartitionChange::AddDistributed { spec, distribution, buckets } => {
                check_distribution(table, distribution)?;
                let buckets = match buckets {
                    BucketsSpec::Count(_) => buckets_of(*buckets)?,
                    BucketsSpec::Unset | BucketsSpec::Auto => buckets_of_new(&catalog, table),
                };
                let specs = std::slice::from_ref(spec);
                self.add_partitions(table, specs, buckets, &mut changed)?;
                check_names_beside(&catalog, table, &changed.partitions)?;
            }
            PartitionChange::Reorganize { from, into } => {
                self.exchange_for(table, reorganize::planned(table, from, into)?, &mut changed)?;
            }
            PartitionChange::SplitAt { from, at, into } => {
                self.exchange_for(table, reorganize::split(table, from, at, into)?, &mut changed)?;
            }
            PartitionChange::Merge { from, to } => {
                self.exchange_for(table, reorganize::merged(table, from, to)?, &mut changed)?;
            }
            PartitionChange::Move(names) => check_properties(table, Some(names), &[])?,
            PartitionChange::Modify { names, pairs } => {
                check_properties(table, names.as_deref(), pairs)?;
            }
        }
        let Changing { mut partitions, removed, notes } = changed;
        tell_others(partitions.iter_mut().filter_map(|one| one.values.as_mut()));
        let by = by.clone();
        let is_new = partitions != table.partitions;
        Ok(PartitionsChanged {
            record: is_new.then(|| Repartition { removed, ..Repartition::of(by, partitions) }),
            notes,
        })
    }

    fn add_partitions(
        &self,
        table: &Table,
        specs: &[PartitionSpec],
        buckets: u32,
        to: &mut Changing,
    ) -> Result<()> {
        let by = table.partition_by.as_ref().expect("it is divided");
        let columns = &table.schema().columns;
        let mut known = Known::of(&table.partitions, by.columns.len());
        if known.has_others {
            bail!(
                NotSupported,
                "This version of Freshet doesn't yet support 'ADD PARTITION' of table '{}', whose \
                 partition of DEFAULT may have rows with these values; write REORGANIZE PARTITION \
                 .. INTO (PARTITION .. VALUES IN (..), PARTITION .. VALUES IN (DEFAULT))",
                table.name
            );
        }
        for spec in &one_by_one(specs, &by.columns_of(columns))? {
            if spec.if_not_exists && known.has_name(&spec.name) {
                to.notes.push(format!("Duplicate partition name {}", spec.name));
                continue;
            }
            let new = one_more(by, columns, table.form, &known, spec)?;
            self.add_partition(table, &mut known, (new, buckets), to)?;
        }
        sort(by, &mut to.partitions);
        Ok(())
    }

    fn add_partition(
        &self,
        table: &Table,
        known: &mut Known,
        (new, buckets): (NewPartition, u32),
        to: &mut Changing,
    ) -> Result<()> {
        known.check(&new.name)?;
        known.push(new.clone());
        count(&to.partitions, buckets)?;
        to.partitions.push(self.partition_of(new, buckets, table.incarnation())?);
        Ok(())
    }

    /// New partitions take the place of others.
    fn exchange_for(&self, table: &Table, new: Reorganized, to: &mut Changing) -> Result<()> {
        let by = table.partition_by.as_ref().expect("it is divided");
        let mut known = Known::of(&new.kept, by.columns.len());
        (to.partitions, to.removed) = (new.kept, new.removed);
        for one in new.made {
            self.add_partition(table, &mut known, (one, table.buckets), to)?;
        }
        sort(by, &mut to.partitions);
        check_names_beside(&self.catalog(), table, &to.partitions)
    }

    /// Those that others have made meanwhile are there.
    fn make_partitions(
        &self,
        table: &Table,
        keys: &[PartitionKey],
        to: &mut Changing,
    ) -> Result<()> {
        let by = table.partition_by.as_ref().expect("it is divided");
        let columns = by.columns_of(&table.schema().columns);
        let mut known = Known::of(&table.partitions, by.columns.len());
        for key in keys {
            if known.takes(key) {
                continue;
            }
            let Some(whole) = by.made_for(&columns, key) else { continue };
            let values = known.free_part(whole, &key.concat());
            let name = auto_name(by, &columns, key, &values);
            let taken = known.has_name(&name);
            let name = match taken {
                true => names::similar(&name).find(|name| !known.has_name(name)),
                false => None,
            }
            .unwrap_or(name);
            let new = NewPartition { name, values: Some(values) };
            self.add_partition(table, &mut known, (new, table.buckets), to)?;
        }
        sort(by, &mut to.partitions);
        Ok(())
    }

    /// Makes partitions of the periods to come, and drops old ones.
    fn follow_clock(&self, table: &Table, to: &mut Changing) -> Result<()> {
        let by = table.partition_by.as_ref().expect("it is divided");
        let Some(dynamic) = Dynamic::of(&table.properties)? else { return Ok(()) };
        let columns = by.columns_of(&table.schema().columns);
        let [column] = &*columns else { return Ok(()) };
        let now_micros = self.clock.0.wall_micros();
        let plan = dynamic.plan(column, &table.partitions, now_micros);
        drop_expired(&plan.expired, to);
        let mut known = Known::of(&to.partitions, 1);
        let coming = plan.wanted.len().saturating_sub(dynamic.end as usize + 1);
        let (past, coming) = plan.wanted.split_at(coming);
        // The nearest ones come first, as many as a table may have.
        for (name, values) in coming.iter().chain(past.iter().rev()) {
            if known.has_name(name) || known.overlapped(values).is_some() {
                continue;
            }
            let new = NewPartition { name: name.clone(), values: Some(values.clone()) };
            let new = (new, dynamic.buckets_of(table));
            match self.add_partition(table, &mut known, new, to) {
                Err(error) if error.code() == ErrorCode::TooManyPartitions => {
                    to.notes.push(error.message().to_owned());
                    break;
                }
                done => done?,
            }
        }
        // One always stays, and may go now.
        drop_expired(&plan.expired, to);
        sort(by, &mut to.partitions);
        Ok(())
    }

    /// New ids stand where the old ones were.
    fn empty_partitions(&self, table: &Table, names: &[String], to: &mut Changing) -> Result<()> {
        for name in names {
            let at = to.partitions.iter().position(|one| one.is_named(name));
            let old = &mut to.partitions[at.ok_or_else(|| unknown_partition(table, name))?];
            if to.removed.iter().any(|one| one.is_named(name)) {
                continue;
            }
            let new = NewPartition { name: old.name.clone(), values: old.values.clone() };
            let new = self.partition_of(new, old.buckets(), table.incarnation())?;
            to.removed.push(std::mem::replace(old, new));
        }
        Ok(())
    }
}

/// Counts a further partition of so many buckets among those that a table has.
///
/// # Errors
/// 1499 if they are too many.
pub(crate) fn count(partitions: &[Partition], buckets: u32) -> Result<()> {
    let tablets = partitions.iter().map(|one| one.tablets.len()).sum::<usize>();
    let tablets = tablets + buckets as usize;
    if tablets > TABLETS_MAX {
        bail!(
            TooManyPartitions,
            "Too many partitions (including subpartitions) were defined: {} with {tablets} \
             buckets, limit {TABLETS_MAX} in a table",
            partitions.len() + 1
        );
    }
    Ok(())
}

impl Catalog {
    /// What ALTER TABLE .. MODIFY DISTRIBUTION changes: how many buckets partitions have that are
    /// added from then on. `None` if it changes nothing.
    ///
    /// # Errors
    /// 1505 for a table without partitions, 1235 for other columns and for a clause that is shown
    /// as it was written, 1105 for no buckets, for too many, and beside temporary partitions.
    pub fn distribution_with(
        &self,
        id: TableId,
        distribution: &DistributionSpec,
        buckets: BucketsSpec,
    ) -> Result<Option<Definition>> {
        let table = self.require(id)?;
        if table.partition_by.is_none() {
            return Err(not_divided());
        }
        if let Some(clause) = &table.placement {
            bail!(
                NotSupported,
                "This version of Freshet doesn't yet support 'MODIFY DISTRIBUTION' of table '{}' \
                 with {}; write ALTER TABLE .. PARTITION BY",
                table.name,
                clause.text
            );
        }
        check_distribution(table, distribution)?;
        let (count, auto) = (buckets_of(buckets)?, !matches!(buckets, BucketsSpec::Count(_)));
        let is_new = (count, auto) != (table.buckets, table.buckets_auto);
        Ok(is_new.then_some(Definition::Buckets { count, auto }))
    }
}

/// The buckets of a partition that is added without a number. A temporary one has those of the
/// table that it is for: the table in which it stands keeps the number that was there when it was
/// made.
fn buckets_of_new(catalog: &Catalog, table: &Table) -> u32 {
    let of = table.temporary_of.and_then(|of| catalog.table_by_id(of));
    of.map_or(table.buckets, |of| of.buckets)
}

/// All partitions of a table are distributed by the same columns.
fn check_distribution(table: &Table, distribution: &DistributionSpec) -> Result<()> {
    let hashed = (!table.is_random()).then(|| {
        let schema = table.schema();
        let name = |id| schema.position_of(id).map(|at| schema.columns[at].name.clone());
        table.distribution.columns().into_iter().filter_map(name).collect::<Vec<_>>()
    });
    let is_same = match (&hashed, distribution) {
        (None, DistributionSpec::Random) => true,
        (Some(known), DistributionSpec::Hash(names)) => {
            let mut pairs = known.iter().zip(names);
            known.len() == names.len() && pairs.all(|(a, b)| a.eq_ignore_ascii_case(b))
        }
        _ => false,
    };
    let shown = hashed.map_or("RANDOM".to_owned(), |known| format!("HASH({})", known.join(", ")));
    match is_same {
        true => Ok(()),
        false => bail!(
            NotSupported,
            "Cannot assign hash distribution with different distribution cols: table '{}' is \
             DISTRIBUTED BY {shown}, and so are all its partitions",
            table.name
        ),
    }
}

/// Checks that the names of temporary partitions are none of the table that they are for.
pub(crate) fn check_names_beside(
    catalog: &Catalog,
    table: &Table,
    partitions: &[Partition],
) -> Result<()> {
    let beside = match table.temporary_of {
        Some(of) => catalog.table_by_id(of),
        None => catalog.temporary_partitions(table.id),
    };
    let Some(beside) = beside else { return Ok(()) };
    let is_taken = |one: &&Partition| !one.is_hidden() && beside.partition_at(&one.name).is_some();
    match partitions.iter().find(is_taken) {
        Some(one) => bail!(PartitionExists, "Duplicate partition name {}", one.name),
        None => Ok(()),
    }
}

/// Ranges stand in their order.
pub(crate) fn sort(by: &PartitionBy, partitions: &mut [Partition]) {
    if by.method == PartitionMethod::Range {
        let columns = by.columns.len();
        partitions.sort_by_cached_key(|one| one.values.as_ref()?.range(columns));
    }
}

/// The name that Doris gives to a partition which it makes for a row with this key: all digits of
/// the time at which its period begins, or its values with their lengths.
fn auto_name(
    by: &PartitionBy,
    columns: &[&Column],
    key: &PartitionKey,
    values: &PartitionValues,
) -> String {
    let (AutoPartition::Period(_), PartitionValues::Range { lower: Some(lower), .. }) =
        (by.auto.unwrap_or(AutoPartition::Value), values)
    else {
        let texts = key.iter().zip(columns).map(|(key, column)| value_text(column, key));
        return format!("p{}", texts.map(value_name).collect::<String>())
            .chars()
            .take(AUTO_NAME_CHARS_MAX)
            .collect();
    };
    let begin = value_text(columns[0], &lower[0]).and_then(|text| parse(text.as_bytes()));
    format!("p{}", begin.map(all_digits).unwrap_or_default())
}

/// A value in a name: its letters and digits, the code of any other character, and its length.
fn value_name(text: Option<String>) -> String {
    let Some(text) = text else { return "X".to_owned() };
    let sign = if text.starts_with('-') { "_" } else { "" };
    let characters = text.chars().map(|one| match one.is_ascii_alphanumeric() {
        true => one.to_string(),
        false => format!("{:x}", u32::from(one)),
    });
    format!("{sign}{}{}", characters.collect::<String>(), text.chars().count())
}

/// 1735 in MySQL's words.
pub fn unknown_partition(table: &Table, name: &str) -> Error {
    err!(UnknownPartition, "Unknown partition '{name}' in table '{}'", table.name)
}

/// Drops partitions of the past but the last one of the table.
fn drop_expired(names: &[String], to: &mut Changing) {
    for name in names {
        if to.partitions.len() > 1 {
            let at = to.partitions.iter().position(|one| one.name == *name);
            to.removed.extend(at.map(|at| to.partitions.remove(at)));
        }
    }
}

fn drop_partitions(
    table: &Table,
    names: &[String],
    if_exists: bool,
    to: &mut Changing,
) -> Result<()> {
    for name in names {
        match to.partitions.iter().position(|one| one.is_named(name)) {
            Some(at) => to.removed.push(to.partitions.remove(at)),
            None if if_exists || to.removed.iter().any(|one| one.is_named(name)) => {
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
    for one in partitions.iter_mut().filter(|one| !one.is_hidden()) {
        if let Some(PartitionValues::Range { lower, upper }) = &mut one.values {
            *lower = before.replace(upper.clone());
        }
    }
}

fn rename(table: &Table, from: &str, to: &str, changed: &mut Changing) -> Result<()> {
    names::check_partition(to)?;
    let at = changed.partitions.iter().position(|one| one.is_named(from));
    let at = at.ok_or_else(|| unknown_partition(table, from))?;
    let taken = changed.partitions.iter().position(|one| one.is_named(to));
    if taken.is_some_and(|taken| taken != at) {
        bail!(PartitionExists, "Duplicate partition name {to}");
    }
    to.clone_into(&mut changed.partitions[at].name);
    Ok(())
}

/// Properties of a partition in Doris.
const PROPERTIES: [&str; 7] = [
    "replication_num",
    "replication_allocation",
    "storage_medium",
    "storage_cooldown_time",
    "storage_policy",
    "in_memory",
    "mutable",
];

fn check_properties(
    table: &Table,
    names: Option<&[String]>,
    pairs: &[(String, String)],
) -> Result<()> {
    for name in names.unwrap_or_default() {
        table.partition_at(name).ok_or_else(|| unknown_partition(table, name))?;
    }
    for (key, value) in pairs {
        if !PROPERTIES.contains(&key.as_str()) {
            bail!(
                Unknown,
                "Invalid partition properties: {{{key}={value}}}; there are {}",
                PROPERTIES.join(", ")
            );
        }
        if key == "mutable" && !value.eq_ignore_ascii_case("true") {
            bail!(NotSupported, "a partition that takes no rows ('mutable' = '{value}')");
        }
    }
    Ok(())
}
