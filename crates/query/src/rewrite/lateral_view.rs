//! `LATERAL VIEW explode(a) t AS c` of Doris becomes a join with
//! `LATERAL (SELECT explode(a) AS c) t`. Functions with two columns explode an array of structs of
//! which these are the fields.

use freshet_base::{Result, bail};
use freshet_schema::nested::{KEY, VALUE};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join, JoinConstraint,
    JoinOperator, LateralView, SelectItem, SetExpr, TableAlias, TableFactor,
};

use super::derived::selecting_all;
use super::values::{call, int, text};
use crate::functions::nested::{ELEMENT_AT, ENTRIES, POSITION, POSITIONS};

/// Rewrites the lateral views of a query.
///
/// # Errors
/// Functions other than EXPLODE and its like, a view without FROM, and a wrong number of columns.
pub fn joined(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => {
            for view in std::mem::take(&mut select.lateral_views) {
                let Some(last) = select.from.last_mut() else {
                    bail!(
                        Syntax,
                        "You have an error in your SQL syntax; LATERAL VIEW follows FROM"
                    );
                };
                last.joins.push(join(view)?);
            }
            Ok(())
        }
        SetExpr::SetOperation { left, right, .. } => {
            joined(left)?;
            joined(right)
        }
        _ => Ok(()),
    }
}

/// What a function of LATERAL VIEW makes of its argument.
struct Made {
    /// Makes an array of structs of it; without it is an array itself.
    of: Option<&'static str>,
    /// The fields of these, and the names of the columns where none are given.
    columns: &'static [&'static str],
    /// Whether there is a row where there are no elements.
    keeps_all: bool,
}

impl Made {
    /// `None` for other functions.
    fn by(name: &str, named: usize) -> Option<Self> {
        let (name, keeps_all) = match name.strip_suffix("_outer") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let entries = (Some(ENTRIES), &[KEY, VALUE][..]);
        let (of, columns) = match name {
            "explode" if named == 2 => entries,
            "explode" => (None, &["col"][..]),
            "explode_map" => entries,
            "posexplode" => (Some(POSITIONS), &[POSITION, "col"][..]),
            _ => return None,
        };
        Some(Self { of, columns, keeps_all })
    }
}

fn join(view: LateralView) -> Result<Join> {
    let LateralView { lateral_view, lateral_view_name, lateral_col_alias, outer } = view;
    let name = match &lateral_view {
        Expr::Function(function) => function.name.to_string().to_lowercase(),
        _ => String::new(),
    };
    let named = lateral_col_alias.len();
    let (Some(made), Expr::Function(mut function)) = (Made::by(&name, named), lateral_view) else {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'LATERAL VIEW {name}'; there are EXPLODE \
             of an ARRAY or MAP, EXPLODE_MAP, POSEXPLODE, and those with _OUTER behind"
        );
    };
    let width = made.columns.len();
    if named > 0 && named != width {
        bail!(
            ParameterCount,
            "LATERAL VIEW {name} has columns {}, and {named} are named",
            made.columns.join(", ")
        );
    }
    let aliases = lateral_col_alias.into_iter().map(|alias| alias.value.to_lowercase());
    let names = match named {
        0 => made.columns.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(),
        _ => aliases.collect(),
    };
    let rows = match made.of {
        Some(of) => {
            let inner = call(of, arguments(&mut function)?);
            call("explode", vec![inner])
        }
        None => Expr::Function(function),
    };
    let column = |(&field, name): (&&str, String)| SelectItem::ExprWithAlias {
        expr: match made.of {
            Some(_) => call(ELEMENT_AT, vec![rows.clone(), text(field)]),
            None => rows.clone(),
        },
        alias: Ident::with_quote('`', name),
    };
    let mut subquery = selecting_all();
    if let SetExpr::Select(select) = &mut *subquery.body {
        select.projection = made.columns.iter().zip(names).map(column).collect();
        select.from.clear();
    }
    let last = lateral_view_name.0.last().and_then(|part| part.as_ident()).cloned();
    let alias = TableAlias {
        explicit: true,
        name: last.unwrap_or_else(|| Ident::new("view")),
        columns: Vec::new(),
        at: None,
    };
    let on_true = JoinConstraint::On(int(1));
    Ok(Join {
        relation: TableFactor::Derived {
            lateral: true,
            subquery,
            alias: Some(alias),
            sample: None,
        },
        global: false,
        join_operator: match outer || made.keeps_all {
            true => JoinOperator::LeftOuter(on_true),
            false => JoinOperator::CrossJoin(JoinConstraint::None),
        },
    })
}

/// The arguments of a call.
fn arguments(function: &mut Function) -> Result<Vec<Expr>> {
    let FunctionArguments::List(list) = &mut function.args else { return Ok(Vec::new()) };
    let argument = |argument: FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        other => bail!(Syntax, "You have an error in your SQL syntax; near '{other}'"),
    };
    std::mem::take(&mut list.args).into_iter().map(argument).collect()
}
