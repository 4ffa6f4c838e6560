//! GROUP_CONCAT: collects texts (or bytes) with their encoded sort keys and sorts them at the end.
//! Values beyond the maximum length of the result are pruned at intervals.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ScalarUDF, Signature, Volatility,
};
use freshet_base::{ErrorCode, err};
use freshet_schema::Collation;
use freshet_schema::collation::weights;

use super::misc::text_or_bytes;
use super::row::{Kind, Out, Row, RowFunction};
use super::typed::TypeDependent;
use crate::convert::{self, is_binary};
use crate::error::external;

/// Memory for values beyond the maximum result length before sorting and pruning.
const SLACK_BYTES: usize = 64 << 10;
/// Stands before the number of a collation in the options.
pub const BY: &str = "by:";
/// Memory of a value besides its bytes.
const ITEM_BYTES: usize = size_of::<(Vec<u8>, Vec<u8>)>();

/// `mysql_group_concat(text, separator, options, key, ...)`. Options: the maximum length of the
/// result in bytes (a result that has to be truncated is longer than that), `whole` if it must not
/// be truncated, `distinct`, `by:` and a collation by which values differ, and `asc` or `desc` for
/// each key.
#[derive(PartialEq, Eq, Hash, Debug)]
struct GroupConcat {
    signature: Signature,
}

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

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let bytes = arg_types.first().is_some_and(is_binary);
        Ok(if bytes { DataType::BinaryView } else { DataType::Utf8View })
    }

    fn state_fields(&self, _args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name: &str, ty| Arc::new(Field::new(name, ty, true));
        let list = |ty| DataType::new_list(ty, true);
        Ok(vec![
            field("texts", list(DataType::LargeBinary)),
            field("keys", list(DataType::LargeBinary)),
            field("separator", DataType::Utf8),
            field("options", DataType::Utf8),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let of_bytes = is_binary(args.return_field.data_type());
        Ok(Box::new(Texts { of_bytes, ..Texts::default() }))
    }
}

/// What equal texts have in common.
fn identity(text: &[u8], by: Option<Collation>) -> Cow<'_, [u8]> {
    match (by, std::str::from_utf8(text)) {
        (Some(collation), Ok(text)) => {
            let mut bytes = Vec::new();
            weights::put(collation, text, &mut bytes);
            Cow::Owned(bytes)
        }
        _ => Cow::Borrowed(text),
    }
}

/// The values of one group.
#[derive(Debug, Default)]
struct Texts {
    items: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the values are bytes instead of text.
    of_bytes: bool,
    /// Memory of the items.
    bytes: usize,
    /// Memory at which items are sorted and pruned.
    bytes_pruned: usize,
    /// Length of the result, if nothing is pruned.
    result_bytes: usize,
    separator: String,
    options: String,
    bytes_max: usize,
    distinct: bool,
    /// The collation by which texts are told apart; `None` for bytes.
    by: Option<Collation>,
    whole: bool,
    ordered: bool,
    converter: Option<RowConverter>,
}

impl Texts {
    fn set(&mut self, options: &str, separator: &str) {
        separator.clone_into(&mut self.separator);
        options.clone_into(&mut self.options);
        let mut words = options.split(' ');
        let bytes_max = words.next().and_then(|word| word.parse().ok());
        self.bytes_max = bytes_max.unwrap_or(usize::MAX);
        (self.whole, self.distinct, self.ordered) = (false, false, false);
        self.by = None;
        for word in words {
            match word {
                "whole" => self.whole = true,
                "distinct" => self.distinct = true,
                word => match word.strip_prefix(BY) {
                    Some(number) => {
                        self.by = number.parse().ok().and_then(Collation::numbered);
                    }
                    None => self.ordered = true,
                },
            }
        }
    }

    /// The converter of sort keys to bytes whose order is that of the keys.
    fn converter(&mut self, keys: &[ArrayRef]) -> Result<&RowConverter> {
        if self.converter.is_none() {
            let orders = self.options.split(' ').filter(|word| matches!(*word, "asc" | "desc"));
            let field = |(key, order): (&ArrayRef, &str)| {
                let descending = order == "desc";
                // NULL sorts lowest.
                let options = SortOptions { descending, nulls_first: !descending };
                SortField::new_with_options(key.data_type().clone(), options)
            };
            let fields = keys.iter().zip(orders).map(field).collect();
            self.converter = Some(RowConverter::new(fields)?);
        }
        Ok(self.converter.as_ref().expect("made above"))
    }

