//! DataFusion's functions of nested values within the bounds that our functions keep: what they
//! make of a batch is at most about as large as their arguments, which are measured before.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use freshet_base::err;

use crate::error::{BatchTooLarge, external};
use crate::evaluation::BATCH_BYTES_MAX;

/// Maximum size of the arguments of a call for one row.
const ROW_BYTES_MAX: usize = 64 << 20;

/// The function, which refuses arguments that are too large.
pub fn bounded(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Bounded { function }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match self.name() {
            "make_array" => self.function.coerce_types(&as_doubles(arg_types)),
            _ => self.function.coerce_types(arg_types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows.max(1);
        let sizes = args.args.iter().map(|arg| bytes_of(arg, rows));
        let mut bytes = sizes.fold(0, usize::saturating_add);
        // A separator stands behind each element.
        if let ([ColumnarValue::Array(list), separators @ ..], "array_to_string") =
            (&args.args[..], self.name())
        {
            let longest = separators.iter().map(longest).fold(0, usize::saturating_add);
            bytes = bytes.saturating_add(elements_of(list).saturating_mul(longest));
        }
        if rows > 1 && bytes > BATCH_BYTES_MAX {
            return Err(BatchTooLarge::error(BATCH_BYTES_MAX));
        }
        if bytes > ROW_BYTES_MAX {
            return Err(external(err!(
                TooLarge,
                "{} is called with {bytes} bytes for one row, limit {ROW_BYTES_MAX}",
                self.name()
            )));
        }
        self.function.invoke_with_args(args)
    }

    fn short_circuits(&self) -> bool {
        self.function.short_circuits()
    }
}

/// The types of the elements of an array: a DECIMAL beside a DOUBLE is one, too, as in arithmetic.
/// As DECIMALs, large ones would not fit.
fn as_doubles(types: &[DataType]) -> Vec<DataType> {
    let has_double = types.iter().any(DataType::is_floating);
    let as_double = |ty: &DataType| match ty {
        DataType::Decimal128(..) | DataType::Decimal256(..) if has_double => DataType::Float64,
        ty => ty.clone(),
    };
    types.iter().map(as_double).collect()
}

/// The size of an argument as a column.
fn bytes_of(arg: &ColumnarValue, rows: usize) -> usize {
    match arg {
        ColumnarValue::Scalar(value) => value.size().saturating_mul(rows),
        ColumnarValue::Array(array) => array_bytes(array),
    }
}

fn array_bytes(array: &ArrayRef) -> usize {
    let texts = |lengths: &mut dyn Iterator<Item = usize>| lengths.sum::<usize>();
    match array.data_type() {
        DataType::Utf8View => texts(&mut array.as_string_view().iter().flatten().map(str::len)),
        DataType::Utf8 => texts(&mut array.as_string::<i32>().iter().flatten().map(str::len)),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let ends = list.value_offsets();
            let (from, to) = (ends[0] as usize, ends[list.len()] as usize);
            array_bytes(&list.values().slice(from, to - from))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let ends = map.value_offsets();
            let (from, count) = (ends[0] as usize, (ends[map.len()] - ends[0]) as usize);
            let part = |side: &ArrayRef| array_bytes(&side.slice(from, count));
            part(map.keys()) + part(map.values())
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(array_bytes).sum(),
        ty => array.len() * ty.primitive_width().unwrap_or(16),
    }
}

/// The number of elements of all lists.
fn elements_of(list: &ArrayRef) -> usize {
    match list.data_type() {
        DataType::List(_) => {
            let ends = list.as_list::<i32>().value_offsets();
            (ends[list.len()] - ends[0]) as usize
        }
        _ => list.len(),
    }
}

/// The length of the longest text.
fn longest(texts: &ColumnarValue) -> usize {
    let most = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    match texts {
        ColumnarValue::Scalar(ScalarValue::List(_)) => 0,
        ColumnarValue::Scalar(text) => text.try_as_str().flatten().map_or(0, str::len),
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8View => most(&mut array.as_string_view().iter().flatten().map(str::len)),
            DataType::Utf8 => most(&mut array.as_string::<i32>().iter().flatten().map(str::len)),
            _ => 0,
        },
    }
}
