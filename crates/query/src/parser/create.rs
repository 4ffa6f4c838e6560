//! CREATE TABLE in the syntax of Doris and of MySQL.

use freshet_base::{Result, bail, err};
use freshet_meta::{
    BucketsSpec, ColumnSpec, DeclaredKeySpec, DefaultSpec, DistributionSpec, KeyModelSpec, KeySpec,
    TableSpec,
};
use freshet_schema::sketch::SketchKind;
use freshet_schema::{
    Aggregate, ColumnType, DeclaredKeyKind, DefaultValue, NOT_ENFORCED, SequenceKind, TableForm,
};
use sqlparser::tokenizer::Token;

use super::constraint;
use super::cursor::{Cursor, refuse};
use super::global;
use super::infile::OnSameKey;
use super::placement::placement;
use super::sequence;
use super::types::{WrittenType, charset, collate, column_type, default_collation};
use crate::syntax::{Select, TableName, hex_of_bits};

#[derive(Clone, PartialEq, Debug)]
pub struct CreateTable {
    /// `None` for the selected database.
    pub database: Option<String>,
    pub if_not_exists: bool,
    /// TEMPORARY.
    pub temporary: bool,
    /// The table; its columns are empty if they come from `like` or `query`.
    pub spec: TableSpec,
    pub like: Option<TableName>,
    pub query: Option<Select>,
    /// What becomes of rows of the query with a key that another one has.
    pub on_same_key: OnSameKey,
}

/// Parses the part after CREATE [TEMPORARY] TABLE.
pub fn create_table(cursor: &mut Cursor<'_>, temporary: bool) -> Result<CreateTable> {
    let if_not_exists = cursor.words("IF NOT EXISTS");
    let name = cursor.table()?;
    let mut create = CreateTable {
        database: name.database,
        if_not_exists,
        temporary,
        spec: TableSpec::new(name.table, TableForm::MySql, Vec::new()),
        like: None,
        query: None,
        on_same_key: OnSameKey::Unsaid,
    };
    if cursor.words("LIKE") {
        create.like = Some(cursor.table()?);
        // Of all rollups of the other table: there are none.
        if cursor.words("WITH ROLLUP") && cursor.token(&Token::LParen) {
            let rollup = cursor.name()?;
            bail!(Unknown, "Rollup index[{rollup}] not exists: tables have none");
        }
        return Ok(create);
    }
    let mut keys = Vec::new();
    if cursor.token(&Token::LParen) {
        if cursor.words("LIKE") {
            create.like = Some(cursor.table()?);
            cursor.expect(&Token::RParen)?;
            return Ok(create);
        }
        cursor.list(|cursor| element(cursor, &mut create.spec, &mut keys))?;
        cursor.expect(&Token::RParen)?;
    }
    options(cursor, &mut create.spec)?;
    create.on_same_key = OnSameKey::parse(cursor);
    const QUERIES: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];
    let is_query = |word: String| QUERIES.contains(&word.as_str());
    let says_how = create.on_same_key != OnSameKey::Unsaid;
    if cursor.words("AS") || says_how || cursor.peek_word(0).is_some_and(is_query) {
        create.query = Some(cursor.query()?);
    }
    if create.spec.key.is_none() {
        create.spec.key = aggregate_key(&mut create.spec);
    }
    finish(&mut create.spec, keys);
    if create.spec.columns.is_empty() && create.query.is_none() {
        return Err(err!(Syntax, "A table must have at least 1 column"));
    }
    Ok(create)
}

