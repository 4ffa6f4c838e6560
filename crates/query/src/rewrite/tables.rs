//! The names of tables, and `t.*` where FROM names the table with its database.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use freshet_meta::is_reserved_database;
use sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, Visitor,
};

use crate::visit::{visit_expressions_mut, walk};

/// Converts names in system databases, which are case-insensitive, to lower case.
pub fn relation(name: &mut ObjectName) {
    let system = matches!(
        &name.0[..],
        [ObjectNamePart::Identifier(db), _] if is_reserved_database(&db.value)
    );
    for part in &mut name.0 {
        if let ObjectNamePart::Identifier(ident) = part {
            if system {
                ident.value = ident.value.to_lowercase();
            }
            ident.quote_style = Some('`');
        }
    }
}

/// Converts the names of system tables before those of columns to lower case, as [`relation`] does
/// where FROM names them: `SELECT TABLES.TABLE_NAME FROM information_schema.TABLES`.
pub fn before_columns(query: &mut Query) {
    let mut found = SystemNames::default();
    let ControlFlow::Continue(()) = walk(query, &mut found);
    if found.tables.is_empty() {
        return;
    }
    let is_table = |ident: &Ident| {
        let lower = ident.value.to_lowercase();
        found.tables.contains(&lower) && !found.others.contains(&ident.value)
    };
    let _ = visit_expressions_mut(query, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr {
            match &mut parts[..] {
                [table, _] if is_table(table) => table.value = table.value.to_lowercase(),
                [database, table, _] if is_reserved_database(&database.value) => {
                    database.value = database.value.to_lowercase();
                    table.value = table.value.to_lowercase();
                }
                _ => {}
            }
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The names of system tables that a query reads without an alias, in lower case, and what else its
/// tables are called: aliases, WITH, and tables of users.
#[derive(Default)]
struct SystemNames {
    tables: HashSet<String>,
    others: HashSet<String>,
}

impl Visitor for SystemNames {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::JsonTable { alias: Some(alias), .. } => {
                self.others.insert(alias.name.value.clone());
            }
            TableFactor::Table { name, .. } => match &name.0[..] {
                [ObjectNamePart::Identifier(database), ObjectNamePart::Identifier(table)]
                    if is_reserved_database(&database.value) =>
                {
                    self.tables.insert(table.value.to_lowercase());
                }
                [.., ObjectNamePart::Identifier(table)] => {
                    self.others.insert(table.value.clone());
                }
                _ => {}
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.others.extend(named.map(|one| one.alias.name.value.clone()));
        ControlFlow::Continue(())
    }
}

/// Gives `t.*` the databases with which FROM names tables `t`, one item for each of them: the
/// planner would look for `t` in the current database alone.
pub fn with_databases(select: &mut Select) {
    let is_bare = |item: &SelectItem| bare(item).is_some();
    if !select.projection.iter().any(is_bare) {
        return;
    }
    let mut tables = Vec::new();
    select.from.iter().for_each(|from| named_in(from, &mut tables));
    if tables.iter().all(|table| table.0.len() < 2) {
        return;
    }
    let items = std::mem::take(&mut select.projection);
    select.projection = items.into_iter().flat_map(|item| spelled_out(item, &tables)).collect();
}

fn spelled_out(item: SelectItem, tables: &[ObjectName]) -> Vec<SelectItem> {
    let SelectItem::QualifiedWildcard(_, options) = &item else { return vec![item] };
    let Some(wanted) = bare(&item) else { return vec![item] };
    let of = |table: &ObjectName| {
        let kind = SelectItemQualifiedWildcardKind::ObjectName(table.clone());
        SelectItem::QualifiedWildcard(kind, options.clone())
    };
    let found: Vec<_> = tables.iter().filter(|table| is_called(table, wanted)).map(of).collect();
    if found.is_empty() { vec![item] } else { found }
}

/// The table of `t.*` without a database.
fn bare(item: &SelectItem) -> Option<&str> {
    match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            match &name.0[..] {
                [ObjectNamePart::Identifier(table)] => Some(&table.value),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether this is what a table is called. The case of names in system databases has no meaning.
fn is_called(table: &ObjectName, wanted: &str) -> bool {
    match &table.0[..] {
        [ObjectNamePart::Identifier(name)] => name.value == wanted,
        [ObjectNamePart::Identifier(database), ObjectNamePart::Identifier(name)] => {
            let is_system = is_reserved_database(&database.value);
            name.value == wanted || is_system && name.value.eq_ignore_ascii_case(wanted)
        }
        _ => false,
    }
}

/// Adds the names that tables have in FROM, which is their alias if there is one.
fn named_in(from: &TableWithJoins, tables: &mut Vec<ObjectName>) {
    let joined = from.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&from.relation).chain(joined) {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => {
                tables.push(ObjectName::from(vec![alias.name.clone()]));
            }
            // One that is read from some partitions gets its name as alias.
            TableFactor::Table { name, partitions, .. } if !partitions.is_empty() => {
                tables.push(ObjectName(name.0.last().cloned().into_iter().collect()));
            }
            TableFactor::Table { name, .. } => {
                let mut name = name.clone();
                relation(&mut name);
                tables.push(name);
            }
            TableFactor::NestedJoin { table_with_joins, .. } => {
                named_in(table_with_joins, tables);
            }
            _ => {}
        }
    }
}
