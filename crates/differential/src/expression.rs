//! Random typed expressions, with their SQL and their simplifications.

use std::rc::Rc;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::class::Class;
use crate::forms::{Form, Kind};

/// One in this many arguments gets a random class instead of the one that the form asks for.
const UNLIKE_ONE_IN: u32 = 9;
/// Maximum number of values tried in place of a column during simplification.
const VALUES_TRIED_MAX: usize = 12;

/// A column that an expression may use.
#[derive(Clone, Debug)]
pub struct Column {
    /// The class of its values.
    pub class: Class,
    /// The name qualified with the table alias.
    pub name: String,
    /// Expressions for the values in the column that need no table.
    pub constants: Rc<[String]>,
}

#[derive(Clone, Debug)]
pub enum Expr {
    Literal(Class, String),
    Column(Column),
    /// A function or operator, the class of its result, and its arguments.
    Call(&'static Form, Class, Vec<Expr>),
}

/// The columns available to an expression.
#[derive(Clone, Default, Debug)]
pub struct Scope {
    /// The columns of the tables.
    pub columns: Vec<Column>,
    /// Whether the rows can be ordered by `a.id`.
    pub ordered: bool,
    /// The GROUP BY expressions of a grouped query.
    pub keys: Option<Vec<Expr>>,
}

impl Scope {
    /// The scope for arguments of aggregates.
    fn rows(&self) -> Self {
        Self { keys: None, ..self.clone() }
    }

    /// A random expression of this class, with calls nested up to `depth`.
    pub fn expr(&self, random: &mut StdRng, class: Class, depth: u32) -> Expr {
        if class.is_literal() {
            let (class, text) = class.literal(random);
            return Expr::Literal(class, text);
        }
        let call = (depth > 0 && random.random_ratio(3, 4))
            .then(|| self.call(random, Kind::Scalar, class, depth - 1));
        call.flatten().unwrap_or_else(|| self.leaf(random, class, depth))
    }

    /// A random call of a form of this kind, if any has a result of this class.
    pub fn call(&self, random: &mut StdRng, kind: Kind, class: Class, depth: u32) -> Option<Expr> {
        let fits = |form: &&Form| {
            (class == Class::Any || form.class == class || form.class == Class::Any)
                && (self.ordered || !form.orders_rows())
        };
        let fitting: Vec<&'static Form> = kind.forms().iter().filter(fits).collect();
        let form = *fitting.choose(random)?;
        let any = form.class == Class::Any && class != Class::Any;
        let like = if any { class } else { Class::random(random) };
        let scope = if kind == Kind::Scalar { self.clone() } else { self.rows() };
        let args = form.args.iter().map(|arg| {
            let class = match arg {
                Class::Like => like,
                Class::Any => Class::random(random),
                class => *class,
            };
            let unlike = !class.is_literal() && random.random_ratio(1, UNLIKE_ONE_IN);
            let class = if unlike { Class::random(random) } else { class };
            scope.expr(random, class, depth)
        });
        let args = args.collect();
        let class = if form.class == Class::Any { like } else { form.class };
        Some(Expr::Call(form, class, args))
    }

    fn leaf(&self, random: &mut StdRng, class: Class, depth: u32) -> Expr {
        let literal = random.random_ratio(1, 4);
        match &self.keys {
            _ if literal => {}
            Some(keys) => {
                let fits = |key: &&Expr| class == Class::Any || key.class() == class;
                let fitting: Vec<_> = keys.iter().filter(fits).collect();
                match fitting.choose(random) {
                    Some(key) if random.random_bool(0.5) => return (*key).clone(),
                    _ => {
                        if let Some(call) = self.call(random, Kind::Aggregate, class, depth) {
                            return call;
                        }
                    }
                }
            }
            None => {
                let fits = |column: &&Column| class == Class::Any || column.class == class;
                let fitting: Vec<_> = self.columns.iter().filter(fits).collect();
                if let Some(column) = fitting.choose(random) {
                    return Expr::Column((*column).clone());
                }
            }
        }
        let (class, text) = class.literal(random);
        Expr::Literal(class, text)
    }
}

impl Expr {
    /// The class of its result.
    pub fn class(&self) -> Class {
        match self {
            Self::Literal(class, _) | Self::Call(_, class, _) => *class,
            Self::Column(column) => column.class,
        }
    }

    pub fn sql(&self) -> String {
        match self {
            Self::Literal(_, text) => text.clone(),
            Self::Column(column) => column.name.clone(),
            Self::Call(form, _, args) => form.with(&args.iter().map(Self::sql).collect::<Vec<_>>()),
        }
    }

    /// The SQL text with classes in place of literals and columns.
    pub fn shape(&self) -> String {
        match self {
            Self::Literal(..) | Self::Column(_) => self.class().name().to_owned(),
            Self::Call(form, _, args) => {
                form.with(&args.iter().map(Self::shape).collect::<Vec<_>>())
            }
        }
    }

    /// A measure of complexity.
    pub fn cost(&self) -> usize {
        match self {
            Self::Literal(class, text) => {
                let literals = class.literals().iter();
                1 + literals.take(4).position(|literal| literal == text).unwrap_or(4)
            }
            Self::Column(_) => 12,
            Self::Call(_, _, args) => 16 + args.iter().map(Self::cost).sum::<usize>(),
        }
    }

    /// Expressions one step simpler.
    pub fn simpler(&self) -> Vec<Self> {
        let mut found = Vec::new();
        let class = self.class();
        let literal = |class: Class, text: &str| Self::Literal(class, text.to_owned());
        match self {
            Self::Literal(..) => {}
            Self::Column(column) => {
                let constants = column.constants.iter().take(VALUES_TRIED_MAX);
                found.extend(constants.map(|text| literal(class, text)));
            }
            Self::Call(form, class, args) => {
                found.extend(args.iter().cloned());
                for (at, arg) in args.iter().enumerate() {
                    found.extend(arg.simpler().into_iter().map(|simpler| {
                        let mut args = args.clone();
                        args[at] = simpler;
                        Self::Call(form, *class, args)
                    }));
                }
            }
        }
        found.extend(class.literals().iter().take(3).map(|text| literal(class, text)));
        found.push(literal(Class::Null, "NULL"));
        let cost = self.cost();
        found.retain(|expr| expr.cost() < cost);
        found
    }

    /// Replaces text and integer literals with parameters of a prepared statement.
    pub fn parameters(&mut self, found: &mut Vec<String>) {
        match self {
            Self::Literal(Class::Text | Class::Int, text) => {
                found.push(std::mem::replace(text, "?".to_owned()));
            }
            Self::Call(_, _, args) => args.iter_mut().for_each(|arg| arg.parameters(found)),
            Self::Literal(..) | Self::Column(_) => {}
        }
    }
}