/// Parses a column or a key; columns marked KEY are added to `keys`.
pub fn element(
    cursor: &mut Cursor<'_>,
    spec: &mut TableSpec,
    keys: &mut Vec<String>,
) -> Result<()> {
    let word = cursor.peek_word(0).unwrap_or_default();
    let second = cursor.peek_word(1).unwrap_or_default();
    let behind = &cursor.parser.peek_nth_token_ref(1).token;
    let parens = matches!(behind, Token::LParen);
    let is_quoted = matches!(behind, Token::Word(word) if word.quote_style.is_some());
    let key = second == "KEY" || second == "INDEX" || parens;
    match word.as_str() {
        "CONSTRAINT" => {
            let name = constraint::name(cursor)?;
            let (declared, foreign) = (spec.declared_keys.len(), spec.foreign_keys.len());
            let checks = spec.checks.len();
            element(cursor, spec, keys)?;
            for check in &mut spec.checks[checks..] {
                check.name.clone_from(&name);
            }
            for key in &mut spec.declared_keys[declared..] {
                key.name = key.name.take().or_else(|| name.clone());
            }
            for key in &mut spec.foreign_keys[foreign..] {
                key.name = name.clone().or_else(|| key.name.take());
            }
            Ok(())
        }
        "PRIMARY" if second == "KEY" => declared(cursor, spec, DeclaredKeyKind::Primary),
        "UNIQUE" if key || is_quoted || !second.is_empty() && !is_type(&second) => {
            declared(cursor, spec, DeclaredKeyKind::Unique)
        }
        "GLOBAL" | "CLUSTERED" | "LOCAL" if second == "KEY" || second == "INDEX" => {
            declared(cursor, spec, DeclaredKeyKind::Index)
        }
        "KEY" | "INDEX" if parens || !is_type(&second) => {
            declared(cursor, spec, DeclaredKeyKind::Index)
        }
        "FULLTEXT" | "SPATIAL" if key || !second.is_empty() && !is_type(&second) => {
            spec.unkept_keys.extend(constraint::unkept_key(cursor)?);
            Ok(())
        }
        "FOREIGN" if second == "KEY" => {
            spec.foreign_keys.push(constraint::foreign_key(cursor)?);
            Ok(())
        }
        "CHECK" if parens => {
            spec.checks.push(constraint::check(cursor, None)?);
            Ok(())
        }
        _ => {
            let column = column(cursor, &mut spec.declared_keys, keys)?;
            spec.columns.push(column);
            Ok(())
        }
    }
}

/// Whether a word is a type, so that the preceding word is a column name.
fn is_type(word: &str) -> bool {
    [
        "INT",
        "BIGINT",
        "VARCHAR",
        "CHAR",
        "TEXT",
        "STRING",
        "SMALLINT",
        "TINYINT",
        "DECIMAL",
        "DOUBLE",
        "FLOAT",
        "DATE",
        "DATETIME",
        "TIMESTAMP",
        "LARGEINT",
        "BOOLEAN",
        "JSON",
    ]
    .contains(&word)
}

/// Parses PRIMARY KEY, UNIQUE KEY or KEY in the column list.
fn declared(cursor: &mut Cursor<'_>, spec: &mut TableSpec, kind: DeclaredKeyKind) -> Result<()> {
    let mut scope = global::scope(cursor);
    if scope.is_none() {
        cursor.name()?;
        if kind == DeclaredKeyKind::Unique {
            scope = global::scope(cursor);
        }
    }
    let mut key = DeclaredKeySpec::new(kind, Vec::new());
    key.global = scope.and_then(global::index);
    let _ = cursor.words("KEY") || cursor.words("INDEX");
    if !matches!(cursor.peek().token, Token::LParen)
        && cursor.peek_word(0).as_deref() != Some("USING")
    {
        key.name = Some(cursor.name()?);
    }
    using(cursor, &mut key)?;
    global::key_columns(cursor, &mut key)?;
    key_options(cursor, &mut key)?;
    spec.declared_keys.push(key);
    Ok(())
}

/// Parses USING BTREE or HASH of a key, if that is next; whether it was. A HASH is none in InnoDB,
/// either.
pub fn using(cursor: &mut Cursor<'_>, key: &mut DeclaredKeySpec) -> Result<bool> {
    if !cursor.words("USING") {
        return Ok(false);
    }
    key.is_btree = cursor.name()?.eq_ignore_ascii_case("BTREE");
    Ok(true)
}

