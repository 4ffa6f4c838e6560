use std::sync::Arc;

use freshet_schema::{ColumnType, DefaultValue, OnBad, TableSchema};
use proptest::prelude::*;

use super::*;
use crate::decode::testing::{schema, show};
use crate::key_rules::OnExisting;

const INT: ColumnType = ColumnType::Int { unsigned: false };

fn table() -> Arc<TableSchema> {
    schema(&[
        ("a", INT, false),
        ("b", ColumnType::Decimal { precision: 10, scale: 2 }, true),
        ("c", ColumnType::VarChar { len: 20 }, true),
        ("d", ColumnType::Date, true),
    ])
}

fn scan_with(
    text: &str,
    schema: &Arc<TableSchema>,
    names: Option<&[&str]>,
    dialect: Dialect,
) -> Result<Vec<String>, NoRows> {
    let rules = Rules::default();
    let plan = InsertPlan::new(schema, names, 0, &rules).unwrap();
    let mut out = Vec::new();
    let scanned = scan_rows(text.as_bytes(), &plan, &rules, dialect, &mut out)?;
    Ok(show(schema, &out, scanned.encoded.rows))
}

fn scan_text(text: &str) -> Result<Vec<String>, NoRows> {
    scan_with(text, &table(), None, Dialect::default())
}

fn not_literal(text: &str) -> bool {
    matches!(scan_text(text), Err(NoRows::NotLiteral))
}

#[test]
fn a_part_of_an_expression_is_no_value() {
    for text in ["('12x' + 0, 1, 'x', NULL)", "(1e300 * 0, 1, 'x', NULL)", "(1, 1, 'x', '2x' /1)"] {
        assert!(not_literal(text), "{text}");
    }
    assert_eq!(error("('12x' , 1, 'x', NULL)").0, 1265);
}

