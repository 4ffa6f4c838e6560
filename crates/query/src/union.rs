//! UNION of columns of different types: the type of a result column is the one that holds the
//! values of all its parts.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union};
use sqlparser::ast::TableFactor;

use crate::functions::typed::{common_of, converted};

/// Gives the UNION of a derived table its types before anything reads its columns: what operators
/// mean is decided by the types of their operands.
#[derive(Debug)]
pub struct TypedRelations;

impl RelationPlanner for TypedRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Derived { lateral, subquery, alias: Some(alias), sample } = relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        // Every derived table has an alias; without one it comes here once more, and passes.
        let bare = TableFactor::Derived { lateral, subquery, alias: None, sample };
        let plan = typed(context.plan(bare)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
    }
}

/// The plan with the parts of each UNION converted to common types.
pub fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let typed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Union(union) => match converted_parts(&union)? {
            Some(parts) => {
                changed = true;
                Ok(Transformed::yes(LogicalPlan::Union(Union::try_new(parts)?)))
            }
            None => Ok(Transformed::no(LogicalPlan::Union(union))),
        },
        // What reads a union says anew what it has.
        other if changed => other.recompute_schema().map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(typed.data)
}

/// The parts with their columns converted, where any must be.
fn converted_parts(union: &Union) -> Result<Option<Vec<Arc<LogicalPlan>>>> {
    let wanted = (0..union.schema.fields().len())
        .map(|at| common_of(union.inputs.iter().map(|part| part.schema().field(at).data_type())))
        .collect::<Vec<_>>();
    let fits = |part: &Arc<LogicalPlan>| {
        part.schema().fields().iter().zip(&wanted).all(|(field, ty)| field.data_type() == ty)
    };
    if union.inputs.iter().all(fits) {
        return Ok(None);
    }
    let parts = union.inputs.iter().map(|part| {
        let items = part.schema().iter().zip(&wanted).map(|((qualifier, field), ty)| {
            let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            match field.data_type() == ty {
                true => column,
                false => converted(column, field.data_type(), ty)
                    .alias_qualified(qualifier.cloned(), field.name()),
            }
        });
        let items = items.collect::<Vec<_>>();
        LogicalPlanBuilder::from(Arc::clone(part)).project(items)?.build().map(Arc::new)
    });
    parts.collect::<Result<Vec<_>>>().map(Some)
}
