#!/bin/sh
# Packages every crate, unpacks the packages into an empty folder, and builds them there, like `cargo install` from a
# registry, except that the other crates of the workspace are unpacked beside the command instead of downloaded.
# The command built in this way must count the clock reads of a program.
# Usage: scripts/packaged.sh TARGET_FOLDER
set -eu
cd "$(dirname "$0")/.."

[ $# = 1 ] || { echo 'usage: scripts/packaged.sh TARGET_FOLDER' >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
cargo=${CARGO:-cargo}
# Always the same folder, because crates contain the path where they were built.
folder=$target/packaged/crates
rm -rf "$folder"
mkdir -p "$folder"

# Packages of an older version must not be built.
rm -f "$target"/package/*.crate
CARGO_TARGET_DIR=$target "$cargo" package --quiet --workspace --no-verify --allow-dirty
for package in "$target"/package/*.crate; do
    # The files in packages have old dates, so cargo would not see a change without --touch.
    tar -C "$folder" -xzf "$package" --touch
done

# The versions of dependencies come from the command's own lock file.
cp "$folder"/clockscope-[0-9]*/Cargo.lock "$folder"
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n'
    for crate in "$folder"/*/; do
        name=$(basename "$crate")
        printf '%s = { path = "%s" }\n' "${name%-*}" "$name"
    done
} >"$folder/Cargo.toml"

cd "$folder"
built=$target/packaged/built
CARGO_TARGET_DIR=$built "$cargo" build --workspace
for crate in vdso-reader clock-doctor fastclock; do
    CARGO_TARGET_DIR=$built "$cargo" test --quiet --package "$crate" --doc
done

report=$target/packaged/report.json
"$built/debug/clockscope" trace --via none -e %clock --format json -o "$report" -- date >/dev/null
grep -q '"calls": *[1-9]' "$report" || {
    echo "packaged: the command built from packages counted no clock read of date(1): see $report" >&2
    exit 1
}
echo "packaged: $(ls -d */ | wc -l) crates built from their packages alone; the command counts"
