// Checks how long clock reads take: `slow_reads N NANOSECONDS [zone]` makes N reads of each clock, and prints whether
// all of them together took that long each ("long enough 1"), by the kernel's own clock on both sides.
//
// For reads that are never delayed, it prints whether N calls used so much CPU time ("long enough 0"): CPU time,
// because another program may have the CPU meanwhile. Both clocks are read by system calls, which no image
// answers. The elapsed time may be less by one in a thousand: CLOCK_MONOTONIC_RAW is not the counter itself.
#define _GNU_SOURCE
#include "say.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static int64_t by_kernel(clockid_t clock)
{
    struct timespec now;
    if (syscall(SYS_clock_gettime, clock, &now) != 0) exit(3);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void say(const char *name, int64_t took, int64_t least)
{
    SAY("result %s long enough %d\n", name, took >= least - least / 1000);
}

#define ALL(clock_by, name, calls, least, call)                                                    \
    do {                                                                                           \
        int64_t start_ = by_kernel(clock_by);                                                      \
        REPEAT(calls) call;                                                                        \
        say(name, by_kernel(clock_by) - start_, least);                                            \
    } while (0)

int main(int count, char **arguments)
{
    if (count < 3) return 2;
    const int zones = count > 3; // also calls of gettimeofday for the time zone alone
    const long calls = atol(arguments[1]);
    const int64_t least = calls * atoll(arguments[2]);
    static const struct { clockid_t id; const char *name; } slow[] = {
        {CLOCK_REALTIME, "CLOCK_REALTIME"}, {CLOCK_MONOTONIC, "CLOCK_MONOTONIC"},
        {CLOCK_MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW"}, {CLOCK_BOOTTIME, "CLOCK_BOOTTIME"}, {CLOCK_TAI, "CLOCK_TAI"},
    }, others[] = {
        {CLOCK_REALTIME_COARSE, "CLOCK_REALTIME_COARSE"}, {CLOCK_MONOTONIC_COARSE, "CLOCK_MONOTONIC_COARSE"},
        {CLOCK_PROCESS_CPUTIME_ID, "CLOCK_PROCESS_CPUTIME_ID"}, {CLOCK_THREAD_CPUTIME_ID, "CLOCK_THREAD_CPUTIME_ID"},
    };
    struct timespec now;
    struct timeval day;
    struct timezone zone;
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        ALL(CLOCK_MONOTONIC_RAW, slow[i].name, calls, least, clock_gettime(slow[i].id, &now));
        say_vdso("clock_gettime", slow[i].name, calls);
    }
    ALL(CLOCK_MONOTONIC_RAW, "gettimeofday", calls, least, gettimeofday(&day, &zone));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ALL(CLOCK_THREAD_CPUTIME_ID, others[i].name, calls, least, clock_gettime(others[i].id, &now));
        say_vdso("clock_gettime", others[i].name, calls);
    }
    if (zones) ALL(CLOCK_THREAD_CPUTIME_ID, "zone", calls, least, gettimeofday(NULL, &zone));
    say_vdso("gettimeofday", "-", zones ? 2 * calls : calls);
    ALL(CLOCK_THREAD_CPUTIME_ID, "time", calls, least, time(NULL));
    say_vdso("time", "-", calls);
    ALL(CLOCK_THREAD_CPUTIME_ID, "getres", calls, least, clock_getres(CLOCK_MONOTONIC, &now));
    say_vdso("clock_getres", "CLOCK_MONOTONIC", calls);
    return 0;
}
