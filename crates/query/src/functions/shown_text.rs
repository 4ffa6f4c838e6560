//! Which of its texts a group shows, where a collation says that different ones are equal: the
//! first one, or that which comes first or last by a collation.
//!
//! Rows are compared as they are: weights are only made of a text that a group takes, and of those
//! that are not ASCII.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BooleanArray, StringViewArray, StringViewBuilder,
    UInt32Array, new_empty_array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use freshet_schema::Collation;
use freshet_schema::collation::weights;

use crate::convert;

/// A text of each group: the first one.
pub fn first_text() -> Arc<AggregateUDF> {
    of(Shown::First, "first_text".to_owned())
}

/// The text of each group that comes first by a collation, or last if `greatest`; of equal texts
/// by their bytes.
pub fn extreme_text(collation: Collation, greatest: bool) -> Arc<AggregateUDF> {
    let name = if greatest { "max" } else { "min" };
    of(Shown::Extreme { collation, greatest }, format!("{name}_{}", collation.name()))
}

fn of(shown: Shown, name: String) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(ShownText { shown, name, signature }))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Shown {
    First,
    Extreme { collation: Collation, greatest: bool },
}

/// A `Utf8View`, of texts of any type.
#[derive(PartialEq, Eq, Hash, Debug)]
struct ShownText {
    shown: Shown,
    name: String,
    signature: Signature,
}

impl AggregateUDFImpl for ShownText {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let field = Field::new(&self.name, DataType::Utf8View, true);
        Ok(Arc::new(match self.shown {
            // A group key is still the column that it was.
            Shown::First => field.with_metadata(arg_fields[0].metadata().clone()),
            Shown::Extreme { .. } => field,
        }))
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match self.shown {
            Shown::First => Box::new(OneGroup(Groups(Firsts::default()))),
            Shown::Extreme { collation, greatest } => {
                Box::new(OneGroup(Groups(Extremes::new(collation, greatest))))
            }
        })
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        _args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match self.shown {
            Shown::First => Box::new(Groups(Firsts::default())),
            Shown::Extreme { collation, greatest } => {
                Box::new(Groups(Extremes::new(collation, greatest)))
            }
        })
    }
}

/// All rows as a single group.
#[derive(Debug)]
struct OneGroup<K>(Groups<K>);

impl<K: Keep> Accumulator for OneGroup<K> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values, &vec![0; values[0].len()], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // Without rows the group does not exist yet.
        self.update_batch(&[new_empty_array(&DataType::Utf8View)])?;
        ScalarValue::try_from_array(&self.0.evaluate(EmitTo::All)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
}

/// The texts of the rows that a filter leaves; those that are NULL are not shown.
fn texts_of(values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<StringViewArray> {
    let texts = convert::text(&values[0])?;
    let Some(filter) = filter else { return Ok(texts) };
    let left = |(text, is_left)| if is_left == Some(true) { text } else { None };
    Ok(texts.iter().zip(filter).map(left).collect())
}

/// Keeps a text of each group.
trait Keep: Send + Sync + std::fmt::Debug + 'static {
    /// Has as many groups from now on.
    fn resize(&mut self, total: usize);

    /// Looks at one more text of a group.
    fn take(&mut self, group: usize, text: &str);

    /// The texts of the first groups, which are gone behind it.
    fn emit(&mut self, groups: EmitTo) -> Result<StringViewArray>;

    /// The memory that it holds.
    fn bytes(&self) -> usize;
}

/// The accumulator of all groups: its state is the text that each shows so far.
#[derive(Debug)]
struct Groups<K>(K);

impl<K: Keep> GroupsAccumulator for Groups<K> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let texts = texts_of(values, filter)?;
        self.0.resize(total);
        for (text, &group) in texts.iter().zip(groups) {
            if let Some(text) = text {
                self.0.take(group, text);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(self.0.emit(emit_to)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(texts_of(values, filter)?)])
    }

    fn size(&self) -> usize {
        self.0.bytes()
    }
}

/// The first text of each group.
#[derive(Default, Debug)]
struct Firsts {
    texts: StringViewBuilder,
    /// The number of each group's text among them, from 1; 0 where it has none so far.
    places: Vec<u32>,
}

impl Firsts {
    fn push(&mut self, text: &str) -> u32 {
        self.texts.append_value(text);
        u32::try_from(self.texts.len()).expect("groups are in memory")
    }
}

impl Keep for Firsts {
    fn resize(&mut self, total: usize) {
        self.places.resize(total, 0);
    }

    fn take(&mut self, group: usize, text: &str) {
        if self.places[group] == 0 {
            self.places[group] = self.push(text);
        }
    }

    fn emit(&mut self, groups: EmitTo) -> Result<StringViewArray> {
        let all = self.texts.finish();
        let shown = groups.take_needed(&mut self.places);
        for at in 0..self.places.len() {
            if let Some(place) = self.places[at].checked_sub(1) {
                self.places[at] = self.push(all.value(place as usize));
            }
        }
        let shown = shown.into_iter().map(|place| place.checked_sub(1));
        let shown = take(&all, &shown.collect::<UInt32Array>(), None)?;
        Ok(shown.as_string_view().clone())
    }

    fn bytes(&self) -> usize {
        self.texts.allocated_size() + self.places.capacity() * size_of::<u32>()
    }
}

/// The text that a group shows so far, and its weights.
#[derive(Debug)]
struct Winner {
    text: String,
    weights: Vec<u8>,
}

