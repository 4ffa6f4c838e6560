#![no_main]
//! The target `headers`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("headers")(data));
