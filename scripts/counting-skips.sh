#!/bin/sh
# Runs tests, and says at the end which of them failed, and which were skipped, in whole or in part, and why.
# Usage: counting-skips.sh LIST COMMAND...
# LIST gets the skips, and LIST.log all that the tests say.
set -u
list=$1
shift
mkdir -p "$(dirname "$list")"
: >"$list"
{
    CLOCKSCOPE_SKIPS=$(realpath "$list") "$@" 2>&1
    echo $? >"$list.status"
} | tee "$list.log"
code=$(cat "$list.status")
# What failed: the names that libtest lists for a binary, or how cargo says to run it again if it listed none.
failed=$(sed 's/\x1b\[[0-9;]*m//g' "$list.log" | awk '
    /^ +(Running|Doc-tests) / { binary = $2 == "unittests" ? $3 : $2; listed = 0 }
    /^failures:$/ { listing = 1; next }
    listing && /^    [^ ]/ { print "failed: " substr($0, 5) " (" binary ")"; listed = 1; next }
    { listing = 0 }
    /^error: .*to rerun pass/ && !listed { sub(/^error: /, ""); print "failed: " $0 }
    /^failed: / { print }
    /^error: could not compile/ { sub(/^error: /, ""); print "failed: " $0 }')
sort "$list" | uniq -c | sed -E 's/^ *1 ([^\t]*)\t/skipped: \1: /; s/^ *([0-9]+) ([^\t]*)\t(.*)/skipped: \2: \3 (\1 times)/'
echo "$(wc -l <"$list") skipped"
[ -z "$failed" ] || echo "$failed"
[ "$code" = 0 ] || echo "some tests failed; all they said is in $list.log"
exit "$code"
