//! Limits on the size of queries, and on the functions they call.
//!
//! The time and memory of planning grow with the number of a query's parts, and faster than
//! linearly for nested ones, and a planner pass cannot be interrupted everywhere. So parts are
//! counted before planning. A common table expression counts once per reference, because it is
//! planned that often.

use std::ops::ControlFlow;

use freshet_base::{Error, Result, err};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query,
    Select, SelectItem, TableFactor, UnaryOperator, Visitor,
};
use sqlparser::tokenizer::Span;

use crate::functions::{list, sys};
use crate::visit::walk;

/// Signs with which the server marks names of its own; names in statements have none of them.
pub const MARKS: [char; 4] = ['\u{1}', '\u{2}', '\u{3}', '\u{4}'];

/// Limits on the size of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// `max_statement_terms`: expressions other than literals.
    pub terms: usize,
    /// `max_statement_tables`: tables, derived tables and operands of set operations.
    pub tables: usize,
    /// `max_join_tables`: tables in one FROM clause.
    pub joined: usize,
    /// `max_select_columns`: items in one select list.
    pub columns: usize,
    /// `max_expression_depth`: nesting of expressions, not counting AND, OR and XOR.
    pub depth: usize,
    /// `max_function_arguments`: arguments of one call.
    pub arguments: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            terms: 20_000,
            tables: 500,
            joined: 61,
            columns: 4_096,
            depth: 350,
            arguments: 4_096,
        }
    }
}

/// The size of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size {
    /// Expressions other than literals.
    pub terms: usize,
    pub literals: usize,
    /// Tables, derived tables and operands of set operations.
    pub tables: usize,
    /// The maximum nesting of expressions.
    pub depth: usize,
}

impl Size {
    /// Queries up to this size are planned within a few milliseconds.
    const SMALL: Self = Self { terms: 256, literals: 1_024, tables: 12, depth: 24 };

    /// Whether a query of this size is planned within a few milliseconds.
    pub fn is_small(&self) -> bool {
        self.terms <= Self::SMALL.terms
            && self.literals <= Self::SMALL.literals
            && self.tables <= Self::SMALL.tables
            && self.depth <= Self::SMALL.depth
    }

    fn add(&mut self, other: Self) {
        self.terms = self.terms.saturating_add(other.terms);
        self.literals = self.literals.saturating_add(other.literals);
        self.tables = self.tables.saturating_add(other.tables);
        self.depth = self.depth.max(other.depth);
    }
}

/// Measures a query.
///
/// # Errors
/// 1116, 1117, 1436 and 3170 above a limit; 1064, 1305 and 1582 for a call that is not allowed.
pub fn measure(query: &Query, limits: &Limits) -> Result<Size> {
    let mut measure = Measure { limits, open: Vec::new(), known: Vec::new(), depth: 0 };
    measure.open.push(Open::default());
    match walk(query, &mut measure) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(measure.open[0].size),
    }
}

/// A query that the visitor has entered.
#[derive(Default)]
struct Open {
    /// The size up to now.
    size: Size,
    /// Its common table expressions that are not yet visited: address and name.
    ctes: Vec<(*const Query, String)>,
    /// The query's name, if it is a common table expression.
    name: Option<String>,
    /// The length of `known` when it was entered.
    known: usize,
    /// The expression depth at which it was entered.
    depth: usize,
}

struct Measure<'a> {
    limits: &'a Limits,
    open: Vec<Open>,
    /// Visible common table expressions, the innermost last.
    known: Vec<(String, Size)>,
    /// The current expression depth.
    depth: usize,
}

type Flow = ControlFlow<Box<Error>>;

impl Measure<'_> {
    fn here(&mut self) -> &mut Open {
        self.open.last_mut().expect("the outermost is never closed")
    }

    fn add(&mut self, size: Size) -> Flow {
        self.here().size.add(size);
        let Size { terms, tables, .. } = self.here().size;
        let Limits { terms: terms_max, tables: tables_max, .. } = *self.limits;
        if tables > tables_max {
            return refused(err!(
                TooManyTables,
                "Too many tables; a statement has at most {tables_max} of them and of selects \
                 (max_statement_tables), counting a common table expression as often as it is read"
            ));
        }
        if terms > terms_max {
            return refused(err!(
                TooLarge,
                "The statement has more than {terms_max} expressions (max_statement_terms), \
                 counting a common table expression as often as it is read; send it in parts"
            ));
        }
        ControlFlow::Continue(())
    }

    fn table(&mut self) -> Flow {
        self.add(Size { tables: 1, ..Size::default() })
    }

    fn deeper(&mut self) -> Flow {
        self.depth += 1;
        let (depth, depth_max) = (self.depth, self.limits.depth);
        let here = self.here();
        here.size.depth = here.size.depth.max(depth);
        if depth > depth_max {
            return refused(err!(
                TooDeep,
                "Thread stack overrun: more than {depth_max} expressions stand inside one another \
                 (max_expression_depth); list values in IN (...), or send the statement in parts"
            ));
        }
        ControlFlow::Continue(())
    }

    fn function(&self, function: &Function) -> Flow {
        let count = match &function.args {
            FunctionArguments::None => 0,
            FunctionArguments::Subquery(_) => 1,
            FunctionArguments::List(list) => list.args.len(),
        };
        // A name without a position in the text was not written by the user, and is allowed.
        let written =
            |part: &ObjectNamePart| part.as_ident().is_none_or(|ident| ident.span != Span::empty());
        if function.name.0.iter().any(written) {
            let name = function.name.to_string().replace('`', "").to_lowercase();
            let checked = match sys::named(&name) {
                Some(of_sys) => of_sys.check(&name, count, function.over.is_some()),
                None => list::check(&name, count, function.over.is_some()),
            };
            if let Err(error) = checked {
                return refused(error);
            }
        }
        let count_max = self.limits.arguments;
        if count > count_max {
            return refused(err!(
                TooLarge,
                "{} is called with {count} arguments; a function takes at most {count_max} \
                 (max_function_arguments)",
                function.name
            ));
        }
        ControlFlow::Continue(())
    }
}

