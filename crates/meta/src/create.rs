//! Validation of CREATE TABLE: a pure function from the specification to a table without ids.

use freshet_base::{ColumnId, Result, SchemaVersion, bail, err};
use freshet_schema::key::{KEY_BYTES_MAX, is_of};
use freshet_schema::{
    BUCKETS_MAX, COLUMNS_MAX, Collation, Column, ColumnType, DeclaredKey, DeclaredKeyKind,
    Distribution, ForeignKey, KeyModel, PartitionBy, Placement, Properties, ROW_ID, TABLETS_MAX,
    TableForm, TableSchema,
};

use crate::dynamic::Dynamic;
use crate::spec::{
    BucketsSpec, DeclaredKeySpec, DistributionSpec, ForeignKeySpec, KeyModelSpec, KeySpec,
    TableSpec,
};
use crate::unkept::unkept;
use crate::{checks, foreign, generated, names, properties};

mod aggregate;
mod auto_global;
mod collation;
mod column;
mod global;
mod key_part;
mod known;
pub(crate) mod labels;
mod nested;
mod partition;
mod placement;
pub(crate) mod sequenced;
mod sizes;
mod steps;
mod unique;

pub(crate) use auto_global::made_global_of;
pub use auto_global::make_global;
pub(crate) use collation::{by_bytes, check_written, default_collation, keep_collation};
pub(crate) use column::{column, new_default};
pub(crate) use global::{check_table, check_unique_global};
pub(crate) use key_part::{looked_up, make_enforced, make_hint};
pub(crate) use known::{Known, NewPartition};
pub(crate) use partition::{TO_DAYS_OF_1970, check_unique, one_more, range_text, to_seconds};
pub(crate) use steps::one_by_one;

use aggregate::{check_aggregates, check_no_sketch};
use key_part::{key_form, key_part};
use placement::{by_parts, placed_by, placement};
use sizes::key_bytes;

/// Maximum number of columns in a default sort key.
const AUTO_KEY_COLUMNS_MAX: usize = 3;
/// Maximum number of bytes in a default sort key.
const AUTO_KEY_BYTES_MAX: u32 = 36;
/// Number of buckets if the server chooses. A single server with few cores reads and flushes one
/// tablet as fast as many, and every tablet of every table needs files.
const AUTO_BUCKETS: u32 = 1;
/// Maximum length of a COMMENT of a table or column, in characters.
pub(crate) const COMMENT_CHARS_MAX: usize = 2048;

/// Each has its own look-up for every row, and its own part of every file.
const UNIQUE_KEYS_MAX: usize = 16;

