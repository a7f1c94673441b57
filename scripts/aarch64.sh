#!/bin/sh
# The crates that compile for arm64, on a machine of another architecture: checks them, or builds their tests as
# static programs. Needs no C compiler for arm64. A standard library that is missing is a skip, and with CI=1 a failure.
# Usage: scripts/aarch64.sh check
#        scripts/aarch64.sh tests FOLDER
set -eu

crates='fastclock fastclock-c fastclock-preload vdso-image clockscope-text clockscope-page clockscope-stats
    clockscope-containers vdso-reader clock-doctor clockscope-model'
# Those whose tests tell something on another kernel.
tested='fastclock clockscope-text clockscope-stats vdso-reader'

packages() { # crates
    for crate; do
        printf ' --package %s' "$crate"
    done
}

needs() { # target
    [ ! -d "$(rustc --print target-libdir --target "$1")" ] || return 0
    ! command -v rustup >/dev/null 2>&1 || ! rustup --quiet target add "$1" || return 0
    echo "aarch64: skipped: no standard library for $1: rustup target add $1" >&2
    [ -z "${CI:-}" ] && exit 0
    exit 1
}

cargo=${CARGO:-cargo}
case "${1:-}" in
check)
    needs aarch64-unknown-linux-gnu
    # shellcheck disable=SC2046,SC2086 # lists
    "$cargo" clippy --target aarch64-unknown-linux-gnu $(packages $crates) --all-targets -- -D warnings
    ;;
tests)
    needs aarch64-unknown-linux-musl
    mkdir -p "$2"
    rm -f "$2"/*
    # The target's own C library and start files, linked by Rust's own linker. Emulated machines are slow.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_PROFILE_TEST_OPT_LEVEL=2
    # shellcheck disable=SC2046,SC2086
    "$cargo" test --no-run --lib --target aarch64-unknown-linux-musl $(packages $tested) --message-format=json \
        >"$2/messages"
    for name in $tested; do
        name=$(echo "$name" | tr - _)
        program=$(sed -n "s|.*\"executable\":\"\([^\"]*/$name-[0-9a-f]*\)\".*|\1|p" "$2/messages")
        cp "$program" "$2/$name"
        echo "$name" >>"$2/tests"
    done
    rm "$2/messages"
    ;;
*)
    echo 'usage: scripts/aarch64.sh check | tests FOLDER' >&2
    exit 2
    ;;
esac
