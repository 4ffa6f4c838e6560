//! The entry point of the fuzzer: a log file may contain any bytes.

use freshet_base::{Lsn, Term};

use crate::reader::Walk;
use crate::term::{Secret, Terms};

/// Reads `data` as a log file; this must terminate, stay in bounds, and return only batches with
/// valid checksums.
pub fn fuzz_reader(data: &[u8]) {
    let terms = terms();
    let mut before = 0;
    for found in (Walk { bytes: data, at: 0, terms: &terms, recycled_to: Lsn::ZERO }) {
        assert!(found.offset >= before, "the walk goes forward");
        assert!(found.head.first > found.head.durable, "a head names earlier records only");
        if found.is_whole() {
            let end = found.offset + found.head.batch_bytes();
            assert!(end <= data.len(), "a whole batch is inside");
        }
        before = found.end();
    }
}

/// The terms used in the corpus.
fn terms() -> Terms {
    Terms::new(&[Secret { from: Term(1), key: [0, 0] }])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_fuzzer_begins_with_batches_that_are_whole() {
        let bytes = include_bytes!("../../../fuzz/corpus-seeds/wal/real");
        let terms = terms();
        let walk = Walk { bytes, at: 0, terms: &terms, recycled_to: Lsn::ZERO };
        assert_eq!(walk.filter(|found| found.is_whole()).count(), 3);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in vec(any::<u8>(), 0..9000)) {
            fuzz_reader(&data);
        }
    }
}
