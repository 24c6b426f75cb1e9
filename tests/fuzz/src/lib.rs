//! Properties of the parsers that read what strangers write, checked by the driver beside this file, by the targets in
//! `fuzz/` and by the tests in here. Those of settings and of protocols are in the modules `fuzzing` of their crates,
//! because they look at what the crates keep to themselves.

pub mod framing;
pub mod providers;
pub mod tools;
pub mod view;
