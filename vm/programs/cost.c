// Prints the cost of a read of CLOCK_MONOTONIC through the vDSO's function: `cost MILLISECONDS`. During the first
// milliseconds nothing is measured, so that a clock page can begin. Of the later batches the cheapest counts, because a
// busy host makes the others slower. Batches are timed by system calls.
//
// Exact: every vDSO call is counted.
#define _GNU_SOURCE
#include "bracket.h"
#include "say.h"
#include "vdso_reader.h"
#include <stdlib.h>

enum { BATCHES = 64, CALLS = 1009 };

int main(int count, char **arguments)
{
    struct image vdso = read_image(getauxval(AT_SYSINFO_EHDR));
    int (*read_clock)(clockid_t, struct timespec *) = find_function(&vdso, "__vdso_clock_gettime");
    struct timespec now;
    long calls = 0;
    const int64_t start = by_syscall(CLOCK_MONOTONIC);
    const int64_t settled = start + (count > 1 ? atol(arguments[1]) : 0) * SECOND / 1000;
    while (by_syscall(CLOCK_MONOTONIC) < settled) {
        read_clock(CLOCK_MONOTONIC, &now);
        calls++;
    }
    int64_t cheapest = INT64_MAX;
    for (int batch = 0; batch < BATCHES; batch++) {
        const int64_t begin = by_syscall(CLOCK_MONOTONIC);
        REPEAT(CALLS) read_clock(CLOCK_MONOTONIC, &now);
        const int64_t took = by_syscall(CLOCK_MONOTONIC) - begin;
        if (took < cheapest) cheapest = took;
    }
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", calls + (long)BATCHES * CALLS);
    SAY("took %.1f ns each\n", (double)cheapest / CALLS);
    return 0;
}
