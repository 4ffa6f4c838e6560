//! The clauses of PolarDB-X that say where the rows of a table are.

use freshet_base::{Result, bail};
use freshet_meta::{BucketsSpec, ComputedSpec, PlacementSpec, TableSpec};
use freshet_schema::TimePart;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::partition::{self, computed};
use crate::earlier;

/// Parses a clause, if one comes next; whether one did.
pub fn placement(cursor: &mut Cursor<'_>, spec: &mut TableSpec) -> Result<bool> {
    let (start, first) = (cursor.peek().span.start, cursor.parser.index());
    let word = cursor.peek().token.to_string();
    let written = |cursor: &Cursor<'_>| match cursor.text_since(start) {
        text if text.starts_with(&word) => text,
        // Places inside of `/*!50100 .. */` are not those of the text.
        _ => tokens_since(cursor, first),
    };
    let mut text = None;
    let (divides, buckets) = if cursor.one_of(&["SINGLE", "BROADCAST"]).is_some() {
        (Vec::new(), BucketsSpec::Count(1))
    } else if cursor.words("AUTO PARTITION BY") {
        partition::auto_partition_by(cursor, spec)?;
        return Ok(true);
    } else if cursor.words("PARTITION BY") {
        if let Some(by) = partition::partition_by(cursor, spec)? {
            subpartition_by(cursor, spec)?;
            partition::partitions(cursor, spec, by)?;
            return Ok(true);
        }
        let by = partition_by(cursor)?;
        let (divides, buckets) = subpartitioned(cursor, by)?;
        let whole = written(cursor);
        let (whole, buckets) = counted(cursor, whole, buckets)?;
        text = Some(whole);
        (divides, buckets)
    } else if cursor.words("DBPARTITION BY") {
        let divides = function(cursor)?;
        match cursor.words("TBPARTITION BY") {
            true => (join(divides, function(cursor)?), count(cursor, "TBPARTITIONS")?),
            false => (divides, count(cursor, "TBPARTITIONS")?),
        }
    } else if cursor.words("TBPARTITION BY") {
        (function(cursor)?, count(cursor, "TBPARTITIONS")?)
    } else if let Some(what) = cursor.one_of(&["SUBPARTITION BY", "LOCAL PARTITION BY"]) {
        return Err(refuse(what));
    } else {
        return Ok(false);
    };
    if spec.placement.is_some() || spec.distribution.is_some() || spec.partition_by.is_some() {
        bail!(Syntax, "A table has one clause that says where its rows are");
    }
    let text = text.unwrap_or_else(|| written(cursor));
    spec.placement = Some(placed(text, divides));
    spec.buckets = buckets;
    Ok(true)
}

/// Parses the partitions of HASH or KEY where they are written one by one, behind `text`: they are
/// tablets, whose names are not kept, so that the clause says how many they are.
fn counted(
    cursor: &mut Cursor<'_>,
    text: String,
    buckets: BucketsSpec,
) -> Result<(String, BucketsSpec)> {
    let are_named = matches!(cursor.peek().token, Token::LParen)
        && cursor.peek_word(1).as_deref() == Some("PARTITION");
    if !are_named {
        return Ok((text, buckets));
    }
    let names = cursor.in_parens(|cursor| {
        cursor.expect_words("PARTITION")?;
        cursor.name_or_text()?;
        partition::options(cursor)
    })?;
    let count = names.len() as u64;
    match buckets {
        BucketsSpec::Count(said) if said == count => Ok((text, buckets)),
        BucketsSpec::Unset | BucketsSpec::Auto => {
            Ok((format!("{text} PARTITIONS {count}"), BucketsSpec::Count(count)))
        }
        BucketsSpec::Count(said) => bail!(
            PartitionCount,
            "Wrong number of partitions defined, mismatch with previous setting: PARTITIONS \
             {said}, and {count} are written"
        ),
    }
}