#[test]
fn rows_say_whether_they_delete_their_key() {
    let schema = table();
    let rules = Rules::default();
    let scan = |names: &[&str], sign: usize, text: &str| {
        let plan = InsertPlan::new(&schema, Some(names), 0, &rules).unwrap().with_sign(sign);
        assert_eq!(plan.width(), names.len() + 1);
        assert_eq!(plan.names().nth(sign), Some("__DORIS_DELETE_SIGN__"));
        let mut out = Vec::new();
        let scanned = scan_rows(text.as_bytes(), &plan, &rules, Dialect::default(), &mut out);
        let encoded = scanned.map(|scanned| scanned.encoded);
        encoded.map(|encoded| (show(&schema, &out, encoded.rows), encoded.deletes))
    };
    let (rows, deletes) = scan(&["a", "c"], 2, "(1, 'x', 0), (2, NULL, 1), (3, 'y', '1')").unwrap();
    assert_eq!(rows, ["1|-|x|-", "2|-|-|-", "3|-|y|-"]);
    assert_eq!(deletes, [false, true, true]);
    // In front of the others, and of columns in another order.
    let (rows, deletes) = scan(&["c", "a"], 0, "(true, 'x', 1), (0, 'y', 2)").unwrap();
    assert_eq!(rows, ["1|-|x|-", "2|-|y|-"]);
    assert_eq!(deletes, [true, false]);
    for (value, errno) in [("NULL", 1048), ("'x'", 1366), ("1000", 1264)] {
        match scan(&["a"], 1, &format!("(1, {value})")) {
            Err(NoRows::Bad(error)) => {
                assert_eq!(error.code().errno(), errno, "{error}");
                assert!(error.message().contains("__DORIS_DELETE_SIGN__"), "{error}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
}

fn error(text: &str) -> (u16, String) {
    match scan_text(text) {
        Err(NoRows::Bad(error)) => (error.code().errno(), error.message().to_owned()),
        other => panic!("{text}: {other:?}"),
    }
}

/// The string value of a literal.
fn string(literal: &str, dialect: Dialect) -> Option<String> {
    let schema = schema(&[("c", ColumnType::Text, true)]);
    scan_with(&format!("({literal})"), &schema, None, dialect).ok().map(|rows| rows[0].clone())
}

#[test]
fn rows_of_literals_are_read() {
    let rows =
        scan_text(" (1, 2.5, 'x', '2024-02-29') , ( -7,NULL,\"y z\",NULL ),(+0,.5,7,20240101);")
            .unwrap();
    assert_eq!(rows, ["1|2.50|x|2024-02-29", "-7|-|y z|-", "0|0.50|7|2024-01-01"]);
}

#[test]
fn other_literals_are_read() {
    let rows = scan_text(
        "(TRUE, 1e1, x'4142', DATE'2024-01-01'), \
         (0x0A, b'11', N'n', TIMESTAMP '2024-01-02 03:04:05'),\
         (false, 0b1, _utf8mb4 'u', null), (123456789012345678901e-18, 3, _binary'b', NULL)",
    )
    .unwrap();
    assert_eq!(
        rows,
        ["1|10.00|AB|2024-01-01", "10|3.00|n|2024-01-02", "0|1.00|u|-", "123|3.00|b|-"]
    );
}

#[test]
fn escapes_are_those_of_mysql() {
    let plain = Dialect::default();
    assert_eq!(string(r"'a\'b\\c\n\t\0\Z\q'", plain).unwrap(), "a'b\\c\n\t\0\x1aq");
    assert_eq!(string("'it''s'", plain).unwrap(), "it's");
    assert_eq!(string("''''", plain).unwrap(), "'");
    assert_eq!(string("\"say \"\"hi\"\" 'x'\"", plain).unwrap(), "say \"hi\" 'x'");
    assert_eq!(string(r"'50\%\_'", plain).unwrap(), r"50\%\_");
    assert_eq!(string("'\\\u{e9}\u{1f600}'", plain).unwrap(), "\u{e9}\u{1f600}");
    let standard = Dialect { no_backslash_escapes: true, ansi_quotes: true };
    assert_eq!(string(r"'a\'", standard).unwrap(), r"a\");
    assert_eq!(string("\"name\"", standard), None);
    assert_eq!(string(r"'open\'", plain), None);
}

#[test]
fn comments_between_tokens_are_blanks() {
    let rows = scan_text("-- first\n(1, /* two */ 2, 'x' # three\n, NULL) /* end */").unwrap();
    assert_eq!(rows, ["1|2.00|x|-"]);
    assert!(not_literal("(1,2,'x',/*!40101 NULL */)"));
    assert!(not_literal("(1,2,'x',NULL /* open"));
}

#[test]
fn what_is_no_literal_is_the_planners() {
    for text in [
        "",
        "(1+1,2,'x',NULL)",
        "(1,2,UPPER('x'),NULL)",
        "(1,2,'x',NOW())",
        "(1,2,'x',NULL",
        "(1,2,'x'",
        "(1,2,'x',NULL) ON DUPLICATE KEY UPDATE a=1",
        "(1,2,'x',NULL) AS n",
        "((1),2,'x',NULL)",
        "(SELECT 1)",
        "(?,2,'x',NULL)",
        "(1,2,DEFAULT(c),NULL)",
        "(- 1,2,'x',NULL)",
        "(--1,2,'x',NULL)",
        "(12abc,2,'x',NULL)",
        "(1,2,'x' 'y',NULL)",
        "(1,2,x'4',NULL)",
        "(1,2,DATE'2024-01-01',NULL)",
        "(NULLIF(1,1),2,'x',NULL)",
        "(1,2,'x',NULL),",
        "(1,2,'x',NULL) x",
        "(0x,2,'x',NULL)",
    ] {
        assert!(not_literal(text), "{text}: {:?}", scan_text(text));
    }
}

#[test]
fn errors_name_row_and_column() {
    let good = "(1,2,'x',NULL),";
    let (errno, message) = error(&format!("{good}('y',2,'x',NULL)"));
    assert_eq!(
        (errno, message.as_str()),
        (1366, "Incorrect integer value: 'y' for column 'a' at row 2")
    );
    assert_eq!(error(&format!("{good}{good}(1,2,'123456789012345678901',NULL)")).0, 1406);
    assert_eq!(error("(1,2,'x','2023-02-29')").0, 1292);
    assert_eq!(error("(NULL,2,'x',NULL)").0, 1048);
    assert_eq!(error("(99999999999,2,'x',NULL)").0, 1264);
    assert_eq!(
        error(&format!("{good}(1,2)")),
        (1136, "Column count doesn't match value count at row 2".into())
    );
    assert_eq!(error("(1,2,'x',NULL,5)").0, 1136);
    assert_eq!(error("(DEFAULT,2,'x',NULL)").0, 1364);
}

#[test]
fn a_refused_statement_leaves_what_was_there() {
    let (schema, rules) = (table(), Rules::default());
    let plan = InsertPlan::new::<&str>(&schema, None, 0, &rules).unwrap();
    let mut out = vec![1, 2, 3];
    for text in ["(1,2,'x',NULL),(f(),2,'x',NULL)", "(1,2,'x',NULL),('y',2,'x',NULL)"] {
        assert!(scan_rows(text.as_bytes(), &plan, &rules, Dialect::default(), &mut out).is_err());
        assert_eq!(out, [1, 2, 3]);
    }
}

#[test]
fn named_columns_come_in_any_order() {
    let mut schema = TableSchema::clone(&table());
    schema.columns[1].default = Some(DefaultValue::Literal("1.5".into()));
    let schema = Arc::new(schema);
    let scan =
        |names: &[&str], text| scan_with(text, &schema, Some(names), Dialect::default()).unwrap();
    assert_eq!(scan(&["c", "a"], "('x',1),('y',2)"), ["1|1.50|x|-", "2|1.50|y|-"]);
    assert_eq!(scan(&["a", "d"], "(1,'2024-01-01')"), ["1|1.50|-|2024-01-01"]);
    assert_eq!(scan(&["d", "c", "b", "a"], "(NULL,'x',DEFAULT,7)"), ["7|1.50|x|-"]);
    assert_eq!(scan(&["a", "b"], "(7,DEFAULT)"), ["7|1.50|-|-"]);
}

#[test]
fn lax_modes_warn() {
    let (schema, rules) = (table(), Rules { on_bad: OnBad::Clamp, ..Rules::default() });
    let plan = InsertPlan::new::<&str>(&schema, None, 0, &rules).unwrap();
    let mut out = Vec::new();
    let text = b"(1,2,'x',NULL),('7x',2,'x',NULL)";
    let scanned = scan_rows(text, &plan, &rules, Dialect::default(), &mut out).unwrap();
    assert_eq!(show(&schema, &out, 2)[1], "7|2.00|x|-");
    assert_eq!((scanned.encoded.warnings.count, scanned.encoded.warnings.first[0].0), (1, 1265));
    assert!(scanned.encoded.warnings.first[0].1.contains("at row 2"));
}

#[test]
fn a_statement_ends_at_its_semicolon() {
    let (schema, rules) = (table(), Rules::default());
    let plan = InsertPlan::new::<&str>(&schema, None, 0, &rules).unwrap();
    let text = b"(1,2,';',NULL) ; SELECT 1";
    let scanned = scan_rows(text, &plan, &rules, Dialect::default(), &mut Vec::new()).unwrap();
    assert_eq!(&text[scanned.consumed..], b" SELECT 1");
}

#[test]
fn bytes_that_are_no_utf8_are_found_where_text_is_wanted() {
    let (schema, rules) =
        (schema(&[("t", ColumnType::Text, true), ("b", ColumnType::Blob, true)]), Rules::default());
    let plan = InsertPlan::new::<&str>(&schema, None, 0, &rules).unwrap();
    let scan = |text: &[u8]| scan_rows(text, &plan, &rules, Dialect::default(), &mut Vec::new());
    assert!(scan(b"('x', _binary'\xff\xfe')").is_ok());
    assert!(
        matches!(scan(b"('\xff', 'x')"), Err(NoRows::Bad(error)) if error.code().errno() == 1366)
    );
}

#[test]
fn heads_are_read() {
    let parse = |sql| parse_head(str::as_bytes(sql), Dialect::default());
    let head =
        parse("/* c */ insert into `my``db` . t (a, `b c`) with label `l-1` VALUES (1)").unwrap();
    assert_eq!((head.database.as_deref(), &*head.table), (Some("my`db"), "t"));
    assert_eq!(head.label.as_deref(), Some("l-1"));
    assert_eq!(head.columns.unwrap(), ["a", "b c"]);
    let head = parse("INSERT t VALUE(1)").unwrap();
    assert_eq!((&*head.table, head.columns, head.values_at), ("t", None, 14));
    let head = parse("INSERT INTO TABLE t WITH LABEL l1 (a) VALUES").unwrap();
    assert_eq!((head.label.as_deref(), head.columns.map(|c| c.len())), (Some("l1"), Some(1)));
    assert_eq!(parse("INSERT INTO t () VALUES ()").unwrap().columns.unwrap().len(), 0);
}

#[test]
fn hints_of_polardbx_are_blanks() {
    for sql in [
        "/*+TDDL:x*/ INSERT INTO t VALUES (1)",
        "/!TDDL:x*/INSERT INTO t VALUES (1)",
        "/!+tddl({'a': 1})*/ /* b */ INSERT INTO t VALUES (1)",
        "INSERT /*+TDDL:x*/ INTO t VALUES (1)",
        "INSERT/!+TDDL:x*/INTO t VALUES (1)",
        "INSERT /*TDDL:x*/ INTO t VALUES (1)",
    ] {
        let head = parse_head(sql.as_bytes(), Dialect::default()).expect(sql);
        assert_eq!((&*head.table, &sql[head.values_at..]), ("t", " (1)"), "{sql}");
    }
}

#[test]
fn rows_of_values_alone_are_told_apart() {
    let text = ColumnType::VarChar { len: 20 };
    let schema = schema(&[("a", INT, true), ("b", INT, true), ("c", text, true)]);
    let rules = Rules::default();
    let plan = InsertPlan::new::<&str>(&schema, None, 0, &rules).unwrap();
    let is_plain = |text: &str| {
        let (text, dialect) = (text.as_bytes(), Dialect::default());
        scan_rows(text, &plan, &rules, dialect, &mut Vec::new()).unwrap().is_plain
    };
    assert!(is_plain("(1,2,'default'), (-1,true,NULL)"));
    assert!(!is_plain("(1,2,'a'), (1,default,'a')"));
    assert!(!is_plain("()"));
}

#[test]
fn a_row_scan_pauses_where_it_is_told() {
    let (schema, rules) = (table(), Rules::default());
    let plan = InsertPlan::new::<&str>(&schema, None, 0, &rules).unwrap();
    let text = b"(1,2,'a',NULL),(2,2,'b',NULL),(3,2,'c',NULL);x";
    let mut whole = Vec::new();
    let scanned = scan_rows(text, &plan, &rules, Dialect::default(), &mut whole).unwrap();
    let mut pieces = Vec::new();
    let mut scan = RowScan::new(text, &plan, &rules, Dialect::default(), &mut pieces);
    assert!(!scan.rows(2).unwrap() && scan.rows(2).unwrap());
    assert_eq!(scan.finish().unwrap(), scanned);
    assert_eq!((scanned.encoded.rows, pieces), (3, whole));
    let mut out = Vec::new();
    let mut scan = RowScan::new(b"(1,2,'a',NULL) x", &plan, &rules, Dialect::default(), &mut out);
    assert!(matches!(scan.rows(2), Err(NoRows::NotLiteral)));
}

#[test]
fn a_row_scan_ends_before_words_that_follow_the_rows() {
    let (schema, rules) = (table(), Rules::default());
    let plan = InsertPlan::new::<&str>(&schema, None, 0, &rules).unwrap();
    let scan = |text: &[u8]| {
        let mut out = Vec::new();
        let scan = RowScan::new(text, &plan, &rules, Dialect::default(), &mut out);
        let mut scan = scan.before_tail();
        scan.rows(9).map(|is_last| (is_last, scan.tail(), scan.finish().unwrap()))
    };
    let (is_last, tail, scanned) =
        scan(b"(1,2,'a',NULL) , (2,2,'b',NULL)/* b */ON DUPLICATE").unwrap();
    assert_eq!((is_last, tail, scanned.consumed), (true, Some(38), 38));
    assert_eq!(scanned.encoded.rows, 2);
    let (_, tail, scanned) = scan(b"(1,2,'a',NULL);ON DUPLICATE").unwrap();
    assert_eq!((tail, scanned.consumed), (None, 15));
    assert!(matches!(scan(b"(1,2,'a',NULL) (2"), Err(NoRows::NotLiteral)));
    assert!(matches!(scan(b"(1,2,'a',NULL) + 1"), Err(NoRows::NotLiteral)));
}

#[test]
fn a_head_says_what_happens_to_rows_whose_key_exists() {
    for (sql, on_existing) in [
        ("INSERT INTO t VALUES (1)", OnExisting::Refuse),
        ("insert ignore t VALUES (1)", OnExisting::Skip),
        ("REPLACE INTO t VALUES (1)", OnExisting::Replace),
        ("replace `t` (a) VALUES (1)", OnExisting::Replace),
    ] {
        let head = parse_head(sql.as_bytes(), Dialect::default()).unwrap();
        assert_eq!((&*head.table, head.on_existing), ("t", on_existing), "{sql}");
    }
}

#[test]
fn other_heads_are_not_ours() {
    for sql in [
        "",
        "SELECT 1",
        "INSERT",
        "INSERT INTO",
        "INSERT IGNORE",
        "INSERT INTO t SELECT 1",
        "INSERT INTO t SET a = 1",
        "INSERT INTO t (SELECT 1)",
        "INSERT INTO t PARTITION (p) VALUES (1)",
        "REPLACE t SELECT 1",
        "INSERT /*+ SET_VAR(a=1) */ INTO t VALUES (1)",
        "/*+TDDL:x INSERT INTO t VALUES (1)",
        "/*+TDD:x*/ INSERT INTO t VALUES (1)",
        "/*!40000 INSERT INTO t VALUES (1) */",
        "INSERT INTO t (t.a) VALUES (1)",
        "INSERT INTO `t VALUES (1)",
        "INSERT OVERWRITE TABLE t VALUES (1)",
        "INSERTINTO t VALUES (1)",
    ] {
        assert_eq!(parse_head(sql.as_bytes(), Dialect::default()), None, "{sql}");
    }
}

/// Values as SQL literals, and as they are shown once stored.
fn literals() -> impl Strategy<Value = Vec<(String, String)>> {
    let quoted = |text: String| {
        let escaped = text.replace('\\', "\\\\").replace('\'', "''");
        (format!("'{escaped}'"), text)
    };
    let int = any::<i32>().prop_map(|value| (value.to_string(), value.to_string()));
    let decimal = (any::<bool>(), 0..100_000u32, 0..100u32).prop_map(|(negative, whole, cents)| {
        let sign = if negative && (whole, cents) != (0, 0) { "-" } else { "" };
        let text = format!("{sign}{whole}.{cents:02}");
        (text.clone(), text)
    });
    let text = "[a-z'\"\\\\ ,()\u{e9}]{0,10}[a-z]".prop_map(quoted);
    let date = (1000..9999u32, 1..13u32, 1..29u32)
        .prop_map(move |(y, m, d)| quoted(format!("{y:04}-{m:02}-{d:02}")));
    let null = Just(("NULL".to_owned(), "-".to_owned()));
    let row = (
        int,
        prop_oneof![decimal, null.clone()],
        prop_oneof![text, null.clone()],
        prop_oneof![date, null],
    );
    row.prop_map(|(a, b, c, d)| vec![a, b, c, d])
}

/// The values of a statement of literals according to sqlparser.
fn parsed(sql: &str) -> Vec<String> {
    use sqlparser::ast::{Expr, SetExpr, Statement, UnaryOperator, Value};
    let dialect = sqlparser::dialect::MySqlDialect {};
    let statements = sqlparser::parser::Parser::parse_sql(&dialect, sql).unwrap();
    let Statement::Insert(insert) = &statements[0] else { panic!("{sql}") };
    let SetExpr::Values(values) = &*insert.source.as_ref().unwrap().body else { panic!("{sql}") };
    fn cell(expr: &Expr) -> String {
        match expr {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", cell(expr)),
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => text.clone(),
                Value::SingleQuotedString(text) => text.clone(),
                Value::Null => "-".into(),
                other => panic!("{other}"),
            },
            other => panic!("{other}"),
        }
    }
    values
        .rows
        .iter()
        .map(|row| row.content.iter().map(cell).collect::<Vec<_>>().join("|"))
        .collect()
}

proptest! {
    #[test]
    fn the_scanner_agrees_with_a_parser(rows in prop::collection::vec(literals(), 1..6)) {
        let sql: Vec<String> = rows.iter().map(|row| {
            format!("({})", row.iter().map(|(sql, _)| sql.as_str()).collect::<Vec<_>>().join(", "))
        }).collect();
        let shown: Vec<String> = rows.iter().map(|row| {
            row.iter().map(|(_, shown)| shown.as_str()).collect::<Vec<_>>().join("|")
        }).collect();
        let sql = format!("INSERT INTO t VALUES {}", sql.join(","));
        let head = parse_head(sql.as_bytes(), Dialect::default()).unwrap();
        prop_assert_eq!(&scan_text(&sql[head.values_at..]).unwrap(), &shown);
        prop_assert_eq!(parsed(&sql), shown);
    }
}