/// A valid table definition without ids.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// The columns and the sort key.
    pub schema: TableSchema,
    /// That of columns that name none.
    pub collation: Collation,
    pub key_model: KeyModel,
    /// The number of leading columns in the key.
    pub key_columns: usize,
    /// The keys in MySQL syntax.
    pub declared_keys: Vec<DeclaredKey>,
    pub foreign_keys: Vec<ForeignKey>,
    pub distribution: Distribution,
    pub placement: Option<Placement>,
    pub partition_by: Option<PartitionBy>,
    /// Those of PARTITION BY.
    pub partitions: Vec<NewPartition>,
    /// The number of tablets in its partition.
    pub buckets: u32,
    /// Whether the number of buckets was not given.
    pub buckets_auto: bool,
    pub properties: Properties,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Planned {
    /// Checks everything that can be checked without a catalog.
    ///
    /// # Errors
    /// Errors in the specification, in the words of MySQL or Doris.
    pub fn check(spec: &TableSpec) -> Result<Self> {
        names::check_table(&spec.name, spec.form)?;
        check_comment(&spec.comment, &format!("table '{}'", spec.name))?;
        collation::check_table(spec)?;
        let mut columns = generated::of_table(spec, columns(spec)?)?;
        let checks = checks::of_table(spec, &columns)?;
        let mut declared_keys = declared_keys(spec, &columns)?;
        let (key_model, sort_key) = sort_key(spec, &mut columns, &declared_keys)?;
        generated::check_keys(&columns, (key_model, &sort_key), &declared_keys)?;
        check_unique_keys(&mut declared_keys, &columns, key_model, spec.form)?;
        let key_columns = if key_model == KeyModel::Primary { 0 } else { sort_key.len() };
        properties::check_columns(&spec.properties, &columns)?;
        let properties::Accepted { properties, mut warnings } =
            properties::create(key_model, &spec.properties)?;
        warnings.extend(declared_keys.iter().filter_map(|key| key_warning(key, key_model)));
        warnings.extend(collation::of_divided(spec, &mut columns)?);
        let mut foreign_keys = Vec::new();
        for written in &spec.foreign_keys {
            let known = (&mut declared_keys, &mut foreign_keys);
            warnings.extend(add_foreign(&spec.name, known, written, &columns)?);
        }
        for key in &spec.unkept_keys {
            warnings.push(unkept(key, &columns)?);
        }
        let sequence = sequenced::of_table(spec, key_model, &mut columns)?;
        let placement = spec.placement.as_ref().map(|written| placement(written, &columns));
        let placement = placement.transpose()?;
        for key in &declared_keys {
            check_table(key, placement.as_ref())?;
        }
        let by_clause = match &placement {
            Some(placement) => placed_by(placement, &columns, key_model, &sort_key, &mut warnings),
            None => None,
        };
        let written = spec.distribution.as_ref().or(by_clause.as_ref());
        let (partition_by, partitions) =
            partition::divided(spec, &columns, (key_model, &sort_key), &declared_keys)?;
        if let Some(dynamic) = Dynamic::of(&properties)? {
            dynamic.check(partition_by.as_ref(), &columns)?;
        }
        let distribution = match key_model {
            KeyModel::Duplicate => distribution(written, &columns)?,
            KeyModel::Unique | KeyModel::Primary | KeyModel::Aggregate => {
                distribution_by_key(written, &columns, &sort_key)?
            }
        };
        Ok(Self {
            distribution: match (&spec.placement, &by_clause) {
                (Some(written), Some(_)) => by_parts(distribution, written, &columns),
                _ => distribution,
            },
            placement,
            partition_by,
            key_model,
            buckets: buckets(spec.buckets, partitions.len())?,
            partitions,
            buckets_auto: !matches!(spec.buckets, BucketsSpec::Count(_)),
            schema: TableSchema::new(SchemaVersion(1), columns, sort_key)
                .with_checks(checks)
                .sequenced_by(sequence)
                .hiding_row_id(),
            collation: default_collation(spec),
            key_columns,
            declared_keys,
            foreign_keys,
            properties,
            warnings,
        })
    }
}

pub(crate) fn check_comment(comment: &str, of: &str) -> Result<()> {
    let chars = comment.chars().count();
    if chars > COMMENT_CHARS_MAX {
        bail!(TooLong, "Comment for {of} has {chars} characters, limit {COMMENT_CHARS_MAX}");
    }
    Ok(())
}

fn columns(spec: &TableSpec) -> Result<Vec<Column>> {
    if spec.columns.is_empty() {
        bail!(Unknown, "Table '{}' has no columns: a table must have at least one", spec.name);
    }
    if spec.columns.len() > COLUMNS_MAX {
        bail!(
            Unknown,
            "Too many columns: table '{}' has {}, limit {COLUMNS_MAX}",
            spec.name,
            spec.columns.len()
        );
    }
    let mut seen = std::collections::HashSet::new();
    let mut columns = Vec::with_capacity(spec.columns.len());
    for (at, written) in spec.columns.iter().enumerate() {
        if !seen.insert(written.name.to_ascii_lowercase()) {
            bail!(DuplicateColumn, "Duplicate column name '{}'", written.name);
        }
        let id = ColumnId(u32::try_from(at).expect("the number of columns is limited") + 1);
        columns.push(column(written, id, spec.form, default_collation(spec))?);
    }
    unique::set_primary_not_null(spec, &mut columns)?;
    check_auto_increment(spec, &mut columns)?;
    Ok(columns)
}

