#![no_main]
//! The target `params`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("params")(data));
