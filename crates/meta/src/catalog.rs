//! The catalog of databases, tables, views, users and workload groups, an immutable value shared by
//! all readers.

use std::sync::Arc;

use freshet_base::{DbId, Result, TableId, bail, err};
use freshet_schema::{Collation, Table};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::keys;
use crate::store::{Batch, MetaStore};
use crate::user::{Account, User};
use crate::view::View;
use crate::workload::WorkloadGroup;

/// The database with tables that describe the server.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// The database with tables about connections, variables and the state of the server.
pub const PERFORMANCE_SCHEMA: &str = "performance_schema";
/// Databases that always exist and cannot be created, dropped or written to.
pub const RESERVED_DATABASES: [&str; 4] = [INFORMATION_SCHEMA, "mysql", PERFORMANCE_SCHEMA, "sys"];

/// Whether `name` is a reserved database; case-insensitive, as in MySQL.
pub fn is_reserved_database(name: &str) -> bool {
    RESERVED_DATABASES.iter().any(|reserved| reserved.eq_ignore_ascii_case(name))
}

/// The MODE of a database of PolarDB-X: shown, without effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatabaseMode {
    Auto,
    Drds,
}

impl DatabaseMode {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Drds => "drds",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Database {
    /// Never reused.
    pub id: DbId,
    /// Its case-sensitive name.
    pub name: String,
    /// Creation time, in microseconds since 1970-01-01 UTC.
    pub created_micros: i64,
    /// MODE, if it was given.
    pub mode: Option<DatabaseMode>,
    /// That of new tables that name none; `None` in databases that are older than collations, whose
    /// tables have that of the server.
    pub collation: Option<Collation>,
    /// When it was dropped into the recycle bin, microseconds since 1970-01-01 UTC.
    pub dropped_micros: Option<i64>,
    /// Its tables by case-sensitive name.
    pub tables: OrdMap<String, Arc<Table>>,
    /// Its sequences, which have names of their own.
    pub sequences: OrdMap<String, Arc<Table>>,
}

impl Database {
    /// The tables, or sequences, that share a space of names with this one.
    pub(crate) fn beside(&self, table: &Table) -> &OrdMap<String, Arc<Table>> {
        if table.sequence.is_some() { &self.sequences } else { &self.tables }
    }

    fn beside_mut(&mut self, table: &Table) -> &mut OrdMap<String, Arc<Table>> {
        if table.sequence.is_some() { &mut self.sequences } else { &mut self.tables }
    }
}

/// What the store has of a database, and changes.
#[derive(Clone, PartialEq, Debug)]
struct DatabaseHead {
    name: String,
    collation: Option<Collation>,
    dropped_micros: Option<i64>,
}

/// Databases, tables, views and users at one point in time. Immutable once shared, and cheap to
/// clone.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Catalog {
    databases: OrdMap<String, Arc<Database>>,
    /// Those in the recycle bin, which have no name.
    dropped: OrdMap<DbId, Arc<Database>>,
    heads: OrdMap<DbId, DatabaseHead>,
    tables: OrdMap<TableId, Arc<Table>>,
    users: OrdMap<Account, Arc<User>>,
    /// By database and name.
    views: OrdMap<(DbId, String), Arc<View>>,
    /// Workload groups by name.
    groups: OrdMap<String, Arc<WorkloadGroup>>,
}

impl Catalog {
    /// Loads the catalog from a store.
    pub(crate) fn load(store: &dyn MetaStore) -> Result<Self> {
        let mut catalog = Self::default();
        for (key, bytes) in store.scan(keys::DATABASES)? {
            catalog.put_database(keys::decode(&key, &bytes)?);
        }
        for (key, bytes) in store.scan(keys::TABLES)? {
            let table = keys::decode::<Table>(&key, &bytes)?;
            if !catalog.heads.contains_key(&table.db) {
                return Err(err!(
                    Corruption,
                    "metadata at '{key}': table '{}' is of database {}, which does not exist",
                    table.name,
                    table.db
                ));
            }
            catalog.put_table(Arc::new(table));
        }
        for (key, bytes) in store.scan(keys::USERS)? {
            catalog.put_user(keys::decode(&key, &bytes)?);
        }
        for (key, bytes) in store.scan(keys::VIEWS)? {
            catalog.put_view(Arc::new(keys::decode(&key, &bytes)?));
        }
        // It is in the store once it has been altered.
        catalog.put_group(Arc::new(WorkloadGroup::normal()));
        for (key, bytes) in store.scan(keys::WORKLOAD_GROUPS)? {
            catalog.put_group(Arc::new(keys::decode(&key, &bytes)?));
        }
        Ok(catalog)
    }