/// At most one column generates ids, in MySQL syntax the first one of a key, and begins where the
/// table option says.
fn check_auto_increment(spec: &TableSpec, columns: &mut [Column]) -> Result<()> {
    let mut generated = columns.iter_mut().filter(|column| column.auto_increment.is_some());
    let (Some(column), second) = (generated.next(), generated.next()) else { return Ok(()) };
    let leads = |key: &DeclaredKeySpec| {
        key.columns.first().is_some_and(|first| first.eq_ignore_ascii_case(&column.name))
    };
    let is_key = spec.form == TableForm::Olap || spec.declared_keys.iter().any(leads);
    if second.is_some() || !is_key {
        bail!(
            WrongAutoKey,
            "Incorrect table definition; there can be only one auto column and it must be defined \
             as a key: column '{}'",
            second.as_ref().map_or(&column.name, |second| &second.name)
        );
    }
    if column.nullable && spec.form == TableForm::Olap {
        bail!(
            WrongColumn,
            "Incorrect column specifier for column '{}': AUTO_INCREMENT must be NOT NULL",
            column.name
        );
    }
    column.nullable = false;
    if let Some(start) = spec.first_id() {
        column.auto_increment = Some(start.max(1));
    }
    Ok(())
}

fn position(columns: &[Column], name: &str) -> Option<usize> {
    columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
}

/// What happens to rows with equal keys, and the columns that rows are sorted by.
fn sort_key(
    spec: &TableSpec,
    columns: &mut Vec<Column>,
    declared: &[DeclaredKey],
) -> Result<(KeyModel, Vec<usize>)> {
    let primary = declared.iter().find(|key| key.kind == DeclaredKeyKind::Primary);
    if let (None, Some(primary)) = (&spec.key, primary) {
        return Ok((KeyModel::Primary, looked_up(primary, columns, spec.form)?));
    }
    if let Some(columns) = unique::names_rows(spec, columns, declared)? {
        return Ok((KeyModel::Primary, columns));
    }
    if let Some(sort_key) = unique::row_id(spec, columns, declared) {
        return Ok((KeyModel::Primary, sort_key));
    }
    let leading = key_columns(spec, columns)?;
    check_aggregates(spec, columns, leading)?;
    Ok((key_model(spec, &columns[..leading])?, (0..leading).collect()))
}

/// A unique key is enforced where rows have a name, and only shown in tables without one.
fn check_unique_keys(
    keys: &mut [DeclaredKey],
    columns: &[Column],
    key_model: KeyModel,
    form: TableForm,
) -> Result<()> {
    for key in keys.iter_mut().filter(|key| key.kind == DeclaredKeyKind::Unique) {
        match key_model {
            KeyModel::Primary => _ = looked_up(key, columns, form)?,
            KeyModel::Duplicate | KeyModel::Unique | KeyModel::Aggregate => {
                check_unique_global(key, Some("its rows have no name"))?;
                make_hint(key, columns);
            }
        }
    }
    check_unique_count(keys)
}

pub(crate) fn check_unique_count(keys: &[DeclaredKey]) -> Result<()> {
    let unique = keys.iter().filter(|key| key.kind == DeclaredKeyKind::Unique).count();
    if unique > UNIQUE_KEYS_MAX {
        bail!(Unknown, "Too many keys specified; max {UNIQUE_KEYS_MAX} unique keys allowed");
    }
    Ok(())
}

fn check_key_bytes(bytes: u64) -> Result<()> {
    if bytes > KEY_BYTES_MAX as u64 {
        bail!(
            KeyTooLong,
            "Specified key was too long; max key length is {KEY_BYTES_MAX} bytes, and these \
             columns may have {bytes}"
        );
    }
    Ok(())
}

