//! SUM: DataFusion's where 128 bits are sufficient, otherwise with 256 bits.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal256Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field, FieldRef, i256,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

use super::meaning::joined_scale;
use super::typed::NARROW_SUMMAND_DIGITS;

/// The precision of a sum exceeds that of its argument by this, as in MySQL.
const SUM_DIGITS: u8 = 22;

pub fn sum() -> AggregateUDF {
    AggregateUDF::new_from_impl(Sum { inner: sum_udaf() })
}

/// DataFusion's SUM with MySQL's result type, and 256-bit sums where necessary.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

impl Sum {
    /// The type of a sum that may need more than 128 bits.
    fn wide_sum(arg: &DataType) -> Option<DataType> {
        match arg {
            DataType::Decimal128(precision, scale) if *precision > NARROW_SUMMAND_DIGITS => {
                Some(DataType::Decimal256(precision + SUM_DIGITS, *scale))
            }
            DataType::Decimal256(precision, scale) => {
                let precision = (precision + SUM_DIGITS).min(DECIMAL256_MAX_PRECISION);
                Some(DataType::Decimal256(precision, *scale))
            }
            _ => None,
        }
    }

    /// The type of the sum, if 128-bit values are added up in 256 bits.
    fn wide(args: &AccumulatorArgs<'_>) -> Option<DataType> {
        match args.expr_fields.first()?.data_type() {
            ty @ DataType::Decimal128(_, _) if !args.is_distinct => Self::wide_sum(ty),
            _ => None,
        }
    }
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.first().and_then(Self::wide_sum) {
            Some(wide) => Ok(wide),
            None => self.inner.return_type(arg_types),
        }
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let types = arg_fields.iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        let field = Field::new(self.name(), self.return_type(&types)?, self.is_nullable());
        Ok(joined_scale(field, arg_fields.iter()).into())
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match Self::wide(&args) {
            Some(ty) => Ok(Box::new(WideSum::new(ty))),
            None => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match Self::wide(&args) {
            Some(ty) => Ok(Box::new(WideSums::new(ty))),
            None => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match Self::wide(&args) {
            Some(ty) => Ok(Box::new(WideSum::new(ty))),
            None => self.inner.create_sliding_accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// A sum that starts with 128 bits and continues in 256 after an overflow.
#[derive(Clone, Copy, Debug, Default)]
struct Spilling {
    narrow: i128,
    wide: i256,
}

impl Spilling {
    fn add(&mut self, value: i128) {
        match self.narrow.checked_add(value) {
            Some(sum) => self.narrow = sum,
            None => {
                self.wide = self.sum();
                self.narrow = value;
            }
        }
    }

    fn sum(&self) -> i256 {
        self.wide.wrapping_add(i256::from_i128(self.narrow))
    }
}

/// The sum of a column, and the number of its non-NULL values.
fn total(array: &ArrayRef) -> (i256, usize) {
    let count = array.len() - array.null_count();
    let sum = match array.data_type() {
        DataType::Decimal128(_, _) => {
            let array = array.as_primitive::<Decimal128Type>();
            let mut sum = Spilling::default();
            match array.null_count() {
                0 => array.values().iter().for_each(|value| sum.add(*value)),
                _ => array.iter().flatten().for_each(|value| sum.add(value)),
            }
            sum.sum()
        }
        _ => {
            let values = array.as_primitive::<Decimal256Type>().iter().flatten();
            values.fold(i256::ZERO, i256::wrapping_add)
        }
    };
    (sum, count)
}

fn scalar(sum: Option<i256>, ty: &DataType) -> Result<ScalarValue> {
    let zero = ScalarValue::new_zero(ty)?;
    Ok(match zero {
        ScalarValue::Decimal256(_, precision, scale) => {
            ScalarValue::Decimal256(sum, precision, scale)
        }
        other => other,
    })
}

/// The sum of all rows, or of a sliding window frame.
#[derive(Debug)]
struct WideSum {
    sum: i256,
    /// The number of values; the sum of none is NULL.
    count: usize,
    ty: DataType,
}

impl WideSum {
    fn new(ty: DataType) -> Self {
        Self { sum: i256::ZERO, count: 0, ty }
    }
}

impl Accumulator for WideSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total(&values[0]);
        self.sum = self.sum.wrapping_add(sum);
        self.count += count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = total(&values[0]);
        self.sum = self.sum.wrapping_sub(sum);
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        scalar((self.count > 0).then_some(self.sum), &self.ty)
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// Sums by group, in 128 bits, which are sufficient for nearly all sums.
#[derive(Debug)]
struct WideSums {
    sums: Vec<i128>,
    /// The 256-bit parts of sums that overflowed, by group.
    spilled: BTreeMap<usize, i256>,
    /// Whether each group has had a value.
    seen: Vec<bool>,
    ty: DataType,
}

impl WideSums {
    fn new(ty: DataType) -> Self {
        Self { sums: Vec::new(), spilled: BTreeMap::new(), seen: Vec::new(), ty }
    }

    #[inline]
    fn add(&mut self, group: usize, value: i128) {
        self.seen[group] = true;
        let (sum, overflows) = self.sums[group].overflowing_add(value);
        if overflows {
            self.spill(group, i256::from_i128(value));
        } else {
            self.sums[group] = sum;
        }
    }

    #[cold]
    fn spill(&mut self, group: usize, value: i256) {
        self.seen[group] = true;
        let sum = i256::from_i128(std::mem::take(&mut self.sums[group])).wrapping_add(value);
        let spilled = self.spilled.entry(group).or_default();
        *spilled = spilled.wrapping_add(sum);
    }

    fn add_wide(&mut self, group: usize, value: i256) {
        match value.to_i128() {
            Some(value) => self.add(group, value),
            None => self.spill(group, value),
        }
    }

    /// Removes the spilled sums of the first groups, and renumbers the remaining ones from 0.
    fn take_spilled(&mut self, groups: usize) -> BTreeMap<usize, i256> {
        let kept = self.spilled.split_off(&groups);
        let kept = kept.into_iter().map(|(group, sum)| (group - groups, sum)).collect();
        std::mem::replace(&mut self.spilled, kept)
    }
}

impl GroupsAccumulator for WideSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, 0);
        self.seen.resize(total, false);
        let wanted = |row: usize| {
            values[0].is_valid(row)
                && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
        };
        let rows = groups.iter().copied().enumerate().filter(|(row, _)| wanted(*row));
        match values[0].data_type() {
            // Nearly all sums; a loop without conditions, since TPC-H q1 spends a tenth of its time
            // here.
            DataType::Decimal128(_, _) if filter.is_none() && values[0].null_count() == 0 => {
                let values = values[0].as_primitive::<Decimal128Type>().values();
                groups.iter().zip(values).for_each(|(&group, &value)| self.add(group, value));
            }
            DataType::Decimal128(_, _) => {
                let values = values[0].as_primitive::<Decimal128Type>().values();
                rows.for_each(|(row, group)| self.add(group, values[row]));
            }
            _ => {
                let values = values[0].as_primitive::<Decimal256Type>().values();
                rows.for_each(|(row, group)| self.add_wide(group, values[row]));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let seen = emit_to.take_needed(&mut self.seen);
        let spilled = self.take_spilled(sums.len());
        let sum = |(group, (sum, seen)): (usize, (i128, bool))| {
            let spilled = spilled.get(&group).copied().unwrap_or_default();
            seen.then(|| spilled.wrapping_add(i256::from_i128(sum)))
        };
        let sums = sums.into_iter().zip(seen).enumerate().map(sum).collect::<Decimal256Array>();
        Ok(Arc::new(sums.with_data_type(self.ty.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let wide = cast(&values[0], &self.ty)?;
        Ok(vec![match filter {
            None => wide,
            Some(filter) => {
                let left_out = arrow::compute::not(&arrow::compute::prep_null_mask_filter(filter))?;
                arrow::compute::nullif(&wide, &left_out)?
            }
        }])
    }

    fn size(&self) -> usize {
        let spilled = self.spilled.len() * size_of::<(usize, i256)>();
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity() + spilled
    }
}
