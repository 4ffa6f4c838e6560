use freshet_schema::{KeyModel, TableForm};

use super::*;
use crate::test::{meta, spec};

const LIKE_A_MARK: &str = "by case (not enforced)";

fn key(kind: DeclaredKeyKind, name: &str, column: &str) -> DeclaredKeySpec {
    let comment = LIKE_A_MARK.to_owned();
    let columns = vec![column.to_owned()];
    DeclaredKeySpec { name: Some(name.to_owned()), comment, ..DeclaredKeySpec::new(kind, columns) }
}

#[test]
fn what_a_key_is_comes_from_the_table_and_not_from_words() {
    let meta = meta();
    meta.create_database("d", None, None, false).unwrap();
    let mut spec = spec("t");
    spec.form = TableForm::MySql;
    let primary = DeclaredKeySpec::new(DeclaredKeyKind::Primary, vec!["id".to_owned()]);
    let first = vec![("name".to_owned(), 5)];
    let descending = vec!["score".to_owned()];
    spec.declared_keys = vec![
        primary,
        DeclaredKeySpec { first: first.clone(), ..key(DeclaredKeyKind::Unique, "u", "name") },
        DeclaredKeySpec { first, ..key(DeclaredKeyKind::UniqueHint, "h", "name") },
        DeclaredKeySpec { descending, is_btree: true, ..key(DeclaredKeyKind::Index, "k", "score") },
    ];
    let table = meta.create_table("d", &spec).unwrap();
    assert_eq!(table.key_model, KeyModel::Primary);
    // Words that say other things of each key.
    let mut words = spec.clone();
    for key in &mut words.declared_keys[1..] {
        let columns = key.columns.clone();
        *key = DeclaredKeySpec::new(DeclaredKeyKind::UniqueHint, columns);
    }
    assert_eq!(words.clone().with_keys_of(&table).unwrap(), spec);
    words.declared_keys.pop();
    assert!(words.with_keys_of(&table).is_err());
}
