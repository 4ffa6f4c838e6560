//! PARTITION BY RANGE and LIST, in the words of Doris and MySQL, and ALTER TABLE of partitions.

pub mod computed;

use freshet_base::{Result, bail, err};
use freshet_meta::{
    BucketsSpec, ComputedSpec, DistributionSpec, Division, PartitionBySpec, PartitionChange,
    PartitionSpec, StepsSpec, TableSpec, ValueSpec, ValuesSpec,
};
use freshet_schema::{AutoPartition, PartitionFunction, PartitionMethod, TableForm, TimeUnit};
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::tending;
use super::{AlterAction, Clauses, Statement, Tending};
use crate::snapshot::temporary_names;

/// Parses the part after PARTITION BY up to the [`partitions`], if it is RANGE or LIST.
pub fn partition_by(cursor: &mut Cursor<'_>, spec: &TableSpec) -> Result<Option<PartitionBySpec>> {
    let method = if cursor.words("RANGE") {
        PartitionMethod::Range
    } else if cursor.words("LIST") {
        PartitionMethod::List
    } else {
        return Ok(None);
    };
    if spec.partition_by.is_some() || spec.placement.is_some() {
        bail!(Syntax, "A table has one clause PARTITION BY");
    }
    let has_columns_word = cursor.words("COLUMNS");
    let Divisor { columns, function, computed, period } = divided_by(cursor, method)?;
    if period.is_some() {
        bail!(Syntax, "date_trunc is for AUTO PARTITION BY RANGE(date_trunc(c, 'day'))");
    }
    if cursor.words("PARTITIONS") {
        cursor.number()?;
    }
    Ok(Some(PartitionBySpec {
        method,
        columns,
        function,
        computed,
        has_columns_word,
        auto: None,
        partitions: Vec::new(),
    }))
}

/// Parses the part after AUTO PARTITION BY.
pub fn auto_partition_by(cursor: &mut Cursor<'_>, spec: &mut TableSpec) -> Result<()> {
    let method = match cursor.one_of(&["RANGE", "LIST"]) {
        Some("RANGE") => PartitionMethod::Range,
        Some(_) => PartitionMethod::List,
        None => return Err(cursor.error()),
    };
    if spec.partition_by.is_some() || spec.placement.is_some() {
        bail!(Syntax, "A table has one clause PARTITION BY");
    }
    let Divisor { columns, function, computed, period } = divided_by(cursor, method)?;
    let auto = match (method, period, function) {
        _ if computed.is_some() => return Err(computed::refused()),
        (PartitionMethod::List, None, None) => AutoPartition::Value,
        (PartitionMethod::Range, Some(unit), None) => AutoPartition::Period(unit),
        _ => bail!(
            Syntax,
            "AUTO PARTITION BY is RANGE(date_trunc(c, 'day')), with hour, day, week, month, \
             quarter or year, or LIST(c)"
        ),
    };
    spec.form = TableForm::Olap;
    partitions(
        cursor,
        spec,
        PartitionBySpec {
            method,
            columns,
            function: None,
            computed: None,
            has_columns_word: false,
            auto: Some(auto),
            partitions: Vec::new(),
        },
    )
}

/// Parses the partitions of a clause, which may be none.
pub fn partitions(
    cursor: &mut Cursor<'_>,
    spec: &mut TableSpec,
    mut by: PartitionBySpec,
) -> Result<()> {
    if cursor.token(&Token::LParen) && !cursor.token(&Token::RParen) {
        let all = cursor.list(divided_partition)?;
        cursor.expect(&Token::RParen)?;
        let (partitions, counts): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        by.partitions = partitions;
        subpartitions(cursor, spec, &counts)?;
    }
    let is_of_doris =
        |one: &PartitionSpec| matches!(one.values, ValuesSpec::Range(..) | ValuesSpec::Steps(_));
    if by.partitions.iter().any(is_of_doris) {
        spec.form = TableForm::Olap;
    }
    spec.partition_by = Some(by);
    Ok(())
}

/// What stands in the parentheses of PARTITION BY.
struct Divisor {
    columns: Vec<String>,
    function: Option<PartitionFunction>,
    computed: Option<ComputedSpec>,
    /// Of date_trunc.
    period: Option<TimeUnit>,
}

