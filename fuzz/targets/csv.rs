#![no_main]
//! The target `csv`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("csv")(data));
