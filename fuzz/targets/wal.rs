#![no_main]
//! The target `wal`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("wal")(data));
