#!/bin/sh
# Runs programs one after the other and says how each ended, for the driver to read.
# Usage: batch.sh LIST; a line of LIST is: name, folder, seconds, command, separated by tabs.
#
# `run --clock tsc` needs 200 ms until the page answers; most of these programs are over by then.
sleep 0.5
tab=$(printf '\t')
while IFS="$tab" read -r name folder seconds command; do
    printf '\n== begin %s\n' "$name"
    # timeout leads a process group of its own, so its second signal, SIGKILL, leaves nobody behind.
    (cd "$folder" && exec timeout -k 1 "$seconds" sh -c "exec $command") </dev/null 2>&1
    printf '\n== end %s %s\n' "$name" "$?"
done <"$1"