/// As [`placement`], of an index: a clause of RANGE or LIST is kept as a text, too.
pub fn of_index(cursor: &mut Cursor<'_>, spec: &mut TableSpec) -> Result<bool> {
    let (start, first) = (cursor.peek().span.start, cursor.parser.index());
    let word = cursor.peek().token.to_string();
    if !placement(cursor, spec)? {
        return Ok(false);
    }
    if let Some(by) = &spec.partition_by {
        let hashed = spec.placement.take().map_or_else(Vec::new, |placement| placement.columns);
        let divides = by.columns.iter().chain(&hashed);
        let divides = divides.map(|name| Divides::whole(name.clone())).collect();
        let text = match cursor.text_since(start) {
            text if text.starts_with(&word) => text,
            _ => tokens_since(cursor, first),
        };
        spec.placement = Some(placed(text, join(Vec::new(), divides)));
    }
    Ok(true)
}

/// Parses SUBPARTITION BY of a clause that divides by RANGE or LIST, if it comes next: the tablets
/// of each partition.
fn subpartition_by(cursor: &mut Cursor<'_>, spec: &mut TableSpec) -> Result<()> {
    let (start, first) = (cursor.peek().span.start, cursor.parser.index());
    if !cursor.words("SUBPARTITION BY") {
        return Ok(());
    }
    if let Some(what) = cursor.one_of(&["RANGE", "LIST"]) {
        return Err(refuse(&format!("SUBPARTITION BY {what}")));
    }
    let divides = hashed(cursor, "SUBPARTITION BY")?;
    spec.buckets = count(cursor, "SUBPARTITIONS")?;
    let text = match cursor.text_since(start) {
        text if text.starts_with("SUBPARTITION") || text.starts_with("subpartition") => text,
        _ => tokens_since(cursor, first),
    };
    spec.placement = Some(placed(text, divides));
    Ok(())
}

/// Parses SUBPARTITION BY of a clause that divides by HASH or KEY, if it comes next: rows are
/// divided by all columns into as many tablets as there are subpartitions in all.
fn subpartitioned(
    cursor: &mut Cursor<'_>,
    (divides, buckets): (Vec<Divides>, BucketsSpec),
) -> Result<(Vec<Divides>, BucketsSpec)> {
    if !cursor.words("SUBPARTITION BY") {
        return Ok((divides, buckets));
    }
    let divides = join(divides, hashed(cursor, "SUBPARTITION BY but HASH and KEY")?);
    let buckets = match (buckets, count(cursor, "SUBPARTITIONS")?) {
        (BucketsSpec::Count(outer), BucketsSpec::Count(inner)) => {
            BucketsSpec::Count(outer.saturating_mul(inner))
        }
        (BucketsSpec::Unset, inner) => inner,
        (outer, _) => outer,
    };
    Ok((divides, buckets))
}

/// A column that divides rows, or a part of it, or an expression over it.
struct Divides {
    column: String,
    part: Option<TimePart>,
    computed: Option<ComputedSpec>,
}

impl Divides {
    fn whole(column: String) -> Self {
        Self { column, part: None, computed: None }
    }

    /// An expression, if one comes next. A column in other words, as `(id)`, is that column.
    fn computed(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (column, computed) = cursor.attempt(computed::expression)?;
        let computed = Some(computed).filter(|computed| !computed::is_column(&computed.steps));
        Some(Self { column, part: None, computed })
    }
}

fn placed(text: String, divides: Vec<Divides>) -> PlacementSpec {
    let parts = divides.iter().filter_map(|one| Some((one.column.clone(), one.part?)));
    let parts = parts.collect();
    // Beside other columns each counts as a whole.
    let computed = match &divides[..] {
        [one] => one.computed.clone(),
        _ => None,
    };
    let columns = divides.into_iter().map(|one| one.column).collect();
    PlacementSpec { text, columns, parts, computed }
}

/// The text of the tokens from this one on to the last that was parsed.
fn tokens_since(cursor: &Cursor<'_>, first: usize) -> String {
    let tokens = (first..cursor.parser.index()).map(|at| cursor.parser.token_at(at));
    let text = tokens.map(|token| token.token.to_string()).collect::<String>();
    text.trim().to_owned()
}