fn refused(error: Error) -> Flow {
    ControlFlow::Break(Box::new(error))
}

/// Refuses a text as a name, where the server could take it for one of its own: the parser reads
/// texts where names stand, too, and the server quotes its own as names are.
fn check_name(name: &Ident) -> Flow {
    let is_text = name.quote_style.is_some_and(|quote| quote != '`');
    match is_text && name.value.contains(MARKS) {
        true => refused(not_a_name(name)),
        false => ControlFlow::Continue(()),
    }
}

/// As [`check_name`], for what stands for a table or for parts of one: none is without letters.
fn check_table_name(name: &Ident) -> Flow {
    let is_text = name.quote_style.is_some_and(|quote| quote != '`');
    match is_text && name.value.is_empty() {
        true => refused(not_a_name(name)),
        false => check_name(name),
    }
}

fn not_a_name(name: &Ident) -> Error {
    err!(
        Syntax,
        "You have an error in your SQL syntax; check the manual that corresponds to your Freshet \
         server version for the right syntax to use near '{}'",
        name.value.escape_debug()
    )
}

/// Whether an expression is a literal, possibly with a sign.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            matches!(**expr, Expr::Value(_))
        }
        _ => false,
    }
}

/// Whether a chain of such expressions is planned to the same depth however long it is.
fn is_chain(expr: &Expr) -> bool {
    use BinaryOperator::{And, Or, Xor};
    matches!(expr, Expr::BinaryOp { op: And | Or | Xor, .. } | Expr::Nested(_))
}

