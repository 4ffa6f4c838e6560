//! Tables with an AGGREGATE KEY whose rows are copied (RFC 0055). Rows of a key are stored in
//! parts, and a part may be of any number of rows that were loaded. So values are converted part by
//! part, and only as it makes no difference which parts have become one before.

use freshet_base::{Result, bail};
use freshet_schema::convert::Source;
use freshet_schema::{Aggregate, Column, ColumnType, KeyModel, Table, TableSchema, holds_all_of};

use super::{Edit, NewForm, is};
use crate::alter::{ColumnPlace, check_aggregate};
use crate::spec::{ColumnSpec, KeyModelSpec};

impl NewForm {
    /// Checks that the rows of a table with an AGGREGATE KEY may become those of `new` in parts.
    ///
    /// # Errors
    /// 1235 for what depends on the parts, 1067 for a new SUM that does not begin with 0 or NULL.
    pub fn check_combined(&self, before: &Table, new: &Table) -> Result<()> {
        if before.key_model != KeyModel::Aggregate {
            return Ok(());
        }
        let from = before.schema();
        let replaces = replaces(new.schema());
        for (column, source) in new.schema().columns.iter().zip(&self.sources) {
            let Source::Column(id) = source else {
                if column.auto_increment.is_some() {
                    bail!(
                        NotSupported,
                        "This version of Freshet doesn't yet support 'ADD COLUMN ... \
                         AUTO_INCREMENT' for a table with an AGGREGATE KEY (column '{}'), whose \
                         rows are in parts that would be counted one by one",
                        column.name
                    );
                }
                if column.aggregate.is_some() {
                    check_aggregate(before, column)?;
                }
                continue;
            };
            let at = from.position_of(*id).expect("a column comes from one that is there");
            check_column(&from.columns[at], column, replaces)?;
        }
        Ok(())
    }
}

/// Whether the last value of a key counts, in the order of the log.
fn replaces(schema: &TableSchema) -> bool {
    let is_one = |column: &Column| {
        matches!(column.aggregate, Some(Aggregate::Replace | Aggregate::ReplaceIfNotNull))
    };
    schema.columns.iter().any(is_one)
}

fn check_column(old: &Column, new: &Column, replaces: bool) -> Result<()> {
    if old.aggregate != new.aggregate {
        bail!(
            NotSupported,
            "Can not change the aggregation of column '{}': rows that are there have become one by \
             it; create a table with the new column, and copy the rows by INSERT .. SELECT",
            old.name
        );
    }
    let is_kept = match old.aggregate {
        // Rows of two keys that become one are in no order.
        None => !replaces || keeps_apart(old, new),
        Some(Aggregate::Replace | Aggregate::ReplaceIfNotNull) => true,
        Some(Aggregate::Min | Aggregate::Max) => keeps_order(old, new),
        Some(Aggregate::Sum) => keeps_sums(old.ty, new.ty),
        Some(Aggregate::BitmapUnion | Aggregate::HllUnion) => old.ty == new.ty,
    };
    if !is_kept {
        bail!(
            NotSupported,
            "Can not change column '{}' from {} to {} in a table with an AGGREGATE KEY: {}; create \
             a table with the new column, and copy the rows by INSERT .. SELECT",
            old.name,
            old.ty,
            new.ty,
            match old.aggregate {
                None => "keys that become the same would be replaced in no order",
                Some(_) => "the value would depend on which rows have become one before",
            }
        );
    }
    if old.aggregate.is_some() && old.nullable && !new.nullable {
        bail!(
            NotSupported,
            "Can not change column '{}' from NULL to NOT NULL in a table with an AGGREGATE KEY: \
             rows that have not become one yet may have NULL",
            old.name
        );
    }
    Ok(())
}

fn is_same_collation(old: &Column, new: &Column) -> bool {
    old.collation == new.collation
        || (old.collation.is_by_bytes() && new.collation.is_by_bytes())
        || !old.ty.is_text()
}

/// Whether values that differ go on differing.
fn keeps_apart(old: &Column, new: &Column) -> bool {
    let both = |is: fn(ColumnType) -> bool| is(old.ty) && is(new.ty);
    // As YEAR, 1 and 2001 are one.
    let is_exact = holds_all_of(new.ty, old.ty)
        || (both(ColumnType::is_integer) && new.ty != ColumnType::Year);
    is_exact && is_same_collation(old, new)
}

/// Whether the greatest value stays the greatest, and the least the least.
fn keeps_order(old: &Column, new: &Column) -> bool {
    if old.ty == new.ty {
        return is_same_collation(old, new);
    }
    let is_moment = |ty| matches!(ty, ColumnType::Date | ColumnType::DateTime { .. });
    let is_number =
        |ty| is_exact_number(ty) || matches!(ty, ColumnType::Float | ColumnType::Double);
    let is_text = |ty: ColumnType| matches!(ty, ColumnType::VarChar { .. } | ColumnType::Text);
    (is_moment(old.ty) && is_moment(new.ty))
        || (is_number(old.ty) && is_number(new.ty))
        || (is_text(old.ty) && is_text(new.ty) && is_same_collation(old, new))
}

fn is_exact_number(ty: ColumnType) -> bool {
    let is_digits = matches!(ty, ColumnType::Boolean | ColumnType::Year | ColumnType::Bit { .. });
    matches!(ty, ColumnType::Decimal { .. }) || (ty.is_integer() && !is_digits)
}

/// Whether a sum of converted parts is the converted sum, of all that fit.
fn keeps_sums(old: ColumnType, new: ColumnType) -> bool {
    let digits = |ty| match ty {
        ColumnType::Decimal { scale, .. } => Some(scale),
        ty => is_exact_number(ty).then_some(0),
    };
    match (digits(old), digits(new)) {
        (Some(before), Some(behind)) => before <= behind,
        _ => old == new || (old, new) == (ColumnType::Float, ColumnType::Double),
    }
}

impl Edit<'_> {
    /// Whether the table has an AGGREGATE KEY.
    pub(super) fn is_combined(&self) -> bool {
        self.table.key_model == KeyModel::Aggregate
    }

    /// Adds a column to the key behind the columns, at its end if no place is given.
    pub(super) fn add_key_column(
        &mut self,
        written: &ColumnSpec,
        place: Option<&ColumnPlace>,
    ) -> Result<()> {
        let last = self.spec.key.as_ref().and_then(|key| key.columns.last());
        let at_end = match (place, last) {
            (None | Some(ColumnPlace::Last), Some(last)) => Some(ColumnPlace::After(last.clone())),
            _ => None,
        };
        self.add(written, at_end.as_ref().or(place))?;
        self.mark_key(&written.name)
    }

    /// Takes a column out of the key behind the columns.
    pub(super) fn drop_key_column(&mut self, name: &str) -> Result<()> {
        let Some(key) = &mut self.spec.key else { return Ok(()) };
        let names = |known: &String| is(known, name);
        if !key.columns.iter().any(names) {
            return Ok(());
        }
        if key.model == KeyModelSpec::Unique {
            bail!(
                NotSupported,
                "Can not drop key column in Unique data model table: column '{name}'"
            );
        }
        if key.model == KeyModelSpec::Aggregate && replaces(self.table.schema()) {
            bail!(
                NotSupported,
                "Can not drop key column when table has value column with REPLACE aggregation \
                 method: column '{name}'"
            );
        }
        key.columns.retain(|known| !is(known, name));
        Ok(())
    }
}
