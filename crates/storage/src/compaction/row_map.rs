//! Where the rows of a merge come from, so that marks made meanwhile follow them (keys.md K28).

use freshet_base::{Lsn, SegmentId};

use crate::marks::{DeadRows, Mark};

/// For each row of the result of a merge the input that it came from: two bytes a row.
#[derive(Debug)]
pub struct RowMap {
    /// The rows of each input that were dead, and so are not in the result.
    dead: Vec<DeadRows>,
    /// The index of the input of each row of the result.
    origins: Vec<u16>,
    /// The number of rows of each segment of the result.
    segments: Vec<u32>,
}

impl RowMap {
    /// The map of a merge of inputs with these dead rows.
    ///
    /// # Panics
    /// When the segments have other rows than `origins`.
    pub fn new(dead: Vec<DeadRows>, origins: Vec<u16>, segments: Vec<u32>) -> Self {
        let rows = segments.iter().map(|rows| *rows as usize).sum::<usize>();
        assert_eq!(rows, origins.len(), "each row of a merge has an origin");
        Self { dead, origins, segments }
    }

    /// The rows of each input that were dead, and so are not in the result.
    pub fn dead(&self) -> &[DeadRows] {
        &self.dead
    }

    /// The marks of the result, by segment and in the order of LSNs, for these marks of each input.
    ///
    /// # Panics
    /// When a mark is on a row that the merge has left out.
    pub fn carry(&self, marks: &[Vec<Mark>]) -> Vec<(SegmentId, Vec<Mark>)> {
        assert_eq!(marks.len(), self.dead.len(), "each input has its marks");
        let inputs = self.dead.iter().zip(marks).map(|(dead, marks)| Input::new(dead, marks));
        let mut inputs = inputs.collect::<Vec<_>>();
        let mut origins = self.origins.iter();
        let mut carried = Vec::with_capacity(self.segments.len());
        for (&rows, id) in self.segments.iter().zip(0..) {
            let mut marks = Vec::new();
            for (&origin, row) in origins.by_ref().take(rows as usize).zip(0..) {
                let lsn = inputs[usize::from(origin)].next_row();
                marks.extend(lsn.map(|lsn| Mark { row, lsn }));
            }
            marks.sort_by_key(|mark| mark.lsn);
            carried.push((SegmentId(id), marks));
        }
        let all = inputs.iter().all(|input| input.marks.as_slice().is_empty());
        assert!(all, "a mark is on a row that the merge has read");
        carried
    }
}

/// The rows of an input that are in the result, in their order.
struct Input {
    /// How many have come.
    at: u32,
    /// The marks that are left, by the index of their row among those that were alive.
    marks: std::vec::IntoIter<(u32, Lsn)>,
}

impl Input {
    fn new(dead: &DeadRows, marks: &[Mark]) -> Self {
        let mut dead_rows = dead.rows().peekable();
        let mut dead_before = 0;
        let mut by_row = marks.to_vec();
        by_row.sort_unstable_by_key(|mark| mark.row);
        let of_alive = by_row.into_iter().map(|Mark { row, lsn }| {
            while dead_rows.next_if(|dead| *dead < row).is_some() {
                dead_before += 1;
            }
            assert_ne!(dead_rows.peek(), Some(&row), "a dead row dies once");
            (row - dead_before, lsn)
        });
        Self { at: 0, marks: of_alive.collect::<Vec<_>>().into_iter() }
    }

    /// Passes the next row over; the LSN from which on it is dead.
    fn next_row(&mut self) -> Option<Lsn> {
        let row = self.at;
        self.at += 1;
        let (marked, lsn) = *self.marks.as_slice().first()?;
        (marked == row).then(|| {
            self.marks.next();
            lsn
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// What happened to a row of an input.
    #[derive(Clone, Copy, Debug)]
    enum Fate {
        DeadBefore,
        /// It dies while the merge runs.
        Marked(u64),
        Alive,
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![
            Just(Fate::DeadBefore),
            (1u64..50).prop_map(Fate::Marked),
            Just(Fate::Alive),
            Just(Fate::Alive),
        ]
    }

    proptest! {
        #[test]
        fn marks_follow_their_rows(
            inputs in prop::collection::vec(prop::collection::vec(fate(), 0..60), 1..5),
            order in prop::collection::vec(any::<u16>(), 300),
            segment_rows in 1u32..100,
        ) {
            let rows = |input: &[Fate], is: fn(&Fate) -> bool| {
                let rows = input.iter().zip(0u32..).filter(|(fate, _)| is(fate));
                rows.map(|(_, row)| row).collect::<Vec<_>>()
            };
            let is_dead = |fate: &Fate| matches!(fate, Fate::DeadBefore);
            let dead = inputs.iter().map(|input| {
                DeadRows::new(input.len() as u32, rows(input, is_dead))
            });
            let marks = inputs.iter().map(|input| {
                let mark = |(fate, row): (&Fate, u32)| match fate {
                    Fate::Marked(lsn) => Some(Mark { row, lsn: Lsn(*lsn) }),
                    Fate::DeadBefore | Fate::Alive => None,
                };
                let mut marks = input.iter().zip(0..).filter_map(mark).collect::<Vec<_>>();
                marks.sort_by_key(|mark| mark.lsn);
                marks
            });
            // The rows that are left, interleaved in any order.
            let mut left = inputs.iter().map(|input| {
                let alive = input.iter().filter(|fate| !is_dead(fate)).copied();
                alive.collect::<Vec<_>>().into_iter()
            }).collect::<Vec<_>>();
            let mut origins = Vec::new();
            let mut expected = BTreeMap::new();
            let mut order = order.into_iter().cycle();
            while left.iter().any(|rows| rows.len() > 0) {
                let from = usize::from(order.next().unwrap()) % left.len();
                let from = (0..left.len()).map(|step| (from + step) % left.len());
                let from = from.into_iter().find(|&from| left[from].len() > 0).unwrap();
                if let Fate::Marked(lsn) = left[from].next().unwrap() {
                    expected.insert(origins.len() as u32, Lsn(lsn));
                }
                origins.push(from as u16);
            }
            let all = origins.len() as u32;
            let starts = (0..all).step_by(segment_rows as usize);
            let segments = starts.map(|start| segment_rows.min(all - start)).collect();
            let map = RowMap::new(dead.collect(), origins, segments);
            let mut carried = BTreeMap::new();
            for (id, marks) in map.carry(&marks.collect::<Vec<_>>()) {
                prop_assert!(marks.is_sorted_by_key(|mark| mark.lsn));
                let first = id.get() * segment_rows;
                carried.extend(marks.iter().map(|mark| (first + mark.row, mark.lsn)));
            }
            prop_assert_eq!(carried, expected);
        }
    }

    #[test]
    #[should_panic(expected = "a dead row dies once")]
    fn a_row_that_was_left_out_is_not_marked() {
        let map = RowMap::new(vec![DeadRows::new(3, [1])], vec![0, 0], vec![2]);
        map.carry(&[vec![Mark { row: 1, lsn: Lsn(7) }]]);
    }
}
