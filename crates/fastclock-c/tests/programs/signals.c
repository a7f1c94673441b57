/* A timer's signal handler reads the clock while the program reads it: neither disturbs the other,
 * and no reading lies before an earlier reading of the handler or of the program. */

#include <errno.h>
#include <signal.h>
#include <sys/time.h>

#include "checks.h"

enum { SIGNALS = 2000 };

static fastclock_t *the_clock;
static volatile int64_t last;
static volatile sig_atomic_t signals, backwards;

static void on_signal(int number) {
    (void)number;
    int saved = errno;
    int64_t bound;
    int64_t time = fastclock_now(the_clock);
    if (time < last || fastclock_now_bounded(the_clock, &bound) < time)
        backwards = 1;
    struct timespec spec;
    if (fastclock_realtime(the_clock) <= 0 || fastclock_coarse(the_clock) <= 0 ||
        fastclock_gettime(the_clock, CLOCK_BOOTTIME, &spec) != 0 || fastclock_status(the_clock) < 0)
        backwards = 1;
    signals = signals + 1;
    errno = saved;
}

int main(void) {
    /* Not calibrated first: the handler also reads the clock while it measures the rate. */
    the_clock = fastclock_alone();
    CHECK(the_clock != NULL);
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 200}, {0, 200}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (signals < SIGNALS) {
        int64_t time = fastclock_now(the_clock);
        CHECK(time >= last);
        last = time;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(!backwards);
    fastclock_free(the_clock);
    puts("signal handlers may read the clock");
    return 0;
}
