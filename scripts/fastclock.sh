#!/bin/sh
# Builds fastclock as its users do: with the oldest compiler that its manifest promises, with every set of features, for
# other systems, from its package alone and for docs.rs; and runs its tests with other clocks behind it. A compiler or a
# standard library that is missing is a skip, and with CI=1 a failure.
# Usage: scripts/fastclock.sh TARGET_FOLDER SYSTEM...
set -eu
cd "$(dirname "$0")/.."

[ $# -ge 2 ] || { echo 'usage: scripts/fastclock.sh TARGET_FOLDER SYSTEM...' >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
shift
cargo=${CARGO:-cargo}
rustc=${RUSTC:-rustc}
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' crates/fastclock/Cargo.toml)
skipped=

say() { printf 'fastclock: %s\n' "$*" >&2; }
skip() { # missing part, how to install it
    say "skipped: no $1: $2"
    skipped="$skipped; $1"
}
check() { "$cargo" check --quiet --package fastclock "$@"; }
# Skips the tests that take minutes; `make test` runs them.
tested() { "$cargo" test --quiet --package fastclock "$@" -- --skip whatever_happens_time --skip kill::; }
export RUSTFLAGS='-D warnings'

say "Rust $oldest"
if "$cargo" "+$oldest" --version >/dev/null 2>&1; then
    "$cargo" "+$oldest" check --quiet --package fastclock --target-dir "$target/oldest"
else
    skip "Rust $oldest" "rustup toolchain install $oldest --profile minimal"
fi

for features in '' std; do
    say "features: ${features:-none}"
    check --no-default-features --features "$features" --target-dir "$target/systems"
done

for system in "$@"; do
    if [ ! -d "$("$rustc" --print target-libdir --target "$system")" ]; then
        skip "standard library of $system" "rustup target add $system"
        continue
    fi
    say "$system"
    case $system in
    *-none | *-none-*) check --no-default-features --target "$system" --target-dir "$target/systems" ;;
    # This CPU can run 32-bit programs, so the tests run as well.
    i686-unknown-linux-gnu) tested --lib --tests --target "$system" --target-dir "$target/systems" ;;
    *) check --target "$system" --target-dir "$target/systems" ;;
    esac
done

say "the standard library's clocks"
RUSTFLAGS="$RUSTFLAGS --cfg fastclock_portable" RUSTDOCFLAGS='--cfg fastclock_portable' \
    tested --lib --tests --target-dir "$target/portable"

say "documentation, as docs.rs makes it"
# Only nightly compilers write the labels "available on feature"; the variable lets stable ones write them.
RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS='--cfg docsrs -D warnings' \
    "$cargo" doc --quiet --package fastclock --no-deps --target-dir "$target/docsrs"

say "the package alone"
unset RUSTFLAGS
rm -rf "$target/alone"
mkdir -p "$target/alone"
CARGO_TARGET_DIR=$target "$cargo" package --quiet --package fastclock --no-verify --allow-dirty
tar -C "$target/alone" -xzf "$target"/package/fastclock-[0-9]*.crate --touch
cd "$target/alone"/fastclock-*
printf '\n[workspace]\n' >>Cargo.toml
CARGO_TARGET_DIR=$target tested

[ -z "$skipped" ] || {
    say "not checked, for lack of${skipped#;}"
    [ -z "${CI:-}" ] || exit 1
}
