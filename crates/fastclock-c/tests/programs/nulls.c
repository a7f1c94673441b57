/* NULL wherever a pointer is taken: an error, never a crash. */

#include <errno.h>
#include <string.h>

#include "checks.h"

int main(void) {
    static int64_t (*const READS[])(const fastclock_t *) = {
        fastclock_now,  fastclock_now_fast, fastclock_realtime,        fastclock_realtime_fast,
        fastclock_tai,  fastclock_boottime, fastclock_coarse,          fastclock_coarse_realtime,
        fastclock_recent, fastclock_second, fastclock_refresh_recent};
    struct timespec time = {-7, -7};
    int64_t bound = -7;
    for (size_t i = 0; i < sizeof READS / sizeof READS[0]; i++)
        CHECK(READS[i](NULL) == FASTCLOCK_ERROR);
    CHECK(fastclock_now_bounded(NULL, &bound) == FASTCLOCK_ERROR && bound == -7);
    CHECK(fastclock_realtime_bounded(NULL, &bound) == FASTCLOCK_ERROR && bound == -7);
    CHECK(fastclock_now_bounded(NULL, NULL) == FASTCLOCK_ERROR);
    CHECK(fastclock_now_bounded_fast(NULL, &bound) == FASTCLOCK_ERROR && bound == -7);
    CHECK(fastclock_realtime_bounded_fast(NULL, &bound) == FASTCLOCK_ERROR && bound == -7);
    CHECK(fastclock_elapsed(NULL, 0) == FASTCLOCK_ERROR);
    CHECK(fastclock_resolution(NULL, FASTCLOCK_KIND_PRECISE) == FASTCLOCK_ERROR);
    CHECK(fastclock_status(NULL) == FASTCLOCK_ERROR);
    CHECK(fastclock_host_page(NULL) == FASTCLOCK_ERROR);
    CHECK(fastclock_kernel_answers(NULL, 0) == FASTCLOCK_ERROR);
    CHECK(fastclock_renewals(NULL) == FASTCLOCK_ERROR);
    CHECK(fastclock_negative(NULL) == FASTCLOCK_ERROR);
    CHECK(fastclock_calibrate(NULL, 1) == FASTCLOCK_ERROR);
    CHECK(strcmp(fastclock_reason_text(FASTCLOCK_ERROR), "there is no clock") == 0);
    errno = 0;
    CHECK(fastclock_gettime(NULL, CLOCK_MONOTONIC, &time) == FASTCLOCK_ERROR && errno == EINVAL);
    CHECK(time.tv_sec == -7 && time.tv_nsec == -7);
    fastclock_free(NULL);

    int reason = -7;
    CHECK(fastclock_open(NULL, &reason) == NULL && reason == FASTCLOCK_PAGE_UNREADABLE);
    CHECK(fastclock_open("/nonexistent", NULL) == NULL);
    reason = -7;
    CHECK(fastclock_open("/nonexistent", &reason) == NULL && reason == FASTCLOCK_PAGE_UNREADABLE);
    CHECK(fastclock_open("/dev/null", &reason) == NULL && reason > 0);
    CHECK(fastclock_open_fd(-1, &reason) == NULL && reason == FASTCLOCK_PAGE_UNREADABLE);
    CHECK(fastclock_open_fd(12345, &reason) == NULL && reason > 0);
    CHECK(fastclock_open_fd(12345, NULL) == NULL);

    fastclock_t *clock = fastclock_new();
    CHECK(clock != NULL);
    CHECK(fastclock_now_bounded(clock, NULL) > 0);
    CHECK(fastclock_realtime_bounded(clock, NULL) > 0);
    CHECK(fastclock_now_bounded_fast(clock, NULL) > 0);
    CHECK(fastclock_realtime_bounded_fast(clock, NULL) > 0);
    errno = 0;
    CHECK(fastclock_gettime(clock, CLOCK_MONOTONIC, NULL) == FASTCLOCK_ERROR && errno == EFAULT);
    errno = 0;
    CHECK(fastclock_gettime(clock, 99, &time) == FASTCLOCK_ERROR && errno == EINVAL);
    CHECK(fastclock_resolution(clock, 99) == FASTCLOCK_ERROR);
    CHECK(fastclock_kernel_answers(clock, -1) == FASTCLOCK_ERROR);
    CHECK(fastclock_kernel_answers(clock, 1000) == FASTCLOCK_ERROR);
    CHECK(fastclock_resolution(clock, -1) == FASTCLOCK_ERROR);
    fastclock_free(clock);
    puts("NULL is an error and never a crash");
    return 0;
}
