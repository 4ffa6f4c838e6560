//! Walks through syntax trees. Those of the parser are copied by the compiler for each type of
//! visitor: fifty visitors were fifty copies of a walk through some 1,200 types of nodes, a
//! quarter of the binary and most of the time to build it. Here the visitor is behind a pointer,
//! so that one copy of each walk serves all.

use std::ops::ControlFlow::{self, Break, Continue};

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

macro_rules! behind_a_pointer {
    ($visitor:ident, $any:ident, $keeping:ident, $pointer:ident: $($method:ident($part:ty))*) => {
        /// Any visitor, whatever it breaks with.
        trait $any {
            $(fn $method(&mut self, part: $part) -> ControlFlow<()>;)*
        }

        /// A visitor, and what it broke with.
        struct $keeping<'a, V: $visitor> {
            visitor: &'a mut V,
            broke_with: Option<V::Break>,
        }

        impl<V: $visitor> $any for $keeping<'_, V> {
            $(fn $method(&mut self, part: $part) -> ControlFlow<()> {
                let Break(with) = self.visitor.$method(part) else { return Continue(()) };
                self.broke_with = Some(with);
                Break(())
            })*
        }

        /// The only visitor that the parser's walk is made for.
        struct $pointer<'a>(&'a mut dyn $any);

        impl $visitor for $pointer<'_> {
            type Break = ();

            $(fn $method(&mut self, part: $part) -> ControlFlow<()> {
                self.0.$method(part)
            })*
        }
    };
}

behind_a_pointer! {
    Visitor, AnyVisitor, Keeping, Pointer:
    pre_visit_query(&Query) post_visit_query(&Query)
    pre_visit_select(&Select) post_visit_select(&Select)
    pre_visit_relation(&ObjectName) post_visit_relation(&ObjectName)
    pre_visit_table_factor(&TableFactor) post_visit_table_factor(&TableFactor)
    pre_visit_expr(&Expr) post_visit_expr(&Expr)
    pre_visit_statement(&Statement) post_visit_statement(&Statement)
    pre_visit_value(&ValueWithSpan) post_visit_value(&ValueWithSpan)
}

behind_a_pointer! {
    VisitorMut, AnyVisitorMut, KeepingMut, PointerMut:
    pre_visit_query(&mut Query) post_visit_query(&mut Query)
    pre_visit_select(&mut Select) post_visit_select(&mut Select)
    pre_visit_relation(&mut ObjectName) post_visit_relation(&mut ObjectName)
    pre_visit_table_factor(&mut TableFactor) post_visit_table_factor(&mut TableFactor)
    pre_visit_expr(&mut Expr) post_visit_expr(&mut Expr)
    pre_visit_statement(&mut Statement) post_visit_statement(&mut Statement)
    pre_visit_value(&mut ValueWithSpan) post_visit_value(&mut ValueWithSpan)
}

/// Shows a visitor all nodes of a part of a syntax tree.
#[expect(clippy::disallowed_methods, reason = "the one copy")]
pub fn walk<V: Visitor>(part: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut keeping = Keeping { visitor, broke_with: None };
    let _ = part.visit(&mut Pointer(&mut keeping));
    keeping.broke_with.map_or(Continue(()), Break)
}

/// Lets a visitor change all nodes of a part of a syntax tree.
#[expect(clippy::disallowed_methods, reason = "the one copy")]
pub fn walk_mut<V: VisitorMut>(part: &mut impl VisitMut, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut keeping = KeepingMut { visitor, broke_with: None };
    let _ = part.visit(&mut PointerMut(&mut keeping));
    keeping.broke_with.map_or(Continue(()), Break)
}

/// Calls a function with expressions.
struct Each<F>(F);

/// Calls a function with the names of tables.
struct EachRelation<F>(F);

impl<E, F: FnMut(&Expr) -> ControlFlow<E>> Visitor for Each<F> {
    type Break = E;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<E> {
        self.0(expr)
    }
}

impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for Each<F> {
    type Break = E;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<E> {
        self.0(expr)
    }
}

impl<E, F: FnMut(&ObjectName) -> ControlFlow<E>> Visitor for EachRelation<F> {
    type Break = E;

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<E> {
        self.0(name)
    }
}

/// Calls a function with each expression, before those inside of it.
pub fn visit_expressions<E>(
    part: &impl Visit,
    each: impl FnMut(&Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    walk(part, &mut Each(each))
}

/// Calls a function with each expression, after those inside of it.
pub fn visit_expressions_mut<E>(
    part: &mut impl VisitMut,
    each: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    walk_mut(part, &mut Each(each))
}

/// Calls a function with each name of a table.
pub fn visit_relations<E>(
    part: &impl Visit,
    each: impl FnMut(&ObjectName) -> ControlFlow<E>,
) -> ControlFlow<E> {
    walk(part, &mut EachRelation(each))
}
