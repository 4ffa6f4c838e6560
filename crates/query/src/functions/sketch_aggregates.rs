//! BITMAP_UNION, BITMAP_INTERSECT and HLL_UNION, to which the rewriter brings other aggregates of
//! sketches. Tables with an AGGREGATE KEY join the sketches of their keys by them, too.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeBinaryArray};
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Signature,
    Volatility,
};
use freshet_base::err;
use freshet_schema::sketch::{BadSketch, Bitmap, Hll, SketchKind};

use crate::convert::SKETCH;
use crate::error::external;
use crate::sketches;

/// How the sketches of a group become one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Join {
    Bitmaps,
    CommonBitmaps,
    Hlls,
}

impl Join {
    const fn kind(self) -> SketchKind {
        match self {
            Self::Bitmaps | Self::CommonBitmaps => SketchKind::Bitmap,
            Self::Hlls => SketchKind::Hll,
        }
    }
}

const ALL: [(&str, Join); 3] = [
    ("bitmap_union", Join::Bitmaps),
    ("bitmap_intersect", Join::CommonBitmaps),
    ("hll_union", Join::Hlls),
];

pub fn all() -> impl Iterator<Item = AggregateUDF> {
    ALL.into_iter().map(|(name, join)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::from(SketchAggregate { name, join, signature })
    })
}

/// A call of one of them.
///
/// # Panics
/// For another name: callers use constant ones.
pub fn sketched(name: &str, column: Expr) -> Expr {
    let function = super::aggregate(name).expect("an aggregate of sketches has this name");
    function.call(vec![column])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct SketchAggregate {
    name: &'static str,
    join: Join,
    signature: Signature,
}

impl AggregateUDFImpl for SketchAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        arg_types.iter().try_for_each(|ty| sketches::check(self.name, ty))?;
        Ok(vec![SKETCH; arg_types.len()])
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(SKETCH)
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup { groups: Groups::new(self.join) }))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        _args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(self.join)))
    }
}

/// What a group has become so far.
enum State {
    /// The only one, as it came: most keys of a table have one row.
    Stored(Vec<u8>),
    Bitmap(Bitmap),
    Hll(Hll),
}

impl State {
    fn memory_bytes(&self) -> usize {
        let bytes = match self {
            Self::Stored(bytes) => bytes.len() as u64,
            Self::Bitmap(bitmap) => bitmap.memory_bytes(),
            Self::Hll(hll) => hll.memory_bytes(),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The state after one more.
    fn joined(self, join: Join, bytes: &[u8]) -> Result<Self, BadSketch> {
        Ok(match (self, join) {
            (Self::Stored(first), Join::Hlls) => {
                let mut all = Hll::read(&first)?;
                all.unite(&Hll::read(bytes)?);
                Self::Hll(all)
            }
            (Self::Stored(first), join) => {
                Self::Bitmap(Bitmap::read(&first)?).joined(join, bytes)?
            }
            (Self::Bitmap(mut all), Join::CommonBitmaps) => {
                all.intersect(&Bitmap::read(bytes)?);
                Self::Bitmap(all)
            }
            (Self::Bitmap(mut all), _) => {
                all.unite(&Bitmap::read(bytes)?);
                Self::Bitmap(all)
            }
            (Self::Hll(mut all), _) => {
                all.unite(&Hll::read(bytes)?);
                Self::Hll(all)
            }
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Stored(bytes) => bytes.clone(),
            Self::Bitmap(bitmap) => bitmap.to_bytes(),
            Self::Hll(hll) => hll.to_bytes(),
        }
    }
}

/// A group, and the memory that it took when that was last looked at.
#[derive(Default)]
struct Group {
    state: Option<State>,
    bytes: usize,
}

struct Groups {
    join: Join,
    groups: Vec<Group>,
    bytes: usize,
}

impl Groups {
    fn new(join: Join) -> Self {
        Self { join, groups: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, group: usize, bytes: &[u8]) -> Result<()> {
        let kind = self.join.kind();
        if SketchKind::of(bytes) != Some(kind) {
            return Err(external(err!(Unknown, "a {} is wanted, and not another", kind.name())));
        }
        let state = &mut self.groups[group].state;
        let joined = match state.take() {
            None => Ok(State::Stored(bytes.to_vec())),
            Some(before) => before.joined(self.join, bytes),
        };
        let damaged = |why| external(err!(Internal, "a {} is damaged: {why}", kind.name()));
        *state = Some(joined.map_err(damaged)?);
        Ok(())
    }

    /// Takes the memory of groups that have changed into account.
    fn measure(&mut self, changed: impl Iterator<Item = usize>) {
        for at in changed {
            let group = &mut self.groups[at];
            let bytes = group.state.as_ref().map_or(0, State::memory_bytes);
            self.bytes = self.bytes - group.bytes + bytes;
            group.bytes = bytes;
        }
    }

    fn emit(&mut self, emit_to: EmitTo) -> ArrayRef {
        let groups = emit_to.take_needed(&mut self.groups);
        self.bytes -= groups.iter().map(|group| group.bytes).sum::<usize>();
        let empty = self.join.kind().empty();
        let bytes = groups.iter().map(|group| match &group.state {
            Some(state) => state.to_bytes(),
            None => empty.to_vec(),
        });
        Arc::new(LargeBinaryArray::from_iter_values(bytes))
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize_with(total, Group::default);
        let values = values[0].as_binary::<i64>();
        for (row, group) in groups.iter().copied().enumerate() {
            let is_wanted = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_wanted && values.is_valid(row) {
                self.add(group, values.value(row))?;
            }
        }
        let mut changed = groups.to_vec();
        changed.sort_unstable();
        changed.dedup();
        self.measure(changed.into_iter());
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        Ok(vec![match filter {
            None => Arc::clone(&values[0]),
            Some(filter) => {
                let left_out = filter.iter().map(|wanted| Some(wanted != Some(true)));
                nullif(&values[0], &left_out.collect::<BooleanArray>())?
            }
        }])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.emit(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        // Groups without a value have none, so that they do not empty what others have in common.
        let groups = emit_to.take_needed(&mut self.groups);
        self.bytes -= groups.iter().map(|group| group.bytes).sum::<usize>();
        let bytes = groups.iter().map(|group| group.state.as_ref().map(State::to_bytes));
        Ok(vec![Arc::new(bytes.collect::<LargeBinaryArray>())])
    }

    fn size(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Group>()
    }
}

/// The same for a single group.
struct OneGroup {
    groups: Groups,
}

impl std::fmt::Debug for OneGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OneGroup({:?})", self.groups.join)
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.groups.update_batch(values, &vec![0; values[0].len()], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    // Over a window a group is asked for its value again and again.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.groups.groups.first().and_then(|group| group.state.as_ref());
        let empty = self.groups.join.kind().empty();
        let bytes = state.map_or_else(|| empty.to_vec(), State::to_bytes);
        Ok(ScalarValue::LargeBinary(Some(bytes)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.groups.groups.first().and_then(|group| group.state.as_ref());
        Ok(vec![ScalarValue::LargeBinary(state.map(State::to_bytes))])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.size()
    }
}
