//! Sequences: the values that the numbers of a counter stand for.
//!
//! A counter never goes back, and gives a number once. What START WITH, INCREMENT BY and CYCLE say
//! is in the definition that turns numbers into values, so no change of it can make a counter give
//! a number again.

use freshet_base::{Result, bail};

/// The highest value of a sequence.
pub const SEQUENCE_VALUE_MAX: u64 = i64::MAX as u64;
/// What the numbers of a TIME sequence count: 4096 a millisecond, of which ten bits are the node's.
const NUMBERS_OF_MILLI: u64 = 1 << 22;
/// The milliseconds of TIME sequences begin with 2020-01-01, so that they last until 2089.
const TIME_BEGINS_MILLIS: u64 = 1_577_836_800_000;

/// The kind that was written. All but TIME are the same here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequenceKind {
    New,
    Group,
    Simple,
    /// Its values are the time, and a counter within a millisecond.
    Time,
}

impl SequenceKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Group => "GROUP",
            Self::Simple => "SIMPLE",
            Self::Time => "TIME",
        }
    }
}

/// The definition of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sequence {
    pub kind: SequenceKind,
    /// START WITH, where a cycle begins again.
    pub start: u64,
    pub increment: u64,
    /// MAXVALUE.
    pub max: u64,
    pub cycle: bool,
    /// The first number of the counter that this definition is about.
    pub base: u64,
    /// The value of that number; above `max` when the sequence had run out.
    pub first: u64,
}

/// What CREATE and ALTER SEQUENCE say; `None` for what they leave as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequenceChange {
    pub kind: Option<SequenceKind>,
    pub start: Option<u64>,
    pub increment: Option<u64>,
    pub max: Option<u64>,
    pub cycle: Option<bool>,
}

impl Sequence {
    /// The sequence of a CREATE, whose counter begins with 1.
    ///
    /// # Errors
    /// 4082 for options that do not go together.
    pub fn new(written: &SequenceChange) -> Result<Self> {
        let start = written.start.unwrap_or(1);
        let sequence = Self {
            kind: written.kind.unwrap_or(SequenceKind::New),
            start,
            increment: written.increment.unwrap_or(1),
            max: written.max.unwrap_or(SEQUENCE_VALUE_MAX),
            cycle: written.cycle.unwrap_or(false),
            base: 1,
            first: start,
        };
        sequence.checked()
    }

    /// The sequence after an ALTER, whose counter stands before `next`. Without START WITH it goes
    /// on with the value that would have come next.
    ///
    /// # Errors
    /// 4082 for options that do not go together.
    pub fn altered(&self, change: &SequenceChange, next: u64) -> Result<Self> {
        let kind = change.kind.unwrap_or(self.kind);
        let is_time = |kind| kind == SequenceKind::Time;
        if is_time(kind) != is_time(self.kind) && change.start.is_none() {
            bail!(
                SequenceInvalid,
                "A sequence is changed to TIME and from it with START WITH: its values cannot go on"
            );
        }
        let (max, cycle) = (change.max.unwrap_or(self.max), change.cycle.unwrap_or(self.cycle));
        let start = change.start.unwrap_or(self.start);
        let goes_on = change.start.unwrap_or_else(|| self.upcoming(next));
        Self {
            kind,
            start,
            increment: change.increment.unwrap_or(self.increment),
            max,
            cycle,
            base: next,
            first: if cycle && goes_on > max { start } else { goes_on },
        }
        .checked()
    }

    fn checked(self) -> Result<Self> {
        if !self.is_valid() {
            bail!(
                SequenceInvalid,
                "Sequence values are conflicting: START WITH {} and INCREMENT BY {} are at least \
                 1 and at most MAXVALUE {}, which is at most {SEQUENCE_VALUE_MAX}",
                self.start,
                self.increment,
                self.max
            );
        }
        Ok(self)
    }

    /// Whether its options go together.
    pub fn is_valid(&self) -> bool {
        (1..=self.max).contains(&self.start)
            && (1..=self.max).contains(&self.increment)
            && self.max <= SEQUENCE_VALUE_MAX
            && (self.first <= self.max || !self.cycle)
    }

    /// The value of a number; `None` above `last_number`, and for numbers of earlier definitions.
    pub fn value(&self, number: u64) -> Option<u64> {
        if self.kind == SequenceKind::Time {
            return (number <= SEQUENCE_VALUE_MAX).then_some(number);
        }
        let at = number.checked_sub(self.base)?;
        let before_end = self.steps_from(self.first);
        if at < before_end {
            return Some(self.first + at * self.increment);
        }
        if !self.cycle {
            return None;
        }
        Some(self.start + (at - before_end) % self.steps_from(self.start) * self.increment)
    }

    /// How many values there are from this one on up to the highest.
    fn steps_from(&self, value: u64) -> u64 {
        self.max.checked_sub(value).map_or(0, |left| left / self.increment + 1)
    }

    /// The last number that has a value.
    pub fn last_number(&self) -> u64 {
        if self.cycle || self.kind == SequenceKind::Time {
            return SEQUENCE_VALUE_MAX;
        }
        self.base.saturating_add(self.steps_from(self.first)).saturating_sub(1)
    }

