#!/bin/sh
# Checks the dependencies and the promises to users of the crates: licences, bans and sources of all dependencies
# (cargo-deny); the interface of `fastclock` against a revision (cargo-semver-checks). A missing tool is named, and the
# exit status is then 1.
# Usage: scripts/supply.sh [BASELINE]
set -eu
cd "$(dirname "$0")/.."

# The last release; before the first release, the last commit.
baseline=${1:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || echo HEAD)}
cargo=${CARGO:-cargo}
missing=
lacks() { # missing tool, how to install it
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
