//! Runs every parser of untrusted bytes on the fuzzing corpus: seeds, and what `make fuzz` found.
// Tests read their inputs from the tree.
#![allow(clippy::disallowed_methods)]

#[path = "../../../fuzz/src/lib.rs"]
mod readers;

use std::path::Path;

#[test]
fn no_kept_input_breaks_its_reader() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seeds");
    for (name, read) in readers::READERS {
        let inputs = std::fs::read_dir(kept.join(name)).unwrap();
        let inputs = inputs.map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        assert!(!inputs.is_empty(), "{name} has inputs");
        for path in inputs {
            println!("{}", path.display());
            let input = std::fs::read(path).unwrap();
            read(&input);
            // A truncated input must only cause an error, too.
            (0..input.len()).step_by(1 + input.len() / 64).for_each(|end| read(&input[..end]));
        }
    }
}
