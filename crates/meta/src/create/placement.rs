//! The clauses of PolarDB-X that say where rows are.

use freshet_base::{ColumnId, Result, bail, err};
use freshet_schema::{Column, Distribution, KeyModel, PartitionExpr, Placement, TimePart};

use super::partition::expr_of;
use super::position;
use crate::spec::{DistributionSpec, PlacementSpec};

/// Maximum length of a clause of PolarDB-X, in bytes.
const PLACEMENT_BYTES_MAX: usize = 4096;

/// The columns of a clause of PolarDB-X.
pub(super) fn placement(written: &PlacementSpec, columns: &[Column]) -> Result<Placement> {
    if written.text.len() > PLACEMENT_BYTES_MAX {
        bail!(TooLong, "A clause that says where rows are has at most {PLACEMENT_BYTES_MAX} bytes");
    }
    let id = |name: &String| {
        let at = position(columns, name);
        at.map(|at| columns[at].id).ok_or_else(|| {
            err!(KeyColumnMissing, "Key column '{name}' doesn't exist in table: {}", written.text)
        })
    };
    let ids = written.columns.iter().map(id).collect::<Result<_>>()?;
    Ok(Placement { text: written.text.clone(), columns: ids })
}

/// What a clause of PolarDB-X means here. Where rows of one key could be in several tablets by it,
/// they are divided by the key.
pub(super) fn placed_by(
    placement: &Placement,
    columns: &[Column],
    key_model: KeyModel,
    sort_key: &[usize],
    warnings: &mut Vec<String>,
) -> Option<DistributionSpec> {
    let named = columns.iter().filter(|column| placement.columns.contains(&column.id));
    let named = named.map(|column| column.name.clone()).collect::<Vec<_>>();
    let is_key = |id: &ColumnId| sort_key.iter().any(|&at| columns[at].id == *id);
    if key_model != KeyModel::Duplicate && !placement.columns.iter().all(is_key) {
        warnings.push(format!(
            "rows are divided by the primary key, and not by ({}), which is not all of it",
            named.join(", ")
        ));
        return None;
    }
    (!named.is_empty()).then_some(DistributionSpec::Hash(named))
}

/// Rows that are divided by some columns, where a clause names but parts of those, or an expression
/// over the only one.
pub(super) fn by_parts(
    distribution: Distribution,
    written: &PlacementSpec,
    columns: &[Column],
) -> Distribution {
    if let Some(expr) = computed(&distribution, written, columns) {
        return Distribution::Computed(Box::new(expr));
    }
    let part = |id: ColumnId| {
        let column = columns.iter().find(|column| column.id == id)?;
        let named = written.parts.iter().find(|(name, _)| name.eq_ignore_ascii_case(&column.name));
        named.map(|(_, part)| *part).filter(|_| TimePart::is_of(column.ty))
    };
    let divides = distribution.columns().into_iter().map(|id| (id, part(id)));
    let divides = divides.collect::<Vec<_>>();
    match divides.iter().any(|(_, part)| part.is_some()) {
        true => Distribution::Parts(divides),
        false => distribution,
    }
}

/// The expression of a clause; `None` without one, and where its column has no such numbers.
fn computed(
    distribution: &Distribution,
    written: &PlacementSpec,
    columns: &[Column],
) -> Option<PartitionExpr> {
    let [id] = distribution.columns()[..] else { return None };
    let column = columns.iter().find(|column| column.id == id)?;
    expr_of(column, written.computed.as_ref()?)
}
