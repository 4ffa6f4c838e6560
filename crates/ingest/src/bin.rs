//! The recycle bin: DROP TABLE without FORCE takes a table out of the list, and leaves it whole. It
//! can be recovered until its time is over (`recycle_bin_keep`); then it is dropped like any
//! other. While the disk is full nothing is kept.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{DbId, Error, ErrorCode, PartitionId, Result, TableId};
use freshet_meta::{Definition, MetaEvent};

use crate::ddl::Ddl;
use crate::periodic::Periodic;
use crate::record::BarrierBody;
use crate::state::TableState;
use crate::store::Store;

/// How often tables are looked for whose time is over.
const INTERVAL: Duration = Duration::from_secs(10);

impl Ddl {
    /// Drops a table into the recycle bin. Returns whether it existed; an error if not, unless IF
    /// EXISTS was given. It is dropped for good if the bin keeps nothing, or the log or the disk is
    /// full.
    ///
    /// # Errors
    /// `TableDropMissing`, and those of the log.
    pub async fn bin_table(&self, database: &str, name: &str, if_exists: bool) -> Result<bool> {
        self.term.begun().await?;
        if self.store.config.recycle_bin_keep.is_zero() {
            return self.drop_table(database, name, if_exists).await;
        }
        let room = match self.room_of_definition().await {
            Err(error) if is_full(&error) => {
                return self.drop_table(database, name, if_exists).await;
            }
            room => room?,
        };
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let Some(table) = catalog.table_to_drop(database, name, if_exists)? else {
            return Ok(false);
        };
        let at_micros = self.store.clock().wall_micros();
        let change = Definition::Dropped { at_micros };
        let event = MetaEvent::Define { table: table.id, change };
        self.settler.define_tables(&self.states_of(&[table.id])?, event, room).await?;
        Ok(true)
    }

    /// Brings a table back from the recycle bin, under `new_name` or its own.
    ///
    /// # Errors
    /// 1049 and 1051 for what is not there, 1050 if the name is taken, 1103 if it is invalid.
    pub async fn recover_table(
        &self,
        (database, name): (&str, &str),
        id: Option<TableId>,
        new_name: Option<&str>,
    ) -> Result<()> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let table = catalog.table_in_bin(database, name, id)?.id;
        let new_name = new_name.unwrap_or(name);
        catalog.check_name(table, new_name)?;
        let change = Definition::Recovered(new_name.to_owned());
        let event = MetaEvent::Define { table, change };
        self.settler.define_tables(&self.states_of(&[table])?, event, room).await
    }

    /// Drops a database into the recycle bin, with all its tables; for good if the bin keeps
    /// nothing, or the log or the disk is full. Returns whether it existed; an error if not, unless
    /// IF EXISTS was given.
    ///
    /// # Errors
    /// `DatabaseDropMissing`, and those of the log.
    pub async fn bin_database(&self, name: &str, if_exists: bool) -> Result<bool> {
        self.term.begun().await?;
        if self.store.config.recycle_bin_keep.is_zero() {
            return self.drop_database(name, if_exists).await;
        }
        let room = match self.room_of_definition().await {
            Err(error) if is_full(&error) => return self.drop_database(name, if_exists).await,
            room => room?,
        };
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let Some(database) = catalog.database_to_drop(name, if_exists)? else { return Ok(false) };
        let (database, at_micros) = (database.id, self.store.clock().wall_micros());
        let event = MetaEvent::BinDatabase { database, at_micros };
        self.settler.define_database(&self.states_beside_bin(database), event, room).await?;
        Ok(true)
    }

    /// Brings a database back from the recycle bin, under `new_name` or its own.
    ///
    /// # Errors
    /// 1008 for what is not there, 1007 if the name is taken, 1102 if it is invalid.
    pub async fn recover_database(
        &self,
        name: &str,
        id: Option<DbId>,
        new_name: Option<&str>,
    ) -> Result<()> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let database = catalog.database_in_bin(name, id)?.id;
        let name = new_name.unwrap_or(name).to_owned();
        catalog.check_database_name(&name)?;
        let event = MetaEvent::RecoverDatabase { database, name };
        self.settler.define_database(&self.states_beside_bin(database), event, room).await
    }

    /// Drops a database of the recycle bin for good. Returns whether it was there.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn drop_database_from_bin(&self, id: DbId) -> Result<bool> {
        self.term.begun().await?;
        let _names = self.lock_names().await;
        // It may have been recovered.
        let is_there = self.store.meta().catalog().dropped_databases().any(|one| one.id == id);
        if is_there {
            self.drop_with_tables(id).await?;
        }
        Ok(is_there)
    }

    /// The tables of a database that are not in the recycle bin by themselves.
    fn states_beside_bin(&self, database: DbId) -> Vec<Arc<TableState>> {
        let catalog = self.store.meta().catalog();
        let of_it = catalog.tables_of(database).into_iter();
        let of_it = of_it.filter(|table| table.dropped_micros.is_none());
        let states = of_it.filter_map(|table| self.store.tables.state(table.id));
        // What another table has replaced is dropped in a moment.
        states.filter(|state| !state.gate.is_replaced()).collect()
    }

    /// Drops a table of the recycle bin for good. Returns whether it was there.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn drop_from_bin(&self, id: TableId) -> Result<bool> {
        self.term.begun().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        // It may have been recovered, or dropped with its database.
        if !catalog.bin().any(|table| table.id == id) {
            return Ok(false);
        }
        let states = self.states_of(&catalog.with_temporary(id))?;
        self.barrier(BarrierBody::Drop, &states).await?;
        Ok(true)
    }
}

