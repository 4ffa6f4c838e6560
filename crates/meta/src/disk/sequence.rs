//! Sequences.

use freshet_schema::{Sequence, SequenceKind};
use prost::Message;

use super::{OnDisk, Unreadable, ensure, numbered};

#[derive(Clone, Copy, PartialEq, Message)]
pub struct SequenceForm {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(uint64, tag = "2")]
    start: u64,
    #[prost(uint64, tag = "3")]
    increment: u64,
    #[prost(uint64, tag = "4")]
    max: u64,
    #[prost(bool, tag = "5")]
    cycle: bool,
    #[prost(uint64, tag = "6")]
    base: u64,
    #[prost(uint64, tag = "7")]
    first: u64,
}

numbered!(SequenceKind { New = 1, Group = 2, Simple = 3, Time = 4 });

impl OnDisk for Sequence {
    type Form = SequenceForm;

    fn form(&self) -> SequenceForm {
        let Self { kind, start, increment, max, cycle, base, first } = *self;
        SequenceForm { kind: kind.form(), start, increment, max, cycle, base, first }
    }

    fn from_form(form: SequenceForm) -> Result<Self, Unreadable> {
        let SequenceForm { kind, start, increment, max, cycle, base, first } = form;
        let kind = SequenceKind::from_form(kind)?;
        let sequence = Self { kind, start, increment, max, cycle, base, first };
        ensure(sequence.is_valid(), "options of a sequence do not go together")?;
        Ok(sequence)
    }
}
