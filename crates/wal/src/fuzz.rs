//! The entry of the fuzzer: any bytes may stand in a log file.

use freshet_base::{Lsn, Run};

use crate::reader::{Runs, Walk};
use crate::scan::RunBounds;

/// Reads `data` as a log file; it must end, stay in bounds, and return only what checks out.
pub fn fuzz_reader(data: &[u8]) {
    let bounds = RunBounds { run: Run(1), salt: 0, first_lsn: Lsn(1), last_lsn: None };
    let runs = Runs::new(&[bounds], Lsn::ZERO);
    let mut before = 0;
    for found in Walk::new(data, 0, &runs) {
        assert!(found.offset >= before, "the walk goes forward");
        assert!(found.header.lsn > found.header.durable, "a record names earlier ones only");
        if found.payload.is_some() {
            assert!(found.end() <= data.len().next_multiple_of(8), "a whole frame is inside");
        }
        before = found.end();
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in vec(any::<u8>(), 0..9000)) {
            fuzz_reader(&data);
        }
    }
}
