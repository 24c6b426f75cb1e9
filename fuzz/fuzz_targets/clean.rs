#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leftfold_fuzz::view::cleaner(data).unwrap();
});