impl Visitor for Measure<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let at = std::ptr::from_ref(query);
        let here = self.here();
        let found = here.ctes.iter().position(|(cte, _)| *cte == at);
        let name = found.map(|found| here.ctes.remove(found).1);
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        let ctes = ctes.map(|cte| (std::ptr::from_ref(&*cte.query), cte.alias.name.value.clone()));
        let open = Open {
            size: Size::default(),
            ctes: ctes.collect(),
            name,
            known: self.known.len(),
            depth: self.depth,
        };
        self.open.push(open);
        self.depth = 0;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> Flow {
        let closed = self.open.pop().expect("it was opened");
        self.known.truncate(closed.known);
        self.depth = closed.depth;
        match closed.name {
            // It counts where it is referenced.
            Some(name) => self.known.push((name, closed.size)),
            None => return self.add(closed.size),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        let (columns, columns_max) = (select.projection.len(), self.limits.columns);
        if columns > columns_max {
            return refused(err!(
                TooManyColumns,
                "Too many columns: {columns}; a select has at most {columns_max} \
                 (max_select_columns)"
            ));
        }
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                check_name(alias)?;
            }
        }
        let joined = select.from.iter().map(|table| 1 + table.joins.len()).sum::<usize>();
        let joined_max = self.limits.joined;
        if joined > joined_max {
            return refused(err!(
                TooManyTables,
                "Too many tables: {joined}; at most {joined_max} can be used in a join \
                 (max_join_tables)"
            ));
        }
        self.table()
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } => {
                refused(err!(UnknownFunction, "FUNCTION {name} does not exist"))
            }
            // Counted when its name is visited.
            TableFactor::Table { partitions, alias, .. } => {
                partitions.iter().try_for_each(check_table_name)?;
                alias.iter().try_for_each(|alias| check_table_name(&alias.name))
            }
            _ => self.table(),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        let size = match &relation.0[..] {
            [part] => part.as_ident().and_then(|ident| {
                let known = self.known.iter().rev();
                known.clone().find(|(name, _)| *name == ident.value).map(|(_, size)| *size)
            }),
            _ => None,
        };
        let mut names = relation.0.iter().filter_map(|part| part.as_ident());
        names.try_for_each(check_table_name)?;
        self.table()?;
        self.add(size.unwrap_or_default())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        if let Expr::Value(_) = expr {
            self.here().size.literals += 1;
        }
        if is_literal(expr) {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Function(function) => self.function(function)?,
            Expr::CompoundIdentifier(parts) => parts.iter().try_for_each(check_name)?,
            _ => {}
        }
        self.add(Size { terms: 1, ..Size::default() })?;
        if is_chain(expr) { ControlFlow::Continue(()) } else { self.deeper() }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> Flow {
        if !is_literal(expr) && !is_chain(expr) {
            self.depth -= 1;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Statement, parse};

    fn size(sql: &str) -> Result<Size> {
        let Statement::Query(query) = parse(sql, Default::default())?.remove(0).statement else {
            panic!("{sql}")
        };
        measure(&query.0, &Limits::default())
    }

    fn errno(sql: &str) -> u16 {
        size(sql).unwrap_err().code().errno()
    }

    #[test]
    fn parts_are_counted_as_often_as_they_are_planned() {
        let size_of = |sql| size(sql).unwrap();
        let expected = Size { terms: 3, literals: 1, tables: 2, depth: 2 };
        assert_eq!(size_of("SELECT a FROM t WHERE b > 1"), expected);
        let once = size_of("WITH c AS (SELECT a + 1 FROM t) SELECT 1 FROM c");
        let twice = size_of("WITH c AS (SELECT a + 1 FROM t) SELECT 1 FROM c x JOIN c y");
        assert_eq!((once.terms, twice.terms), (2, 4));
        assert_eq!((once.tables, twice.tables), (4, 7));
        // A common table expression of a subquery is not visible outside of it.
        let inner = size_of("SELECT 1 FROM (WITH c AS (SELECT 1) SELECT 1 FROM c) d JOIN c");
        assert_eq!(inner.tables, 6);
        let signed = size_of("SELECT 1 WHERE a IN (-1, +2, -3.5)");
        assert_eq!((signed.terms, signed.literals), (2, 4));
        let deep = size_of("SELECT a AND b AND c AND d XOR (e OR f)");
        assert_eq!(deep.depth, 1);
    }

    #[test]
    fn queries_that_double_with_each_name_are_refused() {
        let ctes = (1..=12).map(|n| format!("c{n} AS (SELECT 1 FROM c{0} a, c{0} b)", n - 1));
        let ctes = ctes.collect::<Vec<_>>().join(", ");
        assert_eq!(errno(&format!("WITH c0 AS (SELECT 1), {ctes} SELECT 1 FROM c12")), 1116);
    }

    #[test]
    fn each_limit_is_told_by_its_name() {
        let many = |part: &str, count: usize, joined: &str| vec![part; count].join(joined);
        let cases = [
            (format!("SELECT {}", many("a", 4_097, ",")), 1117, "max_select_columns"),
            (format!("SELECT 1 FROM {}", many("t", 62, ",")), 1116, "max_join_tables"),
            (many("SELECT 1", 501, " UNION "), 1116, "max_statement_tables"),
            (format!("SELECT {}", many("a", 352, "+")), 1436, "max_expression_depth"),
            (format!("SELECT CONCAT({})", many("1", 4_097, ",")), 3170, "max_function_arguments"),
            (
                format!("SELECT {}", many(&format!("CONCAT({})", many("a", 100, ",")), 200, ",")),
                3170,
                "max_statement_terms",
            ),
        ];
        for (sql, errno, name) in cases {
            let error = size(&sql).unwrap_err();
            assert_eq!(error.code().errno(), errno, "{error:?}");
            assert!(error.message().contains(name), "{error:?}");
        }
    }

    #[test]
    fn only_what_is_documented_can_be_called() {
        for sql in [
            "SELECT mysql_group_concat(1)",
            "SELECT generate_series(2147483647)",
            "SELECT * FROM generate_series(1)",
            "SELECT levenshtein('a', 'b')",
            "SELECT regr_slope(a, a) FROM t",
            "SELECT df_greatest(1, 2)",
            "SELECT db.abs(1)",
        ] {
            assert_eq!(errno(sql), 1305, "{sql}");
        }
        for sql in [
            "SELECT any_value()",
            "SELECT last_value() OVER ()",
            "SELECT ABS(1, 2)",
            "SELECT SUM()",
            "SELECT 1 WHERE 1 = (SELECT LEFT('a'))",
        ] {
            assert_eq!(errno(sql), 1582, "{sql}");
        }
        assert_eq!(errno("SELECT row_number()"), 1064);
        assert_eq!(errno("SELECT abs(1) OVER ()"), 1064);
        assert!(
            size("SELECT COUNT(*), COUNT(DISTINCT a, b), `Abs`(1), NOW(), RANK() OVER ()").is_ok()
        );
    }

    #[test]
    fn what_people_write_is_small() {
        let sql = "SELECT l_returnflag, SUM(l_quantity), AVG(l_discount) FROM lineitem JOIN \
                   orders USING (k) WHERE l_shipdate <= '1998-09-02' GROUP BY 1 ORDER BY 1";
        assert!(size(sql).unwrap().is_small());
        assert!(
            size(&format!("SELECT 1 WHERE 1 IN ({})", vec!["1"; 900].join(",")))
                .unwrap()
                .is_small()
        );
        assert!(!size(&format!("SELECT {}", vec!["a"; 40].join("+"))).unwrap().is_small());
    }
}
