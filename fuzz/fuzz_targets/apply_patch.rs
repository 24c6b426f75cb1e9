#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leftfold_fuzz::tools::apply_patch(data).unwrap();
});
