#![no_main]
//! The target `segment`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("segment")(data));
