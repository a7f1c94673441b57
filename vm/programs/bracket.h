// A clock by the vDSO between two system calls on the same clock, in nanoseconds.
#pragma once
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static inline int64_t as_ns(const struct timespec *time)
{
    return time->tv_sec * SECOND + time->tv_nsec;
}

static inline int64_t by_syscall(clockid_t clock)
{
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return as_ns(&now);
}

static inline int64_t by_vdso(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return as_ns(&now);
}

struct bracket {
    int64_t before, now, after;
};

static inline struct bracket bracket(clockid_t clock)
{
    struct bracket reading;
    reading.before = by_syscall(clock);
    reading.now = by_vdso(clock);
    reading.after = by_syscall(clock);
    return reading;
}

// How far the vDSO's answer is outside of the two system calls' answers; 0 if it is between them.
static inline int64_t outside(const struct bracket *reading)
{
    if (reading->now < reading->before) return reading->before - reading->now;
    if (reading->now > reading->after) return reading->now - reading->after;
    return 0;
}

static inline void keep_larger(int64_t *largest, int64_t value)
{
    if (value > *largest) *largest = value;
}
