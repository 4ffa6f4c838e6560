#![no_main]
//! The target `config`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("config")(data));
