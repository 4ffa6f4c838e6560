//! SHOW CREATE TABLE: a statement that creates an identical table.

use std::fmt::Write;

use freshet_base::ColumnId;
use freshet_schema::key::length_of;
use freshet_schema::value::literal_text;
use freshet_schema::{
    Check, Column, ColumnType, DeclaredKey, DeclaredKeyKind, DefaultValue, Distribution,
    ForeignKey, GlobalIndex, KeyModel, NOT_ENFORCED, Properties, ReferenceAction, Table, TableForm,
    TableSchema,
};

use crate::properties;

mod partition;

pub use partition::{HashedText, PartitionText, hashed_text, partition_text};

/// The statement that creates `table`, whose next generated id is `next_id`. It has one column per
/// line, indented by two spaces, and Doris's clauses after the closing parenthesis, so that tools
/// that parse it by line find the columns.
pub fn show_create_table(table: &Table, next_id: Option<u64>) -> String {
    let mut lines = table.schema().shown().iter().map(|c| column(c, table)).collect::<Vec<_>>();
    lines.extend(table.declared_keys.iter().map(|key| declared_key(key, table)));
    if table.form == TableForm::MySql {
        lines.extend(table.foreign_keys.iter().map(|key| foreign_key(key, table)));
    }
    lines.extend(table.schema().checks.iter().map(check));
    let lines = lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join(",\n");
    // Only temporary tables are shown without being listed.
    let temporary = if table.unlisted { "TEMPORARY " } else { "" };
    let head = format!("CREATE {temporary}TABLE {} (\n{lines}\n)", quoted(&table.name));
    match table.form {
        TableForm::Olap => head + &olap_tail(table),
        TableForm::MySql => head + &mysql_tail(table, next_id),
    }
}

fn column(column: &Column, table: &Table) -> String {
    let mut line = format!("{} {}", quoted(&column.name), type_name(column, table.form));
    if column.ty.has_collation() && column.collation != table.collation {
        line += &format!(" CHARACTER SET utf8mb4 COLLATE {}", column.collation.name());
    }
    if let Some(function) = column.aggregate {
        write!(line, " {}", function.name()).expect("writing to a string cannot fail");
    }
    if let Some(how) = &column.generated {
        // Doris knows no words for the kinds.
        let kind = if table.form == TableForm::MySql { how.kind() } else { "" };
        write!(line, " GENERATED ALWAYS AS ({}) {kind}", how.text)
            .expect("writing to a string cannot fail");
        line.truncate(line.trim_end().len());
    }
    match (column.nullable, table.form) {
        (false, _) => line.push_str(" NOT NULL"),
        (true, TableForm::Olap) => line.push_str(" NULL"),
        // MySQL prints NULL for types that would otherwise imply NOT NULL.
        (true, TableForm::MySql) if matches!(column.ty, ColumnType::Timestamp { .. }) => {
            line.push_str(" NULL");
        }
        (true, TableForm::MySql) => {}
    }
    if column.auto_increment.is_some() {
        line.push_str(" AUTO_INCREMENT");
    }
    match &column.default {
        Some(value) => write!(line, " DEFAULT {}", default(value, column)),
        None if column.generated.is_some() => Ok(()),
        None if column.nullable && table.form == TableForm::MySql && has_default(column.ty) => {
            write!(line, " DEFAULT NULL")
        }
        None => Ok(()),
    }
    .expect("writing to a string cannot fail");
    if column.on_update_now {
        write!(line, " ON UPDATE {}", column.now_text()).expect("writing to a string cannot fail");
    }
    if !column.comment.is_empty() {
        let comment = text(&column.comment);
        write!(line, " COMMENT {comment}").expect("writing to a string cannot fail");
    }
    line
}

/// Doris has a type BOOLEAN; TINYINT(1) would be a TINYINT there.
fn type_name(column: &Column, form: TableForm) -> String {
    match (column.ty, form) {
        (ColumnType::Boolean, TableForm::Olap) => "boolean".to_owned(),
        _ => column.type_text(),
    }
}

/// Types for which MySQL prints no default.
fn has_default(ty: ColumnType) -> bool {
    !matches!(ty, ColumnType::Text | ColumnType::Blob)
}

fn default(value: &DefaultValue, column: &Column) -> String {
    match value {
        DefaultValue::Literal(literal) => text(&literal_text(column, literal)),
        DefaultValue::Bits(digits) => column.bits_text(digits),
        DefaultValue::CurrentDate => "CURRENT_DATE".to_owned(),
        DefaultValue::CurrentTimestamp => column.now_text(),
        DefaultValue::Expression(expression) => format!("({expression})"),
    }
}

