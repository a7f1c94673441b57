#!/bin/sh
# Unpacks the sources of the installed perl to a folder, because no binary package ships its tests.
# apt is told of the source packages by options, so the system's configuration stays as it is.
# Usage: fetch-perl.sh FOLDER
set -eu
folder=$(realpath "$1")
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/sources"
# The archives of the binary packages, in either of apt's formats.
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -r "$file" ] || sed -n 's/^deb /deb-src /p' "$file" >>"$apt/sources/own.list"
done
for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -r "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$apt/sources/${file##*/}"
done
set -- -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/sources" \
    -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt" -o APT::Sandbox::User=root
# An archive without sources (of another vendor) is no failure; missing sources of perl are.
apt-get "$@" update >&2 || true
# Archives keep different revisions. The tests are upstream's, so any revision will do.
cd "$apt"
for version in $(apt-cache "$@" showsrc perl | sed -n 's/^Version: //p' | sort -rV); do
    ! apt-get "$@" source --download-only "perl=$version" >&2 || break
done
tar -xJf "$(ls "$apt"/perl_*.orig.tar.xz)" --strip-components=1 -C "$folder"
