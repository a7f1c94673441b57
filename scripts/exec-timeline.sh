#!/bin/sh
# Draws the time from one execve to the end of its program, in microseconds: each system call, page fault and switch of
# the program and of its tracer, by perf's tracepoints, which add about 0.4 us each. Needs root and perf.
#
#   exec-timeline.sh CLOCKSCOPE DIRECTORY [OPTIONS OF trace...]
set -eu
clockscope=$1 data=$2/exec-timeline.data
shift 2
perf record --quiet --all-cpus --output "$data" --event \
    'raw_syscalls:*,exceptions:page_fault_*,sched:sched_switch,sched:sched_wakeup,sched:sched_process_exec' \
    -- "$clockscope" trace "$@" -- sh -c 'for i in 1 2 3 4 5; do /bin/true; done' >/dev/null 2>&1
# The last of the five: by then every cache is warm.
perf script --input "$data" --ns --fields comm,tid,cpu,time,event,trace 2>/dev/null | awk '
    $1 ~ /^(clockscope|sh|true)$/ && $4 + 0 { line[++lines] = $0; at[lines] = $4 + 0 }
    /sched_process_exec: filename=\/bin\/true/ { from = lines }
    END {
        for (i = from; i <= lines; i++) {
            $0 = line[i]
            where = $1 " " $3
            $1 = $2 = $3 = $4 = ""
            printf "%8.1f %+7.1f  %-18s %s\n", (at[i] - at[from]) * 1e6, (at[i] - at[i > from ? i - 1 : i]) * 1e6, where, $0
            if (/sys_enter: NR 231 /) ends = 1
            if (ends && /next_comm=sh /) exit
        }
    }'
