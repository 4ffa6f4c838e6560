//! Segments with keys, and scans that leave out dead rows.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use freshet_base::budget::Budget;
use freshet_base::io::Mode;
use freshet_schema::encode;
use freshet_schema::key::Keys;

use super::*;
use crate::segment::WaitMode;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// A segment with keys has the rows that one without them has, and finds them by key.
    #[test]
    fn a_segment_with_keys_has_its_rows_and_finds_them(
        present in prop::collection::btree_set(0i64..50_000, 1..9000),
        parts in 1usize..4,
        stores_rows in any::<bool>(),
    ) {
        let schema = schema(1);
        let present = present.into_iter().collect::<Vec<_>>();
        let pieces = present.chunks(present.len().div_ceil(parts));
        let batches = pieces.map(|keys| batch(&schema, keys)).collect::<Vec<_>>();
        let written = Written::with_keys(&schema, &batches, Tier::Fresh, true, stores_rows);
        prop_assert_eq!(keys(&written.read(&ScanRequest::all(&schema))), present.clone());
        let segment = written.open();
        segment.verify().unwrap();
        let asked = (0..50_000).step_by(7).collect::<Vec<i64>>();
        let encoded = Keys::of_batch(&batch(&schema, &asked), &schema);
        let encoded = (0..asked.len()).map(|at| encoded.key(at)).collect::<Vec<_>>();
        let memory = Budget::new("memory of filters", u64::MAX);
        let part = block_on(segment.look_ups(&memory, WaitMode::Blocking)).unwrap();
        let found = block_on(part.look_up(&encoded, WaitMode::Blocking)).unwrap();
        for found in &found {
            prop_assert_eq!(found.stored.is_some(), stores_rows);
            let Some(stored) = found.stored else { continue };
            let rows = block_on(segment.stored_rows(&[stored], WaitMode::Blocking)).unwrap();
            let row = rows[0].clone();
            let mut expected = Vec::new();
            encode(&batch(&schema, &[asked[found.at]]), &schema, &mut expected);
            prop_assert_eq!(&row[..], expected);
        }
        let found = found.into_iter().map(|found| (asked[found.at], found.rows));
        let rows = asked.iter().filter_map(|key| {
            let row = present.binary_search(key).ok()? as u32;
            Some((*key, row..row + 1))
        });
        prop_assert_eq!(found.collect::<Vec<_>>(), rows.collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Dead rows are left out wherever they stand, whatever is pruned and however it is divided.
    #[test]
    fn a_scan_leaves_out_dead_rows(
        dead in prop::collection::btree_set(0u32..300_000, 0..2000),
        runs in prop::collection::vec((0u32..300_000, 1u32..150_000), 0..3),
        least in prop::option::of(0i64..300_000),
        of in 1usize..4,
    ) {
        static WRITTEN: LazyLock<Written> = LazyLock::new(|| {
            let all = (0..300_000).collect::<Vec<i64>>();
            Written::new(&schema(1), &[batch(&schema(1), &all)], Tier::Fresh)
        });
        let runs = runs.into_iter().flat_map(|(from, rows)| from..(from + rows).min(300_000));
        let dead = dead.into_iter().chain(runs).collect::<BTreeSet<_>>();
        let marked = DeadRows::new(300_000, dead.iter().copied());
        let prune = least.map(|least| Arc::new(AtLeast([ColumnId(1)], least)) as Arc<dyn Prune>);
        let request = ScanRequest { prune, projection: vec![0], ..ScanRequest::all(&schema(1)) };
        let segment = WRITTEN.open();
        let mut read = Vec::new();
        for at in 0..of {
            let scan = segment.scan(&request, Share { at, of }, &marked).unwrap();
            for batch in scan.map(Result::unwrap) {
                read.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
            }
        }
        // Pruning leaves out pages, so rows below the bound may be read.
        let is_wanted = |key: &i64| least.is_none_or(|least| *key >= least);
        let alive = (0..300_000).filter(|key| !dead.contains(&(*key as u32)));
        let expected = alive.filter(is_wanted).collect::<Vec<i64>>();
        let is_read = read.iter().copied().filter(is_wanted).collect::<Vec<_>>();
        prop_assert_eq!(is_read, expected);
        prop_assert!(read.iter().all(|key| !dead.contains(&(*key as u32))));
    }
}

/// Keeps what may have keys from a bound on.
struct AtLeast([ColumnId; 1], i64);

impl Prune for AtLeast {
    fn columns(&self) -> &[ColumnId] {
        &self.0
    }

    fn keep(&self, containers: &Containers) -> Vec<bool> {
        let max = &containers.column(self.0[0]).unwrap().max;
        max.as_primitive::<Int64Type>().values().iter().map(|max| *max >= self.1).collect()
    }
}

#[test]
fn any_flipped_byte_of_the_keys_of_a_segment_is_named() {
    let present = (0..3000).collect::<Vec<i64>>();
    let batches = [batch(&schema(1), &present)];
    let written = Written::with_keys(&schema(1), &batches, Tier::Fresh, true, false);
    let path = written.dir.path().join(&written.meta.file);
    let good = written.fs.read(&path).unwrap();
    let part = written.meta.key_part.unwrap();
    let file = written.fs.open(&path, Mode::Write).unwrap();
    for at in part.start..part.start + part.bytes {
        let byte = good[at as usize];
        file.write_all_at(&[byte ^ 0x40], at).unwrap();
        let error = written.open().verify().unwrap_err();
        let Error::Corruption { file: named, offset, .. } = &error else { panic!("{error}") };
        assert_eq!(named, &path);
        let inside = part.start..=at;
        assert!(inside.contains(offset), "flipped at {at}, named at {offset}: {error}");
        // Nobody needs the keys to read rows.
        if at % 1000 == 0 {
            assert_eq!(keys(&written.read(&ScanRequest::all(&schema(1)))), present);
        }
        file.write_all_at(&[byte], at).unwrap();
    }
    written.open().verify().unwrap();
}
