#![no_main]
//! The target `parser`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("parser")(data));
