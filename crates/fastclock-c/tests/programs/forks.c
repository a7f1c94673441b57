/* A clock goes on in a forked child as in its parent, with the same time. */

#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

enum { CHILDREN = 20, READS = 20000 };

static void child(fastclock_t *clock, int64_t before) {
    for (int i = 0; i < READS; i++) {
        int64_t bound;
        int64_t kernel = kernel_time(CLOCK_MONOTONIC);
        int64_t time = fastclock_now_bounded(clock, &bound);
        CHECK(time >= before);
        CHECK(time + bound >= kernel);
        CHECK(time <= kernel_time(CLOCK_MONOTONIC) + bound);
        before = time;
    }
    fastclock_free(clock);
    _exit(0);
}

int main(void) {
    fastclock_t *clock = ready_clock();
    int here = fastclock_status(clock);
    for (int i = 0; i < CHILDREN; i++) {
        int64_t before = fastclock_now(clock);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child(clock, before);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(fastclock_now(clock) > before);
    }
    if (here == FASTCLOCK_FAST) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            _exit(fastclock_calibrate(clock, 2000000000));
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == FASTCLOCK_FAST);
    }
    fastclock_free(clock);
    printf("%d children read the clock of their parent\n", CHILDREN);
    return 0;
}
