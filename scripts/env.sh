# Sourced first by every script: strict mode, the root of the repository, where builds go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The installer of Rust puts cargo here without touching the PATH of the running shell.
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

# Prints a line that stands out and goes to stderr, so that stdout stays for answers.
say() { printf '\n==> %s\n' "$*" >&2; }

# Ends the script with a message that says what is wrong and what to do.
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Builds every program with the checks of development, and the tests, as make test does: without
# these, another choice of features would compile Arrow and DataFusion again.
build_dev() {
    say "building; the first time takes about 10 minutes on two cores"
    cargo build --locked --workspace --bins --tests
}

# Builds every program for speed, all at once: another choice of packages chooses other features of
# shared crates, and would compile Arrow and DataFusion again.
build_release() {
    say "building for speed; the first time takes about 20 minutes on two cores"
    cargo build --locked --release --workspace --bins
}
