#!/bin/sh
# Builds all crates with the oldest compiler that Cargo.toml promises (fastclock's own, which is older: scripts/fastclock.sh).
# If that compiler is missing, this is a skip, and with CI=1 a failure.
# Usage: scripts/oldest.sh TARGET_FOLDER
set -eu
cd "$(dirname "$0")/.."

[ $# = 1 ] || { echo 'usage: scripts/oldest.sh TARGET_FOLDER' >&2; exit 2; }
cargo=${CARGO:-cargo}
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# rustup offers many compilers. Without rustup there is one, which may be the oldest.
which=+$oldest
case $("${RUSTC:-rustc}" --version) in "rustc $oldest."*) which= ;; esac
if ! "$cargo" ${which:+"$which"} --version >/dev/null 2>&1; then
    echo "oldest: skipped: no Rust $oldest: rustup toolchain install $oldest --profile minimal" >&2
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi
"$cargo" ${which:+"$which"} check --quiet --locked --workspace --target-dir "$1/oldest"
echo "oldest: Rust $oldest builds all crates"
