#!/bin/sh
# Measures the same machine again and again, and counts the pairs of measurements that `compare` calls changed. Nothing
# has changed, so at most 1 in 20 should be.
#
#   aa-pairs.sh CLOCKSCOPE DIRECTORY FILES [OPTIONS OF bench...]
set -eu
clockscope=$1 directory=$2 files=$3
shift 3
mkdir -p "$directory"
number=1
while [ "$number" -le "$files" ]; do
    file=$directory/$number.json
    [ -s "$file" ] || "$clockscope" bench "$@" --save "$file" >/dev/null
    number=$((number + 1))
done
pairs=0 changed=0 first=1
while [ "$first" -lt "$files" ]; do
    second=$((first + 1))
    while [ "$second" -le "$files" ]; do
        pairs=$((pairs + 1))
        status=0
        "$clockscope" compare --fail-if changed "$directory/$first.json" "$directory/$second.json" \
            >"$directory/last.txt" || status=$?
        case $status in
        0) ;;
        1)
            changed=$((changed + 1))
            tail -n 3 "$directory/last.txt"
            ;;
        *) exit "$status" ;;
        esac
        second=$((second + 1))
    done
    first=$((first + 1))
done
echo "$changed of $pairs pairs of equal measurements show a change (load $(cut -d ' ' -f 1-3 /proc/loadavg))"
[ $((changed * 20)) -le "$pairs" ]
