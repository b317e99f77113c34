//! The body of any message.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sim::hostile::message(input));
