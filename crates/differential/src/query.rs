//! Random queries, with their SQL and their simplifications.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::class::Class;
use crate::expression::{Column, Expr, Scope};
use crate::forms::Kind;
use crate::table::Table;

const ALIASES: [&str; 3] = ["a", "b", "c"];
const DEPTH_MAX: u32 = 3;
const ITEMS: std::ops::Range<usize> = 1..4;

/// A query, possibly of several parts joined by set operations.
#[derive(Clone, Debug)]
pub struct Query {
    /// The first SELECT.
    pub first: Select,
    /// Further SELECTs, each with its set operation.
    pub rest: Vec<(&'static str, Select)>,
    /// Whether it is ordered by all columns.
    pub ordered: bool,
    /// LIMIT and OFFSET; only if it is ordered by all columns.
    pub limit: Option<(u32, u32)>,
}

/// A SELECT.
#[derive(Clone, Default, Debug)]
pub struct Select {
    pub distinct: bool,
    /// The select list.
    pub items: Vec<Expr>,
    /// The FROM clause.
    pub sources: Vec<Source>,
    /// The WHERE clause.
    pub filter: Option<Expr>,
    /// The GROUP BY clause; `None` if the query is not grouped.
    pub keys: Option<Vec<Expr>>,
    /// The HAVING clause.
    pub having: Option<Expr>,
}

/// A table or subquery, and how it is joined to the preceding ones.
#[derive(Clone, Debug)]
pub struct Source {
    join: &'static str,
    on: Option<Expr>,
    /// A table name or a subquery.
    from: From,
}

#[derive(Clone, Debug)]
enum From {
    Table(String),
    Query(Box<Query>),
}

impl Query {
    /// A random query over these tables.
    pub fn random(random: &mut StdRng, tables: &[Table]) -> Self {
        let count = random.random_range(ITEMS);
        let classes: Vec<_> = (0..count).map(|_| Class::random(random)).collect();
        let first = Select::random(random, tables, &classes, true);
        let mut rest = Vec::new();
        if random.random_ratio(1, 12) {
            let operations = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"];
            let operation = operations.choose(random).expect("there are four");
            rest.push((*operation, Select::random(random, tables, &classes, false)));
        }
        let ordered = random.random_ratio(1, 4);
        let limit = (ordered && random.random_bool(0.5))
            .then(|| (random.random_range(0..6), random.random_range(0..3)));
        Self { first, rest, ordered, limit }
    }

    pub fn sql(&self) -> String {
        self.text(Expr::sql)
    }

    /// The SQL text with classes in place of literals and columns.
    pub fn shape(&self) -> String {
        self.text(Expr::shape)
    }

    fn text(&self, of: fn(&Expr) -> String) -> String {
        let mut text = self.first.text(of);
        for (operation, select) in &self.rest {
            text += &format!(" {operation} {}", select.text(of));
        }
        if self.ordered {
            let places: Vec<_> =
                (1..=self.first.items.len()).map(|place| place.to_string()).collect();
            text += &format!(" ORDER BY {}", places.join(", "));
        }
        if let Some((limit, offset)) = self.limit {
            text += &format!(" LIMIT {limit} OFFSET {offset}");
        }
        text
    }

    /// A measure of complexity.
    pub fn cost(&self) -> usize {
        let rest: usize = self.rest.iter().map(|(_, select)| select.cost()).sum();
        self.first.cost()
            + rest
            + 8 * usize::from(self.ordered)
            + 8 * usize::from(self.limit.is_some())
    }

    /// Queries one step simpler, the simplest first.
    pub fn simpler(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for (_, select) in &self.rest {
            found.push(Self { first: select.clone(), rest: Vec::new(), ..self.clone() });
        }
        if !self.rest.is_empty() {
            found.push(Self { rest: Vec::new(), ..self.clone() });
            found.extend((0..self.first.items.len()).map(|at| self.without_item(at)));
        }
        for source in &self.first.sources {
            if let From::Query(query) = &source.from {
                found.push((**query).clone());
            }
        }
        if self.ordered {
            found.push(Self { ordered: false, limit: None, ..self.clone() });
            found.push(Self { limit: None, ..self.clone() });
        }
        found.extend(self.first.simpler().into_iter().map(|first| Self { first, ..self.clone() }));
        for (at, (operation, select)) in self.rest.iter().enumerate() {
            found.extend(select.simpler().into_iter().map(|select| {
                let mut rest = self.rest.clone();
                rest[at] = (operation, select);
                Self { rest, ..self.clone() }
            }));
        }
        let cost = self.cost();
        found.retain(|query| query.cost() < cost && !query.first.items.is_empty());
        found.sort_by_key(Self::cost);
        found
    }

    fn without_item(&self, at: usize) -> Self {
        let mut query = self.clone();
        query.first.items.remove(at);
        let rest = query.rest.iter_mut().filter(|(_, select)| at < select.items.len());
        rest.for_each(|(_, select)| drop(select.items.remove(at)));
        query
    }

