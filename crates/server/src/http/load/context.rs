//! What the expressions of a load see: the rows of its body, and the values that sessions start
//! with.

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_meta::Account;
use freshet_query::engine::StatementContext;
use freshet_query::mapping::{BODY, table};
use freshet_query::session::{Session, SqlMode};
use freshet_query::tables::{Table, Tables};
use freshet_schema::{TableSchema, Zone};

use crate::http::Http;
use crate::reader::{SessionVariables, limits};

pub(super) struct LoadContext {
    /// The rows of the body.
    seen: Arc<TableSchema>,
    database: String,
    user: String,
    version: String,
    zone: Zone,
    zone_name: String,
    variables: SessionVariables,
}

impl LoadContext {
    pub(super) fn new(
        http: &Http,
        account: &Account,
        database: &str,
        zone: Zone,
        seen: Arc<TableSchema>,
    ) -> Arc<Self> {
        let now_micros = http.clock().wall_micros();
        Arc::new(Self {
            seen,
            database: database.to_owned(),
            user: format!("{}@{}", account.name, account.host),
            version: http.config.version.clone(),
            zone,
            zone_name: zone.to_string(),
            variables: SessionVariables::of_globals(&http.globals, now_micros),
        })
    }
}

impl StatementContext for LoadContext {
    fn session(&self) -> Session<'_> {
        Session {
            database: Some(&self.database),
            user: &self.user,
            current_user: &self.user,
            current_role: "NONE",
            version: &self.version,
            connection_id: 0,
            last_insert_id: 0,
            row_count: 0,
            found_rows: 0,
            now_micros: self.variables.now_micros(),
            clock_micros: self.variables.now_micros(),
            zone: self.zone,
            zone_name: &self.zone_name,
            mode: SqlMode::default(),
            limits: limits(self.variables.globals()),
            variables: &self.variables,
        }
    }
}

impl Tables for LoadContext {
    fn table(&self, database: &str, name: &str) -> Result<Table> {
        if name != BODY {
            bail!(NotSupported, "a load reads its body alone, not table '{database}.{name}'");
        }
        Ok(table(&self.seen))
    }
}
