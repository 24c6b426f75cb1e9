# Lists what there is.
default:
    @just --list

# What has to pass.
ci:
    bash .ci/run

# Watch the demo.
demo:
    cargo run -- demo

test:
    cargo test --workspace --locked

lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Speed, as ratios.
bench:
    cargo bench --workspace

# Licences, advisories and sources of dependencies.
deny:
    cargo deny check
