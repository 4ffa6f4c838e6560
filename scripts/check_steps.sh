# Sourced by check.sh and test.sh: what the code must pass before a test is worth running.
# One line a step; the cheap ones first. What compiles takes the whole workspace and, with
# `--all-targets`, `--tests` or `--examples`, the dev-dependencies: so all see the same features of
# shared crates, and Arrow and DataFusion are compiled once.

step fetch  "1 s"   cargo fetch --locked
step fmt    "2 s"   cargo fmt --all --check
step deny   "2 s"   cargo deny --locked check --hide-inclusion-graph bans licenses sources
step tidy   "2 s"   cargo test --locked --quiet --package freshet-tidy
step clippy "1 min" cargo clippy --locked --workspace --all-targets --keep-going \
    -- --deny warnings
step doc    "30 s"  env RUSTDOCFLAGS="--deny warnings" cargo doc --locked --workspace \
    --lib --bins --examples --no-deps --keep-going
