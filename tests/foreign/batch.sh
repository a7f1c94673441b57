#!/bin/sh
# Runs programs one after another and prints how each ended, for the driver to read.
# Usage: batch.sh LIST; a line of LIST is: name, folder, seconds, command, separated by tabs.
#
# `run --clock tsc` needs 200 ms until the page answers; without the pause most of these programs would end earlier.
sleep 0.5
tab=$(printf '\t')
while IFS="$tab" read -r name folder seconds command; do
    printf '\n== begin %s\n' "$name"
    # timeout leads its own process group, so its second signal, SIGKILL, ends all processes of the program.
    (cd "$folder" && exec timeout -k 1 "$seconds" sh -c "exec $command") </dev/null 2>&1
    printf '\n== end %s %s\n' "$name" "$?"
done <"$1"
