use super::*;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/variables.md");

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn the_list_is_in_order_and_its_defaults_are_values() {
    assert!(ALL.windows(2).all(|pair| pair[0].name < pair[1].name), "find() searches by halves");
    Globals::new(&[]);
    for (alias, of) in ALIASES {
        assert_eq!(find(alias), find(of));
    }
}

#[test]
fn values_are_checked_by_kind() {
    let globals = Globals::new(&[]);
    let mut values = globals.load();
    let mut set = |name: &str, value: Value| {
        let id = require(name)?;
        set_session(&mut values, id, Some(&value), &globals)?;
        Ok::<_, freshet_base::Error>(shown(id, id.of(&values)))
    };
    assert_eq!(set("AUTOCOMMIT", text("off")).unwrap(), "OFF");
    assert_eq!(set("group_commit", text("Async_Mode")).unwrap(), "async_mode");
    assert_eq!(set("enable_nereids_planner", text("false")).unwrap(), "false");
    assert_eq!(set("query_timeout", Value::Int(-5)).unwrap(), "1");
    assert_eq!(set("time_zone", text("+8:00")).unwrap(), "+08:00");
    assert_eq!(
        set("sql_mode", text("strict_trans_tables, ansi_quotes")).unwrap(),
        "ANSI_QUOTES,STRICT_TRANS_TABLES"
    );
    // In the order of MySQL, of which a number has the bits.
    assert_eq!(
        set("sql_mode", text("no_zero_date,strict_trans_tables,only_full_group_by")).unwrap(),
        "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_DATE"
    );
    assert_eq!(set("sql_mode", Value::Int(0)).unwrap(), "");
    let names = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
                 ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";
    assert_eq!(set("sql_mode", Value::Int(1_168_113_696)).unwrap(), names);
    assert_eq!(set("character_set_results", Value::Null).unwrap(), "");
    let errno = |result: Result<String>| result.unwrap_err().code().errno();
    assert_eq!(errno(set("no_such", Value::Int(1))), 1193);
    assert_eq!(errno(set("group_commit", text("x"))), 1231);
    assert_eq!(errno(set("group_commit", Value::Int(1))), 1231);
    assert_eq!(errno(set("sql_mode", Value::Int(16))), 1231);
    let bogus = set("sql_mode", text("bogus")).unwrap_err().to_string();
    assert!(bogus.contains("'bogus'"), "{bogus}");
    assert_eq!(errno(set("query_timeout", text("soon"))), 1232);
    assert_eq!(errno(set("version", text("9"))), 1238);
    assert_eq!(errno(set("max_connections", Value::Int(9))), 1229);
    assert_eq!(errno(set("collation_connection", text("klingon"))), 1273);
    assert_eq!(errno(set("character_set_client", text("klingon"))), 1115);
}

#[test]
fn new_sessions_begin_with_what_is_global() {
    let globals = Globals::new(&[]);
    let id = require("group_commit").unwrap();
    globals.set(id, Some(&text("sync_mode"))).unwrap();
    let mut values = globals.load();
    assert_eq!(shown(id, id.of(&values)), "sync_mode");
    set_session(&mut values, id, Some(&text("off_mode")), &globals).unwrap();
    set_session(&mut values, id, None, &globals).unwrap();
    assert_eq!(shown(id, id.of(&values)), "sync_mode", "DEFAULT is the global value");
    globals.set(id, None).unwrap();
    assert_eq!(shown(id, id.of(&globals.load())), "off_mode");
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_document_says_what_the_list_says() {
    let written = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    assert!(written == document(), "docs/variables.md is out of date; write it with make docs");
}
