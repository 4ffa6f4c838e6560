#![no_main]
//! The target `handshake`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| freshet_fuzz::reader("handshake")(data));