/// Parses `(a, b)`, `(function(a))`, `(date_trunc(a, 'day'))` or `(expression)`. A function that
/// rises with its column has bounds of the column, in a clause of RANGE.
fn divided_by(cursor: &mut Cursor<'_>, method: PartitionMethod) -> Result<Divisor> {
    if cursor.peek_word(1).as_deref() == Some("DATE_TRUNC") {
        return plainly_divided(cursor);
    }
    let divisor = cursor.attempt(|cursor| {
        let divisor = plainly_divided(cursor)?;
        match divisor.function {
            Some(_) if method == PartitionMethod::List => Err(cursor.error()),
            _ => Ok(divisor),
        }
    });
    if let Some(divisor) = divisor {
        return Ok(divisor);
    }
    cursor.expect(&Token::LParen)?;
    let (column, computed) = computed::expression(cursor)?;
    cursor.expect(&Token::RParen)?;
    let computed = Some(computed).filter(|computed| !computed::is_column(&computed.steps));
    Ok(Divisor { columns: vec![column], function: None, computed, period: None })
}

/// Parses columns, one of them in a function that rises with it.
fn plainly_divided(cursor: &mut Cursor<'_>) -> Result<Divisor> {
    cursor.expect(&Token::LParen)?;
    let (mut function, mut period) = (None, None);
    let columns = cursor.list(|cursor| {
        let name = cursor.name()?;
        if !matches!(cursor.peek().token, Token::LParen) {
            return Ok(vec![name]);
        }
        if name.eq_ignore_ascii_case("date_trunc") {
            cursor.expect(&Token::LParen)?;
            let column = cursor.name()?;
            cursor.expect(&Token::Comma)?;
            period = Some(unit_of(&cursor.text()?)?);
            cursor.expect(&Token::RParen)?;
            return Ok(vec![column]);
        }
        function = PartitionFunction::parse(&name);
        if function.is_none() {
            return Err(cursor.error());
        }
        cursor.in_parens(Cursor::name)
    })?;
    cursor.expect(&Token::RParen)?;
    Ok(Divisor { columns: columns.concat(), function, computed: None, period })
}

fn unit_of(name: &str) -> Result<TimeUnit> {
    TimeUnit::parse(name).ok_or_else(|| {
        err!(
            WrongArguments,
            "'{name}' is no unit of partitions: hour, day, week, month, quarter or year"
        )
    })
}

/// Takes over how many subpartitions each partition has, where they are written one by one: they
/// are its tablets, whose names are not kept.
fn subpartitions(cursor: &Cursor<'_>, spec: &mut TableSpec, counts: &[Option<u64>]) -> Result<()> {
    let Some(count) = counts.iter().find_map(|count| *count) else { return Ok(()) };
    let Some(placement) = &mut spec.placement else { return Err(cursor.error()) };
    let is_alike = counts.iter().all(|other| *other == Some(count));
    if !is_alike || matches!(spec.buckets, BucketsSpec::Count(said) if said != count) {
        bail!(
            SubpartitionCount,
            "Wrong number of subpartitions defined, mismatch with previous setting: all partitions \
             have as many"
        );
    }
    if spec.buckets == BucketsSpec::Unset {
        placement.text = format!("{} SUBPARTITIONS {count}", placement.text);
    }
    spec.buckets = BucketsSpec::Count(count);
    Ok(())
}

/// Parses `PARTITION p VALUES ..`, of a table that has no subpartitions of its own.
fn partition(cursor: &mut Cursor<'_>) -> Result<PartitionSpec> {
    match divided_partition(cursor)? {
        (spec, None) => Ok(spec),
        (_, Some(_)) => Err(refuse("SUBPARTITION of one partition")),
    }
}

/// Parses `PARTITION p VALUES ..`; returns also how many subpartitions it has, if it says it.
fn divided_partition(cursor: &mut Cursor<'_>) -> Result<(PartitionSpec, Option<u64>)> {
    if matches!(cursor.peek_word(0).as_deref(), Some("FROM")) {
        return Ok((steps(cursor)?, None));
    }
    cursor.expect_words("PARTITION")?;
    let spec = named(cursor)?;
    if cursor.words("SUBPARTITIONS") {
        return Ok((spec, Some(cursor.number()?)));
    }
    let are_named = matches!(cursor.peek().token, Token::LParen)
        && cursor.peek_word(1).as_deref() == Some("SUBPARTITION");
    if !are_named {
        return Ok((spec, None));
    }
    let names = cursor.in_parens(|cursor| {
        cursor.expect_words("SUBPARTITION")?;
        cursor.name_or_text()?;
        if cursor.words("VALUES") {
            return Err(refuse("SUBPARTITION BY RANGE and LIST"));
        }
        options(cursor)
    })?;
    Ok((spec, Some(names.len() as u64)))
}

