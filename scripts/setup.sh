#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks. Does nothing, quickly, when
# nothing is missing. On Debian and Ubuntu as root it installs; for anybody else it says what to
# install.
set -euo pipefail
source "$(dirname "$0")/env.sh"

RUST_VERSION=1.95.0
CARGO_DENY_VERSION=0.20.2

# Prints the Debian package that brings a command.
package_of() {
    case $1 in
        cc) echo gcc libc6-dev ;;
        *) echo "$1" ;;
    esac
}

missing_packages() {
    local tool
    for tool in cc make git curl; do
        command -v "$tool" >/dev/null || package_of "$tool"
    done
    [[ -e /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
}

install_packages() {
    local packages=("$@")
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        fail "missing: ${packages[*]}. Install them, on Debian or Ubuntu with:
  sudo apt-get update && sudo apt-get install --yes ${packages[*]}"
    fi
    say "installing ${packages[*]} with apt-get (about a minute)"
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends \
        "${packages[@]}"
}

# True if rustc is there and not older than RUST_VERSION.
rust_is_new_enough() {
    local found
    found=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) || return 1
    local older
    older=$(printf '%s\n' "$RUST_VERSION" "$found" | sort --version-sort | head -n 1)
    [[ $older == "$RUST_VERSION" ]]
}

install_rust() {
    if [[ $(id -u) != 0 ]]; then
        fail "Rust $RUST_VERSION or newer is missing. Install it with:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
      sh -s -- --default-toolchain $RUST_VERSION"
    fi
    if command -v rustup >/dev/null; then
        say "installing Rust $RUST_VERSION with rustup (about a minute)"
        rustup toolchain install "$RUST_VERSION" --profile default
        rustup default "$RUST_VERSION"
    else
        say "installing Rust $RUST_VERSION with its official installer (about a minute)"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
            sh -s -- -y --quiet --default-toolchain "$RUST_VERSION" --profile default ||
            fail "the installer of Rust did not work; see https://rustup.rs, then run this again"
    fi
}

# Without optimisation it builds in a third of the time and still checks the tree in two seconds.
install_cargo_deny() {
    say "building cargo-deny $CARGO_DENY_VERSION, once (about a minute and a half)"
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$CARGO_TARGET_DIR/tools" \
        cargo install cargo-deny --version "$CARGO_DENY_VERSION" --locked --debug --quiet
    rm -rf "$CARGO_TARGET_DIR/tools"
}

mapfile -t packages < <(missing_packages | tr ' ' '\n')
[[ ${#packages[@]} == 0 ]] || install_packages "${packages[@]}"
rust_is_new_enough || install_rust
for component in clippy fmt; do
    command -v "cargo-$component" >/dev/null ||
        fail "cargo-$component is missing. Install it with: rustup component add clippy rustfmt"
done
command -v cargo-deny >/dev/null || install_cargo_deny
