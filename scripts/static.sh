#!/bin/sh
# Builds clockscope without any shared library, stripped. Usage: scripts/static.sh TARGET-DIR OUTPUT
#
# With Rust's musl target if it is there, otherwise with a static glibc (libc6-dev has it).
set -eu

target_dir=$1
output=$2
cargo=${CARGO:-cargo}
rm -f "$output"

libraries=$(rustc --print sysroot)/lib/rustlib
triple=x86_64-unknown-linux-musl
if [ ! -d "$libraries/$triple" ]; then
    triple=x86_64-unknown-linux-gnu
    # Only for code of this target: build scripts and procedural macros stay dynamic.
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS='-C target-feature=+crt-static'
fi
echo "static binary: $triple"
"$cargo" build --release --package clockscope --target "$triple" --target-dir "$target_dir/static"
strip -o "$output" "$target_dir/static/$triple/release/clockscope"

# A program that needs a dynamic loader has a PT_INTERP segment.
if readelf --program-headers --wide "$output" | grep -q INTERP; then
    rm -f "$output"
    echo "static binary: the linker made a dynamic one; it is not kept" >&2
    exit 1
fi