/// Parses `FROM (a) TO (b) INTERVAL n unit`.
fn steps(cursor: &mut Cursor<'_>) -> Result<PartitionSpec> {
    let one = |cursor: &mut Cursor<'_>| -> Result<ValueSpec> {
        cursor.expect(&Token::LParen)?;
        let value = value(cursor)?;
        cursor.expect(&Token::RParen)?;
        Ok(value)
    };
    cursor.expect_words("FROM")?;
    let from = one(cursor)?;
    cursor.expect_words("TO")?;
    let to = one(cursor)?;
    cursor.expect_words("INTERVAL")?;
    let count = cursor.number()?;
    let units = ["HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"];
    let unit = cursor.one_of(&units).map(unit_of).transpose()?;
    let values = ValuesSpec::Steps(StepsSpec { from, to, count, unit });
    options(cursor)?;
    Ok(PartitionSpec { name: String::new(), if_not_exists: false, values })
}

/// Parses the part after PARTITION.
fn named(cursor: &mut Cursor<'_>) -> Result<PartitionSpec> {
    let if_not_exists = cursor.words("IF NOT EXISTS");
    let name = cursor.name_or_text()?;
    if !cursor.words("VALUES") {
        bail!(PartitionValues, "Partition '{name}' has no VALUES: LESS THAN, IN, or [..)");
    }
    let values = if cursor.words("LESS THAN") {
        ValuesSpec::LessThan(match cursor.words("MAXVALUE") {
            true => vec![ValueSpec::MaxValue],
            false => cursor.in_parens(value)?,
        })
    } else if cursor.token(&Token::LBracket) {
        let lower = cursor.in_parens(value)?;
        cursor.expect(&Token::Comma)?;
        let upper = cursor.in_parens(value)?;
        cursor.expect(&Token::RParen)?;
        ValuesSpec::Range(lower, upper)
    } else {
        cursor.expect_words("IN")?;
        ValuesSpec::In(cursor.in_parens(|cursor| match cursor.peek().token {
            Token::LParen => cursor.in_parens(value),
            _ => value(cursor).map(|value| vec![value]),
        })?)
    };
    options(cursor)?;
    Ok(PartitionSpec { name, if_not_exists, values })
}

fn value(cursor: &mut Cursor<'_>) -> Result<ValueSpec> {
    if cursor.words("MAXVALUE") {
        return Ok(ValueSpec::MaxValue);
    }
    if cursor.words("NULL") {
        return Ok(ValueSpec::Null);
    }
    if cursor.words("DEFAULT") {
        return Ok(ValueSpec::Default);
    }
    let literal = cursor.attempt(|cursor| {
        let literal = literal(cursor)?;
        match cursor.peek().token {
            Token::Comma | Token::RParen => Ok(literal),
            _ => Err(cursor.error()),
        }
    });
    match literal {
        Some(literal) => Ok(literal),
        None => computed::constant(cursor).map(ValueSpec::Literal),
    }
}

/// Parses a literal, or a function of one that the table is divided by.
fn literal(cursor: &mut Cursor<'_>) -> Result<ValueSpec> {
    cursor.one_of(&["DATE", "TIMESTAMP"]);
    if let Some(text) = cursor.text_opt() {
        return Ok(ValueSpec::Literal(text));
    }
    let sign = if cursor.token(&Token::Minus) { "-" } else { "" };
    if let Token::Number(digits, _) = &cursor.peek().token {
        let literal = format!("{sign}{digits}");
        cursor.parser.advance_token();
        return Ok(ValueSpec::Literal(literal));
    }
    let name = cursor.name()?;
    let Some(function) = PartitionFunction::parse(&name) else {
        return Err(refuse(&format!("'{name}' as a value of a partition")));
    };
    cursor.expect(&Token::LParen)?;
    let text = cursor.text()?;
    cursor.expect(&Token::RParen)?;
    Ok(ValueSpec::Call(function, text))
}

/// Skips what MySQL and Doris write behind a partition, which has no effect here.
pub fn options(cursor: &mut Cursor<'_>) -> Result<()> {
    const OPTIONS: [&str; 8] = [
        "STORAGE ENGINE",
        "ENGINE",
        "COMMENT",
        "MAX_ROWS",
        "MIN_ROWS",
        "TABLESPACE",
        "DATA DIRECTORY",
        "INDEX DIRECTORY",
    ];
    while cursor.one_of(&OPTIONS).is_some() {
        cursor.token(&Token::Eq);
        if cursor.number_opt().is_none() {
            cursor.name_or_text()?;
        }
    }
    match cursor.peek().token {
        Token::LParen if cursor.peek_word(1).as_deref() != Some("SUBPARTITION") => {
            cursor.properties().map(drop)
        }
        _ => Ok(()),
    }
}

