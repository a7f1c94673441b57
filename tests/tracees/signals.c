// Reads a clock in a loop that a timer interrupts every 200 us; the handler reads the same clock.
//
// Exact: the handler counts its own reads, and the timer is off when the sum is printed. A counter
// of clockscope that is read, added to and written back would lose some.
// A tracer's stop for a signal takes tens of us, so a signal every 50 us would starve the loop.
#define _GNU_SOURCE
#include "say.h"
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static volatile long in_handler;

static void on_alarm(int signal)
{
    (void)signal;
    struct timespec now;
    clock_gettime(CLOCK_TAI, &now);
    in_handler++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
    struct timespec now;
    long in_loop = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    while (in_loop < 3000017 || in_handler < 1009) {
        clock_gettime(CLOCK_TAI, &now);
        in_loop++;
    }
    setitimer(ITIMER_REAL, &off, NULL);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    say_vdso("clock_gettime", "CLOCK_TAI", in_loop + in_handler);
    return 0;
}