    /// Adds the changes to `batch` that turn a store with `old` into one with `self`.
    pub(crate) fn difference(
        &self,
        old: &Self,
        store: &dyn MetaStore,
        batch: &mut Batch,
    ) -> Result<()> {
        for item in old.tables.diff(&self.tables) {
            match item {
                DiffItem::Add(id, table) | DiffItem::Update { new: (id, table), .. } => {
                    batch.put.push((keys::table(*id), keys::encode(&**table)));
                }
                DiffItem::Remove(id, _) => batch.delete.push(keys::table(*id)),
            }
        }
        for item in old.users.diff(&self.users) {
            match item {
                DiffItem::Add(account, user) | DiffItem::Update { new: (account, user), .. } => {
                    batch.put.push((keys::user(account), keys::encode(&**user)));
                }
                DiffItem::Remove(account, _) => batch.delete.push(keys::user(account)),
            }
        }
        for item in old.views.diff(&self.views) {
            match item {
                DiffItem::Add((db, name), view)
                | DiffItem::Update { new: ((db, name), view), .. } => {
                    batch.put.push((keys::view(*db, name), keys::encode(&**view)));
                }
                DiffItem::Remove((db, name), _) => batch.delete.push(keys::view(*db, name)),
            }
        }
        for item in old.groups.diff(&self.groups) {
            match item {
                DiffItem::Add(name, group) | DiffItem::Update { new: (name, group), .. } => {
                    batch.put.push((keys::workload_group(name), keys::encode(&**group)));
                }
                DiffItem::Remove(name, _) => batch.delete.push(keys::workload_group(name)),
            }
        }
        // By id, since a database may have replaced a dropped one of the same name.
        for item in old.heads.diff(&self.heads) {
            match item {
                DiffItem::Add(id, _) | DiffItem::Update { new: (id, _), .. } => {
                    let database = self.database_by_id(*id).expect("names and databases agree");
                    batch.put.push((keys::database(*id), keys::encode(&**database)));
                }
                DiffItem::Remove(id, _) => {
                    let labels = store.scan(&keys::labels(*id))?.into_iter().map(|(key, _)| key);
                    batch.delete.push(keys::database(*id));
                    batch.delete.extend(labels);
                }
            }
        }
        Ok(())
    }

    pub fn database(&self, name: &str) -> Option<&Arc<Database>> {
        self.databases.get(name)
    }

    pub fn database_by_id(&self, id: DbId) -> Option<&Arc<Database>> {
        let head = self.heads.get(&id)?;
        match head.dropped_micros {
            Some(_) => self.dropped.get(&id),
            None => self.databases.get(&head.name),
        }
    }

    /// The name of a table's database, for messages; empty if it does not exist any more.
    pub fn database_name(&self, table: &Table) -> &str {
        self.database_by_id(table.db).map_or("", |database| &database.name)
    }