/// Parses `p`, `p, q` or `(p, q)`.
pub fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    match cursor.peek().token {
        Token::LParen => cursor.in_parens(Cursor::name_or_text),
        _ => cursor.list(Cursor::name_or_text),
    }
}

/// Parses the names behind DROP PARTITION, in the words of Doris too: `p, DROP PARTITION q`.
fn dropped(cursor: &mut Cursor<'_>, if_exists: bool) -> Result<Vec<String>> {
    if matches!(cursor.peek().token, Token::LParen) {
        return names(cursor);
    }
    let mut all = vec![cursor.name_or_text()?];
    while cursor.token(&Token::Comma) {
        if cursor.words("DROP PARTITION") && cursor.words("IF EXISTS") != if_exists {
            return Err(refuse("DROP PARTITION with and without IF EXISTS in one ALTER TABLE"));
        }
        all.push(cursor.name_or_text()?);
    }
    Ok(all)
}

/// Parses `(*)`, if it comes next.
pub fn all_in_parens(cursor: &mut Cursor<'_>) -> bool {
    let is_all = matches!(cursor.peek().token, Token::LParen)
        && matches!(cursor.parser.peek_nth_token_ref(1).token, Token::Mul);
    if is_all {
        (0..3).for_each(|_| cursor.parser.advance_token());
    }
    is_all
}

/// Parses the part after TRUNCATE.
pub fn truncate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.words("TABLE");
    let if_exists = cursor.words("IF EXISTS");
    let tables = cursor.list(Cursor::table)?;
    let partitions = match cursor.one_of(&["PARTITION", "PARTITIONS"]) {
        Some(_) => Some(names(cursor)?),
        None => None,
    };
    cursor.words("FORCE");
    // That of Cedar, which notes it beside the time.
    if partitions.is_none() && cursor.words("COMMENT") {
        cursor.text()?;
    }
    match (partitions, tables.as_slice()) {
        (None, _) => Ok(Statement::Truncate { tables, if_exists }),
        (names @ Some(_), [table]) if !if_exists => {
            let change = AlterAction::Partitions(PartitionChange::Truncate(names));
            Ok(Statement::AlterTable(table.clone(), change))
        }
        (Some(_), _) => Err(cursor.error()),
    }
}

/// Parses the part after ADD PARTITIONS or ADD PARTITION.
pub fn added(cursor: &mut Cursor<'_>, several: bool) -> Result<PartitionChange> {
    let mut specs = partition_specs(cursor, several)?;
    if specs.len() == 1 && cursor.words("DISTRIBUTED BY") {
        let (distribution, buckets) = distributed(cursor)?;
        let spec = specs.remove(0);
        return Ok(PartitionChange::AddDistributed { spec, distribution, buckets });
    }
    Ok(PartitionChange::Add(specs))
}

fn partition_specs(cursor: &mut Cursor<'_>, several: bool) -> Result<Vec<PartitionSpec>> {
    if several {
        return cursor.list(partition);
    }
    if cursor.token(&Token::LParen) {
        let specs = cursor.list(partition)?;
        cursor.expect(&Token::RParen)?;
        return Ok(specs);
    }
    Ok(vec![named(cursor)?])
}

/// Parses the part of ADD PARTITION and of MODIFY DISTRIBUTION after DISTRIBUTED BY.
pub fn distributed(cursor: &mut Cursor<'_>) -> Result<(DistributionSpec, BucketsSpec)> {
    let distribution = match cursor.words("RANDOM") {
        true => DistributionSpec::Random,
        false => {
            cursor.expect_words("HASH")?;
            DistributionSpec::Hash(cursor.in_parens(Cursor::name)?)
        }
    };
    let buckets = match cursor.words("BUCKETS") {
        true if cursor.words("AUTO") => BucketsSpec::Auto,
        true => BucketsSpec::Count(cursor.number()?),
        false => BucketsSpec::Unset,
    };
    Ok((distribution, buckets))
}

