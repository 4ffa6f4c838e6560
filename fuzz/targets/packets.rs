#![no_main]
//! The target `packets`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("packets")(data));
