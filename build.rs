//! How the program is linked, and the name of its target for `leftfold --version --verbose`.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=LEFTFOLD_TARGET={}", var("TARGET").unwrap_or_default());
    // A program for development has 400,000 addresses to adapt to the place that it is loaded at, for 20 ms of each start.
    // What is handed to users stays at a place that nobody can foresee.
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