/// The number of leading columns in the key.
fn key_columns(spec: &TableSpec, columns: &[Column]) -> Result<usize> {
    match (&spec.key, spec.form) {
        (Some(key), _) => written_key(key, columns),
        (None, TableForm::MySql) => Ok(auto_key(columns)),
        (None, TableForm::Olap) => match auto_key(columns) {
            0 => bail!(
                Unknown,
                "The olap table first column could not be float, double, string or array, \
                 struct, map, please use decimal or varchar instead."
            ),
            keys => Ok(keys),
        },
    }
}

/// What happens to rows with equal keys.
fn key_model(spec: &TableSpec, keys: &[Column]) -> Result<KeyModel> {
    match spec.key.as_ref().map(|key| key.model) {
        None | Some(KeyModelSpec::Duplicate) => return Ok(KeyModel::Duplicate),
        Some(KeyModelSpec::Aggregate) => return Ok(KeyModel::Aggregate),
        Some(KeyModelSpec::Unique) => {}
    }
    // A column of text is as long as it was declared.
    check_key_bytes(keys.iter().map(|column| u64::from(key_bytes(column.ty))).sum())?;
    Ok(KeyModel::Unique)
}

fn written_key(key: &KeySpec, columns: &[Column]) -> Result<usize> {
    for (at, name) in key.columns.iter().enumerate() {
        if position(columns, name).is_none() {
            bail!(KeyColumnMissing, "Key column[{name}] doesn't exist.");
        }
        if key.columns[..at].iter().any(|before| before.eq_ignore_ascii_case(name)) {
            bail!(DuplicateColumn, "Duplicate column name '{name}'");
        }
        let declared = &columns[at];
        if !declared.name.eq_ignore_ascii_case(name) {
            bail!(
                Unknown,
                "Key columns should be a ordered prefix of the schema. KeyColumns[{at}] (starts \
                 from zero) is {name}, but corresponding column is {} in the previous columns \
                 declaration.",
                declared.name
            );
        }
        check_no_sketch(declared)?;
        if !declared.ty.can_be_key() {
            bail!(
                Unknown,
                "{} should not be used in key column[{name}]; put it behind the key columns",
                type_words(declared.ty)
            );
        }
    }
    Ok(key.columns.len())
}

/// Doris's term for a type that cannot be in a key.
fn type_words(ty: ColumnType) -> String {
    match ty {
        ColumnType::Text => "String Type".to_owned(),
        ColumnType::Float | ColumnType::Double => "Float or double".to_owned(),
        other => format!("Type {other}"),
    }
}

/// The number of leading columns for a default sort key: at most three columns and 36 bytes, and
/// none after a text column.
fn auto_key(columns: &[Column]) -> usize {
    let mut bytes = 0;
    for (at, column) in columns.iter().enumerate().take(AUTO_KEY_COLUMNS_MAX) {
        bytes = u32::saturating_add(bytes, key_bytes(column.ty));
        if !column.ty.can_be_key() || (at > 0 && bytes > AUTO_KEY_BYTES_MAX) {
            return at;
        }
        if matches!(column.ty, ColumnType::VarChar { .. } | ColumnType::VarBinary { .. })
            || column.ty.is_labelled()
        {
            return at + 1;
        }
    }
    columns.len().min(AUTO_KEY_COLUMNS_MAX)
}

fn declared_keys(spec: &TableSpec, columns: &[Column]) -> Result<Vec<DeclaredKey>> {
    let mut keys = Vec::<DeclaredKey>::new();
    for written in &spec.declared_keys {
        let key = declared_key(written, columns, &keys)?;
        keys.push(key);
    }
    keys.sort_by_key(|key| rank(key, columns));
    Ok(keys)
}

