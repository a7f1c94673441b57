/* Shared by the test programs: a check that prints the failed condition and its place. */
#ifndef CHECKS_H
#define CHECKS_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <fastclock.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline int64_t kernel_time(clockid_t id) {
    struct timespec time;
    CHECK(clock_gettime(id, &time) == 0);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* A calibrated clock: it answers by itself if that is possible on this machine. */
static inline fastclock_t *ready_clock(void) {
    fastclock_t *clock = fastclock_alone();
    CHECK(clock != NULL);
    CHECK(fastclock_calibrate(clock, 2000000000) == fastclock_status(clock));
    return clock;
}

#endif