    fn push(&mut self, key: Vec<u8>, text: &[u8]) -> Result<()> {
        let in_order = !self.distinct && !self.ordered;
        if in_order && self.is_full(self.result_bytes) {
            return self.check_whole();
        }
        // Bytes beyond the maximum length are not kept.
        let end = self.bytes_max.saturating_add(4).min(text.len());
        let end = if self.of_bytes { end } else { whole_characters(text, end) };
        self.bytes += ITEM_BYTES + key.len() + end;
        self.result_bytes += end + self.separator.len();
        self.items.push((key, text[..end].to_vec()));
        if !in_order && self.bytes > self.bytes_pruned {
            self.prune()?;
        }
        Ok(())
    }

    /// Sorts the items and removes those beyond the maximum length of the result.
    fn prune(&mut self) -> Result<()> {
        self.items.sort_by(|(a, _), (b, _)| a.cmp(b));
        let separator_bytes = self.separator.len();
        let mut seen = HashSet::new();
        let by = self.by;
        let mut result_bytes = 0_usize;
        let wanted = self.items.iter().map(|(_, text)| {
            let shows = result_bytes == 0 || text.len() + separator_bytes > 0;
            let wanted = !self.is_full(result_bytes)
                && shows
                && (!self.distinct || seen.insert(identity(text, by)));
            if wanted {
                result_bytes += text.len() + separator_bytes;
            }
            wanted
        });
        let wanted = wanted.collect::<Vec<_>>();
        let mut wanted = wanted.into_iter();
        self.items.retain(|_| wanted.next().expect("one for each"));
        self.result_bytes = result_bytes;
        let bytes = self.items.iter().map(|(key, text)| ITEM_BYTES + key.len() + text.len());
        self.bytes = bytes.sum();
        self.bytes_pruned = self.bytes * 2 + SLACK_BYTES;
        self.check_whole()
    }

    /// Whether a result of this length, including a final separator, exceeds the maximum.
    fn is_full(&self, result_bytes: usize) -> bool {
        result_bytes > self.bytes_max.saturating_add(self.separator.len())
    }