    /// All databases created by users, ordered by name.
    pub fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.databases.values()
    }

    /// The databases in the recycle bin, ordered by id.
    pub fn dropped_databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.dropped.values()
    }

    /// The table with this name. Does not allocate.
    pub fn table(&self, database: &str, table: &str) -> Option<&Arc<Table>> {
        self.databases.get(database)?.tables.get(table)
    }

    /// The table or sequence with this id, listed or not.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }

    /// All tables and sequences, ordered by id, including unlisted ones.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The database with this name.
    ///
    /// # Errors
    /// 1049 if it does not exist.
    pub fn require_database(&self, name: &str) -> Result<&Arc<Database>> {
        self.database(name).ok_or_else(|| err!(UnknownDatabase, "Unknown database '{name}'"))
    }

    /// The table with this name.
    ///
    /// # Errors
    /// 1049 if the database does not exist, 1146 if the table does not, 1347 for a view, and 1044
    /// in a database of the system: statements that change tables ask for them here.
    pub fn require_table(&self, database: &str, table: &str) -> Result<&Arc<Table>> {
        if is_reserved_database(database) {
            bail!(AccessDeniedDatabase, "Access denied to database '{database}': read only");
        }
        let home = self.require_database(database)?;
        home.tables.get(table).ok_or_else(|| match self.view(database, table) {
            Some(_) => err!(WrongObject, "'{database}.{table}' is not BASE TABLE"),
            None => err!(NoSuchTable, "Table '{database}.{table}' doesn't exist"),
        })
    }

    /// The table with this name, for DROP TABLE; `None` if it does not exist and `if_exists` is
    /// set.
    ///
    /// # Errors
    /// 1051 if it does not exist and `if_exists` is not set.
    pub fn table_to_drop(
        &self,
        database: &str,
        table: &str,
        if_exists: bool,
    ) -> Result<Option<&Arc<Table>>> {
        match self.table(database, table) {
            None if !if_exists => Err(err!(
                TableDropMissing,
                "Unknown table '{database}.{table}': Unknown table '{table}' in {database}"
            )),
            found => Ok(found),
        }
    }

    /// The view with this name.
    pub fn view(&self, database: &str, name: &str) -> Option<&Arc<View>> {
        // Most catalogs have none, and every query asks.
        if self.views.is_empty() {
            return None;
        }
        self.views.get(&(self.database(database)?.id, name.to_owned()))
    }

    /// All views, ordered by database and name.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.views.values()
    }

    /// The workload group of this name.
    pub fn group(&self, name: &str) -> Option<&Arc<WorkloadGroup>> {
        self.groups.get(name)
    }

    /// All workload groups, ordered by name.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<WorkloadGroup>> {
        self.groups.values()
    }

    /// The account with exactly this name and host pattern.
    pub fn user(&self, account: &Account) -> Option<&Arc<User>> {
        self.users.get(account)
    }

    /// The account that a client with this name and host logs in as: the one with the most specific
    /// host pattern, so `10.0.0.7` before `10.%` before `%`.
    pub fn user_for(&self, name: &str, host: &str) -> Option<&Arc<User>> {
        let users = self.users.values().filter(|user| user.account.name == name);
        users
            .filter(|user| user.account.matches_host(host))
            .max_by_key(|user| user.account.host_weight())
    }

    /// All users, ordered by name and host.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// Inserts a database, replacing the one with the same id.
    pub(crate) fn put_database(&mut self, database: Database) {
        self.take_database(database.id);
        let (name, dropped_micros) = (database.name.clone(), database.dropped_micros);
        let head =
            DatabaseHead { name: name.clone(), collation: database.collation, dropped_micros };
        self.heads.insert(database.id, head);
        match dropped_micros {
            Some(_) => self.dropped.insert(database.id, Arc::new(database)),
            None => self.databases.insert(name, Arc::new(database)),
        };
    }

    fn take_database(&mut self, id: DbId) {
        if let Some(head) = self.heads.remove(&id) {
            match head.dropped_micros {
                Some(_) => self.dropped.remove(&id),
                None => self.databases.remove(&head.name),
            };
        }
    }

    /// Gives a database another collation, if it still exists.
    pub(crate) fn collate_database(&mut self, id: DbId, collation: Collation) {
        if let Some(database) = self.database_by_id(id) {
            let database = Database { collation: Some(collation), ..Database::clone(database) };
            self.put_database(database);
        }
    }

    pub(crate) fn remove_database(&mut self, database: &Database) {
        self.take_database(database.id);
        let of_it = self.views.keys().filter(|(db, _)| *db == database.id);
        for key in of_it.cloned().collect::<Vec<_>>() {
            self.views.remove(&key);
        }
    }

    /// Inserts a table, replacing the one with the same id.
    pub(crate) fn put_table(&mut self, table: Arc<Table>) {
        self.remove_table(table.id);
        if !table.unlisted {
            let database = self.database_mut(table.db);
            database.beside_mut(&table).insert(table.name.clone(), table.clone());
        }
        self.tables.insert(table.id, table);
    }

    pub(crate) fn remove_table(&mut self, id: TableId) {
        if let Some(table) = self.tables.remove(&id)
            && !table.unlisted
        {
            self.database_mut(table.db).beside_mut(&table).remove(&table.name);
        }
    }

    /// Inserts a view, replacing the one of its name.
    pub(crate) fn put_view(&mut self, view: Arc<View>) {
        self.views.insert((view.db, view.name.clone()), view);
    }

    pub(crate) fn remove_view(&mut self, db: DbId, name: &str) {
        self.views.remove(&(db, name.to_owned()));
    }

    /// Inserts a workload group, replacing the one of its name.
    pub(crate) fn put_group(&mut self, group: Arc<WorkloadGroup>) {
        self.groups.insert(group.name.clone(), group);
    }

    /// Removes a workload group and the grants on it.
    pub(crate) fn remove_group(&mut self, name: &str) {
        self.groups.remove(name);
        let holds = |user: &&Arc<User>| user.groups.iter().any(|group| group == name);
        for user in self.users.values().filter(holds).cloned().collect::<Vec<_>>() {
            let mut user = User::clone(&user);
            user.groups.retain(|group| group != name);
            self.put_user(user);
        }
    }

    pub(crate) fn put_user(&mut self, user: User) {
        self.users.insert(user.account.clone(), Arc::new(user));
    }

    /// Removes a user or role; as a role nobody has it any more.
    pub(crate) fn remove_user(&mut self, account: &Account) {
        self.users.remove(account);
        let holds = |user: &&Arc<User>| user.holds(account) || user.default_roles.contains(account);
        for user in self.users.values().filter(holds).cloned().collect::<Vec<_>>() {
            let mut user = User::clone(&user);
            user.roles.retain(|granted| granted.role != *account);
            user.default_roles.retain(|role| role != account);
            self.put_user(user);
        }
    }

    fn database_mut(&mut self, id: DbId) -> &mut Database {
        let head = self.heads.get(&id).expect("a table's database is in the catalog");
        let database = match head.dropped_micros {
            Some(_) => self.dropped.get_mut(&id),
            None => self.databases.get_mut(&head.name),
        };
        Arc::make_mut(database.expect("names and databases agree"))
    }
}
