//! The sum of an AGGREGATE KEY table's column: in the type of the column, beyond whose range it
//! wraps around, so that it does not matter in which order rows become one.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, GroupsAccumulator, Signature, Volatility,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op;
use freshet_schema::aggregate::large_sum;

/// The wrapping sum of a column of numbers.
pub fn wrapping_sum(column: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::from(WrappingSum { signature }))
    });
    FUNCTION.call(vec![column])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct WrappingSum {
    signature: Signature,
}

/// Calls a function generic over the Arrow type of the numbers.
macro_rules! of_numbers {
    ($ty:expr, $function:ident $arguments:tt) => {
        match $ty {
            DataType::Int8 => $function::<Int8Type> $arguments,
            DataType::Int16 => $function::<Int16Type> $arguments,
            DataType::Int32 => $function::<Int32Type> $arguments,
            DataType::Int64 => $function::<Int64Type> $arguments,
            DataType::UInt8 => $function::<UInt8Type> $arguments,
            DataType::UInt16 => $function::<UInt16Type> $arguments,
            DataType::UInt32 => $function::<UInt32Type> $arguments,
            DataType::UInt64 => $function::<UInt64Type> $arguments,
            DataType::Float32 => $function::<Float32Type> $arguments,
            DataType::Float64 => $function::<Float64Type> $arguments,
            DataType::Decimal128(_, _) => $function::<Decimal128Type> $arguments,
            DataType::Decimal256(_, _) => $function::<Decimal256Type> $arguments,
            other => internal_err!("a SUM is of numbers, and not of {other}"),
        }
    };
}

/// A type of numbers whose sums wrap around.
trait Wraps: ArrowPrimitiveType + Send {
    fn sum(one: Self::Native, other: Self::Native) -> Self::Native {
        one.add_wrapping(other)
    }
}

macro_rules! wrap {
    ($($ty:ty),*) => { $(impl Wraps for $ty {})* };
}

wrap!(Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type);
wrap!(Float32Type, Float64Type, Decimal128Type);

impl Wraps for Decimal256Type {
    fn sum(one: i256, other: i256) -> i256 {
        large_sum(one, other)
    }
}

impl AggregateUDFImpl for WrappingSum {
    fn name(&self) -> &'static str {
        "wrapping_sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let ty = args.return_field.data_type().clone();
        Ok(Box::new(Sum { sum: ScalarValue::try_new_null(&ty)?, ty }))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let ty = args.return_field.data_type();
        of_numbers!(ty, groups(ty))
    }
}

fn groups<T: Wraps>(ty: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    let add = |sum: &mut T::Native, value: T::Native| *sum = T::sum(*sum, value);
    Ok(Box::new(prim_op::PrimitiveGroupsAccumulator::<T, _>::new(ty, add)))
}

/// The sum of a single group.
#[derive(Debug)]
struct Sum {
    sum: ScalarValue,
    ty: DataType,
}

impl Sum {
    fn add<T: Wraps>(&mut self, values: &ArrayRef) -> Result<()> {
        let before = self.sum.to_array()?;
        let all = before.as_primitive::<T>().iter().chain(values.as_primitive::<T>().iter());
        let sum = all.flatten().reduce(T::sum);
        self.sum = ScalarValue::new_primitive::<T>(sum, &self.ty)?;
        Ok(())
    }
}

fn add<T: Wraps>(sum: &mut Sum, values: &ArrayRef) -> Result<()> {
    sum.add::<T>(values)
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let ty = self.ty.clone();
        of_numbers!(&ty, add(self, &values[0]))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.sum.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.sum.clone()])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int8Array;

    use super::*;

    #[test]
    fn a_group_of_its_own_wraps_around() {
        let ty = DataType::Int8;
        let mut sum = Sum { sum: ScalarValue::Int8(None), ty };
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int8(None));
        sum.update_batch(&[Arc::new(Int8Array::from(vec![Some(127), None]))]).unwrap();
        sum.merge_batch(&[Arc::new(Int8Array::from(vec![1]))]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int8(Some(-128)));
    }
}
