#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leftfold_fuzz::tools::bash(data).unwrap();
});