fn declared_key(key: &DeclaredKey, table: &Table) -> String {
    let schema = table.schema();
    let names = |ids: &[ColumnId]| {
        let names = ids.iter().map(|&id| {
            let at = schema.position_of(id).expect("columns of a key are never dropped");
            let column = &schema.columns[at];
            // Doris has no words for what only says how a key was written.
            let is_mysql = table.form == TableForm::MySql;
            let first = match is_mysql {
                true => key.first_shown(id, column),
                false => length_of(id, &schema.columns),
            };
            let first = first.map(|length| format!("({length})"));
            let order = if is_mysql && key.form.is_descending(column) { " DESC" } else { "" };
            quoted(&column.name) + &first.unwrap_or_default() + order
        });
        names.collect::<Vec<_>>().join(",")
    };
    if let Some(global) = &key.global {
        return global_index(key, global, names);
    }
    let names = names(&key.columns);
    let unenforced = unenforced(key);
    let comment = btree(key).to_owned() + &comment(key);
    match key.kind {
        DeclaredKeyKind::Primary if table.key_model == KeyModel::Primary => {
            format!("PRIMARY KEY ({names}){comment}")
        }
        DeclaredKeyKind::Primary => format!("PRIMARY KEY ({names}){unenforced}"),
        DeclaredKeyKind::Unique => format!("UNIQUE KEY {} ({names}){comment}", quoted(&key.name)),
        DeclaredKeyKind::UniqueHint => {
            format!("UNIQUE KEY {} ({names}){unenforced}", quoted(&key.name))
        }
        // As Doris has it, whatever index was asked for.
        DeclaredKeyKind::Index if table.form == TableForm::Olap => {
            let comment = self::comment(key);
            format!("INDEX {} ({names}) USING INVERTED{comment}", quoted(&key.name))
        }
        DeclaredKeyKind::Index => format!("KEY {} ({names}){comment}", quoted(&key.name)),
        DeclaredKeyKind::InvisibleIndex => {
            format!("KEY {} ({names}){comment} /*!80000 INVISIBLE */", quoted(&key.name))
        }
    }
}

fn btree(key: &DeclaredKey) -> &'static str {
    if key.form.is_btree { " USING BTREE" } else { "" }
}

/// What follows the columns of a unique key that is not enforced. Of two comments MySQL takes the
/// last one.
fn unenforced(key: &DeclaredKey) -> String {
    format!("{} COMMENT '{NOT_ENFORCED}'{}", btree(key), comment(key))
}

/// The COMMENT of a key, with a space before it.
fn comment(key: &DeclaredKey) -> String {
    match key.comment.as_str() {
        "" => String::new(),
        comment => format!(" COMMENT {}", text(comment)),
    }
}

fn global_index(
    key: &DeclaredKey,
    global: &GlobalIndex,
    names: impl Fn(&[ColumnId]) -> String,
) -> String {
    let unique = if key.kind.is_unique() { "UNIQUE " } else { "" };
    let scope = if global.clustered { "CLUSTERED" } else { "GLOBAL" };
    let mut line = format!("{unique}{scope} INDEX {} ({})", quoted(&key.name), names(&key.columns));
    line += btree(key);
    if !global.covering.is_empty() {
        line += &format!(" COVERING ({})", names(&global.covering));
    }
    if let Some(clause) = &global.placement {
        line += &format!(" {}", clause.text);
    }
    line += &comment(key);
    if key.kind == DeclaredKeyKind::InvisibleIndex {
        line += " /*!80000 INVISIBLE */";
    }
    line
}

fn foreign_key(key: &ForeignKey, table: &Table) -> String {
    let list =
        |names: &[&str]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let columns = key.columns.iter().map(|id| {
        let at = table.schema().position_of(*id).expect("columns of a foreign key are not dropped");
        table.schema().columns[at].name.as_str()
    });
    let referenced = key.referenced.iter().map(String::as_str).collect::<Vec<_>>();
    let database = key.database.as_ref().map(|name| quoted(name) + ".").unwrap_or_default();
    let mut line = format!(
        "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {database}{} ({})",
        quoted(&key.name),
        list(&columns.collect::<Vec<_>>()),
        quoted(&key.table),
        list(&referenced)
    );
    for (event, action) in [(" ON DELETE ", key.on_delete), (" ON UPDATE ", key.on_update)] {
        // As in MySQL, which does not show what holds without words.
        if action != ReferenceAction::NoAction {
            line += event;
            line += action.words();
        }
    }
    line
}