impl Winner {
    fn bytes(&self) -> usize {
        self.text.capacity() + self.weights.capacity()
    }
}

#[derive(Debug)]
struct Extremes {
    collation: Collation,
    greatest: bool,
    winners: Vec<Option<Winner>>,
    /// Memory of the texts and weights of the winners.
    kept_bytes: usize,
    /// Room for the weights of a row.
    own: Vec<u8>,
}

impl Extremes {
    const fn new(collation: Collation, greatest: bool) -> Self {
        Self { collation, greatest, winners: Vec::new(), kept_bytes: 0, own: Vec::new() }
    }
}

impl Keep for Extremes {
    fn resize(&mut self, total: usize) {
        self.winners.resize_with(total, || None);
    }

    fn take(&mut self, group: usize, text: &str) {
        let winner = match &mut self.winners[group] {
            Some(winner) if winner.text == text => return,
            Some(winner) => {
                let order = weights::compare(self.collation, text, &winner.weights, &mut self.own);
                let order = order.then_with(|| text.cmp(&winner.text));
                let wins = if self.greatest { Ordering::Greater } else { Ordering::Less };
                if order != wins {
                    return;
                }
                self.kept_bytes -= winner.bytes();
                winner.text.clear();
                winner.weights.clear();
                winner
            }
            none => none.insert(Winner { text: String::new(), weights: Vec::new() }),
        };
        winner.text.push_str(text);
        weights::put(self.collation, text, &mut winner.weights);
        self.kept_bytes += winner.bytes();
    }

    fn emit(&mut self, groups: EmitTo) -> Result<StringViewArray> {
        let winners = groups.take_needed(&mut self.winners);
        self.kept_bytes -= winners.iter().flatten().map(Winner::bytes).sum::<usize>();
        let texts = winners.iter().map(|winner| winner.as_ref().map(|one| one.text.as_str()));
        Ok(texts.collect())
    }

    fn bytes(&self) -> usize {
        self.kept_bytes
            + self.own.capacity()
            + self.winners.capacity() * size_of::<Option<Winner>>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn array(texts: &[Option<String>]) -> Vec<ArrayRef> {
        vec![Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>())]
    }

    fn weighed(collation: Collation, text: &str) -> (Vec<u8>, String) {
        let mut bytes = Vec::new();
        weights::put(collation, text, &mut bytes);
        (bytes, text.to_owned())
    }

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of("[aAbB\\x00\\x01l\u{b7}\u{e4}\u{301} ]{0,4}|.{0,2}")
    }

    proptest! {
        #[test]
        fn extremes_are_those_of_weights(
            rows in proptest::collection::vec((text(), 0_usize..3), 1..30),
            half in 0_usize..30,
            greatest: bool,
        ) {
            for collation in freshet_schema::collation::COLLATIONS {
                let mut parts = [0, 1].map(|_| Groups(Extremes::new(collation, greatest)));
                let (first, second) = rows.split_at(half.min(rows.len()));
                for (part, rows) in parts.iter_mut().zip([first, second]) {
                    let (texts, groups): (Vec<_>, Vec<_>) = rows.iter().cloned().unzip();
                    part.update_batch(&array(&texts), &groups, None, 3).unwrap();
                }
                let [mut all, mut other] = parts;
                let states = other.state(EmitTo::All).unwrap();
                all.merge_batch(&states, &[0, 1, 2], 3).unwrap();
                let found = all.evaluate(EmitTo::All).unwrap();
                let found = convert::text(&found).unwrap();
                for group in 0..3 {
                    let of = rows.iter().filter(|(_, of)| *of == group);
                    let of = of.filter_map(|(text, _)| text.as_deref());
                    let of = of.map(|text| weighed(collation, text));
                    let wanted = if greatest { of.max() } else { of.min() };
                    let found = found.is_valid(group).then(|| found.value(group).to_owned());
                    prop_assert_eq!(found, wanted.map(|(_, text)| text), "{:?}", collation);
                }
                prop_assert_eq!(all.0.kept_bytes, 0);
            }
        }
    }

    #[test]
    fn a_group_shows_its_first_text() {
        let of = |text: &str| Some(text.to_owned());
        let mut firsts = Groups(Firsts::default());
        let left = BooleanArray::from(vec![Some(false), Some(true), Some(true), None, Some(true)]);
        let texts = ["no", "b", "a", "no", "B"].map(of);
        firsts.update_batch(&array(&texts), &[1, 0, 1, 2, 0], Some(&left), 3).unwrap();
        firsts.merge_batch(&array(&[None, of("c")]), &[3, 2], 4).unwrap();
        let shown = |texts: ArrayRef| {
            let texts = convert::text(&texts).unwrap();
            texts.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(shown(firsts.evaluate(EmitTo::First(1)).unwrap()), [of("b")]);
        firsts.update_batch(&array(&[of("d"), of("A")]), &[3, 0], None, 4).unwrap();
        let wanted = [of("a"), of("c"), None, of("d")];
        assert_eq!(shown(firsts.evaluate(EmitTo::All).unwrap()), wanted);
        assert!(firsts.0.places.is_empty());
    }

    #[test]
    fn no_rows_have_no_text() {
        let mut one = OneGroup(Groups(Extremes::new(Collation::DEFAULT, true)));
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Utf8View(None));
        let texts = ["a", "\u{c4}", "A"].map(|text| Some(text.to_owned()));
        one.update_batch(&array(&texts)).unwrap();
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Utf8View(Some("\u{c4}".to_owned())));
    }
}
