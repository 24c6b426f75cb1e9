#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leftfold_tools::fuzzing::apply_patch(data).unwrap();
});