fn check(check: &Check) -> String {
    // As MySQL prints it, for servers that know no such constraints.
    let not = if check.is_enforced { "" } else { " /*!80016 NOT ENFORCED */" };
    format!("CONSTRAINT {} CHECK (({})){not}", quoted(&check.name), check.text)
}

fn olap_tail(table: &Table) -> String {
    let keys = &table.schema().columns[..table.key_columns];
    let keys = keys.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ");
    let mut tail = match table.key_model {
        KeyModel::Duplicate => format!(" ENGINE=OLAP\nDUPLICATE KEY({keys})"),
        KeyModel::Unique => format!(" ENGINE=OLAP\nUNIQUE KEY({keys})"),
        KeyModel::Aggregate => format!(" ENGINE=OLAP\nAGGREGATE KEY({keys})"),
        KeyModel::Primary => " ENGINE=OLAP".to_owned(),
    };
    if !table.comment.is_empty() {
        tail += &format!("\nCOMMENT {}", text(&table.comment));
    }
    tail += "\n";
    if let Some(by) = &table.partition_by {
        tail += &partition::clause(table, by);
        tail += "\n";
    }
    tail += &placement(table);
    tail += "\n";
    let sequence = sequence(table.schema()).into_iter();
    tail += &property_list(
        sequence.chain(properties::effective(table.key_model, &table.properties)).collect(),
    );
    tail
}

/// The property that says which of several rows of a key stays.
fn sequence(schema: &TableSchema) -> Option<(String, String)> {
    let at = schema.position_of(schema.sequence?)?;
    let (key, value) = match schema.hidden_sequence() {
        Some(_) => (properties::SEQUENCE_TYPE, schema.columns[at].type_text()),
        None => (properties::SEQUENCE_COL, schema.columns[at].name.clone()),
    };
    Some((key.to_owned(), value))
}

fn mysql_tail(table: &Table, next_id: Option<u64>) -> String {
    let mut tail = " ENGINE=InnoDB".to_owned();
    if let Some(next) = next_id.filter(|next| *next > 1) {
        tail += &format!(" AUTO_INCREMENT={next}");
    }
    tail += &format!(" DEFAULT CHARSET=utf8mb4 COLLATE={}", table.collation.name());
    if !table.comment.is_empty() {
        tail += &format!(" COMMENT={}", text(&table.comment));
    }
    // Only if it was written, so that a table without it has a statement that MySQL accepts.
    let by_key = table.row_key().map(|key| Distribution::Hash(key.columns.clone()));
    let is_default = match table.key_model {
        KeyModel::Primary if table.has_row_ids() => table.is_random(),
        KeyModel::Primary => Some(&table.distribution) == by_key.as_ref(),
        _ => table.distribution == Distribution::Random,
    };
    if let Some(by) = &table.partition_by {
        tail += &format!("\n {}", partition::clause(table, by));
    }
    // What divides partitions stands in their clause.
    let has_sub = table.partition_by.is_some() && table.placement.is_some();
    if !has_sub && (table.placement.is_some() || !is_default || !table.buckets_auto) {
        tail += &format!("\n{}", placement(table));
    }
    if table.properties != Properties::default() {
        tail += &format!(
            "\n{}",
            property_list(properties::effective(table.key_model, &table.properties))
        );
    }
    tail
}

/// Where its rows are, as it was written.
fn placement(table: &Table) -> String {
    table.placement.as_ref().map_or_else(|| distribution(table), |clause| clause.text.clone())
}

fn distribution(table: &Table) -> String {
    let by = match &table.distribution {
        Distribution::Hash(ids) if !table.is_random() => {
            let schema = table.schema();
            let names = ids.iter().map(|&id| {
                let at = schema.position_of(id).expect("hashed columns are never dropped");
                quoted(&schema.columns[at].name)
            });
            format!("HASH({})", names.collect::<Vec<_>>().join(", "))
        }
        _ => "RANDOM".to_owned(),
    };
    match table.buckets_auto {
        false => format!("DISTRIBUTED BY {by} BUCKETS {}", table.buckets),
        true => format!("DISTRIBUTED BY {by} BUCKETS AUTO"),
    }
}

fn property_list(pairs: Vec<(String, String)>) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let lines = pairs.iter().map(|(k, v)| format!("\"{}\" = \"{}\"", escaped(k), escaped(v)));
    format!("PROPERTIES (\n{}\n)", lines.collect::<Vec<_>>().join(",\n"))
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A string literal with the same meaning in every SQL mode except NO_BACKSLASH_ESCAPES.
fn text(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('\'');
    for c in text.chars() {
        match c {
            '\'' => literal.push_str("''"),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\0' => literal.push_str("\\0"),
            c => literal.push(c),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests;
