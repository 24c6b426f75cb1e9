//! Lines that nobody has thought of.
