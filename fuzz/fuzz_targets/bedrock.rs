#![no_main]

use leftfold_providers::Wire;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leftfold_fuzz::providers::framed(Wire::BEDROCK, data).unwrap();
});