/// Parses what may stand behind the columns of a key.
pub fn key_options(cursor: &mut Cursor<'_>, key: &mut DeclaredKeySpec) -> Result<()> {
    loop {
        if using(cursor, key)? {
            continue;
        }
        if cursor.words("COMMENT") {
            let text = cursor.text()?;
            // As SHOW CREATE TABLE has it, so that a table with equal keys can be made again. It
            // says what the key is, and is no comment: that would stay once the key is enforced.
            if text != NOT_ENFORCED || !key.kind.is_unique() {
                key.comment = text;
            } else if key.global.is_none() && key.kind == DeclaredKeyKind::Unique {
                key.kind = DeclaredKeyKind::UniqueHint;
            }
        } else if cursor.words("PROPERTIES") {
            cursor.properties()?;
        } else if cursor.words("KEY_BLOCK_SIZE") {
            cursor.token(&Token::Eq);
            cursor.number()?;
        } else if let Some(visible) = constraint::visibility(cursor) {
            key.kind = constraint::shown(key.kind, visible)?;
        } else if !global::option(cursor, &mut key.global)? {
            return Ok(());
        }
    }
}

fn key_of_column(kind: DeclaredKeyKind, column: &str) -> DeclaredKeySpec {
    DeclaredKeySpec::new(kind, vec![column.to_owned()])
}

/// Parses the type of a column of this name.
fn typed(cursor: &mut Cursor<'_>, name: String) -> Result<ColumnSpec> {
    let written = column_type(cursor)?;
    let WrittenType { ty, non_negative, labels, elements, collation, of_charset, lob_size } =
        written;
    let new = ColumnSpec::new(name, ty);
    Ok(ColumnSpec { non_negative, labels, elements, collation, of_charset, lob_size, ..new })
}

/// SERIAL: NOT NULL AUTO_INCREMENT UNIQUE.
fn serial(column: ColumnSpec, declared: &mut Vec<DeclaredKeySpec>) -> ColumnSpec {
    declared.push(key_of_column(DeclaredKeyKind::Unique, &column.name));
    ColumnSpec { nullable: false, auto_increment: true, ..column }
}

/// Parses a column; keys that it declares are added to `declared`, and its name to `keys` if it is
/// marked KEY.
pub fn column(
    cursor: &mut Cursor<'_>,
    declared: &mut Vec<DeclaredKeySpec>,
    keys: &mut Vec<String>,
) -> Result<ColumnSpec> {
    let name = cursor.name()?;
    let mut column = match cursor.words("SERIAL") {
        true => serial(ColumnSpec::new(name, ColumnType::BigInt { unsigned: true }), declared),
        false => typed(cursor, name)?,
    };
    loop {
        let key = |kind| key_of_column(kind, &column.name);
        if cursor.words("NOT NULL") {
            column.nullable = false;
        } else if cursor.words("NULL") {
            column.nullable = true;
        } else if cursor.words("PRIMARY KEY") {
            declared.push(key(DeclaredKeyKind::Primary));
        } else if cursor.words("UNIQUE") {
            cursor.words("KEY");
            declared.push(key(DeclaredKeyKind::Unique));
        } else if cursor.words("KEY") {
            keys.push(column.name.clone());
        } else if cursor.words("AUTO_INCREMENT") {
            column.auto_increment = true;
            if cursor.token(&Token::LParen) {
                column.first_id = Some(cursor.number()?);
                cursor.expect(&Token::RParen)?;
            }
            generated_by(cursor, &column)?;
        } else if cursor.words("SERIAL DEFAULT VALUE") {
            column = serial(column, declared);
        } else if cursor.words("DEFAULT") {
            column.default = match constant_of_doris(cursor, &column)? {
                Some(constant) => DefaultSpec::Value(DefaultValue::Literal(constant.to_owned())),
                None if is_empty_sketch(cursor, column.ty)? => DefaultSpec::Unset,
                None => default(cursor)?,
            };
        } else if cursor.words("ON UPDATE") {
            if !is_now(cursor)? {
                return Err(cursor.error());
            }
            column.on_update_now = true;
        } else if cursor.words("COMMENT") {
            column.comment = cursor.text()?;
        } else if cursor.words("COLLATE") {
            column.collation = Some(collate(cursor)?);
        } else if let Some(collation) = charset(cursor)? {
            column.of_charset = Some(collation);
        } else if let Some(function) = cursor.one_of(&Aggregate::ALL.map(Aggregate::name)) {
            column.aggregate = Aggregate::parse(function);
        } else if cursor.peek_word(0).as_deref() == Some("REFERENCES") {
            // MySQL takes no foreign key from the definition of a column either.
            constraint::references(cursor)?;
        } else if constraint::generated(cursor, &mut column)?
            || constraint::of_column(cursor, &mut column)?
        {
        } else if let Some(refused) = refused_attribute(cursor) {
            return Err(refused);
        } else {
            return Ok(column);
        }
    }
}

