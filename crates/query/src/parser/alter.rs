use freshet_base::{Result, bail};
use freshet_meta::{
    BucketsSpec, ColumnPlace, DefaultSpec, DistributionSpec, Division, DivisionSpec, KeyChange,
    PAUSE_LOAD, PartitionChange, Replacing, SchemaChange, TableSpec,
};
use freshet_schema::{Collation, TableForm};
use sqlparser::tokenizer::Token;

use super::constraint;
use super::create::{column, default, mysql_option};
use super::cursor::{Cursor, refuse};
use super::index;
use super::partition;
use super::placement::placement;
use super::temporary;
use super::tending::Tending;
use super::types::default_collation;
use crate::syntax::TableName;

/// The action of an ALTER TABLE.
#[derive(Clone, PartialEq, Debug)]
pub enum AlterAction {
    /// What stands in a list with commas.
    Clauses(Clauses),
    /// CREATE INDEX and DROP INDEX.
    Index {
        key: KeyChange,
        /// IF NOT EXISTS, IF EXISTS: a note tells that there is nothing to do.
        if_needed: bool,
    },
    /// BUILD INDEX of Doris: rows are in an index as soon as it is there.
    BuildIndex {
        /// `None`: of all.
        index: Option<String>,
        partitions: Vec<String>,
    },
    /// REPLACE WITH TABLE: the other table gets the name of this one.
    Replace {
        by: TableName,
        /// Whether this one gets the name of the other, else it is dropped.
        swap: bool,
    },
    /// SET ("key" = "value").
    Set(Vec<(String, String)>),
    Rename(TableName),
    /// ADD, DROP, TRUNCATE and RENAME PARTITION.
    Partitions(PartitionChange),
    /// MODIFY DISTRIBUTION: the buckets of partitions that are added from then on.
    Distribution {
        by: DistributionSpec,
        buckets: BucketsSpec,
    },
    /// ADD TEMPORARY PARTITION.
    AddTemporary(PartitionChange),
    DropTemporary {
        names: Vec<String>,
        if_exists: bool,
    },
    /// REPLACE PARTITION .. WITH TEMPORARY PARTITION.
    ReplacePartitions(Replacing),
    /// EXCHANGE PARTITION .. WITH TABLE.
    Exchange {
        partition: String,
        with: TableName,
    },
    /// ANALYZE, CHECK, OPTIMIZE and REPAIR PARTITION; REBUILD without a kind.
    Tend {
        tending: Option<Tending>,
        /// `None`: of all.
        names: Option<Vec<String>>,
    },
    /// DISABLE KEYS, which tools write in front of the rows of a dump.
    DisableKeys,
    /// ENABLE KEYS, which they write behind these.
    EnableKeys,
}

/// What is refused by name.
const REFUSED: [&str; 4] = ["CONVERT", "DISABLE", "ENABLE", "PARTITION"];

/// Clauses that an ALTER TABLE has side by side.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Clauses {
    /// ADD, DROP, RENAME, MODIFY, CHANGE and ALTER COLUMN, constraints, and ORDER BY of Doris, in
    /// the order of the text.
    pub columns: Vec<SchemaChange>,
    /// ADD, DROP and RENAME of keys.
    pub keys: Vec<KeyChange>,
    /// DROP CONSTRAINT: names of keys and of CHECKs.
    pub constraints: Vec<String>,
    /// COMMENT of the table.
    pub comment: Option<String>,
    /// AUTO_INCREMENT: the next generated id.
    pub counter: Option<u64>,
    /// CONVERT TO CHARACTER SET, DEFAULT CHARACTER SET and COLLATE: that of columns which are
    /// added without one.
    pub collation: Option<Collation>,
    /// ORDER BY of MySQL: columns by which rows would be sorted once.
    pub sorted: Vec<String>,
    /// PARTITION BY and the like, which stands behind all others.
    pub division: Option<Division>,
}

