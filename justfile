# List the recipes.
default:
    @just --list

# Run everything that must pass.
ci:
    bash .ci/run

# Run the demo.
demo:
    cargo run -- demo

test:
    cargo test --workspace --locked

lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Measure speed, as ratios.
bench:
    cargo bench --workspace

# Compare with other agents that are installed: codex, opencode, pi.
bench-peers *arguments:
    cargo build --release
    python3 tests/benches/peers.py {{arguments}}

# Count instructions of pure functions, against the recorded counts. Needs valgrind.
instructions:
    cargo build --workspace --all-targets --locked
    "${CARGO_TARGET_DIR:-target}/debug/leftfold-instructions"

# Check a parser with random inputs: bash, cleaner, settings, json-rpc or framing.
fuzz target count="100000" seed="1":
    cargo run --profile fuzz -p leftfold-fuzz-driver -- {{target}} {{count}} {{seed}}

# Check licences, advisories and sources of dependencies.
deny:
    cargo deny check

# Run the tests of all promises, and write their counts into docs/guarantees.md.
counts:
    bash .ci/counts

# Run the long forms of the tests of all promises.
nightly:
    bash .ci/nightly
