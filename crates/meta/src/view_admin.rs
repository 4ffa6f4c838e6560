//! Statements that change views. Like users and databases, views are committed to metadata at once;
//! statements that assign or free names exclude each other.

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_schema::TableForm;

use crate::catalog::{Catalog, is_reserved_database};
use crate::ddl::{Renaming, views_beside_tables};
use crate::meta::{Change, Meta};
use crate::names;
use crate::view::View;

/// Maximum number of views on a server.
const VIEWS_MAX: usize = 100_000;
/// Maximum length of the query of a view, in bytes.
const QUERY_BYTES_MAX: usize = 1 << 20;

/// What becomes of a view that has the name of one which is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KnownView {
    /// CREATE: there must be none.
    Refused,
    /// CREATE OR REPLACE: it is replaced, if there is one.
    Replaced,
    /// ALTER: it is replaced, and there must be one.
    Changed,
}

impl Meta {
    /// CREATE or ALTER VIEW in the database of this name; its id in `view` is filled in.
    ///
    /// # Errors
    /// 1049, 1050, 1103, 1146 for a view to be changed that is not there, 1347 for a table in place
    /// of the view to be replaced.
    pub fn create_view(&self, database: &str, view: View, known: KnownView) -> Result<()> {
        self.change(|catalog| {
            if is_reserved_database(database) {
                bail!(AccessDeniedDatabase, "Access denied to database '{database}': read only");
            }
            let home = catalog.require_database(database)?;
            names::check_table(&view.name, TableForm::MySql)?;
            let name = &view.name;
            let (is_table, exists) =
                (home.tables.contains_key(name), catalog.view(database, name).is_some());
            match known {
                KnownView::Refused if is_table || exists => {
                    bail!(TableExists, "Table '{name}' already exists");
                }
                KnownView::Replaced | KnownView::Changed if is_table => {
                    bail!(WrongObject, "'{database}.{name}' is not VIEW");
                }
                KnownView::Changed if !exists => {
                    bail!(NoSuchTable, "Table '{database}.{name}' doesn't exist");
                }
                _ => {}
            }
            if view.query.len() > QUERY_BYTES_MAX {
                bail!(TooLarge, "The query of a view has at most {QUERY_BYTES_MAX} bytes");
            }
            if !exists && catalog.views().count() >= VIEWS_MAX {
                bail!(Unknown, "there are {VIEWS_MAX} views, which is the limit");
            }
            let view = Arc::new(View { db: home.id, ..view });
            Ok((Some(Change::of_catalog(move |catalog| catalog.put_view(Arc::clone(&view)))), ()))
        })
    }

    /// Gives views other names inside their databases, from left to right, all or none of them.
    ///
    /// # Errors
    /// 1049 and 1146 for what does not exist, 1050 if a name is taken, 1103 if it is invalid, 1450
    /// for another database; a table among them.
    pub fn rename_views(&self, pairs: &[Renaming]) -> Result<()> {
        self.change(|catalog| {
            let (mut changed, mut moved) = (Catalog::clone(catalog), Vec::new());
            for Renaming { database, from, to_database, to } in pairs {
                let home = changed.require_database(database)?;
                let Some(view) = changed.view(database, from) else {
                    if home.tables.contains_key(from) {
                        return Err(views_beside_tables());
                    }
                    bail!(NoSuchTable, "Table '{database}.{from}' doesn't exist");
                };
                if database != to_database {
                    bail!(
                        SchemaChangeForbidden,
                        "Changing schema from '{database}' to '{to_database}' is not allowed."
                    );
                }
                names::check_table(to, TableForm::MySql)?;
                if home.tables.contains_key(to) || changed.view(database, to).is_some() {
                    bail!(TableExists, "Table '{to}' already exists");
                }
                let view = Arc::new(View { name: to.clone(), ..View::clone(view) });
                changed.remove_view(view.db, from);
                changed.put_view(Arc::clone(&view));
                moved.push((from.clone(), view));
            }
            let change = Change::of_catalog(move |catalog: &mut Catalog| {
                for (from, view) in &moved {
                    catalog.remove_view(view.db, from);
                    catalog.put_view(Arc::clone(view));
                }
            });
            Ok((Some(change), ()))
        })
    }