/// Parses the part after ALTER TABLE.
pub fn alter_table(cursor: &mut Cursor<'_>) -> Result<(TableName, AlterAction)> {
    let table = cursor.table()?;
    if cursor.words("SET") {
        return Ok((table, AlterAction::Set(cursor.properties()?)));
    }
    if let Some(word) = cursor.one_of(&["PAUSE LOAD", "RESUME LOAD"]) {
        let paused = (word == "PAUSE LOAD").to_string();
        return Ok((table, AlterAction::Set(vec![(PAUSE_LOAD.to_owned(), paused)])));
    }
    if let Some(division) = count_of_partitions(cursor)? {
        let clauses = Clauses { division: Some(division), ..Clauses::default() };
        return Ok((table, AlterAction::Clauses(clauses)));
    }
    if cursor.words("MODIFY DISTRIBUTION DISTRIBUTED BY") {
        let (by, buckets) = partition::distributed(cursor)?;
        return Ok((table, AlterAction::Distribution { by, buckets }));
    }
    if let Some(change) = partition::change(cursor)? {
        return Ok((table, AlterAction::Partitions(change)));
    }
    if let Some(action) = partition::action(cursor)? {
        return Ok((table, action));
    }
    if let Some(action) = temporary::change(cursor)? {
        return Ok((table, action));
    }
    let part_next = ["COLUMN", "INDEX", "KEY"].map(Some).contains(&cursor.peek_word(1).as_deref());
    if !part_next && cursor.words("RENAME") {
        let _ = cursor.words("TO") || cursor.words("AS");
        return Ok((table, AlterAction::Rename(cursor.table()?)));
    }
    if cursor.words("REPLACE WITH TABLE") {
        return Ok((table, replace(cursor)?));
    }
    if let Some(words) = cursor.one_of(&["DISABLE KEYS", "ENABLE KEYS"]) {
        return Ok((
            table,
            match words {
                "DISABLE KEYS" => AlterAction::DisableKeys,
                _ => AlterAction::EnableKeys,
            },
        ));
    }
    if cursor.words("ENABLE FEATURE") {
        let columns = feature(cursor)?.into_iter().collect();
        return Ok((table, AlterAction::Clauses(Clauses { columns, ..Clauses::default() })));
    }
    let mut clauses = Clauses { division: division(cursor)?, ..Clauses::default() };
    if clauses.division.is_none() {
        cursor.list(|cursor| change(cursor, &mut clauses))?;
        clauses.division = division(cursor)?;
    }
    Ok((table, AlterAction::Clauses(clauses)))
}

/// Parses another number of partitions by HASH or KEY, if it comes next.
fn count_of_partitions(cursor: &mut Cursor<'_>) -> Result<Option<Division>> {
    if cursor.words("COALESCE PARTITION") {
        return Ok(Some(Division::Fewer(cursor.number()?)));
    }
    if cursor.words("ADD PARTITION PARTITIONS") {
        return Ok(Some(Division::More(cursor.number()?)));
    }
    // Partitions of HASH and KEY have no VALUES, and their names only count.
    let named = cursor.attempt(|cursor| {
        cursor.expect_words("ADD PARTITION")?;
        cursor.in_parens(|cursor| {
            cursor.expect_words("PARTITION")?;
            cursor.name_or_text()?;
            partition::options(cursor)
        })
    });
    Ok(named.map(|names| Division::More(names.len() as u64)))
}

/// Parses how the rows of a table are divided from there on, if it comes next.
fn division(cursor: &mut Cursor<'_>) -> Result<Option<Division>> {
    if cursor.words("REMOVE PARTITIONING") {
        return Ok(Some(Division::Whole));
    }
    let mut spec = TableSpec::new(String::new(), TableForm::MySql, Vec::new());
    if !placement(cursor, &mut spec)? {
        return Ok(None);
    }
    let TableSpec { form, partition_by, placement, buckets, .. } = spec;
    let written = DivisionSpec { form, partition_by, placement, buckets };
    Ok(Some(Division::By(Box::new(written))))
}

/// Parses the part after ENABLE FEATURE; `None` for what each table with a UNIQUE KEY has.
fn feature(cursor: &mut Cursor<'_>) -> Result<Option<SchemaChange>> {
    const TYPE: &str = "function_column.sequence_type";
    let name = cursor.name_or_text()?;
    let is = |feature| name.eq_ignore_ascii_case(feature);
    if is("UPDATE_FLEXIBLE_COLUMNS") || is("BATCH_DELETE") {
        return Ok(None);
    }
    if !is("SEQUENCE_LOAD") {
        return Err(refuse(&format!("ALTER TABLE ... ENABLE FEATURE \"{name}\"")));
    }
    let properties = match cursor.words("WITH PROPERTIES") {
        true => cursor.properties()?,
        false => Vec::new(),
    };
    if let Some((key, value)) = properties.iter().find(|(key, _)| key != TYPE) {
        bail!(Unknown, "Unknown properties: {{{key}={value}}}; there is {TYPE}");
    }
    match properties.into_iter().next_back() {
        Some((_, ty)) => Ok(Some(SchemaChange::EnableSequence { ty })),
        None => bail!(
            Unknown,
            "ENABLE FEATURE \"SEQUENCE_LOAD\" needs WITH PROPERTIES (\"{TYPE}\" = \"..\"), the \
             type of the sequence column"
        ),
    }
}