    /// The query without its filter, and with its rows divided into those for which the filter is
    /// true, false and NULL. `None` if the rows of the result do not correspond to rows of the
    /// tables.
    pub fn partitions(&self) -> Option<(Self, [Self; 3])> {
        let plain = self.rest.is_empty() && self.limit.is_none() && !self.first.distinct;
        let windows = self.first.items.iter().any(|item| item.sql().contains(" OVER ("));
        // HAVING without GROUP BY may make one row of no rows.
        if !plain || windows || self.first.keys.is_some() || self.first.having.is_some() {
            return None;
        }
        let filter = self.first.filter.clone()?;
        let with = |filter| {
            let first = Select { filter, ..self.first.clone() };
            Self { first, ordered: false, ..self.clone() }
        };
        let call = |text: &str| {
            let form = Kind::Scalar.forms().iter().find(|form| form.text == text);
            Expr::Call(form.expect("it is a form"), Class::Bool, vec![filter.clone()])
        };
        let parts = [filter.clone(), call("(NOT @)"), call("(@ IS NULL)")];
        Some((with(None), parts.map(|part| with(Some(part)))))
    }

    /// Replaces literals with parameters of a prepared statement; returns the literals.
    pub fn parameters(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        // The select list keeps its literals, since parameters would change the types of its
        // columns.
        if self.rest.is_empty() {
            let filter = self.first.filter.iter_mut();
            filter.for_each(|expr| expr.parameters(&mut found));
        }
        found
    }
}

impl Select {
    fn random(random: &mut StdRng, tables: &[Table], classes: &[Class], nested: bool) -> Self {
        let (sources, scope) = sources(random, tables, nested);
        let depth = random.random_range(0..=DEPTH_MAX);
        let filtered = random.random_ratio(2, 5).then(|| random.random_range(1..=DEPTH_MAX));
        let filter = filtered.map(|depth| scope.expr(random, Class::Bool, depth));
        let mut select = Self { sources, filter, ..Self::default() };
        let grouped = random.random_ratio(1, 4);
        let mut scope = scope;
        if grouped {
            let keys: Vec<_> = (0..random.random_range(0..3))
                .map(|_| {
                    let (class, depth) = (Class::random(random), random.random_range(0..2));
                    scope.expr(random, class, depth)
                })
                .filter(|key| !matches!(key, Expr::Literal(..)))
                .collect();
            scope.keys = Some(keys.clone());
            select.keys = Some(keys);
            if random.random_ratio(1, 6) {
                select.having = Some(scope.expr(random, Class::Bool, 2));
            }
        }
        select.distinct = random.random_ratio(1, 12);
        select.items = classes
            .iter()
            .map(|class| {
                let window = !grouped && scope.ordered && random.random_ratio(1, 10);
                let window = window.then(|| scope.call(random, Kind::Window, *class, depth.min(1)));
                window.flatten().unwrap_or_else(|| scope.expr(random, *class, depth))
            })
            .collect();
        if grouped
            && !select.items.iter().any(aggregates)
            && select.keys.as_ref().is_some_and(Vec::is_empty)
        {
            select.keys = None;
        }
        select
    }

    fn text(&self, of: fn(&Expr) -> String) -> String {
        let items = self.items.iter().enumerate();
        let items: Vec<_> = items.map(|(at, item)| format!("{} AS c{at}", of(item))).collect();
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let mut text = format!("SELECT {distinct}{}", items.join(", "));
        for (at, source) in self.sources.iter().enumerate() {
            let from = match &source.from {
                From::Table(name) => name.clone(),
                From::Query(query) => format!("({})", query.text(of)),
            };
            let join = if at == 0 { "FROM" } else { source.join };
            text += &format!(" {join} {from} AS {}", ALIASES[at]);
            if let (Some(on), true) = (&source.on, at > 0) {
                text += &format!(" ON {}", of(on));
            }
        }
        if let Some(filter) = &self.filter {
            text += &format!(" WHERE {}", of(filter));
        }
        let keys: Vec<_> = self.keys.iter().flatten().map(of).collect();
        if !keys.is_empty() {
            text += &format!(" GROUP BY {}", keys.join(", "));
        }
        if let Some(having) = &self.having {
            text += &format!(" HAVING {}", of(having));
        }
        text
    }

    fn exprs(&mut self) -> Vec<&mut Expr> {
        let on = self.sources.iter_mut().filter_map(|source| source.on.as_mut());
        let keys = self.keys.iter_mut().flatten();
        self.items
            .iter_mut()
            .chain(on)
            .chain(&mut self.filter)
            .chain(keys)
            .chain(&mut self.having)
            .collect()
    }

