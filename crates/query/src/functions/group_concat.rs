//! GROUP_CONCAT: it keeps its texts with the bytes of what they are ordered by, and sorts them
//! when they are wanted.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, ListArray, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use crate::convert;

/// `mysql_group_concat(text, separator, options, key, ...)`: options are `distinct`, and `asc` or
/// `desc` for each key.
#[derive(PartialEq, Eq, Hash, Debug)]
struct GroupConcat {
    signature: Signature,
}

/// The function as DataFusion takes it.
pub fn group_concat() -> AggregateUDF {
    AggregateUDF::from(GroupConcat { signature: Signature::variadic_any(Volatility::Immutable) })
}

impl AggregateUDFImpl for GroupConcat {
    fn name(&self) -> &str {
        "mysql_group_concat"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn state_fields(&self, _args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name: &str, ty| Arc::new(Field::new(name, ty, true));
        let list = |ty| DataType::new_list(ty, true);
        Ok(vec![
            field("texts", list(DataType::Utf8)),
            field("keys", list(DataType::Binary)),
            field("separator", DataType::Utf8),
            field("distinct", DataType::Boolean),
        ])
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Texts::default()))
    }
}

/// The texts of one group.
#[derive(Debug, Default)]
struct Texts {
    items: Vec<(Vec<u8>, String)>,
    bytes: usize,
    separator: String,
    distinct: bool,
    converter: Option<RowConverter>,
}

impl Texts {
    /// Makes keys comparable by their bytes, whatever their types.
    fn converter(&mut self, options: &str, keys: &[ArrayRef]) -> Result<&RowConverter> {
        if self.converter.is_none() {
            let orders = options.split(' ').filter(|option| matches!(*option, "asc" | "desc"));
            let field = |(key, order): (&ArrayRef, &str)| {
                let descending = order == "desc";
                // NULL is the smallest of all.
                let options = SortOptions { descending, nulls_first: !descending };
                SortField::new_with_options(key.data_type().clone(), options)
            };
            let fields = keys.iter().zip(orders).map(field).collect();
            self.converter = Some(RowConverter::new(fields)?);
        }
        Ok(self.converter.as_ref().expect("made above"))
    }

    fn push(&mut self, key: Vec<u8>, text: &str) {
        self.bytes += key.len() + text.len();
        self.items.push((key, text.to_owned()));
    }

    /// The texts in their order, each once if that is wanted.
    fn sorted(&mut self) -> Vec<&str> {
        self.items.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut seen = HashSet::new();
        let distinct = self.distinct;
        let texts = self.items.iter().map(|(_, text)| text.as_str());
        texts.filter(|text| !distinct || seen.insert(*text)).collect()
    }
}

impl Accumulator for Texts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [texts, separators, options, keys @ ..] = values else {
            unreachable!("the rewriter gives a text, a separator and options")
        };
        if texts.is_empty() {
            return Ok(());
        }
        let options = convert::text(options)?.value(0).to_owned();
        convert::text(separators)?.value(0).clone_into(&mut self.separator);
        self.distinct = options.contains("distinct");
        let texts = convert::text(texts)?;
        let rows = match keys {
            [] => None,
            keys => Some(self.converter(&options, keys)?.convert_columns(keys)?),
        };
        for (at, text) in texts.iter().enumerate() {
            let key = rows.as_ref().map_or_else(Vec::new, |rows| rows.row(at).as_ref().to_vec());
            if let Some(text) = text {
                self.push(key, text);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (texts, keys) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        let separators = states[2].as_string::<i32>();
        for group in (0..texts.len()).filter(|group| texts.is_valid(*group)) {
            let (texts, keys) = (texts.value(group), keys.value(group));
            let (texts, keys) = (texts.as_string::<i32>(), keys.as_binary::<i32>());
            if !texts.is_empty() {
                separators.value(group).clone_into(&mut self.separator);
                self.distinct = states[3].as_boolean().value(group);
            }
            texts.iter().zip(keys).for_each(|(text, key)| {
                self.push(key.unwrap_or_default().to_vec(), text.unwrap_or_default());
            });
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let keys = BinaryArray::from_iter_values(self.items.iter().map(|(key, _)| key));
        let texts = StringArray::from_iter_values(self.items.iter().map(|(_, text)| text));
        let list = |items: ArrayRef| {
            let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([items.len()]);
            ScalarValue::List(Arc::new(ListArray::new(field, offsets, items, None)))
        };
        Ok(vec![
            list(Arc::new(texts)),
            list(Arc::new(keys)),
            ScalarValue::Utf8(Some(self.separator.clone())),
            ScalarValue::Boolean(Some(self.distinct)),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.items.is_empty() {
            return Ok(ScalarValue::Utf8View(None));
        }
        let separator = self.separator.clone();
        Ok(ScalarValue::Utf8View(Some(self.sorted().join(&separator))))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.items.capacity() * size_of::<(Vec<u8>, String)>() + self.bytes
    }
}