/// The order of MySQL, in which it shows keys and looks rows up, wherever they were declared.
pub(crate) fn rank(key: &DeclaredKey, columns: &[Column]) -> u8 {
    // As those with NULL, keys of first characters stand in for no primary key.
    let is_whole = |id: &ColumnId| columns.iter().any(|one| one.id == *id && !one.nullable);
    match key.kind {
        DeclaredKeyKind::Primary => 0,
        DeclaredKeyKind::Unique if key.columns.iter().all(is_whole) => 1,
        DeclaredKeyKind::Unique => 2,
        DeclaredKeyKind::UniqueHint => 3,
        DeclaredKeyKind::Index | DeclaredKeyKind::InvisibleIndex => 4,
    }
}

/// As in MySQL.
const KEY_COMMENT_CHARS_MAX: usize = 1024;

pub(crate) fn declared_key(
    written: &DeclaredKeySpec,
    columns: &[Column],
    before: &[DeclaredKey],
) -> Result<DeclaredKey> {
    let is_primary = written.kind == DeclaredKeyKind::Primary;
    if is_primary && before.iter().any(|key| key.kind == DeclaredKeyKind::Primary) {
        bail!(MultiplePrimaryKeys, "Multiple primary key defined");
    }
    let mut ids = Vec::with_capacity(written.columns.len());
    for name in &written.columns {
        let at = position(columns, name)
            .ok_or_else(|| err!(KeyColumnMissing, "Key column '{name}' doesn't exist in table"))?;
        if ids.iter().any(|part| is_of(*part, columns[at].id)) {
            bail!(DuplicateColumn, "Duplicate column name '{name}'");
        }
        check_no_sketch(&columns[at])?;
        nested::check_key(&columns[at])?;
        ids.push(key_part(written, &columns[at])?);
    }
    let first = written
        .columns
        .first()
        .ok_or_else(|| err!(Syntax, "a key must name at least one column"))?;
    let taken = |name: &str| before.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    let name = match &written.name {
        _ if is_primary => "PRIMARY".to_owned(),
        Some(name) if taken(name) => bail!(DuplicateKeyName, "Duplicate key name '{name}'"),
        Some(name) => name.clone(),
        None => free_name(first, taken),
    };
    let global = global::of_key(written, &ids, columns)?;
    if written.comment.chars().count() > KEY_COMMENT_CHARS_MAX {
        bail!(
            KeyCommentTooLong,
            "Comment for index '{name}' is too long (max = {KEY_COMMENT_CHARS_MAX})"
        );
    }
    let comment = written.comment.clone();
    let form = key_form(written, columns);
    Ok(DeclaredKey { kind: written.kind, name, columns: ids, comment, global, form })
}

/// The name that MySQL gives an unnamed key: that of its first column, with a number if it is
/// taken.
fn free_name(column: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{column}_{number}"));
    std::iter::once(column.to_owned())
        .chain(numbered)
        .find(|name| !taken(name))
        .expect("there are more numbers than keys")
}

pub(crate) fn key_warning(key: &DeclaredKey, model: KeyModel) -> Option<String> {
    let kind = match key.kind {
        DeclaredKeyKind::Primary if model == KeyModel::Primary => return None,
        DeclaredKeyKind::Primary => "PRIMARY KEY".to_owned(),
        DeclaredKeyKind::UniqueHint => format!("UNIQUE KEY '{}'", key.name),
        _ => return None,
    };
    Some(format!("{kind} is kept as information and not enforced: equal keys are all stored"))
}

/// Adds a foreign key of `table`, and the index that MySQL makes for it unless a key begins with
/// its columns. Returns a warning that it is not enforced. A copy gets neither.
pub(crate) fn add_foreign(
    table: &str,
    (keys, known): (&mut Vec<DeclaredKey>, &mut Vec<ForeignKey>),
    written: &ForeignKeySpec,
    columns: &[Column],
) -> Result<Option<String>> {
    let warning = foreign::add(table, written, columns, known)?;
    if written.is_copied {
        return Ok(None);
    }
    let is_free = |name: &&String| !keys.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    let name = written.name.as_ref().filter(is_free).cloned();
    let index = DeclaredKeySpec::new(DeclaredKeyKind::Index, written.columns.clone());
    let key = declared_key(&DeclaredKeySpec { name, ..index }, columns, keys)?;
    if !keys.iter().any(|other| other.columns.starts_with(&key.columns)) {
        keys.push(key);
    }
    Ok(Some(warning))
}

