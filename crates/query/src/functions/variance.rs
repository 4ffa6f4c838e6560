//! Variances and standard deviations. DataFusion's multiply the squared distance between the mean
//! of a first batch and that of an empty state, which is infinite for large numbers, by zero rows:
//! the result is NaN.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

pub fn all() -> impl Iterator<Item = AggregateUDF> {
    let of = |(name, sample, root)| {
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        AggregateUDF::new_from_impl(Variance { name, sample, root, signature })
    };
    let functions = [
        ("var_pop", false, false),
        ("var_sample", true, false),
        ("stddev_pop", false, true),
        ("stddev_samp", true, true),
    ];
    functions.into_iter().map(of)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Variance {
    name: &'static str,
    /// For a sample instead of the whole population.
    sample: bool,
    /// Whether the result is the square root, the standard deviation.
    root: bool,
    signature: Signature,
}

impl Variance {
    fn result(&self, spread: Spread) -> Result<Option<f64>> {
        let count = spread.count.checked_sub(self.sample.into()).filter(|count| *count > 0);
        let Some(count) = count else { return Ok(None) };
        #[allow(clippy::cast_precision_loss)] // precision as of any double
        let variance = spread.squares / count as f64;
        if !variance.is_finite() {
            return exec_err!("DOUBLE value is out of range in '{}'", self.name);
        }
        Ok(Some(if self.root { variance.sqrt() } else { variance }))
    }
}

impl AggregateUDFImpl for Variance {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field =
            |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        let double = DataType::Float64;
        let count = field("count", DataType::UInt64);
        Ok(vec![count, field("mean", double.clone()), field("squares", double)])
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { spread: Spread::default(), of: self.clone() }))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        _args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups { spreads: Vec::new(), of: self.clone() }))
    }
}

/// The state of Welford's algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spread {
    count: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

#[allow(clippy::cast_precision_loss)] // precision as of any double
impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn remove(&mut self, value: f64) {
        if self.count <= 1 {
            *self = Self::default();
            return;
        }
        self.count -= 1;
        let before = self.mean - value;
        self.mean += before / self.count as f64;
        self.squares -= before * (self.mean - value);
    }

    fn join(&mut self, other: Self) {
        match (self.count, other.count) {
            (_, 0) => {}
            (0, _) => *self = other,
            (ours, theirs) => {
                let (ours, theirs) = (ours as f64, theirs as f64);
                let distance = other.mean - self.mean;
                self.count += other.count;
                let all = self.count as f64;
                self.mean += distance * (theirs / all);
                self.squares += other.squares + distance * distance * (ours * theirs / all);
            }
        }
    }
}

/// Reads states from their columns.
fn spreads(states: &[ArrayRef]) -> impl Iterator<Item = Spread> {
    let counts = states[0].as_primitive::<UInt64Type>();
    let means = states[1].as_primitive::<Float64Type>();
    let squares = states[2].as_primitive::<Float64Type>();
    let spread = |row| Spread {
        count: counts.value(row),
        mean: means.value(row),
        squares: squares.value(row),
    };
    (0..counts.len()).map(spread)
}

/// Writes states as columns.
fn states(spreads: &[Spread]) -> Vec<ArrayRef> {
    let counts = spreads.iter().map(|spread| spread.count);
    let means = spreads.iter().map(|spread| spread.mean);
    let squares = spreads.iter().map(|spread| spread.squares);
    vec![
        Arc::new(UInt64Array::from_iter_values(counts)),
        Arc::new(Float64Array::from_iter_values(means)),
        Arc::new(Float64Array::from_iter_values(squares)),
    ]
}

/// The state for all rows, or for a sliding window frame.
#[derive(Debug)]
struct One {
    spread: Spread,
    of: Variance,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>().iter().flatten();
        values.for_each(|value| self.spread.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>().iter().flatten();
        values.for_each(|value| self.spread.remove(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        spreads(states).for_each(|spread| self.spread.join(spread));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Spread { count, mean, squares } = self.spread;
        Ok(vec![count.into(), mean.into(), squares.into()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.of.result(self.spread).map(ScalarValue::Float64)
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// The states by group.
struct Groups {
    spreads: Vec<Spread>,
    of: Variance,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.spreads.resize(total, Spread::default());
        let values = values[0].as_primitive::<Float64Type>();
        let wanted = |row: usize| filter.is_none_or(|keep| keep.is_valid(row) && keep.value(row));
        for (row, group) in groups.iter().enumerate() {
            if values.is_valid(row) && wanted(row) {
                self.spreads[*group].add(values.value(row));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.spreads.resize(total, Spread::default());
        let joined = groups.iter().zip(spreads(states));
        joined.for_each(|(group, spread)| self.spreads[*group].join(spread));
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let spreads = emit_to.take_needed(&mut self.spreads).into_iter();
        let results = spreads.map(|spread| self.of.result(spread));
        Ok(Arc::new(results.collect::<Result<Float64Array>>()?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(states(&emit_to.take_needed(&mut self.spreads)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut each = Self { spreads: Vec::new(), of: self.of.clone() };
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        Ok(states(&each.spreads))
    }

    fn size(&self) -> usize {
        self.spreads.capacity() * size_of::<Spread>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Spread {
        let mut spread = Spread::default();
        values.iter().for_each(|value| spread.add(*value));
        spread
    }

    #[test]
    fn parts_make_the_whole() {
        let (mut part, whole) = (of(&[1.0, 2.0]), of(&[1.0, 2.0, 4.0, 9.0]));
        part.join(of(&[4.0, 9.0]));
        part.join(Spread::default());
        assert_eq!((part.count, part.mean), (whole.count, whole.mean));
        assert!((part.squares - whole.squares).abs() < 1e-12);
        part.remove(9.0);
        assert!((part.squares - of(&[1.0, 2.0, 4.0]).squares).abs() < 1e-12);
    }

    #[test]
    fn large_numbers_alike_do_not_differ() {
        let mut spread = Spread::default();
        spread.join(of(&[1e300, 1e300, 1e300]));
        spread.join(of(&[1e300]));
        assert_eq!((spread.count, spread.squares), (4, 0.0));
    }
}
