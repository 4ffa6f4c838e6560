#![no_main]
//! The target `values`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("values")(data));