fn distribution(written: Option<&DistributionSpec>, columns: &[Column]) -> Result<Distribution> {
    let Some(DistributionSpec::Hash(names)) = written else { return Ok(Distribution::Random) };
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        let at = position(columns, name)
            .ok_or_else(|| err!(Unknown, "Distribution column({name}) doesn't exist"))?;
        let column = &columns[at];
        let ty = column.ty;
        if matches!(ty, ColumnType::Float | ColumnType::Double)
            || ty.is_document()
            || ty.sketch().is_some()
        {
            bail!(Unknown, "Distribution column({name}) can not be of type {ty}");
        }
        if ids.contains(&column.id) {
            bail!(Unknown, "Duplicated distribution column({name})");
        }
        ids.push(column.id);
    }
    match ids.is_empty() {
        true => bail!(Syntax, "DISTRIBUTED BY HASH must name at least one column"),
        false => Ok(Distribution::Hash(ids)),
    }
}

/// All rows with one key are in one tablet.
fn distribution_by_key(
    written: Option<&DistributionSpec>,
    columns: &[Column],
    sort_key: &[usize],
) -> Result<Distribution> {
    let keys = sort_key.iter().map(|&at| &columns[at]).collect::<Vec<_>>();
    // Rows that a hidden column names are anywhere.
    let is_named = columns.last().is_some_and(|last| last.name == ROW_ID);
    let written = written.filter(|by| !is_named || !matches!(by, DistributionSpec::Random));
    if matches!(written, Some(DistributionSpec::Random)) {
        bail!(
            Unknown,
            "Should not be distributed by random when keys type is unique or aggregate: write \
             DISTRIBUTED BY HASH(key columns)"
        );
    }
    let all = || Distribution::Hash(keys.iter().map(|column| column.id).collect());
    let Some(written) = written else { return Ok(all()) };
    let distribution = distribution(Some(written), columns)?;
    if let Distribution::Hash(hashed) = &distribution {
        let is_value = |id: &&ColumnId| !keys.iter().any(|key| key.id == **id);
        if let Some(id) = hashed.iter().find(is_value) {
            let value = columns.iter().find(|column| column.id == *id).expect("it is of the table");
            bail!(Unknown, "Distribution column[{}] is not key column", value.name);
        }
    }
    Ok(distribution)
}

/// The number of buckets of each of so many partitions.
fn buckets(written: BucketsSpec, partitions: usize) -> Result<u32> {
    let count = buckets_of(written)?;
    if count as usize * partitions > TABLETS_MAX {
        bail!(
            TooManyPartitions,
            "Too many partitions (including subpartitions) were defined: {partitions} of {count} \
             buckets each, limit {TABLETS_MAX} in a table"
        );
    }
    Ok(count)
}

/// The number of buckets of a partition.
///
/// # Errors
/// 1105 for none, and for too many.
pub(crate) fn buckets_of(written: BucketsSpec) -> Result<u32> {
    let count = match written {
        BucketsSpec::Unset | BucketsSpec::Auto => return Ok(AUTO_BUCKETS),
        BucketsSpec::Count(count) => count,
    };
    match u32::try_from(count) {
        Ok(0) => bail!(
            Unknown,
            "The number of hash distribution should be greater than zero: \
             write BUCKETS 1 or more, or BUCKETS AUTO"
        ),
        Ok(count) if count <= BUCKETS_MAX => Ok(count),
        _ => bail!(Unknown, "Number of buckets is {count}, limit {BUCKETS_MAX}"),
    }
}

#[cfg(test)]
mod tests;
