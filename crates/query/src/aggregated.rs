//! Tables with an AGGREGATE KEY: what stands in files and memory becomes one row for each key when
//! it is read (keys.md, section 1). DataFusion does it, as it does any GROUP BY: in parallel,
//! within its memory, and below filters on the key.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, Result, TableReference};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::functions_aggregate::first_last::last_value_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::expr::NullTreatment;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr};
use freshet_schema::{Aggregate, KeyModel};

use crate::functions::sketch_aggregates::sketched;
use crate::functions::wrapping_sum::wrapping_sum;
use crate::provider::StoredTable;
use crate::scan::PLACE_COLUMNS;

/// The table as queries see it: with one row for each key if it has an AGGREGATE KEY, else as it
/// is.
///
/// # Errors
/// When it cannot be planned.
pub fn as_seen(provider: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    let Some(stored) = provider.downcast_ref::<StoredTable>() else { return Ok(provider) };
    if stored.table().key_model != KeyModel::Aggregate {
        return Ok(provider);
    }
    let (database, name) = stored.place();
    let columns = stored.columns().columns.iter().map(|column| column.aggregate);
    let columns = columns.collect::<Vec<_>>();
    let plan = combined(TableReference::partial(database, name), &provider, &columns)?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// One row for each key of the table, with the columns before those of the rows' places;
/// `functions` says how the values of each become one, and `None` stands for columns of the key.
fn combined(
    name: TableReference,
    provider: &Arc<dyn TableProvider>,
    functions: &[Option<Aggregate>],
) -> Result<LogicalPlan> {
    let source = provider_as_source(Arc::clone(provider));
    let scan = LogicalPlanBuilder::scan(name.clone(), source, None)?;
    let schema = provider.schema();
    let column = |name_of: &str| Expr::Column(Column::new(Some(name.clone()), name_of));
    let by_place = PLACE_COLUMNS.map(|place| SortExpr::new(column(place), true, true));
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (field, function) in schema.fields().iter().zip(functions) {
        match function {
            None => keys.push(column(field.name())),
            Some(function) => {
                let value = value_of(column(field.name()), *function, by_place.to_vec())?;
                values.push(value.alias(field.name()));
            }
        }
    }
    let grouped = scan.aggregate(keys, values)?;
    let shown = schema.fields().iter().zip(functions).map(|(field, function)| {
        let value = match function {
            None => column(field.name()),
            Some(_) => Expr::Column(Column::new_unqualified(field.name())),
        };
        let metadata = field.metadata().clone().into_iter().collect::<BTreeMap<_, _>>();
        value.alias_with_metadata(field.name(), Some(FieldMetadata::from(metadata)))
    });
    grouped.project(shown.collect::<Vec<_>>())?.build()
}

fn value_of(column: Expr, function: Aggregate, by_place: Vec<SortExpr>) -> Result<Expr> {
    let last = |nulls| {
        let call = last_value_udaf().call(vec![column.clone()]);
        call.order_by(by_place).null_treatment(nulls).build()
    };
    match function {
        Aggregate::Sum => Ok(wrapping_sum(column)),
        Aggregate::Min => Ok(min_udaf().call(vec![column])),
        Aggregate::Max => Ok(max_udaf().call(vec![column])),
        Aggregate::Replace => last(NullTreatment::RespectNulls),
        Aggregate::ReplaceIfNotNull => last(NullTreatment::IgnoreNulls),
        Aggregate::BitmapUnion => Ok(sketched("bitmap_union", column)),
        Aggregate::HllUnion => Ok(sketched("hll_union", column)),
    }
}
