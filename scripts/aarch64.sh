#!/bin/sh
# Builds for arm64 on a machine of another architecture: checks all crates; builds tests or the command as static
# programs with the C library of a folder (vm/sysroot); or builds fastclock's library for C. clang links the programs;
# the other parts need no compiler for arm64. A standard library that is missing is a skip, and with CI=1 a failure.
# Usage: scripts/aarch64.sh check
#        scripts/aarch64.sh tests FOLDER SYSROOT
#        scripts/aarch64.sh command-tests FOLDER SYSROOT
#        scripts/aarch64.sh command FOLDER SYSROOT
#        scripts/aarch64.sh library FOLDER
set -eu

# The crates whose tests are worth running on another kernel or another CPU.
tested='fastclock clockscope-text clockscope-stats vdso-reader clockscope-sys clockscope-callers clockscope-tracee'

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

# Static programs, because the machine has few other files; optimised, because emulated machines are slow.
static() { # folder with the C library
    options="-C target-feature=+crt-static -C link-arg=--target=aarch64-linux-gnu -C link-arg=--sysroot=$1"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=clang CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=false
    export CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_PROFILE_TEST_DEBUG=false
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="$options -C link-arg=-fuse-ld=lld"
    folder=${CARGO_TARGET_DIR:-target}/arm64
}

cargo=${CARGO:-cargo}
case "${1:-}" in
check)
    needs aarch64-unknown-linux-gnu
    # clockscope-callers' tests use registers and stacks of x86-64.
    "$cargo" clippy --target aarch64-unknown-linux-gnu --workspace --exclude clockscope-callers --all-targets -- -D warnings
    "$cargo" clippy --target aarch64-unknown-linux-gnu --package clockscope-callers --lib -- -D warnings
    # A build without clang, or with one that refuses these, goes on without eBPF.
    for program in count sample; do
        "${CLANG:-clang}" -target bpf -mcpu=v3 -Wall -Wextra -Werror -fsyntax-only \
            -Icrates/clockscope-syscalls/src/arch/aarch64 "crates/clockscope-syscalls/src/$program.bpf.c"
    done
    # The image, which runs inside other programs.
    RUSTFLAGS='--cfg clockscope_image' "$cargo" clippy --target aarch64-unknown-linux-gnu --package vdso-image \
        --target-dir "${CARGO_TARGET_DIR:-target}/image-check" -- -D warnings
    ;;
tests)
    needs aarch64-unknown-linux-gnu
    mkdir -p "$2"
    rm -f "$2"/*
    static "$3"
    # shellcheck disable=SC2046,SC2086
    "$cargo" test --no-run --lib --target aarch64-unknown-linux-gnu --target-dir "$folder" $(packages $tested) \
        --message-format=json >"$2/messages"
    for name in $tested; do
        name=$(echo "$name" | tr - _)
        program=$(sed -n "s|.*\"executable\":\"\([^\"]*/$name-[0-9a-f]*\)\".*|\1|p" "$2/messages")
        cp "$program" "$2/$name"
        echo "$name" >>"$2/tests"
    done
    rm "$2/messages"
    ;;
command-tests)
    # FOLDER/quiet, a test binary that expects the command at the path in FOLDER/command.
    needs aarch64-unknown-linux-gnu
    mkdir -p "$2"
    static "$3"
    "$cargo" test --no-run --package clockscope --test quiet --target aarch64-unknown-linux-gnu --target-dir "$folder" \
        --message-format=json >"$2/messages"
    cp "$(sed -n 's|.*"executable":"\([^"]*/quiet-[0-9a-f]*\)".*|\1|p' "$2/messages")" "$2/quiet"
    sed -n 's|.*"executable":"\([^"]*/clockscope\)".*|\1|p' "$2/messages" >"$2/command"
    rm "$2/messages"
    ;;
command)
    needs aarch64-unknown-linux-gnu
    mkdir -p "$2"
    static "$3"
    "$cargo" build --package clockscope --target aarch64-unknown-linux-gnu --target-dir "$folder"
    cp "$folder/aarch64-unknown-linux-gnu/debug/clockscope" "$2/clockscope"
    ;;
library)
    needs aarch64-unknown-linux-gnu
    mkdir -p "$2"
    # A static library is not linked, so no compiler for arm64 is needed.
    folder=${CARGO_TARGET_DIR:-target}/arm64
    CARGO_PROFILE_DEV_OPT_LEVEL=1 "$cargo" rustc --package fastclock-c --lib --crate-type staticlib \
        --target aarch64-unknown-linux-gnu --target-dir "$folder"
    cp "$folder/aarch64-unknown-linux-gnu/debug/libfastclock.a" "$2/"
    ;;
*)
    echo 'usage: scripts/aarch64.sh check | tests, command-tests or command FOLDER SYSROOT | library FOLDER' >&2
    exit 2
    ;;
esac
