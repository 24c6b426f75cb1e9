#![no_main]

use leftfold_providers::Wire;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leftfold_fuzz::providers::wire(Wire::GEMINI, data).unwrap();
});
