use super::*;
use freshet_meta::{BucketsSpec, DistributionSpec, SchemaChange};
use freshet_schema::{ColumnType, TableForm};

fn one(sql: &str) -> Parsed {
    let mut all = parse(sql, SqlMode::default()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(all.len(), 1, "{sql}");
    all.remove(0)
}

fn refused(sql: &str) -> (u16, String) {
    let error = parse(sql, SqlMode::default()).expect_err(sql);
    (error.code().errno(), error.message().to_owned())
}

fn table(sql: &str) -> CreateTable {
    match one(sql).statement {
        Statement::CreateTable(create) => *create,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_of_the_doris_form() {
    let create = table(
        "CREATE TABLE IF NOT EXISTS db.dt (id INT NOT NULL COMMENT 'key', name VARCHAR(50), \
         big LARGEINT, s STRING, d DATEV2, ts DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)) \
         ENGINE=OLAP DUPLICATE KEY(id) COMMENT 'x' DISTRIBUTED BY HASH(id) BUCKETS 4 \
         PROPERTIES (\"replication_num\" = \"1\", 'group_commit_interval_ms'='100');",
    );
    let spec = &create.spec;
    assert!(create.if_not_exists);
    assert_eq!(create.database.as_deref(), Some("db"));
    assert_eq!(spec.form, TableForm::Olap);
    assert_eq!(spec.columns.len(), 6);
    assert!(!spec.columns[0].nullable);
    assert_eq!(spec.columns[2].ty, ColumnType::LargeInt);
    assert_eq!(spec.columns[5].ty, ColumnType::DateTime { fsp: 3 });
    assert_eq!(spec.key.as_ref().unwrap().columns, ["id"]);
    assert_eq!(spec.distribution, Some(DistributionSpec::Hash(vec!["id".into()])));
    assert_eq!(spec.buckets, BucketsSpec::Count(4));
    assert_eq!(spec.properties[1], ("group_commit_interval_ms".into(), "100".into()));
}

#[test]
fn tables_of_the_mysql_form() {
    let create = table(
        "CREATE TABLE `t` (`id` int(11) unsigned NOT NULL, `c` char(120) DEFAULT '' NOT NULL, \
         flag tinyint(1), PRIMARY KEY (`id`), KEY `k_1` (`c`(10)), UNIQUE KEY u (c)) \
         /*! ENGINE = innodb */ DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    );
    let spec = &create.spec;
    assert_eq!(spec.form, TableForm::MySql);
    assert_eq!(spec.columns[0].ty, ColumnType::Int { unsigned: true });
    assert_eq!(spec.columns[2].ty, ColumnType::Boolean);
    assert_eq!(spec.declared_keys.len(), 3);
    assert_eq!(spec.declared_keys[1].name.as_deref(), Some("k_1"));
    assert_eq!(spec.engine.as_deref(), Some("innodb"));
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    for (sql, name) in [
        ("CREATE TABLE t (a INT, v CHAR(9) QUANTILE_UNION) AGGREGATE KEY(a)", "QUANTILE_UNION"),
        ("ALTER TABLE t MODIFY ENGINE TO olap", "MODIFY ENGINE"),
    ] {
        let (errno, message) = refused(sql);
        assert_eq!(errno, 1235, "{sql}: {message}");
        assert!(message.contains(name), "{sql}: {message}");
    }
    // The parser accepts these; the table specification decides whether they are supported.
    let unique = table("CREATE TABLE t (a INT) UNIQUE KEY(a) DISTRIBUTED BY HASH(a)");
    assert_eq!(unique.spec.key.unwrap().model, freshet_meta::KeyModelSpec::Unique);
    let unnamed = table("CREATE TABLE t (a INT, b INT, v INT SUM) DISTRIBUTED BY HASH(a)");
    let key = unnamed.spec.key.unwrap();
    assert_eq!(key.model, freshet_meta::KeyModelSpec::Aggregate);
    assert_eq!(key.columns, ["a", "b"]);
    assert_eq!(unnamed.spec.columns[2].aggregate, Some(freshet_schema::Aggregate::Sum));
}

#[test]
fn syntax_errors_name_the_place() {
    for (sql, near, line) in [
        ("SELEC 1", "near 'SELEC 1'", 1),
        ("SELECT 1,\n  FROM t", "near", 2),
        ("CREATE TABLE t (a INT,,)", "near ',)'", 1),
        ("SELECT 'abc", "near", 1),
        // The planner marks hidden columns so.
        ("SELECT * FROM t PARTITION (`\u{3}`)", "near", 1),
    ] {
        let (errno, message) = refused(sql);
        assert_eq!(errno, 1064, "{sql}");
        assert!(message.contains(near), "{sql}: {message}");
        assert!(message.ends_with(&format!("at line {line}")), "{sql}: {message}");
    }
    assert_eq!(refused(" ; ; ").0, 1065);
}

#[test]
fn texts_split_at_semicolons_outside_of_quotes() {
    let all =
        parse("select ';' ; /* ; */ select 2; -- ; \nselect `a;b` from t", SqlMode::default());
    let texts = all.unwrap().into_iter().map(|parsed| parsed.text).collect::<Vec<_>>();
    assert_eq!(texts, ["select ';'", "select 2", "select `a;b` from t"]);
}

#[test]
fn items_are_called_as_written() {
    assert_eq!(one("select count(*), a+1 , 'x' b from t").items, ["count(*)", "a+1", "'x' b"]);
    assert_eq!(one("select distinct (select 1 from u), b").items, ["(select 1 from u)", "b"]);
    assert_eq!(one("with x as (select 1) select Max(a) from x").items, ["Max(a)"]);
    assert_eq!(one("select ?, ? + 1").parameters, 2);
}

#[test]
fn settings_take_all_forms() {
    let sql = "SET a=1, SESSION b='x', GLOBAL c=ON, @@session.d=4, @u:=5, NAMES utf8mb4 COLLATE x, \
               group_commit = async_mode, character_set_results = NULL, e = DEFAULT";
    let Statement::Set(all) = one(sql).statement else { panic!("not SET") };
    let system = |at: usize| match &all[at].target {
        SetTarget::System { scope, name, .. } => (*scope, name.as_str()),
        other => panic!("{other:?}"),
    };
    use crate::session::Scope::{Global, Session};
    assert_eq!((system(0), system(1)), ((Session, "a"), (Session, "b")));
    assert_eq!((system(2), system(3)), ((Global, "c"), (Session, "d")));
    assert_eq!(all[4].target, SetTarget::User("u".into()));
    assert_eq!(
        all[5].target,
        SetTarget::Names { charset: Some("utf8mb4".into()), collation: Some("x".into()) }
    );
    assert_eq!(all[6].value.as_ref().unwrap().to_string(), "'async_mode'");
    assert_eq!(all[8].value, None);
    let Statement::Set(all) = one("RESET PERSIST IF EXISTS validate_password.Length").statement
    else {
        panic!("not of SET")
    };
    let name = Some("validate_password.length".to_owned());
    assert_eq!(all[0].target, SetTarget::ResetPersist { name, if_exists: true });
    one("SET sql_mode=(SELECT CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')),time_zone='+00:00'");
    one("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE");
    one("SET PASSWORD FOR 'u'@'%' = PASSWORD('x')");
}

#[test]
fn inserts_keep_labels_columns_and_defaults() {
    let sql = "INSERT INTO d.t (a, `b`) WITH LABEL l1 VALUES (1, DEFAULT), (now(), ?)";
    let Statement::Insert(insert) = one(sql).statement else { panic!("not INSERT") };
    assert_eq!(insert.label.as_deref(), Some("l1"));
    assert_eq!(insert.columns.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
    let InsertSource::Values(rows) = &insert.source else { panic!("not VALUES") };
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0][1], None);
    one("insert into t select * from u where a > 1");
    one("insert into t (select 1)");
    one("insert into t set a = 1, b = 'x'");
}

#[test]
fn the_rest_of_the_statements() {
    for sql in [
        "SHOW FULL TABLES FROM `db` WHERE table_type = 'VIEW'",
        "SHOW FULL COLUMNS FROM `t` FROM `db` LIKE '%'",
        "SHOW VARIABLES LIKE 'version'",
        "SHOW GLOBAL STATUS",
        "SHOW COUNT(*) WARNINGS",
        "SHOW KEYS FROM t FROM d",
        "SHOW ENGINES",
        "SHOW COLLATION WHERE Charset = 'utf8mb4'",
        "SHOW TRANSACTION FROM db WHERE LABEL LIKE 'x%'",
        "SHOW GRANTS FOR CURRENT_USER()",
        "SHOW CREATE TABLE `d`.`t`",
        "DESC d.t",
        "DESCRIBE `db`.`select 1`",
        "EXPLAIN SELECT 1",
        "USE `db`",
        "KILL QUERY 12",
        "BEGIN WITH LABEL l",
        "START TRANSACTION READ ONLY",
        "COMMIT WORK",
        "ROLLBACK",
        "TRUNCATE TABLE t",
        "DROP TABLE IF EXISTS a, d.b FORCE",
        "CREATE DATABASE IF NOT EXISTS d CHARACTER SET utf8mb4",
        "CREATE USER IF NOT EXISTS 'u'@'%' IDENTIFIED BY 'x'",
        "ALTER USER root@localhost IDENTIFIED WITH caching_sha2_password BY 'x'",
        "DROP USER u@'10.0.0.%'",
        "GRANT SELECT, INSERT ON d.* TO 'u'@'%' WITH GRANT OPTION",
        "REVOKE ALL PRIVILEGES ON *.* FROM u",
        "FLUSH TABLES t",
        "FLUSH PRIVILEGES",
        "UNLOCK TABLES",
        "LOCK TABLES `t` READ /*!32311 LOCAL */, d.u AS x WRITE, t y LOW_PRIORITY WRITE",
        "SELECT SLEEP(0.1)",
        "SELECT 1 LOCK IN SHARE MODE",
        "SELECT a FROM t LIMIT 5, 10",
        "SELECT GROUP_CONCAT(DISTINCT a ORDER BY b SEPARATOR ';') FROM t",
        "SELECT a, SUM(b) FROM t GROUP BY a WITH ROLLUP",
        "/* x */ SELECT /*+ TDDL:scan() */ 1",
        "SELECT left('abc', 2), right('abc', 1), if(1, 2, 3), date('2024-01-01'), mod(5, 3)",
        "SELECT UNIX_TIMESTAMP(c) DIV 300 * 300 FROM t",
        "SELECT insert('abc', 1, 1, 'x'), replace('a', 'b', 'c'), char(65), values_ FROM t",
    ] {
        one(sql);
    }
}

#[test]
fn alterations() {
    let Statement::AlterTable(_, AlterAction::Clauses(clauses)) = one(
        "ALTER TABLE t ADD COLUMN c INT DEFAULT '1' AFTER a, DROP COLUMN b, RENAME COLUMN d e, \
         ROW_FORMAT=DYNAMIC, COMMENT = 'of t', ENGINE InnoDB, AUTO_INCREMENT 7",
    )
    .statement
    else {
        panic!("not ALTER")
    };
    assert_eq!(clauses.columns.len(), 3);
    let third = &clauses.columns[2];
    assert!(matches!(third, SchemaChange::RenameColumn { to, .. } if to == "e"));
    assert_eq!((clauses.comment.as_deref(), clauses.counter), (Some("of t"), Some(7)));
    let Statement::AlterTable(_, AlterAction::Set(set)) =
        one("ALTER TABLE t SET (\"group_commit_interval_ms\" = \"2000\")").statement
    else {
        panic!("not SET")
    };
    assert_eq!(set, [("group_commit_interval_ms".to_owned(), "2000".to_owned())]);
}

#[test]
fn places_are_found_in_long_texts_of_any_letters() {
    for letter in ["a", "\u{e4}", "\u{8a9e}"] {
        let line = letter.repeat(1_000);
        let text = format!("{line}\n{line}x{line}\n");
        let source = super::cursor::Source::new(&text);
        let place = |line, column| Location { line, column };
        let bytes = letter.len();
        assert_eq!(source.offset(place(1, 1)), 0);
        assert_eq!(source.offset(place(1, 1_000)), 999 * bytes);
        assert_eq!(source.offset(place(2, 1)), 1_000 * bytes + 1);
        assert_eq!(source.between(place(2, 1_001), place(2, 1_002)), "x");
        assert_eq!(source.offset(place(9, 1)), text.len());
        assert_eq!(source.offset(place(3, 9_999)), text.len());
    }
}
