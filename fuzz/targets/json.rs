#![no_main]
//! The target `json`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("json")(data));