    /// The value that comes next, or would if MAXVALUE were higher.
    pub fn upcoming(&self, next: u64) -> u64 {
        let beyond = || {
            let steps = next.saturating_sub(self.base);
            self.first.saturating_add(steps.saturating_mul(self.increment))
        };
        self.value(next).unwrap_or_else(beyond)
    }

    /// The lowest number that may be given at this time, in microseconds since 1970.
    pub fn floor(&self, now_micros: i64) -> u64 {
        if self.kind != SequenceKind::Time {
            return 0;
        }
        let millis = u64::try_from(now_micros).unwrap_or(0) / 1000;
        millis.saturating_sub(TIME_BEGINS_MILLIS).saturating_mul(NUMBERS_OF_MILLI)
    }

    /// The numbers that are reserved at once where the time decides which are given: those of three
    /// seconds.
    pub fn block(&self) -> Option<u64> {
        (self.kind == SequenceKind::Time).then_some(3_000 * NUMBERS_OF_MILLI)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(sequence: &Sequence, from: u64) -> Vec<Option<u64>> {
        (from..from + 6).map(|number| sequence.value(number)).collect()
    }

    #[test]
    fn values_follow_the_options() {
        let written = SequenceChange {
            start: Some(4),
            increment: Some(3),
            max: Some(12),
            ..SequenceChange::default()
        };
        let once = Sequence::new(&written).unwrap();
        assert_eq!(values(&once, 1), [Some(4), Some(7), Some(10), None, None, None]);
        assert_eq!((once.last_number(), once.upcoming(4)), (3, 13));
        let cycle = Sequence::new(&SequenceChange { cycle: Some(true), ..written }).unwrap();
        let again = [Some(4), Some(7), Some(10), Some(4), Some(7), Some(10)];
        assert_eq!(values(&cycle, 1), again);
    }

    #[test]
    fn an_alter_goes_on_or_begins_again() {
        let plain = Sequence::new(&SequenceChange::default()).unwrap();
        let change = SequenceChange { increment: Some(10), max: Some(50), ..Default::default() };
        let tens = plain.altered(&change, 21).unwrap();
        assert_eq!(values(&tens, 21)[..4], [Some(21), Some(31), Some(41), None]);
        let more = SequenceChange { max: Some(60), ..Default::default() };
        assert_eq!(values(&tens.altered(&more, 24).unwrap(), 24)[..2], [Some(51), None]);
        let cycle = SequenceChange { cycle: Some(true), ..Default::default() };
        assert_eq!(values(&tens.altered(&cycle, 24).unwrap(), 24)[..2], [Some(1), Some(11)]);
        let start = SequenceChange { start: Some(7), ..Default::default() };
        assert_eq!(values(&tens.altered(&start, 24).unwrap(), 24)[..2], [Some(7), Some(17)]);
        assert_eq!(plain.altered(&start, 24).unwrap().value(23), None);
        let less = SequenceChange { max: Some(20), ..Default::default() };
        let out = plain.altered(&less, 31).unwrap();
        assert_eq!((out.value(31), out.last_number()), (None, 30));
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        let none = SequenceChange::default();
        for change in [
            SequenceChange { start: Some(0), ..none },
            SequenceChange { increment: Some(0), ..none },
            SequenceChange { start: Some(11), max: Some(10), ..none },
            SequenceChange { increment: Some(11), max: Some(10), ..none },
            SequenceChange { max: Some(u64::MAX), ..none },
        ] {
            assert_eq!(Sequence::new(&change).unwrap_err().code().errno(), 4082, "{change:?}");
        }
        let time = SequenceChange { kind: Some(SequenceKind::Time), ..none };
        let plain = Sequence::new(&none).unwrap();
        assert_eq!(plain.altered(&time, 1).unwrap_err().code().errno(), 4082);
    }

    #[test]
    fn a_time_sequence_counts_within_milliseconds() {
        let time = SequenceChange { kind: Some(SequenceKind::Time), ..Default::default() };
        let time = Sequence::new(&time).unwrap();
        let micros = |millis: u64| ((TIME_BEGINS_MILLIS + millis) * 1000) as i64;
        assert_eq!(time.floor(micros(5)), 5 << 22);
        assert_eq!((time.floor(0), time.floor(-1)), (0, 0));
        assert_eq!(time.value((5 << 22) + 3), Some((5 << 22) + 3));
        // The last year of four digits is beyond what it can count.
        assert!(time.floor(253_402_300_799_000_000) > time.last_number());
    }

    proptest! {
        #[test]
        fn values_rise_until_they_end(
            (start, increment, max) in (0u64..50, 0u64..20, 0u64..200),
            cycle in any::<bool>(),
            next in 1u64..100,
        ) {
            let written = SequenceChange {
                kind: None,
                start: Some(start),
                increment: Some(increment),
                max: Some(max),
                cycle: Some(cycle),
            };
            let Ok(sequence) = Sequence::new(&written) else { return Ok(()) };
            for number in 1..150 {
                let value = sequence.value(number);
                prop_assert_eq!(value.is_some(), number <= sequence.last_number());
                let Some(value) = value else { break };
                prop_assert!((start..=max).contains(&value));
                prop_assert_eq!((value - start) % increment, 0);
            }
            // What only repeats what is said changes no value.
            let same = sequence.altered(&SequenceChange::default(), next).unwrap();
            for number in next..next + 50 {
                prop_assert_eq!(same.value(number), sequence.value(number));
            }
        }
    }
}