/// Parses the part after REPLACE WITH TABLE.
fn replace(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    let by = cursor.table()?;
    let mut swap = true;
    let properties = match cursor.words("PROPERTIES") {
        true => cursor.properties()?,
        false => Vec::new(),
    };
    for (key, value) in properties {
        swap = match (key.as_str(), value.to_ascii_lowercase().as_str()) {
            ("swap", "true") => true,
            ("swap", "false") => false,
            _ => bail!(Unknown, "Unknown properties: {{{key}={value}}}; there is swap=true|false"),
        };
    }
    cursor.words("FORCE");
    Ok(AlterAction::Replace { by, swap })
}

/// Parses the part after RENAME: pairs of old and new names.
pub fn rename_tables(cursor: &mut Cursor<'_>) -> Result<Vec<(TableName, TableName)>> {
    if !cursor.words("TABLES") {
        cursor.expect_words("TABLE")?;
    }
    cursor.list(|cursor| {
        let from = cursor.table()?;
        cursor.expect_words("TO")?;
        Ok((from, cursor.table()?))
    })
}

fn change(cursor: &mut Cursor<'_>, clauses: &mut Clauses) -> Result<()> {
    if option(cursor, clauses)? {
        return Ok(());
    }
    let Clauses { columns: changes, keys, constraints, .. } = clauses;
    if let Some(change) = index::change(cursor)? {
        keys.extend(change);
        return Ok(());
    }
    if cursor.words("ADD") {
        return add(cursor, changes, keys);
    }
    if cursor.words("DROP CHECK") {
        changes.push(SchemaChange::DropCheck { name: cursor.name()? });
        return Ok(());
    }
    if cursor.words("DROP CONSTRAINT") {
        constraints.push(cursor.name()?);
        return Ok(());
    }
    if cursor.one_of(&["ALTER CHECK", "ALTER CONSTRAINT"]).is_some() {
        let name = cursor.name()?;
        let is_enforced = !cursor.words("NOT");
        cursor.expect_words("ENFORCED")?;
        changes.push(SchemaChange::EnforceCheck { name, is_enforced });
        return Ok(());
    }
    if cursor.words("ALTER") {
        changes.push(default_of(cursor)?);
        return Ok(());
    }
    if cursor.words("DROP") {
        if cursor.words("PRIMARY KEY") {
            keys.push(KeyChange::Drop { name: "PRIMARY".to_owned() });
            return Ok(());
        }
        let refused = ["PRIMARY", "ROLLUP"];
        if let Some(what) = cursor.one_of(&refused) {
            return Err(refuse(&format!("ALTER TABLE ... DROP {what}")));
        }
        cursor.words("COLUMN");
        changes.push(SchemaChange::DropColumn { name: cursor.name()? });
        // Words that MySQL reads, and that mean nothing there either.
        cursor.one_of(&["RESTRICT", "CASCADE"]);
        return Ok(());
    }
    if cursor.words("RENAME COLUMN") {
        let from = cursor.name()?;
        cursor.words("TO");
        changes.push(SchemaChange::RenameColumn { from, to: cursor.name()? });
        return Ok(());
    }
    if let Some(verb) = cursor.one_of(&["MODIFY", "CHANGE"]) {
        return modify(cursor, changes, keys, verb == "CHANGE");
    }
    if cursor.words("ORDER BY") {
        // Doris has parentheses.
        if matches!(cursor.peek().token, Token::LParen) {
            let columns = cursor.in_parens(Cursor::name)?;
            changes.push(SchemaChange::Reorder { columns });
        } else {
            clauses.sorted = cursor.list(sorted_by)?;
        }
        return Ok(());
    }
    match cursor.one_of(&REFUSED) {
        Some(what) => Err(refuse(&format!("ALTER TABLE ... {what}"))),
        None => Err(cursor.error()),
    }
}

/// Parses a column of ORDER BY of MySQL.
fn sorted_by(cursor: &mut Cursor<'_>) -> Result<String> {
    let mut column = cursor.name()?;
    if cursor.token(&Token::Period) {
        column = cursor.name()?;
    }
    cursor.one_of(&["ASC", "DESC"]);
    Ok(column)
}

