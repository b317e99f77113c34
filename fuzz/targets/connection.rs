//! What any peer may send to a listening daemon.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sim::hostile::connection(input));
