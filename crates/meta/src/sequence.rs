//! Sequences: tables without rows, in a space of names of their own. What makes them is that their
//! counter reserves numbers as those of AUTO_INCREMENT do.

use std::sync::Arc;

use freshet_base::{Result, bail, err};
use freshet_schema::{ColumnType, DeclaredKeyKind, Sequence, Table, TableForm};

use crate::catalog::{Catalog, is_reserved_database};
use crate::create::Planned;
use crate::ddl::Created;
use crate::meta::Meta;
use crate::names;
use crate::spec::{ColumnSpec, DeclaredKeySpec, TableSpec};

/// The column whose counter a sequence uses.
const COLUMN: &str = "value";

impl Meta {
    /// The sequence that a CREATE SEQUENCE would make, with new ids, or the existing one.
    ///
    /// # Errors
    /// 1049, 1050, 1103, and the limit of tables.
    pub fn new_sequence(
        &self,
        database: &str,
        name: &str,
        sequence: Sequence,
        if_not_exists: bool,
    ) -> Result<Created<Table>> {
        let catalog = self.catalog();
        if is_reserved_database(database) {
            bail!(AccessDeniedDatabase, "Access denied to database '{database}': read only");
        }
        let home = catalog.require_database(database)?;
        if let Some(object) = home.sequences.get(name).filter(|_| if_not_exists).cloned() {
            return Ok(Created { object, existed: true, warnings: Vec::new() });
        }
        catalog.check_sequence_name(database, name)?;
        Self::check_table_count(&catalog)?;
        let column = ColumnSpec {
            nullable: false,
            auto_increment: true,
            ..ColumnSpec::new(COLUMN, ColumnType::BigInt { unsigned: false })
        };
        let key = DeclaredKeySpec {
            kind: DeclaredKeyKind::Index,
            name: None,
            columns: vec![COLUMN.to_owned()],
            first: Vec::new(),
            descending: Vec::new(),
            is_btree: false,
            comment: String::new(),
            global: None,
        };
        let spec = TableSpec {
            declared_keys: vec![key],
            ..TableSpec::new(name, TableForm::MySql, vec![column])
        };
        let table = self.table_of(home.id, &spec, Planned::check(&spec)?)?;
        let object = Arc::new(Table { sequence: Some(sequence), ..table });
        Ok(Created { object, existed: false, warnings: Vec::new() })
    }
}

impl Catalog {
    /// The sequence with this name.
    pub fn sequence(&self, database: &str, name: &str) -> Option<&Arc<Table>> {
        self.database(database)?.sequences.get(name)
    }

    /// The sequence with this name.
    ///
    /// # Errors
    /// 1049 if the database does not exist, 4091 if the sequence does not.
    pub fn require_sequence(&self, database: &str, name: &str) -> Result<&Arc<Table>> {
        let home = self.require_database(database)?;
        let found = home.sequences.get(name);
        found.ok_or_else(|| err!(UnknownSequence, "Unknown SEQUENCE: '{database}.{name}'"))
    }

    /// Checks that a sequence can get this name.
    ///
    /// # Errors
    /// 1050 if it is taken, 1103 if it is invalid.
    pub fn check_sequence_name(&self, database: &str, name: &str) -> Result<()> {
        names::check_table(name, TableForm::MySql)?;
        if self.sequence(database, name).is_some() {
            bail!(TableExists, "Sequence '{name}' already exists");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use freshet_base::Error;
    use freshet_schema::SequenceChange;

    use super::*;
    use crate::fold::{Definition, MetaEvent};
    use crate::test::{meta, spec};

    fn plain() -> Sequence {
        Sequence::new(&SequenceChange::default()).unwrap()
    }

    #[test]
    fn sequences_have_names_of_their_own_and_end_with_their_database() {
        let meta = meta();
        meta.create_database("d", None, None, false).unwrap();
        meta.create_table("d", &spec("s")).unwrap();
        let create = |database: &str, name: &str, if_not_exists| {
            let made = meta.new_sequence(database, name, plain(), if_not_exists)?;
            if !made.existed {
                assert!(meta.settle_next(&MetaEvent::Create(made.object.clone())));
            }
            Ok::<_, Error>(made)
        };
        let errno = |error: Error| error.code().errno();
        let made = create("d", "s", false).unwrap().object;
        assert_eq!(made.sequence, Some(plain()));
        assert_eq!(meta.fold().counter(&made), Some(1));
        assert!(create("d", "s", true).unwrap().existed);
        assert_eq!(create("d", "s", false).map_err(errno).unwrap_err(), 1050);
        assert_eq!(create("d", "a/b", false).map_err(errno).unwrap_err(), 1103);
        assert_eq!(create("none", "s", false).map_err(errno).unwrap_err(), 1049);
        assert_eq!(create("mysql", "s", false).map_err(errno).unwrap_err(), 1044);
        let catalog = meta.catalog();
        assert!(catalog.table("d", "s").unwrap().sequence.is_none());
        assert_eq!(catalog.require_sequence("d", "t").map_err(errno).unwrap_err(), 4091);

        // They follow the log as tables do, and a checkpoint has them.
        assert!(meta.settle_next(&MetaEvent::Rename(vec![(made.id, "t".to_owned())])));
        assert!(meta.settle_next(&MetaEvent::Counter { table: made.id, end: 1001 }));
        let change = SequenceChange { start: Some(7), ..Default::default() };
        let altered = plain().altered(&change, 5).unwrap();
        let event = MetaEvent::Define { table: made.id, change: Definition::Sequence(altered) };
        assert!(meta.settle_next(&event));
        meta.checkpoint().unwrap();
        let stored = Catalog::load(meta.store.as_ref()).unwrap();
        assert_eq!(stored, *meta.catalog());
        let stored = stored.sequence("d", "t").unwrap();
        assert_eq!(stored.sequence, Some(altered));
        assert_eq!(meta.fold().counter(stored), Some(1001));
        assert_eq!(meta.catalog().tables_of(stored.db).len(), 2);
        assert!(meta.drop_database(stored.db));
        assert_eq!(meta.catalog().tables().count(), 0);
    }
}
