/* Clocks on a page in a file, opened by name and by file descriptor, and on files that are no good
 * page. Usage: pages PAGE TRUNCATED FOREIGN */

#include <fcntl.h>
#include <unistd.h>

#include "checks.h"

enum { ROUNDS = 100000, BOUND = 1000000 };

static void check_readings(fastclock_t *clock) {
    CHECK(fastclock_status(clock) == FASTCLOCK_FAST);
    CHECK(fastclock_calibrate(clock, 0) == FASTCLOCK_FAST);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t bound;
        int64_t before = kernel_time(CLOCK_MONOTONIC);
        int64_t time = fastclock_now_bounded(clock, &bound);
        int64_t after = kernel_time(CLOCK_MONOTONIC);
        CHECK(bound >= BOUND && bound < 2 * BOUND);
        CHECK(before <= time + bound && time <= after + bound);
    }
    CHECK(fastclock_renewals(clock) == 0);
    CHECK(fastclock_kernel_answers(clock, 0) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int reason = -7;
    fastclock_t *clock = fastclock_open(argv[1], &reason);
    CHECK(clock != NULL && reason == FASTCLOCK_FAST);
    check_readings(clock);
    fastclock_free(clock);

    int fd = open(argv[1], O_RDONLY);
    CHECK(fd >= 0);
    reason = -7;
    clock = fastclock_open_fd(fd, &reason);
    CHECK(clock != NULL && reason == FASTCLOCK_FAST);
    CHECK(close(fd) == 0);
    check_readings(clock);
    fastclock_free(clock);

    CHECK(fastclock_open(argv[2], &reason) == NULL && reason == FASTCLOCK_PAGE_TRUNCATED);
    CHECK(fastclock_open(argv[3], &reason) == NULL && reason == FASTCLOCK_PAGE_FOREIGN);
    CHECK(fastclock_open(argv[3], NULL) == NULL);
    puts("a page is a clock, another file is none");
    return 0;
}