    /// # Errors
    /// 1301 when a `whole` result would have to be truncated.
    fn check_whole(&self) -> Result<()> {
        if !self.whole || !self.is_full(self.result_bytes) {
            return Ok(());
        }
        Err(external(err!(
            PacketOverflowed,
            "Result of an aggregate of JSON was larger than max_allowed_packet ({}) - truncated",
            self.bytes_max
        )))
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
        let (options, separators) = (convert::text(options)?, convert::text(separators)?);
        self.set(options.value(0), separators.value(0));
        let texts = match self.of_bytes {
            true => cast(texts, &DataType::BinaryView)?,
            false => Arc::new(convert::text(texts)?.to_binary_view()),
        };
        let rows = match keys {
            [] => None,
            keys => Some(self.converter(keys)?.convert_columns(keys)?),
        };
        for (at, text) in texts.as_binary_view().iter().enumerate() {
            let Some(text) = text else { continue };
            let key = rows.as_ref().map_or_else(Vec::new, |rows| rows.row(at).as_ref().to_vec());
            self.push(key, text)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (texts, keys) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        let (separators, options) = (states[2].as_string::<i32>(), states[3].as_string::<i32>());
        for group in (0..texts.len()).filter(|group| texts.is_valid(*group)) {
            let (texts, keys) = (texts.value(group), keys.value(group));
            let (texts, keys) = (texts.as_binary::<i64>(), keys.as_binary::<i64>());
            if !texts.is_empty() {
                self.set(options.value(group), separators.value(group));
            }
            for (text, key) in texts.iter().zip(keys) {
                self.push(key.unwrap_or_default().to_vec(), text.unwrap_or_default())?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let keys = LargeBinaryArray::from_iter_values(self.items.iter().map(|(key, _)| key));
        let texts = LargeBinaryArray::from_iter_values(self.items.iter().map(|(_, text)| text));
        let list = |items: ArrayRef| {
            let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([items.len()]);
            ScalarValue::List(Arc::new(ListArray::new(field, offsets, items, None)))
        };
        Ok(vec![
            list(Arc::new(texts)),
            list(Arc::new(keys)),
            ScalarValue::Utf8(Some(self.separator.clone())),
            ScalarValue::Utf8(Some(self.options.clone())),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.items.is_empty() {
            return Ok(match self.of_bytes {
                true => ScalarValue::BinaryView(None),
                false => ScalarValue::Utf8View(None),
            });
        }
        self.prune()?;
        let mut joined = Vec::with_capacity(self.result_bytes);
        for (at, (_, text)) in self.items.iter().enumerate() {
            if at > 0 {
                joined.extend_from_slice(self.separator.as_bytes());
            }
            joined.extend_from_slice(text);
        }
        if self.of_bytes {
            return Ok(ScalarValue::BinaryView(Some(joined)));
        }
        let joined = String::from_utf8(joined).expect("texts joined by a text are one");
        Ok(ScalarValue::Utf8View(Some(joined)))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.items.capacity() * ITEM_BYTES + self.bytes
    }
}

/// The last character boundary at or before `end`.
fn whole_characters(text: &[u8], end: usize) -> usize {
    let starts = |at: &usize| text.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    (0..=end).rev().find(starts).unwrap_or(0)
}

/// `mysql_group_cut_text(text, bytes_max, separator)`: truncates a result of GROUP_CONCAT that is
/// too long, with a warning.
fn cut(row: &Row<'_>) -> Option<Out> {
    let (text, separator) = (row.text(0), row.text(2));
    let bytes_max = usize::try_from(row.int(1)).unwrap_or(usize::MAX);
    if text.len() <= bytes_max {
        return Some(Out::Text(text.to_owned()));
    }
    let text = &text[..text.floor_char_boundary(bytes_max)];
    let rows = if separator.is_empty() { 1 } else { text.matches(separator).count() + 1 };
    row.warn(ErrorCode::GroupConcatCut, || format!("Row {rows} was cut by GROUP_CONCAT()"));
    Some(Out::Text(text.to_owned()))
}

/// [`cut`] for bytes.
fn cut_bytes(row: &Row<'_>) -> Option<Out> {
    let bytes = row.bytes(0);
    let bytes_max = usize::try_from(row.int(1)).unwrap_or(usize::MAX);
    if bytes.len() > bytes_max {
        row.warn(ErrorCode::GroupConcatCut, || "A row was cut by GROUP_CONCAT()".to_owned());
    }
    Some(Out::Bytes(bytes[..bytes_max.min(bytes.len())].to_vec()))
}

pub fn all() -> Vec<ScalarUDF> {
    let text: &[Kind] = &[Kind::Text, Kind::Int, Kind::Text];
    let bytes: &[Kind] = &[Kind::Bytes, Kind::Int, Kind::Text];
    let typed = TypeDependent::udf("mysql_group_cut", (3, 3), text_or_bytes, |args, types| {
        let bytes = is_binary(&types[0]);
        let name = if bytes { "mysql_group_cut_bytes" } else { "mysql_group_cut_text" };
        Ok(super::call(name, args))
    });
    vec![
        typed,
        RowFunction::new("mysql_group_cut_text", text, (3, 3), Kind::Text, cut).udf(),
        RowFunction::new("mysql_group_cut_bytes", bytes, (3, 3), Kind::Bytes, cut_bytes).udf(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(options: &str) -> Texts {
        let mut texts = Texts::default();
        texts.set(options, ",");
        texts
    }

    fn result(texts: &mut Texts) -> String {
        match texts.evaluate().unwrap() {
            ScalarValue::Utf8View(Some(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_stands_behind_the_longest_result_is_not_kept() {
        for options in ["1024", "1024 asc", "1024 distinct", "1024 distinct desc"] {
            let mut texts = texts(options);
            for at in 0..200_000_u32 {
                let key = if options.ends_with("sc") { at.to_be_bytes().to_vec() } else { vec![] };
                texts.push(key, at.to_string().as_bytes()).unwrap();
            }
            assert!(texts.size() < 2 << 20, "{options}: {}", texts.size());
            let result = result(&mut texts);
            assert!(result.starts_with("0,1,2,3") && result.len() > 1024, "{options}: {result}");
        }
    }

    #[test]
    fn each_text_once_and_in_order_whenever_it_came() {
        let mut texts = texts("100 distinct asc");
        for at in (0..50_000_u32).rev() {
            texts.push((at % 7).to_be_bytes().to_vec(), format!("t{}", at % 7).as_bytes()).unwrap();
        }
        assert_eq!(result(&mut texts), "t0,t1,t2,t3,t4,t5,t6");
    }

    #[test]
    fn what_fits_exactly_is_cut_only_if_more_follows() {
        for (count, bytes) in [(3, 20), (4, 27)] {
            let mut texts = texts("20");
            (0..count).for_each(|_| texts.push(Vec::new(), b"[1, 2]").unwrap());
            assert_eq!(result(&mut texts).len(), bytes);
        }
    }

    #[test]
    fn what_must_be_whole_is_refused() {
        let mut texts = texts("20 whole");
        let pushed = (0..20).try_for_each(|_| texts.push(Vec::new(), b"[1, 2]"));
        assert!(pushed.is_err());
    }
}
