#!/bin/sh
# Checks what clockscope is made of and what it promises to its users' builds: licences, bans and sources of all
# dependencies (cargo-deny); the interface of `fastclock` against a revision (cargo-semver-checks). A tool that is
# missing is named, and then the exit status is 1.
# Usage: scripts/supply.sh [BASELINE]
set -eu
cd "$(dirname "$0")/.."

# The last release, or before the first one the last commit.
baseline=${1:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || echo HEAD)}
cargo=${CARGO:-cargo}
missing=
lacks() { # what, how to install it
    echo "supply: $1 is missing: $2" >&2
    missing="$missing $1"
}

if "$cargo" deny --version >/dev/null 2>&1; then
    "$cargo" deny check licenses bans sources
else
    lacks cargo-deny 'cargo install cargo-deny --locked'
fi

if "$cargo" semver-checks --version >/dev/null 2>&1; then
    "$cargo" semver-checks --package fastclock --baseline-rev "$baseline"
else
    lacks cargo-semver-checks 'cargo install cargo-semver-checks --locked'
fi

[ -z "$missing" ] || { echo "supply: not checked, for lack of:$missing" >&2; exit 1; }
echo "supply: licences, sources and the interface of fastclock since $baseline are as they should be"
