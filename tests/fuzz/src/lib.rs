//! Properties of the parsers that read what strangers write, checked by the driver beside this file, by its tests, and by
//! the targets in `fuzz/`.

pub mod framing;
pub mod protocol;
pub mod providers;
pub mod settings;
pub mod tools;
pub mod view;
