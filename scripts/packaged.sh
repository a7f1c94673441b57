#!/bin/sh
# Packages every crate, unpacks the packages into an empty folder, and builds them there: what `cargo install` would
# get from a registry, with the neighbours unpacked beside it instead of downloaded. The command built so must count
# the clock reads of a program.
# Usage: scripts/packaged.sh TARGET_FOLDER
set -eu
cd "$(dirname "$0")/.."

[ $# = 1 ] || { echo 'usage: scripts/packaged.sh TARGET_FOLDER' >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
cargo=${CARGO:-cargo}
# The same folder each time, because the crates remember where they were built.
folder=$target/packaged/crates
rm -rf "$folder"
mkdir -p "$folder"

# Packages of a version that is gone must not be built.
rm -f "$target"/package/*.crate
CARGO_TARGET_DIR=$target "$cargo" package --quiet --workspace --no-verify --allow-dirty
for package in "$target"/package/*.crate; do
    # Packages have old dates, by which cargo would not see that they have changed.
    tar -C "$folder" -xzf "$package" --touch
done

# The versions of other people's crates are those of the command's own lock file.
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