/// Parses an action of ALTER TABLE on partitions, if one comes next.
pub fn change(cursor: &mut Cursor<'_>) -> Result<Option<PartitionChange>> {
    if cursor.words("MODIFY PARTITION") {
        let names = match cursor.words("ALL") || all_in_parens(cursor) {
            true => None,
            false => Some(names(cursor)?),
        };
        cursor.expect_words("SET")?;
        return Ok(Some(PartitionChange::Modify { names, pairs: cursor.properties()? }));
    }
    if let Some(word) = cursor.one_of(&["ADD PARTITIONS", "ADD PARTITION"]) {
        return added(cursor, word == "ADD PARTITIONS").map(Some);
    }
    if cursor.words("DROP PARTITION") {
        let if_exists = cursor.words("IF EXISTS");
        let names = dropped(cursor, if_exists)?;
        let force = cursor.words("FORCE");
        return Ok(Some(PartitionChange::Drop { names, if_exists, force }));
    }
    if cursor.words("TRUNCATE PARTITION") {
        return match cursor.words("ALL") {
            true => Ok(Some(PartitionChange::Truncate(None))),
            false => Ok(Some(PartitionChange::Truncate(Some(names(cursor)?)))),
        };
    }
    if cursor.words("RENAME PARTITION") {
        let from = cursor.name_or_text()?;
        cursor.words("TO");
        return Ok(Some(PartitionChange::Rename { from, to: cursor.name_or_text()? }));
    }
    if cursor.words("REORGANIZE PARTITION") {
        let from = cursor.list(Cursor::name_or_text)?;
        cursor.expect_words("INTO")?;
        let into = cursor.in_parens(partition)?;
        return Ok(Some(PartitionChange::Reorganize { from, into }));
    }
    if cursor.one_of(&["MERGE PARTITIONS", "MERGE PARTITION"]).is_some() {
        let from = names(cursor)?;
        cursor.expect_words("TO")?;
        return Ok(Some(PartitionChange::Merge { from, to: cursor.name_or_text()? }));
    }
    if cursor.one_of(&["MOVE PARTITIONS", "MOVE PARTITION"]).is_some() {
        let names = names(cursor)?;
        cursor.expect_words("TO")?;
        cursor.name_or_text()?;
        return Ok(Some(PartitionChange::Move(names)));
    }
    Ok(None)
}

/// Parses SPLIT PARTITION, and what MySQL does for partitions as for tables, if that comes next.
pub fn action(cursor: &mut Cursor<'_>) -> Result<Option<AlterAction>> {
    if cursor.words("SPLIT PARTITION") {
        return split(cursor).map(Some);
    }
    let tended = [
        ("ANALYZE PARTITION", Some(Tending::Analyze)),
        ("CHECK PARTITION", Some(Tending::Check)),
        ("OPTIMIZE PARTITION", Some(Tending::Optimize)),
        ("REPAIR PARTITION", Some(Tending::Repair)),
        ("REBUILD PARTITION", None),
    ];
    for (word, tending) in tended {
        if cursor.words(word) {
            let _ = cursor.words("NO_WRITE_TO_BINLOG") || cursor.words("LOCAL");
            let names = if cursor.words("ALL") { None } else { Some(names(cursor)?) };
            tending::options(cursor);
            return Ok(Some(AlterAction::Tend { tending, names }));
        }
    }
    Ok(None)
}

/// Parses the part after SPLIT PARTITION.
fn split(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    let from = cursor.name_or_text()?;
    if cursor.words("AT") {
        cursor.words("VALUES");
        let at = cursor.in_parens(value)?;
        cursor.expect_words("INTO")?;
        let into = cursor.in_parens(|cursor| {
            cursor.expect_words("PARTITION")?;
            cursor.name_or_text()
        })?;
        let into = <[String; 2]>::try_from(into);
        let into =
            into.map_err(|_| err!(Syntax, "SPLIT PARTITION .. AT is INTO two partitions"))?;
        return Ok(AlterAction::Partitions(PartitionChange::SplitAt { from, at, into }));
    }
    if cursor.words("INTO PARTITIONS") {
        let division = Some(Division::Split(from, cursor.number()?));
        return Ok(AlterAction::Clauses(Clauses { division, ..Clauses::default() }));
    }
    if cursor.words("INTO") {
        let into = cursor.in_parens(partition)?;
        let from = vec![from];
        return Ok(AlterAction::Partitions(PartitionChange::Reorganize { from, into }));
    }
    let division = Some(Division::Split(from, 2));
    Ok(AlterAction::Clauses(Clauses { division, ..Clauses::default() }))
}

/// Refuses a statement that would change rows of temporary partitions beside others.
pub fn refuse_temporary(names: &[String], what: &str) -> Result<()> {
    match temporary_names(names) {
        Some(_) => Err(refuse(&format!("{what} ... TEMPORARY PARTITION"))),
        None => Ok(()),
    }
}
