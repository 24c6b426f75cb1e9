#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leftfold_providers::fuzzing::event_stream(data).unwrap();
});
