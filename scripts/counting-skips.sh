#!/bin/sh
# Runs tests, and says at the end which of them were skipped, in whole or in part, and why.
# Usage: counting-skips.sh LIST COMMAND...
set -u
list=$1
shift
mkdir -p "$(dirname "$list")"
: >"$list"
CLOCKSCOPE_SKIPS=$(realpath "$list") "$@"
code=$?
sort "$list" | uniq -c | sed -E 's/^ *1 ([^\t]*)\t/skipped: \1: /; s/^ *([0-9]+) ([^\t]*)\t(.*)/skipped: \2: \3 (\1 times)/'
echo "$(wc -l <"$list") skipped"
exit $code