/// Parses the part after PARTITION BY.
fn partition_by(cursor: &mut Cursor<'_>) -> Result<(Vec<Divides>, BucketsSpec)> {
    let divides = hashed(cursor, "PARTITION BY")?;
    Ok((divides, count(cursor, "PARTITIONS")?))
}

/// Parses the columns of HASH or KEY.
fn hashed(cursor: &mut Cursor<'_>, clause: &str) -> Result<Vec<Divides>> {
    cursor.words("LINEAR");
    if cursor.words("KEY") {
        if cursor.words("ALGORITHM") {
            cursor.expect(&Token::Eq)?;
            cursor.number()?;
        }
        arguments(cursor)
    } else if cursor.peek_word(0).as_deref() == Some("HASH") {
        function(cursor)
    } else {
        Err(refuse(clause))
    }
}

fn count(cursor: &mut Cursor<'_>, word: &str) -> Result<BucketsSpec> {
    if !cursor.words(word) {
        return Ok(BucketsSpec::Unset);
    }
    match cursor.number()? {
        0 => bail!(
            NoPartitions,
            "Number of {} = 0 is not an allowed value: write 1 or more",
            word.to_lowercase()
        ),
        count => Ok(BucketsSpec::Count(count)),
    }
}

/// Of a column that is named twice, and not by the same part or expression, the whole value
/// divides.
fn join(mut all: Vec<Divides>, more: Vec<Divides>) -> Vec<Divides> {
    for one in more {
        match all.iter_mut().find(|known| known.column.eq_ignore_ascii_case(&one.column)) {
            Some(known) => {
                known.part = known.part.filter(|part| one.part == Some(*part));
                known.computed =
                    known.computed.take().filter(|of| one.computed.as_ref() == Some(of));
            }
            None => all.push(one),
        }
    }
    all
}

/// Parses `function(arguments)`. A function of time and RIGHT_SHIFT divide by their numbers. Of
/// others it makes no difference which it is: the hash of the columns divides, or the number of an
/// expression.
fn function(cursor: &mut Cursor<'_>) -> Result<Vec<Divides>> {
    if cursor.peek_word(0).as_deref() == Some("RIGHT_SHIFT")
        && let Some(shifted) = Divides::computed(cursor)
    {
        return Ok(vec![shifted]);
    }
    let part = TimePart::parse(&cursor.name()?);
    let mut divides = arguments(cursor)?;
    if let ([one], Some(_)) = (&mut divides[..], part) {
        (one.part, one.computed) = (part, None);
    }
    Ok(divides)
}

/// Parses columns, functions of columns, numbers and expressions, in parentheses; returns what
/// divides.
fn arguments(cursor: &mut Cursor<'_>) -> Result<Vec<Divides>> {
    cursor.expect(&Token::LParen)?;
    if cursor.token(&Token::RParen) {
        return Ok(Vec::new());
    }
    let found = cursor.list(|cursor| match cursor.attempt(argument) {
        Some(divides) => Ok(divides),
        None => match Divides::computed(cursor) {
            Some(one) => Ok(vec![one]),
            None => {
                let named = earlier::columns(&cursor.expr()?, "").into_iter();
                Ok(named.map(Divides::whole).collect())
            }
        },
    })?;
    cursor.expect(&Token::RParen)?;
    Ok(found.into_iter().fold(Vec::new(), join))
}

/// Parses a number, a text, a column, or one in a function of time, where nothing else follows.
fn argument(cursor: &mut Cursor<'_>) -> Result<Vec<Divides>> {
    cursor.token(&Token::Minus);
    let divides = if cursor.number_opt().is_some() || cursor.text_opt().is_some() {
        Vec::new()
    } else {
        let column = cursor.name()?;
        if matches!(cursor.peek().token, Token::LParen) {
            let part = TimePart::parse(&column).ok_or_else(|| cursor.error())?;
            cursor.expect(&Token::LParen)?;
            let column = cursor.name()?;
            cursor.expect(&Token::RParen)?;
            vec![Divides { part: Some(part), ..Divides::whole(column) }]
        } else {
            vec![Divides::whole(column)]
        }
    };
    match cursor.peek().token {
        Token::Comma | Token::RParen => Ok(divides),
        _ => Err(cursor.error()),
    }
}
