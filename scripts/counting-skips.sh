#!/bin/sh
# Runs tests, and lists at the end the failed tests, and the skips (of whole tests or of parts) with their reasons.
# Usage: counting-skips.sh LIST COMMAND...
# LIST gets the skips, and LIST.log the whole output of the tests.
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
# The failures: the names that libtest lists for a binary, or cargo's line "to rerun" if libtest listed none.
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
