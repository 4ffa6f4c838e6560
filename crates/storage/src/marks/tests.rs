use std::collections::BTreeMap;
use std::path::PathBuf;

use freshet_base::io::{Fs, RealFs};
use freshet_base::{RowsetId, SegmentId, TableId, TabletId};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use freshet_meta::MarkFileMeta;

use crate::Error;
use crate::testing::TABLE;

const LSNS: (Lsn, Lsn) = (Lsn(100), Lsn(200));

fn place(segment: u32) -> SegmentPlace {
    SegmentPlace { tablet: TabletId(5), rowset: RowsetId(9), segment: SegmentId(segment) }
}

/// The dead rows of a segment at an LSN, by the definition in keys.md.
fn model(marks: &[Mark], at: Lsn) -> Vec<u32> {
    let mut dead =
        marks.iter().filter(|mark| mark.lsn <= at).map(|mark| mark.row).collect::<Vec<_>>();
    dead.sort_unstable();
    dead
}

/// Marks on distinct rows of a segment, in the order of LSNs.
fn marks(rows: u32) -> impl Strategy<Value = Vec<Mark>> {
    let row = prop::collection::btree_map(0..rows, 1u64..100, 0..rows as usize);
    row.prop_map(|by_row: BTreeMap<u32, u64>| {
        let marks = by_row.into_iter().map(|(row, lsn)| Mark { row, lsn: Lsn(lsn) });
        let mut marks = marks.collect::<Vec<_>>();
        marks.sort_by_key(|mark| mark.lsn);
        marks
    })
}

#[test]
fn the_living_row_of_a_range_is_its_last_one_without_a_mark() {
    let marks = SegmentMarks::new(10, Lsn(5), DeadRows::new(10, [3]));
    marks.push(&[Mark { row: 5, lsn: Lsn(7) }, Mark { row: 8, lsn: Lsn(9) }]);
    let living = marks.living([0..4, 3..6, 5..6, 8..9, 9..10].into_iter());
    assert_eq!(living, [Some(2), Some(4), None, None, Some(9)]);
}

proptest! {
    /// Whatever is flushed between two marks, readers of every view see the rows that are dead at
    /// their horizon, also those of views that have been replaced.
    #[test]
    fn every_view_has_the_rows_that_are_dead_at_a_horizon(
        marks in marks(200),
        flushes in prop::collection::btree_set(1u64..100, 0..4),
    ) {
        let mut views = vec![SegmentMarks::new(200, Lsn::ZERO, DeadRows::default())];
        let mut stored = Vec::new();
        let mut made = marks.as_slice();
        for flush in flushes.into_iter().chain([100]).map(Lsn) {
            // Some marks are made before the swap that shows the next view, the others after it.
            let due = made.partition_point(|mark| mark.lsn.get() <= flush.get() + 3);
            let (now, later) = made.split_at(due);
            made = later;
            let view = views.last().unwrap();
            view.push(now);
            for horizon in view.flushed.get()..flush.get() {
                let dead = view.dead_at(Lsn(horizon));
                prop_assert_eq!(dead.rows().collect::<Vec<_>>(), model(&marks, Lsn(horizon)));
                prop_assert_eq!(view.count_at(Lsn(horizon)), dead.count());
                let is_dead = |row: &u32| view.is_dead_at(*row, Lsn(horizon));
                let one_by_one = (0..200).filter(is_dead).collect::<Vec<_>>();
                prop_assert_eq!(one_by_one, model(&marks, Lsn(horizon)));
            }
            stored.extend(view.died_up_to(flush));
            let next = view.flushed_to(flush);
            let dead = next.flushed_dead().rows().collect::<Vec<_>>();
            prop_assert_eq!(&dead, &model(&marks, flush));
            prop_assert_eq!(next.above(flush), view.above(flush));
            stored.sort_unstable();
            prop_assert_eq!(&stored, &dead, "the files have each mark once");
            views.push(next);
        }
    }

    #[test]
    fn a_file_has_the_rows_that_were_written(
        segments in prop::collection::btree_map(
            0u32..20, (1u32..3000, any::<u64>(), 1u32..60), 1..6),
    ) {
        let section = |(segment, (rows, seed, part)): (u32, (u32, u64, u32))| {
            let is_dead = |row: &u32| (u64::from(*row) ^ seed) % u64::from(part) == 0;
            let mut dead = (0..rows).filter(is_dead).collect::<Vec<_>>();
            dead.extend(dead.is_empty().then_some(rows - 1));
            MarkSection { place: place(segment), rows, dead }
        };
        let sections = segments.into_iter().map(section).collect::<Vec<_>>();
        let written = Written::new(&sections);
        let file = written.open(TABLE).unwrap();
        let names = sections.iter().map(|section| (section.place, section.rows));
        prop_assert!(file.segments().eq(names));
        for section in &sections {
            prop_assert_eq!(&file.dead(section.place, section.rows).unwrap(), &section.dead);
        }
        prop_assert!(file.dead(place(99), 7).unwrap().is_empty());
        let marks = sections.iter().map(|section| section.dead.len() as u64).sum::<u64>();
        prop_assert_eq!(written.meta.marks, marks);
    }

    /// Bytes that pass a checksum by accident, or come from a newer server, are no rows.
    #[test]
    fn no_bytes_make_a_section_panic(form in 0u8..4, bytes: Vec<u8>, rows in 1u32..200) {
        if let Some(dead) = section::decode(form, &bytes, rows) {
            prop_assert!(dead.is_sorted_by(|a, b| a < b));
            prop_assert!(dead.iter().all(|&row| row < rows));
        }
    }
}

