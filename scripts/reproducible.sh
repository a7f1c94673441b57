#!/bin/sh
# Builds the shipped files twice, in folders of different names and lengths, and compares them byte for byte: the
# command, the libraries, and the two files that the command contains. Usage: scripts/reproducible.sh TARGET_FOLDER
set -eu
cd "$(dirname "$0")/.."

[ $# = 1 ] || { echo 'usage: scripts/reproducible.sh TARGET_FOLDER' >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)/reproducible
one=$folder/one
other="$folder/another folder/of a longer name"
for tree in "$one" "$other"; do
    rm -rf "$tree"
    mkdir -p "$tree"
    # The files that git would clone, without build output.
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - | tar -C "$tree" --extract
    (cd "$tree" && CARGO_TARGET_DIR=$tree/target scripts/release-build.sh shared)
    mkdir "$tree/shipped"
    release=$tree/target/release
    cp "$release/clockscope" "$release/libfastclock.so" "$release/libfastclock.a" "$release/examples/libfastclock_preload.so" \
        "$release"/build/clockscope-tracee-*/out/vdso_image.so "$release"/build/clockscope-syscalls-*/out/count.bpf.o "$tree/shipped"
    (cd "$tree/shipped" && sha256sum -- *) >"$tree/sums"
done
if cmp -s "$one/sums" "$other/sums"; then
    cat "$one/sums"
    echo "reproducible: two builds in two folders are the same byte for byte"
    exit 0
fi
diff "$one/sums" "$other/sums" || :
! command -v diffoscope >/dev/null 2>&1 || diffoscope --max-report-size 20000 "$one/shipped" "$other/shipped" || :
echo 'reproducible: the builds differ' >&2
exit 1