/// `BY NEW UNIT COUNT 1 INDEX 0` behind AUTO_INCREMENT: all kinds are the same here.
fn generated_by(cursor: &mut Cursor<'_>, column: &ColumnSpec) -> Result<()> {
    if cursor.words("BY") {
        match sequence::kind(cursor) {
            None => return Err(cursor.error()),
            Some(SequenceKind::Time) if !matches!(column.ty, ColumnType::BigInt { .. }) => bail!(
                WrongArguments,
                "AUTO_INCREMENT BY TIME is of a BIGINT, and column '{}' is a {}",
                column.name,
                column.ty
            ),
            Some(_) => {}
        }
    }
    sequence::units(cursor).map(drop)
}

fn refused_attribute(cursor: &mut Cursor<'_>) -> Option<freshet_base::Error> {
    if cursor.words("QUANTILE_UNION") {
        return Some(refuse("column function QUANTILE_UNION"));
    }
    cursor.one_of(&["INVISIBLE"]).map(refuse)
}

/// Parses the default that columns of sketches have anyway, if it comes next.
fn is_empty_sketch(cursor: &mut Cursor<'_>, ty: ColumnType) -> Result<bool> {
    let name = match ty.sketch() {
        None => return Ok(false),
        Some(SketchKind::Bitmap) => "BITMAP_EMPTY",
        Some(SketchKind::Hll) => "HLL_EMPTY",
    };
    let is_next = cursor.words(name);
    if is_next {
        optional_parens(cursor)?;
    }
    Ok(is_next)
}

