#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "wired to the command line in a later step")
)]
mod settings;

fn main() {}
