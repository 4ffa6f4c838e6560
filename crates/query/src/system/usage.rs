//! Which tables views read.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use freshet_meta::View;
use sqlparser::ast::{ObjectName, ObjectNamePart, Query, Visitor};

use super::catalog::{CATALOG, visible_views};
use super::wanted::Wanted;
use super::{Cell, SystemTables};
use crate::parser::{Statement, parse};
use crate::views::mode_of;
use crate::visit::walk;

/// The tables that a query names, and its common table expressions, which it may name too.
#[derive(Default)]
struct Names {
    tables: BTreeSet<(Option<String>, String)>,
    expressions: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.expressions.extend(with.map(|cte| cte.alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = |part: &ObjectNamePart| part.as_ident().map(|ident| ident.value.clone());
        let mut names = relation.0.iter().rev().filter_map(name);
        if let Some(table) = names.next() {
            self.tables.insert((names.next(), table));
        }
        ControlFlow::Continue(())
    }
}

/// Databases and names of what a view reads; nothing if its text can no longer be read.
fn read_by(view: &View) -> BTreeSet<(String, String)> {
    let Ok(parsed) = parse(&view.query, mode_of(view)) else { return BTreeSet::new() };
    let [one] = &parsed[..] else { return BTreeSet::new() };
    let Statement::Query(query) = &one.statement else { return BTreeSet::new() };
    let mut names = Names::default();
    let _ = walk(&query.0, &mut names);
    let Names { tables, expressions } = names;
    let of = |(database, table): (Option<String>, String)| match database {
        Some(database) => Some((database, table)),
        None if expressions.contains(&table.to_lowercase()) => None,
        None => view.database.clone().map(|database| (database, table)),
    };
    tables.into_iter().filter_map(of).collect()
}

pub fn of_views(system: &SystemTables) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (home, view) in visible_views(system, &Wanted::ALL) {
        let shown = system.source.may_show_view(&home.name, &view.name);
        let read = if shown { read_by(view) } else { BTreeSet::new() };
        for (database, table) in read {
            if !system.source.may_see_table(&database, &table) {
                continue;
            }
            rows.push(vec![
                CATALOG.into(),
                home.name.as_str().into(),
                view.name.as_str().into(),
                CATALOG.into(),
                database.into(),
                table.into(),
            ]);
        }
    }
    rows
}
