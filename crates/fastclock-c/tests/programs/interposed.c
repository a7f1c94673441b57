/* A program whose clock_gettime() is fastclock's: docs/fastclock.md has the same lines. */

#include "checks.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static fastclock_t *the_clock;

int clock_gettime(clockid_t id, struct timespec *time) {
    return fastclock_gettime(the_clock, id, time);
}

static int64_t by_system_call(clockid_t id) {
    struct timespec time;
    CHECK(syscall(SYS_clock_gettime, id, &time) == 0);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int main(void) {
    the_clock = ready_clock();
    static const clockid_t IDS[] = {CLOCK_REALTIME,           CLOCK_MONOTONIC,
                                    CLOCK_BOOTTIME,           CLOCK_TAI,
                                    CLOCK_MONOTONIC_RAW,      CLOCK_PROCESS_CPUTIME_ID,
                                    CLOCK_THREAD_CPUTIME_ID};
    for (int round = 0; round < 1000; round++) {
        for (size_t i = 0; i < sizeof IDS / sizeof IDS[0]; i++) {
            int64_t bound, bound_after;
            fastclock_now_bounded(the_clock, &bound);
            int64_t before = by_system_call(IDS[i]);
            int64_t time = kernel_time(IDS[i]); /* by clock_gettime() above */
            int64_t after = by_system_call(IDS[i]);
            fastclock_now_bounded(the_clock, &bound_after);
            if (bound_after > bound)
                bound = bound_after;
            CHECK(before <= time + bound + 1000 && time <= after + bound + 1000);
        }
    }
    struct timespec time;
    errno = 0;
    CHECK(clock_gettime(77, &time) == -1 && errno == EINVAL);
    fastclock_free(the_clock);
    puts("clock_gettime() is fastclock's, and the kernel's where that asks");
    return 0;
}
