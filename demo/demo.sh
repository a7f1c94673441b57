#!/bin/sh
# Shows clockscope on a database and on a loop. Leaves nothing behind but the build.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
rows=${DEMO_ROWS:-400000}
reads=${DEMO_READS:-20000000}

work=$(mktemp -d)
running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

headline() { printf '\n=== %s\n' "$*"; }
show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

headline "Build"
"$cargo" build --quiet --release --package clockscope
case "$target" in
/*) PATH="$target/release:$PATH" ;;
*) PATH="$PWD/$target/release:$PATH" ;;
esac
cc -O2 -o "$work/reads" demo/reads.c
cc -O2 -pthread -o "$work/queues" tests/tracees/diameter.c

# One clock read a statement: SQLite answers 'now' once for each.
{
    echo 'CREATE TABLE samples(id INTEGER PRIMARY KEY, at TEXT, value REAL);'
    echo 'BEGIN;'
    seq "$rows" |
        sed "s/.*/INSERT INTO samples(at, value) VALUES (strftime('%Y-%m-%d %H:%M:%f', 'now'), & * 0.25);/"
    echo 'COMMIT;'
    echo "SELECT count(*) || ' rows with ' || count(DISTINCT at) || ' different times' FROM samples;"
} >"$work/load.sql"
cd "$work"

headline "See: a database that stamps $rows rows with the time"
show clockscope trace sqlite3 samples.db '.read load.sql'

headline "Who: the callers of its clock reads, and the lines to change"
show clockscope trace --via none --callers ./queues 2000000 >"$work/callers.txt" 2>&1
sed '/^path /d; /^vdso /d' "$work/callers.txt"

headline "A process that runs already: attached to for a second, and left as it was"
./reads 100000000000 >"$work/running.txt" &
running=$!
show clockscope trace -p "$running" --duration 1 --via none
kill "$running"
running=

headline "The database by real system calls, and from the coarse clock: look at usecs/call"
for clock in kernel syscall coarse; do
    rm -f samples.db
    show clockscope run --clock "$clock" --stats sqlite3 samples.db '.read load.sql'
done

headline "What a read costs the program: a loop, untraced and with each clock"
show ./reads "$reads"
for clock in kernel syscall coarse; do
    show clockscope run --clock "$clock" ./reads "$reads"
done

headline "Fix: the counter itself, kept to the kernel's clock; refused where it cannot be trusted"
for clock in tsc tsc-fast; do
    show clockscope run --clock "$clock" --stats ./reads "$reads" || [ $? = 125 ]
done

headline "Explain: is this machine's clock as it should be? And a machine whose clock was not"
show clockscope doctor || [ $? -le 3 ]
show clockscope doctor --root "$here/fixtures/doctor-cases/threadripper-acpi_pm-glitch" || [ $? = 1 ]

headline "Measure: each way to that clock, in batches that nothing disturbed; and how old the coarse answers are"
show clockscope bench --quick monotonic monotonic_coarse rdtscp
show clockscope wrongness --time 2 monotonic_coarse
