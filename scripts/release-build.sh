#!/bin/sh
# Builds the shipped binaries: the command and the C library, or the command without any shared library. Two builds of
# the same sources by the same tools are equal byte for byte, wherever they are made.
# Usage: CARGO_TARGET_DIR=DIR scripts/release-build.sh shared|static|static-arm64
#
# static-arm64 is the static command for arm64, made on a machine of another architecture by clang, with the C library
# of the folder that SYSROOT names (vm/sysroot makes one).
#
# With cargo-auditable, the binaries contain the list of the crates they are made of.
set -eu
cd "$(dirname "$0")/.."

kind=${1:-}
target=${CARGO_TARGET_DIR:-target}
cargo=${CARGO:-cargo}
triple=$("${RUSTC:-rustc}" -vV | sed -n 's/^host: //p')

# Separates flags, so that paths may contain spaces.
unit=$(printf '\037')
flags="--remap-path-prefix=$PWD=/clockscope"
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
    flags="$flags$unit--remap-path-prefix=${registry%/}=/registry"
done
if "$cargo" auditable --version >/dev/null 2>&1; then
    auditable=auditable
else
    auditable=
    echo 'release-build: without the list of crates; for one: cargo install cargo-auditable --locked' >&2
fi
# rustc's own linker (default since 1.90) folds functions with equal code; GNU ld has no such option.
can_link_with() {
    tried=$(mktemp -d)
    able=0
    echo 'fn main() {}' | "${RUSTC:-rustc}" --crate-name tried -o "$tried/tried" "-Clink-arg=$1" - 2>"$tried/said" || able=1
    rm -r "$tried"
    return "$able"
}
folding=-Wl,--icf=all
if can_link_with "$folding"; then
    flags="$flags$unit-Clink-arg=$folding"
else
    echo 'release-build: this linker folds no functions; the binary is 100 KB larger' >&2
fi
build() {
    # shellcheck disable=SC2086 # nothing, or a word
    CARGO_ENCODED_RUSTFLAGS=$flags "$cargo" $auditable build --release --locked --target-dir "$target" "$@"
}

# Builds the command without any shared library.
static() { # target
    # Applies to code for this target only, so build scripts are not static.
    flags="$flags$unit-Ctarget-feature=+crt-static"
    # Packed relocations need glibc 2.36 to load them; a static binary contains its own glibc.
    flags="$flags$unit-Clink-arg=-Wl,-z,pack-relative-relocs"
    build --package clockscope --target "$1"
    # A program that needs a dynamic loader has a PT_INTERP segment.
    if readelf --program-headers --wide "$target/$1/release/clockscope" | grep -q INTERP; then
        echo 'release-build: the linker made a dynamic binary instead of a static one' >&2
        exit 1
    fi
}

case "$kind" in
shared)
    build --package clockscope --package fastclock-c
    build --package fastclock-c --example fastclock_preload
    ;;
# Needs a static glibc, from libc6-dev.
static) static "$triple" ;;
static-arm64)
    arm64=aarch64-unknown-linux-gnu
    [ -d "$("${RUSTC:-rustc}" --print target-libdir --target "$arm64")" ] || rustup target add "$arm64" || {
        echo "release-build: no standard library for arm64: rustup target add $arm64" >&2
        exit 1
    }
    # The linker that comes with rustc, as for this machine's binaries.
    linker=$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$triple/bin/gcc-ld/ld.lld
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=clang
    for option in --target=aarch64-linux-gnu "--sysroot=${SYSROOT:?says where the C library of arm64 is}" "--ld-path=$linker"; do
        flags="$flags$unit-Clink-arg=$option"
    done
    # This machine's strip may not know arm64 programs, so the linker strips.
    export CARGO_PROFILE_RELEASE_STRIP=symbols
    static "$arm64"
    ;;
*)
    echo 'usage: scripts/release-build.sh shared|static|static-arm64' >&2
    exit 2
    ;;
esac
