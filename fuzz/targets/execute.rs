#![no_main]
//! The target `execute`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("execute")(data));
