//! `LATERAL VIEW explode(a) t AS c` of Doris becomes a join with
//! `LATERAL (SELECT explode(a) AS c) t`.

use freshet_base::{Result, bail};
use sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, LateralView, SelectItem, SetExpr, TableAlias,
    TableFactor,
};

use super::derived::selecting_all;
use super::values::int;

/// Rewrites the lateral views of a query.
///
/// # Errors
/// Functions other than EXPLODE, a view without FROM, and more than one column.
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

fn join(view: LateralView) -> Result<Join> {
    let LateralView { lateral_view, lateral_view_name, lateral_col_alias, outer } = view;
    let name = match &lateral_view {
        Expr::Function(function) => function.name.to_string().to_lowercase(),
        _ => String::new(),
    };
    let keeps_all = match name.as_str() {
        "explode" => outer,
        "explode_outer" => true,
        _ => bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'LATERAL VIEW {lateral_view}'; there are \
             EXPLODE and EXPLODE_OUTER of an ARRAY"
        ),
    };
    if lateral_col_alias.len() > 1 {
        bail!(NotSupported, "LATERAL VIEW {name} has one column, and more are named");
    }
    let alias = lateral_col_alias.into_iter().next();
    let column = alias.map_or_else(|| "col".to_owned(), |alias| alias.value.to_lowercase());
    let mut subquery = selecting_all();
    if let SetExpr::Select(select) = &mut *subquery.body {
        let alias = Ident::with_quote('`', column);
        select.projection = vec![SelectItem::ExprWithAlias { expr: lateral_view, alias }];
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
        join_operator: match keeps_all {
            true => JoinOperator::LeftOuter(on_true),
            false => JoinOperator::CrossJoin(JoinConstraint::None),
        },
    })
}
