//! Names of tables: RENAME, and what is done where a name is taken behind a hole in the log.

use std::collections::HashSet;
use std::sync::Arc;

use freshet_base::{DbId, TableId};
use freshet_schema::Table;

use super::{Definition, Fold, MetaEvent, Moved};
use crate::names;

/// A database, and a table in it.
type Place = (String, String);

impl Fold {
    /// The places of tables that stay in their databases; `None` if one does not exist.
    pub(super) fn placed(&self, tables: &[(TableId, String)]) -> Option<Vec<Moved>> {
        let place = |(id, name): &(TableId, String)| {
            let database = self.catalog.table_by_id(*id)?.db;
            Some(Moved { table: *id, database, name: name.clone() })
        };
        tables.iter().map(place).collect()
    }

    /// Gives tables other names, all or none of them: a table may take the name of another one that
    /// is renamed too.
    pub(super) fn rename(&mut self, moved: &[Moved]) -> bool {
        let next = moved.iter().map(|Moved { table, database, name }| {
            let table = self.catalog.table_by_id(*table)?;
            self.catalog.database_by_id(*database)?;
            Some(Arc::new(Table { db: *database, ..renamed(table, name) }))
        });
        let Some(next) = next.collect::<Option<Vec<_>>>() else { return false };
        let listed = next.iter().filter(|table| !table.unlisted).collect::<Vec<_>>();
        let names = listed.iter().map(|table| (table.db, &table.name)).collect::<HashSet<_>>();
        if names.len() < listed.len() || !self.in_the_way(moved).is_empty() {
            return false;
        }
        let places = next.iter().filter_map(|table| self.place_behind(table)).collect::<Vec<_>>();
        // All of them first: one may take the name of another.
        let catalog = Arc::make_mut(&mut self.catalog);
        next.iter().for_each(|table| catalog.remove_table(table.id));
        next.into_iter().for_each(|table| self.put_table(table));
        self.follow(&places);
        true
    }

    /// The place of a table before and behind a RENAME, unless it is unlisted.
    fn place_behind(&self, table: &Table) -> Option<(Place, Place)> {
        let before = self.catalog.table_by_id(table.id).filter(|table| !table.unlisted)?;
        let place =
            |table: &Table| (self.catalog.database_name(table).to_owned(), table.name.clone());
        Some((place(before), place(table)))
    }

    /// Lets foreign keys name the tables that they reference as these are called now, as in MySQL.
    fn follow(&mut self, places: &[(Place, Place)]) {
        let next = self.catalog.tables().filter_map(|table| self.followed(table, places));
        for table in next.collect::<Vec<_>>() {
            self.put_table(Arc::new(table));
        }
    }

    /// A table whose foreign keys follow these; `None` if they say the same as before.
    fn followed(&self, table: &Table, places: &[(Place, Place)]) -> Option<Table> {
        if table.foreign_keys.is_empty() {
            return None;
        }
        let home = self.catalog.database_name(table);
        let is_own = |(_, now): &&(Place, Place)| now.0 == home && now.1 == table.name;
        let own = places.iter().find(is_own).filter(|_| !table.unlisted);
        // A name without its database is one of the database that the table was in.
        let home_before = own.map_or(home, |(before, _)| &before.0);
        // Where another table takes the name, as by REPLACE WITH TABLE, it is that one which is
        // meant from then on, but for references of a table to itself.
        let is_left = |left: &Place| places.iter().all(|(_, now)| now != left);
        let place = |database: &str, name: &str| {
            let is_it = |place: &&(Place, Place)| {
                let before = &place.0;
                let is_named = before.0 == database && before.1 == name;
                is_named && (own == Some(*place) || is_left(before))
            };
            places.iter().find(is_it).map(|(_, now)| now)
        };
        let next = table.foreign_keys.iter().map(|key| {
            let database = key.database.as_deref().unwrap_or(home_before);
            let now = place(database, &key.table).map(|(database, name)| (&**database, &**name));
            let (database, name) = now.unwrap_or((database, &key.table));
            let is_at_home = database == home && key.database.is_none();
            (if is_at_home { None } else { Some(database) }, name)
        });
        let next = next.collect::<Vec<_>>();
        let known = table.foreign_keys.iter().map(|key| (key.database.as_deref(), &*key.table));
        if known.eq(next.iter().copied()) {
            return None;
        }
        let mut followed = Table::clone(table);
        for (key, (database, name)) in followed.foreign_keys.iter_mut().zip(next) {
            key.database = database.map(str::to_owned);
            name.clone_into(&mut key.table);
        }
        Some(followed)
    }

    /// The listed tables that have one of these names and are not renamed themselves.
    fn in_the_way(&self, moved: &[Moved]) -> Vec<Arc<Table>> {
        let holder = |Moved { table, database, name }: &Moved| {
            let table = self.catalog.table_by_id(*table).filter(|table| !table.unlisted)?;
            self.holder_in(*database, table, name)
        };
        let stays = |table: &Arc<Table>| moved.iter().all(|moved| moved.table != table.id);
        moved.iter().filter_map(holder).filter(stays).collect()
    }

    /// Whether a table can get this name.
    pub(super) fn is_free(&self, table: &Table, name: &str) -> bool {
        let database = self.catalog.database_by_id(table.db);
        database.is_some_and(|database| !database.beside(table).contains_key(name))
    }

    /// Gives other names to the tables that stand in the way of `event`, since the records that
    /// removed or renamed them were given up with a hole in the log. Returns their names before and
    /// after.
    pub(crate) fn make_way(&mut self, event: &MetaEvent) -> Vec<(String, String)> {
        let others = match event {
            MetaEvent::Create(table) if !table.unlisted => self.holder(table, &table.name),
            MetaEvent::Define { table, change } => {
                let table = self.catalog.table_by_id(*table);
                table.and_then(|table| match change {
                    Definition::Name(name) | Definition::Recovered(name) => {
                        self.holder(table, name)
                    }
                    Definition::Listed => self.holder(table, &table.name),
                    _ => None,
                })
            }
            MetaEvent::Rename(tables) => {
                let others = self.placed(tables).map(|moved| self.in_the_way(&moved));
                return self.rename_others(others.unwrap_or_default());
            }
            MetaEvent::Move(moved) => return self.rename_others(self.in_the_way(moved)),
            _ => None,
        };
        self.rename_others(others.into_iter().collect())
    }

    /// The listed table that has a name which this one is to get.
    fn holder(&self, table: &Table, name: &str) -> Option<Arc<Table>> {
        self.holder_in(table.db, table, name)
    }

    /// As [`Self::holder`], in another database.
    fn holder_in(&self, database: DbId, table: &Table, name: &str) -> Option<Arc<Table>> {
        self.catalog.database_by_id(database)?.beside(table).get(name).cloned()
    }

    fn rename_others(&mut self, others: Vec<Arc<Table>>) -> Vec<(String, String)> {
        let mut renamed = Vec::new();
        for other in others {
            let mut names = names::similar(&other.name);
            let Some(name) = names.find(|name| self.is_free(&other, name)) else { continue };
            self.define(other.id, &Definition::Name(name.clone()));
            renamed.push((other.name.clone(), name));
        }
        renamed
    }
}

/// A table under another name.
pub(super) fn renamed(table: &Table, name: &str) -> Table {
    let mut next = Table::clone(table);
    // The single partition has the name of its table.
    if table.partition_by.is_none() {
        next.partitions.iter_mut().for_each(|partition| name.clone_into(&mut partition.name));
    }
    name.clone_into(&mut next.name);
    next
}

#[cfg(test)]
mod tests;