pub(crate) fn is_full(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::OutOfRoom | ErrorCode::DiskFull)
}

/// Refuses loads into the tables of the bin, as their drop did before the start.
pub(crate) fn close(store: &Store) {
    let catalog = store.meta().catalog();
    let in_bin = catalog.tables().filter(|table| catalog.is_in_bin(table));
    let states = in_bin.filter_map(|table| store.tables.state(table.id));
    states.for_each(|state| state.lock().set_in_bin(true));
}

/// What is to go for good.
#[derive(PartialEq, Eq)]
struct Over {
    tables: Vec<TableId>,
    databases: Vec<DbId>,
    partitions: Vec<(TableId, PartitionId)>,
}

/// Drops what is in the recycle bin and whose time is over.
pub(crate) struct Emptier {
    store: Arc<Store>,
    ddl: Arc<Ddl>,
    job: Periodic,
}

impl Emptier {
    pub fn new(store: Arc<Store>, ddl: Arc<Ddl>) -> Self {
        Self { store, ddl, job: Periodic::every(INTERVAL) }
    }

    /// Begins to drop tables, if it is time.
    pub fn plan(&self) {
        self.job.plan(&self.store, "recycle bin", || {
            let Over { tables, databases, partitions } = self.over();
            let ddl = Arc::clone(&self.ddl);
            let is_any = !tables.is_empty() || !databases.is_empty() || !partitions.is_empty();
            is_any.then_some(async move {
                for database in databases {
                    if let Err(error) = ddl.drop_database_from_bin(database).await {
                        tracing::warn!(
                            %database,
                            %error,
                            "a database stays in the recycle bin; retried"
                        );
                    }
                }
                for (table, partition) in partitions {
                    if let Err(error) = ddl.forget_partitions(table, vec![partition]).await {
                        tracing::warn!(
                            %table,
                            %partition,
                            %error,
                            "a partition stays in the recycle bin; retried"
                        );
                    }
                }
                for table in tables {
                    if let Err(error) = ddl.drop_from_bin(table).await {
                        tracing::warn!(%table, %error, "a table stays in the recycle bin; retried");
                    }
                }
            })
        });
    }

    /// What is over; all of the bin while the disk is full.
    fn over(&self) -> Over {
        let (catalog, fold) = (self.store.tables.catalog(), self.store.meta().fold());
        let keep = self.store.config.recycle_bin_keep.as_micros();
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        let least = self.store.clock().wall_micros().saturating_sub(keep);
        let of_before = |most: i64| {
            let is_over = |dropped: Option<i64>| dropped.is_some_and(|at| at <= most);
            let tables = catalog.bin().filter(|table| is_over(table.dropped_micros));
            let databases = catalog.dropped_databases();
            let databases = databases.filter(|database| is_over(database.dropped_micros));
            // Those of tables that are in the bin themselves go with these.
            let is_beside = |id| catalog.table_by_id(id).is_some_and(|own| !catalog.is_in_bin(own));
            let partitions = fold.resting().into_iter().map(|one| one.resting);
            let partitions = partitions.filter(|one| is_over(Some(one.dropped_micros)));
            let partitions = partitions.filter(|one| is_beside(one.table));
            Over {
                tables: tables.map(|table| table.id).collect(),
                databases: databases.map(|database| database.id).collect(),
                partitions: partitions.map(|one| (one.table, one.partition.id)).collect(),
            }
        };
        let (over, all) = (of_before(least), of_before(i64::MAX));
        if all != over && self.store.disk.may_grow().is_err() {
            tracing::warn!(
                tables = all.tables.len(),
                databases = all.databases.len(),
                partitions = all.partitions.len(),
                "the disk is full: the recycle bin is emptied"
            );
            return all;
        }
        over
    }

    pub fn is_busy(&self) -> bool {
        self.job.is_busy()
    }
}