/// Parses an option of the table, if one is next.
fn option(cursor: &mut Cursor<'_>, clauses: &mut Clauses) -> Result<bool> {
    let converts = cursor.words("CONVERT TO");
    let (mut named, mut of_charset) = (None, None);
    while default_collation(cursor, (&mut named, &mut of_charset))? {}
    if let Some(collation) = named.or(of_charset) {
        clauses.collation = Some(collation);
        clauses.columns.extend(converts.then_some(SchemaChange::Convert(collation)));
        return Ok(true);
    }
    if converts {
        return Err(cursor.error());
    }
    if cursor.one_of(&["COMMENT", "MODIFY COMMENT"]).is_some() {
        cursor.token(&Token::Eq);
        clauses.comment = Some(cursor.text()?);
    } else if cursor.words("AUTO_INCREMENT") {
        cursor.token(&Token::Eq);
        clauses.counter = Some(cursor.number()?);
    } else if cursor.words("ENGINE") {
        // There is one.
        cursor.token(&Token::Eq);
        cursor.name_or_text()?;
    } else {
        return Ok(cursor.words("FORCE") || mysql_option(cursor)?);
    }
    Ok(true)
}

/// Parses the part after ALTER that is about the default of a column.
fn default_of(cursor: &mut Cursor<'_>) -> Result<SchemaChange> {
    cursor.words("COLUMN");
    let name = cursor.name()?;
    if cursor.words("DROP DEFAULT") {
        return Ok(SchemaChange::SetDefault { name, default: DefaultSpec::Unset });
    }
    cursor.expect_words("SET DEFAULT")?;
    Ok(SchemaChange::SetDefault { name, default: default(cursor)? })
}

/// Parses the part after MODIFY, or after CHANGE, which names the column before.
fn modify(
    cursor: &mut Cursor<'_>,
    changes: &mut Vec<SchemaChange>,
    added: &mut Vec<KeyChange>,
    has_name: bool,
) -> Result<()> {
    if let Some(what) = cursor.one_of(&["PARTITION", "ENGINE"]) {
        return Err(refuse(&format!("ALTER TABLE ... MODIFY {what}")));
    }
    cursor.words("COLUMN");
    if !has_name && cursor.peek_word(1).as_deref() == Some("COMMENT") {
        let name = cursor.name()?;
        cursor.expect_words("COMMENT")?;
        changes.push(SchemaChange::SetComment { name, comment: cursor.text()? });
        return Ok(());
    }
    let name = if has_name { Some(cursor.name()?) } else { None };
    let (mut declared, mut keys) = (Vec::new(), Vec::new());
    let column = column(cursor, &mut declared, &mut keys)?;
    let place = place(cursor)?;
    added.extend(declared.into_iter().map(|key| KeyChange::Add(Box::new(key))));
    let from = name.unwrap_or_else(|| column.name.clone());
    changes.push(SchemaChange::ModifyColumn { from, column, place, is_key: !keys.is_empty() });
    Ok(())
}

fn place(cursor: &mut Cursor<'_>) -> Result<Option<ColumnPlace>> {
    if cursor.words("FIRST") {
        return Ok(Some(ColumnPlace::First));
    }
    match cursor.words("AFTER") {
        true => cursor.name().map(|name| Some(ColumnPlace::After(name))),
        false => Ok(None),
    }
}

fn add(
    cursor: &mut Cursor<'_>,
    changes: &mut Vec<SchemaChange>,
    added: &mut Vec<KeyChange>,
) -> Result<()> {
    let refused = ["TEMPORARY", "ROLLUP"];
    if let Some(what) = cursor.one_of(&refused) {
        return Err(refuse(&format!("ALTER TABLE ... ADD {what}")));
    }
    if constraint::is_next(cursor) {
        let name = constraint::name(cursor)?;
        changes.push(SchemaChange::AddCheck(constraint::check(cursor, name)?));
        return Ok(());
    }
    cursor.words("COLUMN");
    let mut keys = Vec::new();
    let mut declared = Vec::new();
    if cursor.token(&Token::LParen) {
        let columns = cursor.list(|cursor| column(cursor, &mut declared, &mut keys))?;
        cursor.expect(&Token::RParen)?;
        let last = |column| SchemaChange::AddColumn { column, place: ColumnPlace::Last };
        changes.extend(columns.into_iter().map(last));
    } else {
        let column = column(cursor, &mut declared, &mut keys)?;
        let place = place(cursor)?;
        if cursor.words("TO") {
            return Err(refuse("ALTER TABLE ... ADD COLUMN ... TO a rollup"));
        }
        if std::mem::take(&mut keys).is_empty() {
            let place = place.unwrap_or_default();
            changes.push(SchemaChange::AddColumn { column, place });
        } else {
            changes.push(SchemaChange::AddKeyColumn { column, place });
        }
    }
    if !keys.is_empty() {
        return Err(refuse("ALTER TABLE ... ADD COLUMN (... KEY)"));
    }
    added.extend(declared.into_iter().map(|key| KeyChange::Add(Box::new(key))));
    Ok(())
}