struct Written {
    _dir: TempDir,
    path: PathBuf,
    meta: MarkFileMeta,
}

impl Written {
    fn new(sections: &[MarkSection]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("marks/3.marks");
        let meta = write_mark_file(&RealFs, &path, TABLE, RowsetId(3), LSNS, sections).unwrap();
        assert_eq!(RealFs.read(&path).unwrap().len() as u64, meta.bytes);
        Self { _dir: dir, path, meta }
    }

    fn open(&self, table: TableId) -> crate::Result<MarkFile> {
        MarkFile::open(&RealFs, &self.path, table, &self.meta)
    }
}

fn few() -> Vec<MarkSection> {
    let dense = (0..100).filter(|row| row % 3 > 0).collect();
    Vec::from([
        MarkSection { place: place(0), rows: 1000, dead: vec![0, 1, 2, 700, 999] },
        MarkSection { place: place(1), rows: 100, dead: dense },
    ])
}

#[test]
fn any_flipped_byte_of_a_file_is_named() {
    let written = Written::new(&few());
    let bytes = RealFs.read(&written.path).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        RealFs.write_atomic(&written.path, &damaged).unwrap();
        let read = written.open(TABLE).and_then(|file| {
            file.dead(place(0), 1000)?;
            file.dead(place(1), 100)
        });
        assert!(matches!(read, Err(Error::Corruption { .. })), "byte {at}: {read:?}");
    }
}

#[test]
fn a_file_of_another_table_or_cut_off_is_not_read() {
    let written = Written::new(&few());
    assert!(matches!(written.open(TableId(8)), Err(Error::Corruption { .. })));
    let bytes = RealFs.read(&written.path).unwrap();
    for len in 0..bytes.len() {
        RealFs.write_atomic(&written.path, &bytes[..len]).unwrap();
        assert!(matches!(written.open(TABLE), Err(Error::Corruption { .. })), "{len} bytes");
    }
}

#[test]
fn marks_of_a_segment_of_another_length_are_corruption() {
    let written = Written::new(&few());
    let read = written.open(TABLE).unwrap().dead(place(0), 999);
    assert!(read.unwrap_err().to_string().contains("it marks rows of 1000"));
}

#[test]
#[should_panic(expected = "dies twice")]
fn no_row_dies_twice() {
    let marks = SegmentMarks::new(10, Lsn(5), DeadRows::new(10, [3]));
    marks.push(&[Mark { row: 3, lsn: Lsn(6) }]);
}

#[test]
#[should_panic(expected = "comes behind one")]
fn marks_come_in_the_order_of_the_log() {
    let marks = SegmentMarks::new(10, Lsn(5), DeadRows::default());
    marks.push(&[Mark { row: 3, lsn: Lsn(7) }]);
    marks.push(&[Mark { row: 4, lsn: Lsn(6) }]);
}