/// Parses PI or E, which in Doris are defaults of DOUBLE columns, if they come next.
fn constant_of_doris(cursor: &mut Cursor<'_>, column: &ColumnSpec) -> Result<Option<&'static str>> {
    let (name, digits) = match cursor.one_of(&["PI", "E"]) {
        None => return Ok(None),
        Some("PI") => ("PI", "3.141592653589793"),
        Some(_) => ("E", "2.718281828459045"),
    };
    if column.ty != ColumnType::Double {
        bail!(
            InvalidDefault,
            "Invalid default value for '{}': types other than DOUBLE cannot use {name} as the \
             default value",
            column.name
        );
    }
    Ok(Some(digits))
}

/// Parses the part after DEFAULT.
pub fn default(cursor: &mut Cursor<'_>) -> Result<DefaultSpec> {
    if cursor.words("NULL") {
        return Ok(DefaultSpec::Null);
    }
    if cursor.peek().token != Token::LParen {
        return default_value(cursor).map(DefaultSpec::Value);
    }
    let value = match cursor.attempt(simple_in_parens) {
        Some(value) => value,
        None => DefaultValue::Expression(constraint::default(cursor)?),
    };
    Ok(DefaultSpec::Value(value))
}

/// A value in parentheses that could stand without them.
fn simple_in_parens(cursor: &mut Cursor<'_>) -> Result<DefaultValue> {
    cursor.expect(&Token::LParen)?;
    let value = default_value(cursor)?;
    cursor.expect(&Token::RParen)?;
    Ok(value)
}

fn default_value(cursor: &mut Cursor<'_>) -> Result<DefaultValue> {
    if is_now(cursor)? {
        return Ok(DefaultValue::CurrentTimestamp);
    }
    if cursor.one_of(&["CURRENT_DATE", "CURDATE"]).is_some() {
        optional_parens(cursor)?;
        return Ok(DefaultValue::CurrentDate);
    }
    if cursor.words("TRUE") {
        return Ok(DefaultValue::Literal("1".to_owned()));
    }
    if cursor.words("FALSE") {
        return Ok(DefaultValue::Literal("0".to_owned()));
    }
    if let Some(bits) = bits(cursor)? {
        return Ok(DefaultValue::Bits(bits));
    }
    let sign = if cursor.token(&Token::Minus) { "-" } else { "" };
    if let Some(text) = cursor.text_opt() {
        return Ok(DefaultValue::Literal(text));
    }
    let Token::Number(digits, _) = &cursor.peek().token else { return Err(cursor.error()) };
    let literal = format!("{sign}{digits}");
    cursor.parser.advance_token();
    Ok(DefaultValue::Literal(literal))
}

/// Skips CURRENT_TIMESTAMP or another name of it, with or without a precision, if it is next.
fn is_now(cursor: &mut Cursor<'_>) -> Result<bool> {
    let names = ["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"];
    if cursor.one_of(&names).is_none() {
        return Ok(false);
    }
    optional_parens(cursor)?;
    Ok(true)
}

/// The digits of a hexadecimal or bit literal, if it is the next token. A character set introducer
/// before it has no effect on its bytes.
fn bits(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if matches!(&cursor.peek().token, Token::Word(word) if word.value.starts_with('_')) {
        cursor.parser.advance_token();
    }
    let digits = match &cursor.peek().token {
        Token::HexStringLiteral(digits) => Some(digits.to_uppercase()),
        Token::SingleQuotedByteStringLiteral(bits) => hex_of_bits(bits),
        _ => return Ok(None),
    };
    let Some(digits) = digits else { return Err(cursor.error()) };
    cursor.parser.advance_token();
    Ok(Some(digits))
}

fn optional_parens(cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.token(&Token::LParen) {
        cursor.number_opt();
        cursor.expect(&Token::RParen)?;
    }
    Ok(())
}

/// Parses the part after the column list.
fn options(cursor: &mut Cursor<'_>, spec: &mut TableSpec) -> Result<()> {
    loop {
        cursor.token(&Token::Comma);
        let key = |model| -> Result<Option<KeyModelSpec>> { Ok(Some(model)) };
        let model = if cursor.words("DUPLICATE KEY") {
            key(KeyModelSpec::Duplicate)?
        } else if cursor.words("UNIQUE KEY") {
            key(KeyModelSpec::Unique)?
        } else if cursor.words("AGGREGATE KEY") {
            key(KeyModelSpec::Aggregate)?
        } else {
            None
        };
        if let Some(model) = model {
            spec.form = TableForm::Olap;
            spec.key = Some(KeySpec { model, columns: cursor.in_parens(Cursor::name)? });
        } else if cursor.words("DISTRIBUTED BY") {
            distribution(cursor, spec)?;
        } else if cursor.words("PROPERTIES") {
            spec.form = TableForm::Olap;
            spec.properties = cursor.properties()?;
        } else if cursor.words("ENGINE") {
            cursor.token(&Token::Eq);
            let engine = cursor.name_or_text()?;
            if engine.eq_ignore_ascii_case("olap") {
                spec.form = TableForm::Olap;
            }
            spec.engine = Some(engine);
        } else if cursor.words("AUTO_INCREMENT") {
            cursor.token(&Token::Eq);
            spec.auto_increment = Some(cursor.number()?);
        } else if cursor.words("COMMENT") {
            cursor.token(&Token::Eq);
            spec.comment = cursor.text()?;
        } else if default_collation(cursor, (&mut spec.collation, &mut spec.of_charset))? {
        } else if placement(cursor, spec)? {
            // The clause is noted.
        } else if cursor.words("ROLLUP") {
            return Err(refuse("ROLLUP"));
        } else if cursor.words("CLUSTER BY") {
            return Err(refuse(
                "CLUSTER BY; rows are sorted by the key of their table, leave it out",
            ));
        } else if !mysql_option(cursor)? {
            return Ok(());
        }
    }
}

fn distribution(cursor: &mut Cursor<'_>, spec: &mut TableSpec) -> Result<()> {
    if spec.placement.is_some() {
        bail!(Syntax, "A table has one clause that says where its rows are");
    }
    spec.form = TableForm::Olap;
    spec.distribution = Some(if cursor.words("RANDOM") {
        DistributionSpec::Random
    } else {
        cursor.expect_words("HASH")?;
        DistributionSpec::Hash(cursor.in_parens(Cursor::name)?)
    });
    if cursor.words("BUCKETS") {
        spec.buckets = match cursor.words("AUTO") {
            true => BucketsSpec::Auto,
            false => BucketsSpec::Count(cursor.number()?),
        };
    }
    Ok(())
}

/// Skips a table option of MySQL that has no effect here; false if the next token is none.
pub fn mysql_option(cursor: &mut Cursor<'_>) -> Result<bool> {
    const OPTIONS: [&str; 17] = [
        "ROW_FORMAT",
        "STATS_AUTO_RECALC",
        "STATS_SAMPLE_PAGES",
        "COMPRESSION",
        "ENCRYPTION",
        "INSERT_METHOD",
        "TABLESPACE",
        "AUTOEXTEND_SIZE",
        "ENGINE_ATTRIBUTE",
        "STATS_PERSISTENT",
        "KEY_BLOCK_SIZE",
        "MAX_ROWS",
        "MIN_ROWS",
        "AVG_ROW_LENGTH",
        "PACK_KEYS",
        "CHECKSUM",
        "DELAY_KEY_WRITE",
    ];
    if cursor.one_of(&OPTIONS).is_none() {
        return Ok(false);
    }
    cursor.token(&Token::Eq);
    if cursor.number_opt().is_none() {
        cursor.name_or_text()?;
    }
    Ok(true)
}

/// The key of a table that names none: where a column is aggregated, the columns before the first
/// such column.
fn aggregate_key(spec: &mut TableSpec) -> Option<KeySpec> {
    let keys = spec.columns.iter().position(|column| column.aggregate.is_some())?;
    spec.form = TableForm::Olap;
    let columns = spec.columns[..keys].iter().map(|column| column.name.clone()).collect();
    Some(KeySpec { model: KeyModelSpec::Aggregate, columns })
}

/// Makes columns marked KEY the key of the table, which is the primary key in MySQL's syntax.
fn finish(spec: &mut TableSpec, keys: Vec<String>) {
    if keys.is_empty() {
        return;
    }
    match spec.form {
        TableForm::Olap if spec.key.is_none() => {
            spec.key = Some(KeySpec { model: KeyModelSpec::Duplicate, columns: keys });
        }
        TableForm::Olap => {}
        TableForm::MySql => {
            spec.declared_keys.push(DeclaredKeySpec::new(DeclaredKeyKind::Primary, keys))
        }
    }
}