    /// DROP VIEW of all these, given by database and name; returns those that did not exist.
    ///
    /// # Errors
    /// 1051 unless `if_exists` is set, 1347 for a table; then none is dropped.
    pub fn drop_views(
        &self,
        views: &[(String, String)],
        if_exists: bool,
    ) -> Result<Vec<(String, String)>> {
        self.change(|catalog| {
            let (mut found, mut missing) = (Vec::new(), Vec::new());
            for (database, name) in views {
                match catalog.view(database, name) {
                    Some(view) => found.push((view.db, name.clone())),
                    None if catalog.table(database, name).is_some() => {
                        bail!(WrongObject, "'{database}.{name}' is not VIEW");
                    }
                    None if if_exists => missing.push((database.clone(), name.clone())),
                    None => bail!(TableDropMissing, "Unknown table '{database}.{name}'"),
                }
            }
            let change = Change::of_catalog(move |catalog: &mut Catalog| {
                found.iter().for_each(|(db, name)| catalog.remove_view(*db, name));
            });
            Ok((Some(change), missing))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{meta, spec};
    use crate::user::Account;
    use crate::view::{CheckOption, TextMode, ViewAlgorithm};
    use freshet_base::{ColumnId, DbId};
    use freshet_schema::{Column, ColumnType};

    fn view(name: &str) -> View {
        View {
            db: DbId(0),
            name: name.to_owned(),
            query: "SELECT 1 AS a".to_owned(),
            text_mode: TextMode::default(),
            database: Some("d".to_owned()),
            definer: Account::root(),
            invoker: false,
            algorithm: ViewAlgorithm::Undefined,
            check_option: CheckOption::None,
            columns: vec![Column::new(ColumnId(1), "a", ColumnType::Date)],
            sources: Vec::new(),
            created_micros: 7,
        }
    }

    #[test]
    fn views_share_names_with_tables_and_end_with_their_database() {
        let meta = meta();
        meta.create_database("d", None, None, false).unwrap();
        meta.create_table("d", &spec("t")).unwrap();
        use KnownView::{Changed, Refused, Replaced};
        let create = |name: &str, known| {
            let made = meta.create_view("d", view(name), known);
            made.map_err(|error| error.code().errno())
        };
        assert_eq!(create("v", Changed), Err(1146));
        assert_eq!(create("v", Refused), Ok(()));
        assert_eq!((create("v", Refused), create("v", Replaced)), (Err(1050), Ok(())));
        assert_eq!(create("v", Changed), Ok(()));
        assert_eq!((create("t", Refused), create("t", Replaced)), (Err(1050), Err(1347)));
        assert_eq!(create("t", Changed), Err(1347));
        assert_eq!(create("a/b", Refused), Err(1103));
        let errno = |error: freshet_base::Error| error.code().errno();
        assert_eq!(errno(meta.create_view("none", view("v"), Refused).unwrap_err()), 1049);
        assert_eq!(errno(meta.create_view("mysql", view("v"), Refused).unwrap_err()), 1044);
        assert_eq!(errno(meta.create_table("d", &spec("v")).unwrap_err()), 1050);
        let table = meta.catalog().table("d", "t").unwrap().id;
        assert_eq!(errno(meta.rename_table(table, "v").unwrap_err()), 1050);
        assert_eq!(errno(meta.catalog().require_table("d", "v").unwrap_err()), 1347);
        let stored = Catalog::load(meta.store.as_ref()).unwrap();
        assert_eq!(stored, *meta.catalog());
        assert_eq!(stored.view("d", "v").unwrap().query, "SELECT 1 AS a");

        let pair = |name: &str| ("d".to_owned(), name.to_owned());
        let drop = |names: &[&str], if_exists| {
            let pairs = names.iter().map(|name| pair(name)).collect::<Vec<_>>();
            meta.drop_views(&pairs, if_exists).map_err(errno)
        };
        assert_eq!((drop(&["v", "t"], true), drop(&["v", "x"], false)), (Err(1347), Err(1051)));
        assert!(meta.catalog().view("d", "v").is_some(), "all of them or none");
        assert_eq!(drop(&["v", "x"], true), Ok(vec![pair("x")]));
        assert!(meta.catalog().view("d", "v").is_none());
        assert_eq!(create("w", Refused), Ok(()));
        let id = meta.catalog().database("d").unwrap().id;
        assert!(meta.drop_database(id));
        assert_eq!(meta.catalog().views().count(), 0);
        meta.checkpoint().unwrap();
        assert_eq!(Catalog::load(meta.store.as_ref()).unwrap(), *meta.catalog());
    }
}