    fn cost(&self) -> usize {
        let mut this = self.clone();
        let exprs: usize = this.exprs().into_iter().map(|expr| 4 + expr.cost()).sum();
        let source = |source: &Source| match &source.from {
            From::Table(_) => 20,
            From::Query(query) => 30 + query.cost(),
        };
        exprs + self.sources.iter().map(source).sum::<usize>() + 8 * usize::from(self.distinct)
    }

    fn simpler(&self) -> Vec<Self> {
        let mut found = vec![
            Self { sources: Vec::new(), ..self.clone() },
            Self { filter: None, ..self.clone() },
            Self { having: None, ..self.clone() },
            Self { keys: None, having: None, ..self.clone() },
            Self { distinct: false, ..self.clone() },
        ];
        let mut without = |remove: &dyn Fn(&mut Self)| {
            let mut select = self.clone();
            remove(&mut select);
            found.push(select);
        };
        for at in 0..self.items.len() {
            without(&|select| drop(select.items.remove(at)));
        }
        for at in 0..self.keys.as_ref().map_or(0, Vec::len) {
            without(&|select| select.keys.iter_mut().for_each(|keys| drop(keys.remove(at))));
        }
        for (at, source) in self.sources.iter().enumerate() {
            without(&|select| drop(select.sources.remove(at)));
            if let From::Query(query) = &source.from {
                for simpler in query.simpler() {
                    without(&|select| {
                        select.sources[at].from = From::Query(Box::new(simpler.clone()));
                    });
                }
            }
        }
        let count = self.clone().exprs().len();
        for at in 0..count {
            without(&|select| select.items = vec![select.exprs()[at].clone()]);
            // If a condition has different results, so does a query that selects it.
            without(&|select| {
                select.items = vec![select.exprs()[at].clone()];
                (select.filter, select.having) = (None, None);
                let on = select.sources.iter_mut().filter_map(|source| source.on.as_mut());
                on.for_each(|on| *on = Expr::Literal(Class::Bool, "1".to_owned()));
            });
            for simpler in self.clone().exprs()[at].simpler() {
                without(&|select| *select.exprs()[at] = simpler.clone());
            }
        }
        found
    }
}

fn aggregates(expr: &Expr) -> bool {
    match expr {
        Expr::Call(form, _, args) => {
            Kind::Aggregate.forms().iter().any(|known| std::ptr::eq(known, *form))
                || args.iter().any(aggregates)
        }
        Expr::Literal(..) | Expr::Column(_) => false,
    }
}

/// Zero to three sources, and the scope for expressions over them.
fn sources(random: &mut StdRng, tables: &[Table], nested: bool) -> (Vec<Source>, Scope) {
    let count = *[0, 1, 1, 1, 1, 1, 1, 2, 2, 3].choose(random).expect("there are counts");
    let mut scope = Scope { ordered: count == 1, ..Scope::default() };
    let mut sources = Vec::new();
    for alias in &ALIASES[..count] {
        let table = tables.choose(random).expect("there are tables");
        let from = if nested && random.random_ratio(1, 10) {
            scope.ordered = false;
            let classes = [Class::random(random), Class::random(random)];
            let first = Select::random(random, tables, &classes, false);
            let columns = classes.iter().enumerate().map(|(at, class)| Column {
                class: *class,
                name: format!("{alias}.c{at}"),
                constants: [].into(),
            });
            scope.columns.extend(columns);
            let query = Query { first, rest: Vec::new(), ordered: false, limit: None };
            From::Query(Box::new(query))
        } else {
            scope.columns.extend(table.columns(alias));
            From::Table(table.name.clone())
        };
        let joins = ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "CROSS JOIN"];
        let join = *joins.choose(random).expect("there are joins");
        let on =
            (join != "CROSS JOIN" && !sources.is_empty()).then(|| condition(random, &scope, alias));
        sources.push(Source { join, on, from });
    }
    (sources, scope)
}

/// The join condition of the source with this alias, usually the equality of two columns.
fn condition(random: &mut StdRng, scope: &Scope, alias: &str) -> Expr {
    let prefix = format!("{alias}.");
    let (right, left): (Vec<_>, Vec<_>) =
        scope.columns.iter().partition(|column| column.name.starts_with(&prefix));
    let forms = Kind::Scalar.forms();
    let signs = ["(@ = @)", "(@ = @)", "(@ = @)", "(@ <=> @)", "(@ < @)"];
    let sign = signs.choose(random).expect("there are signs");
    let form = forms.iter().find(|form| form.text == *sign).expect("it is a form");
    if random.random_ratio(1, 4) {
        return scope.expr(random, Class::Bool, 2);
    }
    let left = *left.choose(random).expect("a source has columns");
    let like: Vec<_> = right.iter().filter(|column| column.class == left.class).collect();
    let right = like.choose(random).map_or(right[0], |column| **column);
    let args = vec![Expr::Column(left.clone()), Expr::Column(right.clone())];
    Expr::Call(form, Class::Bool, args)
}
