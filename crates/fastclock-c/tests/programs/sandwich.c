/* Each reading lies between two of the kernel's, to within its bound. */

#include "checks.h"

enum { ROUNDS = 100000 };

/* `early`: time by which out-of-order execution can move an unordered reading, ns. */
static void check_bounded(fastclock_t *clock, clockid_t id, int64_t early,
                          int64_t (*read)(const fastclock_t *, int64_t *)) {
    for (int i = 0; i < ROUNDS; i++) {
        int64_t bound = -1;
        int64_t before = kernel_time(id);
        int64_t time = read(clock, &bound);
        int64_t after = kernel_time(id);
        CHECK(bound >= 0);
        if (after < before)
            continue; /* the kernel's clock was set back */
        CHECK(before <= time + bound + early);
        CHECK(time <= after + bound + early);
    }
}

/* For readings without a bound: the bound of `now_bounded` is about the same. */
static void check_plain(fastclock_t *clock, clockid_t id, int64_t (*read)(const fastclock_t *)) {
    for (int i = 0; i < ROUNDS; i++) {
        int64_t bound, bound_after;
        fastclock_now_bounded(clock, &bound);
        int64_t before = kernel_time(id);
        int64_t time = read(clock);
        int64_t after = kernel_time(id);
        fastclock_now_bounded(clock, &bound_after);
        if (bound_after > bound)
            bound = bound_after;
        if (after < before)
            continue;
        /* Out-of-order execution may move unordered readings. */
        CHECK(before <= time + bound + 10000);
        CHECK(time <= after + bound + 10000);
    }
}

static void check_gettime(fastclock_t *clock) {
    static const clockid_t IDS[] = {
        CLOCK_REALTIME,        CLOCK_MONOTONIC,        CLOCK_BOOTTIME,           CLOCK_TAI,
        CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_PROCESS_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
        CLOCK_THREAD_CPUTIME_ID};
    for (size_t i = 0; i < sizeof IDS / sizeof IDS[0]; i++) {
        struct timespec time;
        int64_t before = kernel_time(IDS[i]);
        CHECK(fastclock_gettime(clock, IDS[i], &time) == 0);
        int64_t after = kernel_time(IDS[i]);
        CHECK(time.tv_nsec >= 0 && time.tv_nsec < 1000000000);
        int64_t nanos = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
        if (after < before)
            continue;
        CHECK(before <= nanos + 100000000);
        CHECK(nanos <= after + 1000000);
    }
}

int main(void) {
    fastclock_t *clock = ready_clock();
    check_bounded(clock, CLOCK_MONOTONIC, 0, fastclock_now_bounded);
    check_bounded(clock, CLOCK_REALTIME, 0, fastclock_realtime_bounded);
    check_bounded(clock, CLOCK_MONOTONIC, 10000, fastclock_now_bounded_fast);
    check_bounded(clock, CLOCK_REALTIME, 10000, fastclock_realtime_bounded_fast);
    check_plain(clock, CLOCK_MONOTONIC, fastclock_now);
    check_plain(clock, CLOCK_MONOTONIC, fastclock_now_fast);
    check_plain(clock, CLOCK_REALTIME, fastclock_realtime);
    check_plain(clock, CLOCK_REALTIME, fastclock_realtime_fast);
    check_plain(clock, CLOCK_BOOTTIME, fastclock_boottime);
    check_plain(clock, CLOCK_TAI, fastclock_tai);
    check_gettime(clock);

    int64_t wall = kernel_time(CLOCK_REALTIME);
    int64_t second = fastclock_second(clock);
    CHECK(second % 1000000000 == 0);
    CHECK(second <= kernel_time(CLOCK_REALTIME) && second > wall - 2000000000);

    int64_t mono = kernel_time(CLOCK_MONOTONIC);
    fastclock_refresh_recent(clock);
    CHECK(fastclock_recent(clock) >= mono - 10000);
    CHECK(fastclock_recent(clock) <= kernel_time(CLOCK_MONOTONIC) + 10000);
    CHECK(fastclock_elapsed(clock, mono) >= 0);
    CHECK(fastclock_negative(clock) == 0);
    CHECK(fastclock_elapsed(clock, INT64_MAX) == 0);
    CHECK(fastclock_negative(clock) == 1);

    CHECK(fastclock_resolution(clock, FASTCLOCK_KIND_PRECISE) >= 1);
    CHECK(fastclock_resolution(clock, FASTCLOCK_KIND_COARSE) >= 1000000);
    CHECK(fastclock_resolution(clock, FASTCLOCK_KIND_SECOND) == 1000000000);
    CHECK(fastclock_renewals(clock) > 0);
    CHECK(fastclock_host_page(clock) == 0);
    int64_t answers = 0;
    for (int reason = 1; fastclock_kernel_answers(clock, reason) >= 0; reason++)
        answers += fastclock_kernel_answers(clock, reason);
    CHECK(answers == fastclock_kernel_answers(clock, 0));

    fastclock_free(clock);
    puts("every reading lies between two of the kernel's");
    return 0;
}
