#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leftfold_providers::fuzzing::sse(data).unwrap();
});
