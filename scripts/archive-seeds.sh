#!/bin/sh
# Writes small archives of the recorded machines, packed in each way, as seeds for fuzzing.
# usage: archive-seeds.sh FOLDER
set -eu
cases=$(cd "$(dirname "$0")/../fixtures/doctor-cases" && pwd)
mkdir -p "$1"
for case in "$cases"/*/; do
    name=$(basename "$case")
    tar -C "$cases" --sort=name --mtime=@0 --owner=0 --group=0 --exclude=case.json \
        -cf "$1/$name.tar" "$name"
done
# One archive of each packing reaches the unpackers; PAX headers reach their parser.
one=$1/vbox-seed-deb7-3.2
tar -C "$cases" --format=pax --pax-option=comment=x -cf "$1/pax.tar" vbox-seed-deb7-3.2
gzip -kf "$one.tar"
xz -kf "$one.tar"
zstd -qkf "$one.tar"
