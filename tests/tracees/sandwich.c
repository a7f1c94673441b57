// Reads each clock between two system calls on the same clock: syscall <= vDSO <= syscall. The first
// argument is a number of seconds that CLOCK_MONOTONIC must have passed (a time namespace adds
// them). With `coarse` as the second, the system calls read the coarse clock of the same family:
// the order then holds only if the vDSO gives coarse answers.
//
// Exact: 1,009 vDSO calls a clock, and twice as many system calls.
#define _GNU_SOURCE
#include "say.h"
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

static int later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static int coarse;

static clockid_t twin(clockid_t clock)
{
    if (!coarse) return clock;
    return clock == CLOCK_REALTIME ? CLOCK_REALTIME_COARSE : clock == CLOCK_MONOTONIC ? CLOCK_MONOTONIC_COARSE : clock;
}

static void sandwich(clockid_t clock, const char *name)
{
    struct timespec before, now, after;
    long wrong = 0;
    REPEAT(1009) {
        syscall(SYS_clock_gettime, twin(clock), &before);
        clock_gettime(clock, &now);
        syscall(SYS_clock_gettime, twin(clock), &after);
        if (later(&before, &after)) continue; // the clock was set back
        wrong += later(&before, &now) || later(&now, &after);
    }
    say_vdso("clock_gettime", name, 1009);
    SAY("result %s wrong %ld\n", name, wrong);
}
#define SANDWICH(clock) sandwich(clock, #clock)

int main(int count, char **arguments)
{
    struct timespec now;
    coarse = count > 2;
    SANDWICH(CLOCK_REALTIME);
    SANDWICH(CLOCK_MONOTONIC);
    SANDWICH(CLOCK_REALTIME_COARSE);
    SANDWICH(CLOCK_MONOTONIC_COARSE);
    if (!coarse) {
        SANDWICH(CLOCK_MONOTONIC_RAW);
        SANDWICH(CLOCK_BOOTTIME);
        SANDWICH(CLOCK_TAI);
    }
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    SAY("result after the offset: %s\n", now.tv_sec >= (count > 1 ? atol(arguments[1]) : 0) ? "yes" : "no");
    return 0;
}
