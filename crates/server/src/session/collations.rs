//! The collations of new tables and databases.

use freshet_meta::{Catalog, is_reserved_database};
use freshet_query::session::Value;
use freshet_schema::Collation;
use freshet_schema::collation::{COLLATIONS, Named};

use super::Session;
use crate::variables::{self, Values};

/// The name of a collation that columns can have, as MySQL writes it.
///
/// # Errors
/// All that there are, where this is none.
pub fn collation_name(name: &str) -> Result<&'static str, Vec<&'static str>> {
    match Collation::named(name) {
        Some(Named::Known(collation)) => Ok(collation.name()),
        _ => Err(COLLATIONS.map(Collation::name).to_vec()),
    }
}

/// The collation that new databases have which name none: that of `collation_server` in `values`.
fn server_collation(values: &Values) -> Collation {
    let id = variables::find("collation_server").expect("a variable of the registry");
    let found = match id.of(values) {
        Value::Text(name) => Collation::standing_for(name),
        _ => None,
    };
    match found.unwrap_or(Collation::DEFAULT) {
        Collation::Binary => Collation::Utf8mb4Bin,
        collation => collation,
    }
}

/// That of new tables of a database that name none: a database that is older than collations has
/// that of the server.
pub fn collation_of(database: &str, catalog: &Catalog, values: &Values) -> Collation {
    if is_reserved_database(database) {
        return Collation::DEFAULT;
    }
    let own = catalog.database(database).and_then(|database| database.collation);
    own.unwrap_or_else(|| server_collation(values))
}

impl Session {
    /// That of new databases that name none.
    pub fn server_collation(&self) -> Collation {
        server_collation(&self.variables)
    }

    /// That of new tables of a database that name none.
    pub fn collation_of(&self, database: &str) -> Collation {
        collation_of(database, &self.shared.engine.catalog(), &self.variables)
    }

    /// Shows the collation of the current database in the variables that are named after it.
    pub fn show_collation(&mut self) {
        let collation = match &self.database {
            Some(database) => self.collation_of(database),
            None => self.server_collation(),
        };
        for (name, value) in
            [("collation_database", collation.name()), ("character_set_database", "utf8mb4")]
        {
            let id = variables::find(name).expect("a variable of the registry");
            id.put(&mut self.variables, Value::Text(value.to_owned()));
        }
    }
}
